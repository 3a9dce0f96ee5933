"""Find and load spaCy pipelines; tag words with them."""

from __future__ import annotations

import importlib.util
import logging
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.storage import cache, files, paths
from workbench.storage.errors import DataError, reading
from workbench.storage.packages import extensions
from workbench.storage.parallel import dask_client, in_worker

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token

UPOS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT",
    "SCONJ", "SYM", "VERB", "X",
)  # fmt: skip
"""The universal parts of speech (Universal Dependencies, version 2)."""

# Penn Treebank tags (Marcus et al. 1993) by universal tag, for pipelines that set nothing else.
_PENN = {
    "ADJ": "JJ JJR JJS AFX", "ADP": "IN RP", "ADV": "RB RBR RBS WRB", "AUX": "MD", "CCONJ": "CC",
    "DET": "DT PDT WDT", "INTJ": "UH", "NOUN": "NN NNS", "NUM": "CD", "PART": "POS TO",
    "PRON": "PRP PRP$ WP WP$ EX", "PROPN": "NNP NNPS",
    "PUNCT": ". , : `` '' -LRB- -RRB- HYPH NFP", "SYM": "SYM $ #",
    "VERB": "VB VBD VBG VBN VBP VBZ", "X": "FW LS XX ADD GW",
}  # fmt: skip
_COARSE = {tag: upos for upos, tags in _PENN.items() for tag in tags.split()} | {tag: tag for tag in UPOS}

_OLDER = {"CONJ": "CCONJ", "": "X", "EOL": "X", "SPACE": "X"}  # of spaCy, not of Universal Dependencies

_GOAL = frozenset({"token.pos", "token.tag", "token.morph", "token.lemma"})
_BATCH = 4096  # words that go through a network at a time: its arrays stay in the processor's cache
_OFFICIAL = re.compile(r"[a-z]{2,3}_(?:core|dep|ent)_\w+_(?:sm|md|lg|trf)")
_PARTS = re.compile(
    r"(?:trainable_)?lemmatizer|tok2vec|tagger|morphologizer|attribute_ruler|parser|ner|senter|sentencizer"
    r"|narrative_\w+"
)
_LAYER = re.compile(r"(?:spacy|workbench)\.")


@dataclass(frozen=True)
class PipelineFolder:
    """A pipeline on disk."""

    name: str
    """Name of a package, or path, for spaCy to load."""
    folder: Path
    label: str
    """Name and version, as in ``en_narrative 1.0.1``."""

    @property
    def plain(self) -> bool:
        """Whether it has only components of spaCy and of this package, and needs no PyTorch."""
        config = files.read_bytes(self.folder / "config.cfg", "this pipeline").decode()
        factories = re.findall(r'^factory *= *"(.*)"', config, re.MULTILINE)
        layers = re.findall(r'^@architectures *= *"(.*)"', config, re.MULTILINE)
        is_plain = all(_PARTS.fullmatch(factory) for factory in factories)
        return is_plain and all(_LAYER.match(layer) and "Torch" not in layer for layer in layers)

    @property
    def identity(self) -> str:
        """A digest of all its files."""
        return cache.fingerprint((path for path in self.folder.rglob("*") if path.is_file()), self.folder)


def find_pipeline(name: str | Path = "en_narrative") -> PipelineFolder:
    """Find a pipeline, without loading it (nor spaCy).

    DataError if it is not installed; the message says how to install it, and which pipelines are.

    Parameters
    ----------
    name : str or Path
        ``en_narrative``, which ships with the project; an installed package such as
        ``en_core_web_sm``; or the folder of a pipeline.
    """
    shipped = paths.resource("en_narrative")
    if name == "en_narrative" and (shipped / "meta.json").is_file():
        return _source(str(shipped), shipped)
    spec = importlib.util.find_spec(name) if isinstance(name, str) and name.isidentifier() else None
    if spec is not None and spec.origin is not None:
        inside = sorted(Path(spec.origin).parent.glob(f"{name}-*/meta.json"))
        if inside:
            return _source(str(name), inside[-1].parent)
    folder = Path(name).expanduser()
    if (folder / "meta.json").is_file() and (folder / "config.cfg").is_file():
        return _source(str(folder.resolve()), folder)
    raise _missing(name, folder)


