"""Registry of models by name: of this package and of other packages.

Another package adds a model by an entry point in its ``pyproject.toml``::

    [project.entry-points."workbench.models"]
    my-model = "my_package.models:MyModel"

``wb.models()`` then lists it, `workbench train` and `workbench evaluate` take it, and a saved one is found by
its name.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint
from inspect import getdoc, isabstract
from typing import Any

import pandas as pd

from workbench.datasets.sources import check_choice
from workbench.models.pretrained.known import known_models
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage.errors import DataError
from workbench.storage.packages import extensions, load_extension

BUILT_IN = {
    "random-word": "workbench.models.baselines.chance:RandomWord",
    "maximum-frequency": "workbench.models.baselines.passage_baseline:MaximumFrequency",
    "sliding-window": "workbench.models.baselines.passage_baseline:SlidingWindow",
    "word-distance": "workbench.models.baselines.passage_baseline:WordDistance",
    "ngram": "workbench.models.ngram.model:NGram",
    "cached-ngram": "workbench.models.ngram.model:CachedNGram",
    "lsa": "workbench.models.lsa:LSA",
    "cbow": "workbench.models.vectors:CBOW",
    "simple-4-gram": "workbench.models.completion.simple:Simple4Gram",
    "reversed": "workbench.models.completion.positional:Reversed",
    "generating": "workbench.models.completion.positional:Generating",
    "positional": "workbench.models.completion.positional:Positional",
    "next-word": "workbench.models.completion.positional:NextWord",
    "word-two-on": "workbench.models.completion.positional:WordTwoOn",
    "elman": "workbench.models.neural.recurrent:ElmanRNN",
    "lstm": "workbench.models.neural.recurrent:LSTM",
    "feed-forward": "workbench.models.neural.feedforward:FeedForward",
    "memory-network": "workbench.models.neural.memory:MemoryNetwork",
    "sup-cbow": "workbench.models.neural.sup_cbow:SupCBOW",
    "transformer": "workbench.models.neural.transformer:PointerTransformer",
    "cached-neural": "workbench.models.neural.cache:CachedNeural",
    "embedding-reader": "workbench.models.readers.embedding:EmbeddingReader",
    "query-lstm": "workbench.models.readers.lstm:QueryLSTM",
    "contextual-lstm": "workbench.models.readers.lstm:ContextualLSTM",
    "ensemble": "workbench.models.ensemble:Ensemble",
    "exclude-cooccurring": "workbench.models.exclusion:ExcludeCooccurring",
    "boosted": "workbench.models.boosting:Boosted",
    "attention-sum": "workbench.models.readers.attention_sum:AttentionSum",
    "gated-attention": "workbench.models.readers.gated_attention:GatedAttention",
    "attentive-reader": "workbench.models.readers.attentive:AttentiveReader",
    "lexical-memory": "workbench.models.readers.memory:LexicalMemory",
    "sentential-memory": "workbench.models.readers.memory:SententialMemory",
    "window-memory": "workbench.models.readers.memory:WindowMemory",
    "causal-lm": "workbench.models.pretrained.causal:CausalLM",
    "masked-lm": "workbench.models.pretrained.masked:MaskedLM",
    "server": "workbench.models.pretrained.server:ServerModel",
}
"""The models of this package: name, and ``module:class``."""

_PREDICTOR = "workbench.models.base:Predictor"  # the name alone, as that module imports this one
_SHOWN = tuple(map(TableColumn, ("class", "name", "fitted_on", "description")))


def model_names() -> list[str]:
    """Return the names of all models: of the workbench, then of other packages."""
    return [*BUILT_IN, *sorted(_foreign())]


def model_class(name: str) -> type[Any]:
    """Return the class of a model, which is one of ``Predictor``, by its registered name.

    DataError if no model has that name, or the package that gives it cannot be imported or names something
    else.
    """
    if name in BUILT_IN:
        module, _, class_name = BUILT_IN[name].partition(":")
        built_in: type[Any] = getattr(import_module(module), class_name)
        return built_in
    entry = _foreign()[check_choice("model", name, model_names(), "the workbench")]
    cls = load_extension(entry)
    if not isinstance(cls, type) or isabstract(cls) or _PREDICTOR not in map(import_path_of, cls.__mro__):
        raise DataError(f"the model {name!r} should be a class of Predictor, not {entry.value}")
    return cls


def name_of(cls: type) -> str:
    """Return the registered name of a class; ``module:class`` of one that is not registered."""
    registered = {entry.value: name for name, entry in _foreign().items()}
    registered |= {value: name for name, value in BUILT_IN.items()}
    return registered.get(import_path_of(cls), import_path_of(cls))


def import_path_of(cls: type) -> str:
    """Return the module and name of a class, as an entry point has them."""
    return f"{cls.__module__}:{cls.__qualname__}"


def models() -> Table:
    """List the models that can be used here: ``wb.models()``.

    Returns
    -------
    Table
        A data frame: ``name``, as `workbench train` and `workbench evaluate` take it, ``class``,
        ``fitted_on`` and ``description``. The workbench's own classes are imported from ``workbench.models``.
        The last rows are pretrained models, by the names that ``CausalLM`` takes; a folder, a GGUF file or
        any name on the hub does as well.

    Examples
    --------
    >>> "lstm" in set(wb.models()["name"])
    True
    """
    rows: list[dict[str, Any]] = []
    for name in model_names():
        try:
            cls = model_class(name)
        except DataError as error:
            rows.append({"name": name, "class": None, "fitted_on": None, "description": str(error)})
            continue
        text = (getdoc(cls) or "").partition("\n")[0]
        rows.append({"name": name, "class": cls.__name__, "fitted_on": cls.fitted_on, "description": text})
    rows += [
        {
            "name": model.name,
            "class": "CausalLM",
            "fitted_on": model.training_text,
            "description": model.description,
        }
        for model in known_models().values()
    ]
    return Table(pd.DataFrame(rows), TableLayout("Models", _SHOWN))


def _foreign() -> dict[str, EntryPoint]:
    return extensions("workbench.models", BUILT_IN)
