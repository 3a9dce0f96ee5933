"""From texts to an n-gram model on disk, made once: the arrays, and what it was made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.models.ngram import counts, good_turing, kenlm
from workbench.models.ngram.arpa import save_arpa
from workbench.models.ngram.backoff import BackOff
from workbench.models.ngram.intermediate import Text, compile_intermediate
from workbench.storage import cache
from workbench.storage.errors import DataError
from workbench.storage.files import data_home, read_json, scratch_folder
from workbench.storage.sealed import check_seal, sealed_folder
from workbench.texts.corpus import Corpus

KENLM, BINARY, INFO = "kenlm", "model.binary", "ngram.json"
SMOOTHING = ("kneser-ney", "good-turing")
_FORMAT = 2


def read_info(folder: Path) -> dict[str, Any]:
    """Return what a model was made of and how; DataError if the folder holds none, or one that is damaged."""
    info: dict[str, Any] = read_json(folder / INFO, "this n-gram model")
    check_seal(folder, INFO, what="this n-gram model", remedy="fit it again", required=False)
    return info


def estimated(
    corpus: Corpus,
    *,
    order: int,
    smoothing: str,
    vocabulary: int | Sequence[str] | None,
    pruning: Sequence[int] | None,
    **resources: Any,
) -> Path:
    """Return the folder of the model of a corpus, which is estimated where it does not exist yet.

    The parameters are those of :meth:`workbench.models.ngram.model.NGram.fit`; `memory`, `temporary` and
    `progress` are the resources.
    """
    words, pruning = _words(corpus, vocabulary), kenlm.check_pruning(pruning, order)
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
    target = data_home() / "cache" / "ngram" / cache.digest(json.dumps(settings, sort_keys=True))
    with suppress(DataError):  # there is none yet, or it is damaged
        read_info(target)
        return target
    with sealed_folder(target, INFO, replace=target.exists()) as partial:
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
    """Return the model in KenLM's own form, made of the arrays where there is none, or a damaged one."""
    home = folder / KENLM
    with suppress(DataError):
        check_seal(home, BINARY, what="this model of KenLM", remedy="make it again")
        return home / BINARY
    with sealed_folder(home, BINARY, replace=True) as new, scratch_folder(folder) as scratch:
        save_arpa(model, scratch / "model.arpa")
        kenlm.build_binary(scratch / "model.arpa", new / BINARY)
    return home / BINARY


def _words(corpus: Corpus, vocabulary: int | Sequence[str] | None) -> list[str]:
    """Return the words that a model knows: those that the corpus has, the most frequent first."""
    if vocabulary is None or isinstance(vocabulary, int):
        known = corpus.vocabulary(vocabulary)
    else:
        wanted = {word.lower() if corpus.lower else word for word in vocabulary}
        known = [word for word in corpus.vocabulary(None) if word in wanted]
    if not known:
        raise DataError("no word of the vocabulary is in the texts")
    return known


def _estimate(
    corpus: Corpus,
    words: Sequence[str],
    folder: Path,
    settings: dict[str, Any],
    *,
    memory: str,
    temporary: Path | None,
    progress: bool,
) -> dict[str, Any]:
    """Write the arrays into a folder; return what the estimation reports."""
    order, pruning = settings["order"], settings["pruning"]
    if settings["smoothing"] == "kneser-ney":
        with scratch_folder(temporary or folder) as scratch:
            text, prefix = Text(corpus, words), scratch / "grams"
            report = kenlm.estimate(
                text, prefix, order=order, pruning=pruning, memory=memory, blocks=len(text),
                progress=progress,
            )  # fmt: skip
            model = compile_intermediate(prefix, folder, text, progress=progress)
    else:
        cutoffs = [1, *(n + 1 for n in (pruning or ())[1:])]
        cutoffs += cutoffs[-1:] * (order - len(cutoffs))
        counted = counts.count(
            corpus, order, vocabulary=words, cutoffs=cutoffs, folder=temporary, progress=progress
        )
        model, report = good_turing.compile_counts(counted, folder, words, progress=progress)
    return report | {"n_grams": [len(level["logp"]) for level in model.levels]}
