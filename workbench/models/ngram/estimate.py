"""From texts to an n-gram model on disk, made once: KenLM's binary, the arrays, and what it was made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.models.ngram import counts, good_turing, kenlm
from workbench.models.ngram.arpa import compile_arpa
from workbench.storage import cache
from workbench.storage.files import data_home
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import Corpus, Texts, scratch_folder
from workbench.texts.overlap import check_held_out

BINARY, INFO = "model.binary", "ngram.json"
SMOOTHING = ("kneser-ney", "good-turing")
_FORMAT = 1


def read_info(folder: Path) -> dict[str, Any]:
    """Return what a model was made of and how.

    Raises
    ------
    DataError
        If there is no whole model in the folder.
    """
    try:
        info: dict[str, Any] = json.loads((folder / INFO).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = f"there is no n-gram model here: {error}"
        raise DataError(problem, file=folder, remedy="fit it again") from None
    return info


def estimated(
    texts: Texts,
    *,
    order: int,
    smoothing: str,
    vocabulary: int | Sequence[str] | None,
    pruning: Sequence[int] | None,
    lower: bool,
    tokenised: bool | None,
    held_out: Items | None,
    memory: str,
    temporary: Path | None,
    progress: bool,
) -> tuple[Path, dict[str, Any] | None]:
    """Return the folder of the model of some texts, and the items that these were checked for.

    The model is estimated where it is not there yet.

    The parameters are those of :meth:`workbench.models.ngram.model.NGram.fit`.
    """
    if smoothing not in SMOOTHING:
        raise DataError(f"smoothing is {smoothing!r}, expected one of {', '.join(SMOOTHING)}")
    if order < 2:  # noqa: PLR2004 - the context is a word at least
        raise DataError(f"an n-gram model has order 2 or more, not {order}")
    corpus = Corpus.of(texts, lower=lower, tokenised=tokenised, progress=progress)
    if corpus.lower != lower:
        raise DataError("the corpus is lower-cased" if corpus.lower else "the corpus is cased",
                        remedy=f"pass lower={corpus.lower}")  # fmt: skip
    words = _words(corpus, vocabulary, lower=lower)
    settings = {
        "order": order,
        "smoothing": smoothing,
        "pruning": list(pruning) if pruning else None,
        "lower": lower,
        "vocabulary_sha256": cache.digest(*words),
        "vocabulary_size": len(words),
        "corpus_sha256": corpus.sha256,
        "format": _FORMAT,
    }
    checked_for = check_held_out(corpus, held_out, progress=progress)
    key = cache.digest(json.dumps(settings, sort_keys=True))
    home = data_home() / "cache" / "ngram"
    if not (home / key / INFO).is_file():
        with scratch_folder(home) as scratch:
            partial = scratch / "model"
            partial.mkdir()
            report = _estimate(
                corpus, words, partial, settings, memory=memory, temporary=temporary, progress=progress
            )
            info = settings | {
                "unknown_types": len(corpus.words) - len(set(words) & set(corpus.words)),
                "training": {
                    "corpus": corpus.name, "sha256": corpus.sha256, "tokens": corpus.n_tokens,
                    "sentences": corpus.n_sentences, "books": len(corpus.books),
                },
                "report": report,
            }  # fmt: skip
            (partial / INFO).write_text(json.dumps(info, indent=1), encoding="utf-8")
            _publish(partial, home / key)
    return home / key, checked_for


def _publish(partial: Path, target: Path) -> None:
    """Give a whole model its name, unless another process was first."""
    try:
        partial.rename(target)
    except OSError:
        if target.is_dir() and not (target / INFO).is_file():
            raise DataError("this is no whole model", file=target, remedy="remove the folder") from None
        if not target.is_dir():
            raise


def _words(corpus: Corpus, vocabulary: int | Sequence[str] | None, *, lower: bool) -> list[str]:
    """Return the words that a model knows: those that the corpus has, the most frequent first."""
    if vocabulary is None or isinstance(vocabulary, int):
        known = corpus.vocabulary(vocabulary)
    else:
        wanted = {word.lower() if lower else word for word in vocabulary}
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
    """Write the ARPA file, the binary and the arrays into a folder; return what was said of them."""
    arpa, order, pruning = folder / "model.arpa", settings["order"], settings["pruning"]
    if settings["smoothing"] == "kneser-ney":
        known = set(words)
        made = kenlm.estimate(
            lambda: corpus.lines(known), arpa, order=order, pruning=pruning, memory=memory,
            temporary=temporary, n_lines=corpus.n_sentences, progress=progress,
        )  # fmt: skip
        report: dict[str, Any] = {"fallback_discounts": made.fallback, "discounts": made.discounts}
    else:
        cutoffs = [1, *(n + 1 for n in (pruning or ())[1:])]
        cutoffs += cutoffs[-1:] * (order - len(cutoffs)) if pruning else [1] * (order - 1)
        counted = counts.count(corpus, order, vocabulary=words, folder=temporary, progress=progress)
        written = good_turing.write_arpa(counted, arpa, words, cutoffs=cutoffs, progress=progress)
        report = {"discounts": written.discounts, "notes": written.notes}
    kenlm.build_binary(arpa, folder / BINARY, memory=memory, temporary=temporary, progress=progress)
    with progress_bar(label="sorting n-grams", unit="", shown=progress) as bar:
        model = compile_arpa(arpa, folder, words, tell=lambda _, rows: bar.update(rows))
    arpa.unlink()
    return report | {"n_grams": [len(level["logp"]) for level in model.levels]}
