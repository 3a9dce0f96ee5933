"""The shape of the public interface: what a notebook written today counts on."""

import dataclasses
import inspect
import pkgutil
import subprocess
import sys

import pytest

import workbench as wb
from workbench.widgets.ask.ask import Ask
from workbench.widgets.browser.browser import Browser
from workbench.widgets.compare.compare import Compare
from workbench.widgets.explore.explore import Explorer

# name: parameters as they are written, types left out
FUNCTIONS = {
    "annotate": (
        "(items, pipeline='en_narrative', *, vocabulary=None, workers=None, client=None, cache=True,"
        " progress=True)"
    ),
    "ask": (
        "(models, text='', *, word=None, other=None, candidates=None, pairs=None, top_k=10, seed=0,"
        " height=780)"
    ),
    "available": "()",
    "books": "(dataset_or_path, split=None, *, path=None)",
    "browse": (
        "(items, annotations=None, predictions=None, *, query='', field='passage', regex=False, facets=None,"
        " reveal=False, height=620)"
    ),
    "compare": (
        "(items, runs, annotations=None, *, column='', pair=None, bins=None, sort='order', against=None,"
        " hidden=(), query='', level=0.95, resamples=2000, seed=0, height=860)"
    ),
    "contamination": "(items, texts, *, n=8, progress=True)",
    "contrast": "(a, b, *, names=('a', 'b'), level=0.95, correction='holm')",
    "evaluate": ("(runs, *, by=None, items=None, annotations=None, level=0.95, resamples=2000, seed=0)"),
    "explore": (
        "(items, annotations=None, predictions=None, *, query='', field='passage', regex=False, facets=None,"
        " reveal=False, height=560)"
    ),
    "export_results": "(runs, path, *, items=None)",
    "fetch": "(dataset, *, dry_run=False, folder=None, progress=True)",
    "figure_2": (
        "(*, lambada=None, input=None, sentence=None, lambada_name='LAMBADA', input_name=None,"
        " sentence_name='sentence only', paper=True)"
    ),
    "free": "(*models)",
    "hardest": "(runs, items=None, *, by='difficulty', n=None)",
    "import_results": (
        "(path, items=None, *, model=None, variant=None, item=None, prediction=None, person=None,"
        " log_prob=None, text=None, keep=True, on_error='raise', seed=0)"
    ),
    "items_from_frame": (
        "(frame, *, text='text', answer='answer', candidates=None, item_id=None, word_class=None,"
        " book_id=None, dataset='own', split='dev', variant='own', tokenised=None)"
    ),
    "items_from_text": "(texts, *, answers=None, candidates=None, **options)",
    "leaderboard": (
        "(runs=None, *, dataset=None, split=None, by=('dataset', 'split', 'variant'), level=0.95,"
        " resamples=2000, seed=0, published=True)"
    ),
    "load": "(dataset, split=None, *, variant=None, path=None, on_error='raise')",
    "materials": "(task, data='auto', *, texts=None)",
    "models": "()",
    "notes": "(dataset=None, *, folder=None)",
    "predict": "(items, model, *, top_k=10, seed=0)",
    "runs": "()",
    "save": "(chart, path, *, scale=2, dark=False)",
    "significance": "(a, b, *, resamples=10000, seed=0, level=0.95)",
    "statistics": "(items, annotations=None)",
    "table": "(name, runs, *, split=None, dataset=None, level=0.95, resamples=2000, seed=0)",
}
MODELS = {
    "baselines.chance.RandomWord": (
        "(choices='vocabulary', *, vocabulary=None, annotations=None, unit='types', unknown='none')"
    ),
    "baselines.frequency.MaximumFrequency": "(where, *, corpus=None, query=False, lower=True)",
    "baselines.frequency.SlidingWindow": (
        "(*, weight='inverse', overlap='tokens', length='set', punctuation=True, query=False, lower=True)"
    ),
    "baselines.frequency.WordDistance": (
        "(m=5, *, within='query', mention=True, punctuation=True, query=False, lower=True)"
    ),
    "ngram.model.NGram.fit": (
        "(texts, *, order=5, smoothing='kneser-ney', vocabulary=60000, pruning=None, lower=True,"
        " tokenised=None, held_out=None, memory='2G', temporary=None, progress=True, **options)"
    ),
    "ngram.model.NGram.cached": "(self, weight=0.1, *, decay=1.0)",
    "ngram.model.CachedNGram.tuned": (
        "(self, items, *, weights=(0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7,"
        " 0.8), by='accuracy')"
    ),
    "vectors.lsa.LSA.fit": (
        "(texts, *, dimensions=300, weighting='none', minimum=5, solver='arpack', seed=0,"
        " held_out=None, progress=True, **options)"
    ),
    "vectors.cbow.CBOW.fit": (
        "(texts, *, dimensions=200, window=5, epochs=5, vocabulary=60000, negative=5,"
        " sample=0.001, seed=0, held_out=None, workers=1, progress=True, **options)"
    ),
    "pretrained.causal.CausalLM": (
        "(path_or_name, *, vocabulary=None, text='as-is', correct=None, filter='none', prompt=None,"
        " budget=1000, batch_tokens=None, device=None, dtype=None, revision=None, trust_remote_code=False,"
        " name=None, attention=False, progress=True)"
    ),
    "pretrained.masked.MaskedLM": (
        "(path_or_name, *, text='as-is', over='sentence', within_word='original', length=None,"
        " batch_tokens=None, device=None, dtype=None, revision=None, trust_remote_code=False, name=None,"
        " progress=False)"
    ),
    "pretrained.prompts.Prompt": (
        "(template='{text}', *, examples=None, shots=0, seed=0, separator='\\n\\n',"
        " answer_template='{answer}', per_item=False)"
    ),
    "base.Predictor.predict": "(self, items, top_k=10, *, seed=0)",
    "base.Predictor.score": "(self, items, words)",
    "base.Predictor.log_prob": "(self, items)",
    "base.Predictor.distribution": "(self, items, *, chunk=256)",
    "base.Predictor.save": "(self, folder)",
    "base.Predictor.load": "(folder)",
}
MODULES = {
    "charts": {
        "direct_speech", "expected", "figure_2", "in_context", "lengths", "mention_distance", "ranks", "save",
        "context", "side_by_side", "target_classes", "target_classes_out_of_context", "training_curves",
    },
}  # fmt: skip
CLASSES = {
    "Book": "(book_id, title, author, year, text, tokenised, source)",
    "DataError": "(problem, *, file=None, line=None, remedy=None)",
    "Item": (
        "(item_id, dataset, split, variant, text, answer, answer_span, sentences, candidates=None,"
        " word_class=None, tokenised=True, book_id=None, meta=<factory>)"
    ),
    "Items": "(frame, *, attrs=None, problems=())",
}
METHODS = {
    "Items.concat": "(parts)",
    "Items.from_frame": "(frame, **options)",
    "Items.from_parquet": "(path)",
    "Items.from_records": "(records, *, attrs=None, problems=())",
    "Items.sample": "(self, n, seed=0)",
    "Items.to_parquet": "(self, path)",
    "Items.where": "(self, mask)",
    "Browser.to_frame": "(self)",
    "Browser.to_html": "(self, *, limit=200)",
    "Ask.close": "(self)",
    "Ask.keep": "(self)",
    "Ask.results": "(self)",
    "Ask.to_frame": "(self)",
    "Ask.to_html": "(self)",
    "Ask.wait": "(self, timeout=None)",
    "Compare.to_frame": "(self)",
    "Compare.to_html": "(self, *, limit=200)",
    "Explorer.to_frame": "(self)",
    "Explorer.to_html": "(self, *, limit=200)",
}
PROPERTIES = {
    "Item": {"context", "left", "passage", "query", "right", "tokens"},
    "Items": {"frame"},
    "Browser": {"current", "selection"},
    "Ask": {"history", "items", "problem", "state"},
    "Compare": {"comparison", "current", "selection", "state_kwargs"},
    "Explorer": {"filters", "selection"},
}
OWNERS = {
    "Item": wb.Item, "Items": wb.Items, "Browser": Browser, "Explorer": Explorer, "Compare": Compare,
    "Ask": Ask,
}  # fmt: skip


