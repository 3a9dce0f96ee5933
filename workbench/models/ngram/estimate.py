"""Estimate n-gram models on disk, once each: the arrays, their origin, and an ARPA file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workbench.datasets.books import refuse_language_model
from workbench.models.ngram import good_turing, kenlm
from workbench.models.ngram.backoff import SPECIAL, BackOff
from workbench.models.ngram.kenlm_records import Text, compile_intermediate
from workbench.storage import cache
from workbench.storage.errors import DataError
from workbench.storage.files import atomic_folder, atomic_path, read_json, temporary_folder
from workbench.storage.paths import cache_home
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import Corpus

KENLM, BINARY, INFO = "kenlm", "model.binary", "ngram.json"
_FORMAT = 2
_ROWS = 1 << 20  # n-grams that are written to an ARPA file at a time


def read_info(folder: Path) -> dict[str, Any]:
    """Return a model's texts and settings; DataError if the folder has no model or a damaged one."""
    if folder.is_file():
        refuse_language_model(folder)
    info: dict[str, Any] = read_json(folder / INFO, "this n-gram model")
    return info


def find_or_estimate(
    corpus: Corpus,
    *,
    order: int,
    smoothing: str,
    vocabulary: int | Sequence[str] | None,
    pruning: list[int],
    **resources: Any,
) -> Path:
    """Return the folder of the model of a corpus, which is estimated where it does not exist yet.

    The parameters are those of :meth:`workbench.models.ngram.model.NGram.fit`; `memory` and `temporary`
    are the resources.
    """
    words = _words(corpus, vocabulary)
    settings = {
        "order": order,
        "smoothing": smoothing,
        "pruning": pruning or None,
        "lower": corpus.lower,
        "vocabulary_sha256": cache.digest(*words),
        "vocabulary_size": len(words),
        "corpus_sha256": corpus.sha256,
        "format": _FORMAT,
    }
    target = cache_home() / "ngram" / cache.digest(json.dumps(settings, sort_keys=True))
    with suppress(DataError):  # there is none yet, or it is damaged
        read_info(target)
        BackOff.open(target)
        return target
    with atomic_folder(target, replace=target.exists()) as partial:
        report = _estimate(corpus, words, partial, settings, **resources)
        info = settings | {
            "unknown_types": len(corpus.words) - len(set(words) & set(corpus.words)),
            "training": {
                "corpus": corpus.name, "sha256": corpus.sha256, "tokens": corpus.n_tokens,
                "sentences": corpus.n_sentences, "books": len(corpus.books),
            },
            "report": report,
        }  # fmt: skip
        (partial / INFO).write_text(json.dumps(info, indent=1), encoding="utf-8")
    return target


def kenlm_binary(folder: Path, model: BackOff) -> Path:
    """Return the model in KenLM's format, made from the arrays where it is missing."""
    home = folder / KENLM
    if (home / BINARY).is_file():
        return home / BINARY
    with atomic_folder(home) as new, temporary_folder(folder) as scratch:
        save_arpa(model, scratch / "model.arpa")
        kenlm.build_binary(scratch / "model.arpa", new / BINARY)
    return home / BINARY


def _words(corpus: Corpus, vocabulary: int | Sequence[str] | None) -> list[str]:
    """Return a model's vocabulary: words of the corpus, the most frequent first."""
    if vocabulary is None or isinstance(vocabulary, int):
        words = corpus.vocabulary(vocabulary)
    else:
        wanted = {word.lower() if corpus.lower else word for word in vocabulary}
        words = [word for word in corpus.vocabulary(None) if word in wanted]
    if not words:
        raise DataError("no word of the vocabulary is in the texts")
    return words


def _estimate(
    corpus: Corpus,
    words: Sequence[str],
    folder: Path,
    settings: dict[str, Any],
    *,
    memory: str,
    temporary: Path | None,
) -> dict[str, Any]:
    """Write the arrays into a folder; return the estimation's report."""
    order, pruning = settings["order"], settings["pruning"]
    if settings["smoothing"] == "kneser-ney":
        with temporary_folder(temporary or folder) as scratch:
            text, prefix = Text(corpus, words), scratch / "grams"
            report = kenlm.estimate(
                text, prefix, order=order, pruning=pruning, memory=memory, blocks=len(text),
                )  # fmt: skip
            model = compile_intermediate(prefix, folder, text)
    else:
        cutoffs = [1, *(n + 1 for n in (pruning or ())[1:])]
        cutoffs += cutoffs[-1:] * (order - len(cutoffs))
        counted = good_turing.count(corpus, order, vocabulary=words, cutoffs=cutoffs, folder=temporary)
        model, report = good_turing.compile_counts(counted, folder, words)
    return report | {"n_grams": [len(level["logp"]) for level in model.levels]}


def save_arpa(model: BackOff, path: Path) -> None:
    """Write a back-off model in the ARPA format, whole or not at all; each number reads as the same float."""
    words = pa.array([*model.words, *SPECIAL], pa.string())
    sizes = [len(level["logp"]) for level in model.levels]
    with (
        atomic_path(path) as target,
        target.open("wb") as file,
        progress_bar(sum(sizes), label="ARPA", unit="n-grams") as bar,
    ):
        counts = (f"ngram {n}={size}\n" for n, size in enumerate(sizes, start=1))
        file.write("\\data\\\n{}".format("".join(counts)).encode())
        for n, level in enumerate(model.levels, start=1):
            file.write(b"\n\\%d-grams:\n" % n)
            for first in range(0, sizes[n - 1], _ROWS):
                rows = slice(first, min(first + _ROWS, sizes[n - 1]))
                weights = np.asarray(level["backoff"][rows]) if "backoff" in level else None
                grams = model.grams(n, np.arange(rows.start, rows.stop))
                _write_grams(file, words, grams, np.asarray(level["logp"][rows]), weights)
                bar.update(rows.stop - rows.start)
        file.write(b"\n\\end\\\n")


def _write_grams(
    file: BinaryIO, words: pa.Array, grams: Any, log10: npt.NDArray[np.float32], backoff: Any | None
) -> None:
    """Write lines of a section of an ARPA file: n-grams as ids (n, order), log-probabilities and weights."""
    columns: list[Any] = [pa.array(log10).cast(pa.string()), pa.scalar("\t")]
    for column in range(grams.shape[1]):
        columns += [words.take(pa.array(grams[:, column])), pa.scalar(" ")]
    weights = [] if backoff is None else [pa.scalar("\t"), pa.array(backoff).cast(pa.string())]
    text = pc.binary_join_element_wise(*columns[:-1], *weights, pa.scalar("\n"), "")
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    file.write(memoryview(data)[ends[0] : ends[-1]])