def _source(name: str, folder: Path) -> PipelineFolder:
    file, description = folder / "meta.json", "this description of a spaCy pipeline"
    with reading(file, description, hint="install the pipeline again"):
        meta = files.read_json(file, description)
        return PipelineFolder(name, folder, f"{meta['lang']}_{meta['name']} {meta['version']}")


def installed() -> list[str]:
    """Return the names of the pipelines that are installed."""
    ours = ["en_narrative"] if (paths.resource("en_narrative") / "meta.json").is_file() else []
    return ours + sorted(extensions("spacy_models", ours))


def _missing(name: str | Path, folder: Path) -> DataError:
    there = f"installed: {', '.join(installed()) or 'none'}"
    if folder.exists():
        return DataError(
            "expected a spaCy pipeline (meta.json and config.cfg) in this folder",
            file=folder,
            hint=f"pass the folder that nlp.to_disk wrote, or a name ({there})",
        )
    if name == "en_narrative":
        hint = "make tagger trains it"
    elif _OFFICIAL.fullmatch(str(name)):
        extra = " and pip install spacy-curated-transformers" if str(name).endswith("_trf") else ""
        hint = f"python -m spacy download {name}{extra}"
    else:
        hint = "pip install the package that holds it, or pass the path of its folder"
    return DataError(f"the spaCy pipeline {str(name)!r} is not installed; {there}", hint=hint)


def load(name: str | Path = "en_narrative") -> Language:
    """Load a pipeline (see `find_pipeline`), once in a process; DataError if spaCy cannot.

    Where its networks would multiply matrices with BLIS, NumPy does: the same numbers up to rounding, several
    times as fast on recent processors.
    """
    source = find_pipeline(name)
    return _loaded(source, (source.folder / "meta.json").stat().st_mtime_ns)  # trained anew: loaded anew


@lru_cache(maxsize=2)
def _loaded(source: PipelineFolder, _written: int) -> Language:
    with _without_pytorch():
        import spacy  # noqa: PLC0415 - slow to import

        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                nlp = spacy.load(source.name)
        except (ImportError, OSError, ValueError) as error:
            raise DataError(
                f"spaCy {metadata.version('spacy')} cannot load the pipeline {source.label} ({error})",
                file=source.folder,
                hint="install the packages that it needs, or a version of it for this spaCy",
            ) from error
    for warning in caught:
        if re.match(r"\[W09[45]\]", str(warning.message)):  # made with another version of spaCy
            logging.getLogger(__name__).warning("%s", warning.message)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    use_numpy(nlp)
    return nlp


@contextmanager
def _without_pytorch() -> Iterator[None]:
    """Hide PyTorch in a worker of this machine, whose pipelines do without (see `stays_in_process`).

    spaCy imports it wherever it is installed, which takes seconds and half a gigabyte per process.
    """
    if not in_worker() or "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]


def stays_in_process(name: str | Path) -> bool:
    """Return True for a pipeline that may need PyTorch, which uses all cores, unless a cluster tags."""
    return dask_client() is None and not find_pipeline(name).plain


def use_numpy(nlp: Language) -> None:
    """Use NumPy in place of BLIS for matrix products in every network of a pipeline."""
    from thinc.api import NumpyOps  # noqa: PLC0415 - slow to import

    plain = NumpyOps(use_blis=False)
    for _, component in nlp.components:
        model = getattr(component, "model", None)
        for node in model.walk() if model is not None and hasattr(model, "walk") else ():
            if type(node.ops) is NumpyOps:  # not those of a GPU, nor Apple's
                node.ops = plain


