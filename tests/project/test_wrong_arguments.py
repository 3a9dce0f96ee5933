"""Arguments of a wrong type, or in a wrong order, are one error that names the function and what it takes."""

import inspect

import pandas as pd
import pytest

import workbench as wb
from workbench.models import AttentionSum, AttentiveReader, LexicalMemory, MaximumFrequency

NOT_ITEMS = ("text", pd.DataFrame({"text": ["a b"]}))
OTHERS = {("attention", "model")}  # names of models
NOT_MODELS = ("ngram", MaximumFrequency)
FUNCTIONS = {name: getattr(wb, name) for name in dir(wb) if inspect.isfunction(getattr(wb, name))}


def taking(*parameters):
    """Return the public functions that take one of these, and what it is called there."""
    names = {name: set(inspect.signature(function).parameters) for name, function in FUNCTIONS.items()}
    pairs = [(name, parameter) for name in names for parameter in parameters if parameter in names[name]]
    return sorted(set(pairs) - OTHERS)


def called(name, items, parameter, wrong):
    """Call a function with all that it requires, one of it wrong."""
    model = MaximumFrequency("context")
    run = model.predict(items)
    views = {"Passages": wb.browse(items)} if name == "publish" else None
    right = {
        "items": items, "model": model, "models": [model], "runs": run, "frame": run,
        "texts": ["a b c"], "hypothesis": "a", "path": "results.csv", "source": "results.csv",
        "folder": "site", "views": views,
        "name": "results", "questions": items, "parts": run, "attention": run,
        "a": run, "b": run, "pairs": [("a b", "b a")],
        "protocols": [{"text": "as-is"}, {"text": "detokenised"}],
    }  # fmt: skip
    required = [
        each.name
        for each in inspect.signature(FUNCTIONS[name]).parameters.values()
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    return FUNCTIONS[name](**{each: right[each] for each in required} | {parameter: wrong})


@pytest.mark.parametrize(("name", "parameter"), taking("items", "questions"))
def test_what_is_not_items(name, parameter, items):
    for wrong in NOT_ITEMS:
        with pytest.raises(wb.DataError):
            called(name, items[:3], parameter, wrong)


@pytest.mark.parametrize(("name", "parameter"), taking("model", "models"))
def test_what_is_not_a_model(name, parameter, items):
    for wrong in (*NOT_MODELS, items):
        with pytest.raises(wb.DataError):
            called(name, items[:3], parameter, wrong)


@pytest.mark.parametrize("reader", [AttentionSum, LexicalMemory, AttentiveReader])
def test_what_a_reader_cannot_be_fitted_on(reader):
    for wrong in NOT_ITEMS:
        with pytest.raises(wb.DataError):
            reader.fit(wrong)


@pytest.mark.parametrize("name", ["context_curve", "expected", "funnel", "training_curves", "tuning"])
def test_what_a_chart_cannot_draw(name):
    for wrong in ("text", 3, None, pd.DataFrame({"x": [1]})):
        with pytest.raises(wb.DataError):
            getattr(wb.charts, name)(wrong)
