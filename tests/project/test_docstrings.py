"""Every public function describes its parameters and has an example, which runs on the sample."""

import doctest
import inspect
import re

import completion_server
import pytest
import tiny_models

import workbench as wb
from workbench.models.base import Predictor
from workbench.models.registry import BUILT_IN, model_class, models
from workbench.predictions.store import runs

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NAMED = {"runs": runs, "models": models, "models.Predictor": Predictor, "models.Scoring": wb.models.Scoring}


def public():
    """Return the functions and classes that users call, by name."""
    things = {name: getattr(wb, name) for name in wb.__all__}
    things |= {f"charts.{name}": getattr(wb.charts, name) for name in wb.charts.__all__}
    made = wb.construction
    lambada, completion = made.lambada, made.sentence_completion
    made = [
        made.split,
        made.read_novels,
        made.NovelCollection,
        made.Manifest,
        made.CandidatePassages,
        made.build,
        made.DataSets,
        made.childrens_book.questions,
        made.childrens_book.anonymised,
        made.childrens_book.question_statistics,
        made.cnn_qa.questions,
        completion.questions,
        completion.choose_options,
        completion.export_options,
        completion.import_options,
        lambada.passages,
        lambada.filtered,
        lambada.paper_filters,
        lambada.control,
        lambada.recorded,
    ]
    things |= {f"{f.__module__}.{f.__name__}": f for f in made}
    things |= {f"people.{name}": getattr(wb.people, name) for name in wb.people.__all__}
    things |= {f"models.{(kind := model_class(name)).__name__}": kind for name in BUILT_IN} | NAMED
    return {
        name: thing
        for name, thing in things.items()
        if inspect.isfunction(thing) or (inspect.isclass(thing) and not issubclass(thing, Exception))
    }


PUBLIC = public()


def documentation(thing):
    """Return the docstring; of a class with those of its bases, as what they describe is inherited."""
    if not inspect.isclass(thing):
        return inspect.getdoc(thing) or ""
    return "\n".join(inspect.cleandoc(base.__doc__) for base in thing.__mro__[:-1] if base.__doc__)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_parameter_is_described_and_there_is_an_example(name):
    lines = re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: :|$)", documentation(PUBLIC[name]), re.MULTILINE)
    described = {part.strip().lstrip("*") for line in lines for part in line.split(",")}
    assert set(inspect.signature(PUBLIC[name]).parameters) - described - {"self"} == set()
    text = inspect.getdoc(PUBLIC[name]) or ""
    package = PUBLIC[name].__module__.rpartition(".")[0]
    places = BUILT_IN.items() if name.startswith("models.") else ()
    kinds = [model_class(each) for each, place in places if place.startswith(f"{package}.")]
    assert any(">>>" in (inspect.getdoc(each) or "") for each in (PUBLIC[name], *kinds))  # one a package
    assert "+SKIP" not in text


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Give what all examples use: what the package's docstring makes, two tiny models, and a server."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("WORKBENCH_HOME", str(folder))
        patch.chdir(folder)  # some examples write files
        shared = {
            "gpt2": tiny_models.tiny_gpt2(folder / "gpt2"),
            "bert": tiny_models.tiny_bert(folder / "bert"),
            "server": completion_server.week_server(),
        }
        failures(wb, "workbench", shared)
        yield shared


def failures(thing, name, names):
    """Run the examples of a docstring, and return what is not as it says; names that they bind stay."""
    [test] = doctest.DocTestFinder(recurse=False).find(thing, name, module=False, globs=names)
    report = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    return "".join(report)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_example_runs(names):
    assert {"items", "annotations", "ngram", "runs"} <= names.keys()
    wrong = [failures(thing, name, dict(names)) for name, thing in PUBLIC.items()]
    assert "".join(wrong) == ""