def shape(thing):
    """Write the parameters without their types."""
    parameters = [p.replace(annotation=p.empty) for p in inspect.signature(thing).parameters.values()]
    return str(inspect.Signature(parameters))


def documented(thing):
    return bool((thing.__doc__ or "").strip()) and not thing.__doc__.startswith(f"{thing.__name__}(")


def test_the_names():
    assert sorted(wb.__all__) == sorted([*FUNCTIONS, *CLASSES, *MODULES])
    assert dir(wb) == sorted(wb.__all__)
    assert wb.__version__


@pytest.mark.parametrize(("name", "parameters"), [*FUNCTIONS.items(), *CLASSES.items()])
def test_the_parameters_of_a_public_name(name, parameters):
    thing = getattr(wb, name)
    assert inspect.isclass(thing) == (name in CLASSES)
    assert shape(thing) == parameters
    assert documented(thing)
    assert getattr(wb, name) is thing


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_has_these_functions(name):
    module = getattr(wb, name)
    assert inspect.ismodule(module)
    functions = {function for function in module.__all__ if inspect.isfunction(getattr(module, function))}
    assert functions - {"offline"} == MODULES[name]
    assert all(documented(getattr(module, function)) for function in functions)


@pytest.mark.parametrize(("name", "parameters"), METHODS.items())
def test_the_parameters_of_a_method(name, parameters):
    owner, _, method = name.partition(".")
    thing = getattr(OWNERS[owner], method)
    assert shape(thing) == parameters
    assert documented(thing)