def tag(
    nlp: Language, words: Sequence[Sequence[str]], targets: Sequence[int | None]
) -> tuple[list[list[str]], list[str | None]]:
    """Return the parts of speech of all words, and the lemmas of the targets.

    Only what this needs of the pipeline runs. Documents go through it sorted by length. DataError if the
    pipeline sets no parts of speech.

    `words` are those of each document, as :func:`workbench.items.tokens.readable_tokens` returns them, and
    `targets` the index of the word whose lemma to return. Tags are UPOS, converted from Penn Treebank tags
    where a pipeline sets nothing else, ``X`` for a word without a tag. A lemma is None without a target, and
    where the pipeline has no lemmatizer.
    """
    from spacy.pipeline import Lemmatizer  # noqa: PLC0415 - slow to import
    from spacy.tokens import Doc  # noqa: PLC0415

    run = needed(nlp)
    lemmatizer = dict(nlp.pipeline).get("lemmatizer")
    single = isinstance(lemmatizer, Lemmatizer) or hasattr(lemmatizer, "lemma")  # need not run on all tokens
    off = [name for name in nlp.pipe_names if name not in run or (name == "lemmatizer" and single)]
    tags: list[list[str]] = [[] for _ in words]
    lemmas: list[str | None] = [None] * len(words)
    any_tag = False
    for batch in _batches(words):
        docs = [Doc(nlp.vocab, words=list(words[index])) for index in batch]  # nothing is cut again
        for index, doc in zip(batch, nlp.pipe(docs, batch_size=len(docs), disable=off), strict=True):
            tags[index], tagged = _tags(doc)
            any_tag = any_tag or tagged
            if (target := targets[index]) is not None:
                lemmas[index] = _lemma(doc[target], tags[index][target], lemmatizer if single else None)
    if any(map(len, words)) and not any_tag:
        raise DataError(
            f"the pipeline {pipeline_label(nlp)} sets no parts of speech"
            f" (it has: {', '.join(nlp.pipe_names)})",
            hint="use one with a tagger or a morphologizer, such as en_narrative",
        )
    return tags, lemmas


def pipeline_label(nlp: Language) -> str:
    """Return name and version of a loaded pipeline."""
    return f"{nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}"


def needed(nlp: Language) -> set[str]:
    """Return the names of the components that parts of speech and lemmas depend on.

    Those are the ones that declare to set them (or declare nothing), and what these require or
    listen to: a shared ``tok2vec`` or ``transformer``.
    """
    wanted, run = set(_GOAL), set[str]()
    for name, component in reversed(nlp.pipeline):
        meta = nlp.get_pipe_meta(name)
        hearers = getattr(component, "listening_components", None)
        heard = hearers is not None and (not run.isdisjoint(hearers))
        if heard or (hearers is None and (not meta.assigns or not wanted.isdisjoint(meta.assigns))):
            run.add(name)
            wanted.update(meta.requires)
    return run


def _lemma(token: Token, upos: str, lemmatizer: Any) -> str | None:
    """Return the lemma of a token; without a lemmatizer the one that is set."""
    if hasattr(lemmatizer, "lemma"):
        return str(lemmatizer.lemma(token.text, upos)) or None
    if lemmatizer is not None and (lemmatizer.overwrite or not token.lemma_):
        return str(lemmatizer.lemmatize(token)[0]) or None
    return str(token.lemma_) or None


def _tags(doc: Doc) -> tuple[list[str], bool]:
    """Return the tags of a document, and whether the pipeline set any."""
    tags = _names(doc, "POS")
    if any(tags):
        return [_OLDER.get(tag, tag) for tag in tags], True
    tags = _names(doc, "TAG")
    return [_COARSE.get(tag, "X") for tag in tags], any(tags)


def _names(doc: Doc, attribute: str) -> list[str]:
    """Return an attribute of all tokens, at once: one token after the other takes a sixth of all time."""
    keys = doc.to_array(attribute).tolist()
    names = {key: doc.vocab.strings[key] for key in set(keys)}
    return [names[key] for key in keys]


def _batches(words: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """Yield the numbers of documents that go together, short ones first; empty ones are left out."""
    batch: list[int] = []
    n_words = 0
    for length, index in sorted((len(document), index) for index, document in enumerate(words) if document):
        if batch and n_words + length > _BATCH:
            yield batch
            batch, n_words = [], 0
        batch.append(index)
        n_words += length
    if batch:
        yield batch
