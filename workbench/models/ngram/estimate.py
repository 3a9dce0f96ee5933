"""From texts to an n-gram model on disk, made once: the arrays, and what it was made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.items.schema import DataError
from workbench.models.ngram import counts, good_turing, kenlm
from workbench.models.ngram.arpa import compile_arpa, save_arpa
from workbench.models.ngram.backoff import BackOff
from workbench.storage import cache
from workbench.storage.files import data_home
from workbench.texts.corpus import Corpus, scratch_folder

BINARY, INFO = "model.binary", "ngram.json"
SMOOTHING = ("kneser-ney", "good-turing")
_FORMAT = 1


def read_info(folder: Path) -> dict[str, Any]:
    """Return what a model was made of and how; `DataError` if there is no complete model in the folder."""
    try:
        info: dict[str, Any] = json.loads((folder / INFO).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = f"there is no n-gram model: {error}"
        raise DataError(problem, file=folder, remedy="fit it again") from None
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
    words = _words(corpus, vocabulary)
    settings = {
        "order": order,
        "smoothing": smoothing,
        "pruning": list(pruning) if pruning else None,
        "lower": corpus.lower,
        "vocabulary_sha256": cache.digest(*words),
        "vocabulary_size": len(words),
        "corpus_sha256": corpus.sha256,
        "format": _FORMAT,
    }
    home = data_home() / "cache" / "ngram"
    target = home / cache.digest(json.dumps(settings, sort_keys=True))
    if not (target / INFO).is_file():
        with scratch_folder(home) as scratch:
            partial = scratch / "model"
            partial.mkdir()
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
            _publish(partial, target)
    return target


def kenlm_binary(folder: Path, model: BackOff) -> Path:
    """Return the model in KenLM's own form, which is made of the arrays where it does not exist yet."""
    if not (folder / BINARY).is_file():
        with scratch_folder(folder) as scratch:
            save_arpa(model, scratch / "model.arpa")
            kenlm.build_binary(scratch / "model.arpa", folder / BINARY)
    return folder / BINARY


def _publish(partial: Path, target: Path) -> None:
    """Give a complete model its name, unless another process was first."""
    try:
        partial.rename(target)
    except OSError:
        if target.is_dir() and not (target / INFO).is_file():
            raise DataError("the model is incomplete", file=target, remedy="remove the folder") from None
        if not target.is_dir():
            raise


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
    arpa, order, pruning = folder / "model.arpa", settings["order"], settings["pruning"]
    if settings["smoothing"] == "kneser-ney":
        known = set(words)
        report = kenlm.estimate(
            lambda: corpus.lines(known), arpa, order=order, pruning=pruning, memory=memory,
            temporary=temporary, n_lines=corpus.n_sentences, progress=progress,
        )  # fmt: skip
    else:
        cutoffs = [1, *(n + 1 for n in (pruning or ())[1:])]
        cutoffs += cutoffs[-1:] * (order - len(cutoffs))
        counted = counts.count(
            corpus, order, vocabulary=words, cutoffs=cutoffs, folder=temporary, progress=progress
        )
        report = good_turing.write_arpa(counted, arpa, words, progress=progress)
    model = compile_arpa(arpa, folder, words, progress=progress)
    arpa.unlink()
    return report | {"n_grams": [len(level["logp"]) for level in model.levels]}