@pytest.mark.parametrize(("name", "parameters"), MODELS.items())
def test_the_parameters_of_a_model(name, parameters):
    thing = pkgutil.resolve_name(f"workbench.models.{name}")
    assert shape(thing) == parameters
    assert documented(thing)


@pytest.mark.parametrize("owner", OWNERS)
def test_a_class_has_these_public_members_and_no_others(owner):
    members = {name: value for name, value in vars(OWNERS[owner]).items() if not name.startswith("_")}
    methods = {name.partition(".")[2] for name in METHODS if name.startswith(f"{owner}.")}
    properties = {name for name, value in members.items() if isinstance(value, property)}
    functions = {name for name, value in members.items() if callable(value) or isinstance(value, classmethod)}
    assert properties == PROPERTIES[owner]
    assert functions == methods
    assert all((value.__doc__ or "").strip() for name, value in members.items() if name in properties)


def test_the_state_of_a_browser_that_a_notebook_sets():
    own = set(Browser.class_own_traits()) - {"comm"}
    assert {name for name in own if not name.startswith("_")} == {"filters", "current_id", "reveal", "height"}


def test_the_attributes_of_items_and_errors():
    made = wb.items_from_text("The dog ___ home.")
    assert (made.attrs, made.problems) == ({}, ())
    for wanted in ("__len__", "__iter__", "__getitem__", "__repr__"):
        assert wanted in vars(wb.Items)
    error = wb.DataError("wrong", file="a.txt", line=3, remedy="mend it")
    assert (error.problem, error.file, error.line, error.remedy) == ("wrong", "a.txt", 3, "mend it")
    assert str(error) == "a.txt, line 3: wrong -- mend it"
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("name", ["Book", "Item"])
def test_plain_values_are_frozen(name):
    assert dataclasses.is_dataclass(getattr(wb, name))
    assert getattr(wb, name).__dataclass_params__.frozen


@pytest.mark.parametrize("name", ["Loader", "_nothing", "spacy", "pd"])
def test_an_unknown_name_is_told(name):
    with pytest.raises(AttributeError, match=f"module 'workbench' has no attribute '{name}'"):
        getattr(wb, name)


@pytest.mark.parametrize("name", ["Items", "browse", "load"])
def test_a_name_can_be_the_first_that_is_imported(name):
    subprocess.run([sys.executable, "-c", f"from workbench import {name}; assert {name}.__doc__"], check=True)
