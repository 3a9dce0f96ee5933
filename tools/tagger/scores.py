"""Score ``en_narrative`` on the development sets and write its card: ``make tagger-scores``.

UPOS and lemmas on the development parts of EWT and GUM (GUM is for evaluation only), as printed
and in lower case, sentence by sentence and in passages of six sentences; and, on LAMBADA's
development set, what becomes of the target's class when the passage is lower-cased.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import spacy
import treebanks
from spacy.language import Language
from spacy.tokens import Doc

from workbench.analysis import tagging
from workbench.analysis.annotations import CLASS_OF_TAG
from workbench.datasets import load
from workbench.items.tokens import readable_tokens
from workbench.storage.errors import DataError
from workbench.storage.files import atomic_path

TEMPLATE = Path(__file__).with_name("card.md")
SETS = ("ewt-dev", "gum-dev")
_PASSAGE = 6  # sentences, about as many tokens as a passage of LAMBADA
Gold = tuple[list[str], list[str], list[str]]
"""Words, tags and lemmas of a text."""


def texts(sentences: Iterable[treebanks.Sentence], *, length: int, lower: bool) -> Iterator[Gold]:
    """Join consecutive sentences of a document, `length` at a time."""
    for _, document in groupby(sentences, key=lambda sentence: sentence.doc):
        tokens = list(document)
        for start in range(0, len(tokens), length):
            part = tokens[start : start + length]
            words = [word.lower() if lower else word for sentence in part for word in sentence.words]
            tags = [tag for sentence in part for tag in sentence.upos]
            lemmas = [lemma.lower() if lower else lemma for sentence in part for lemma in sentence.lemmas]
            yield words, tags, lemmas


def treebank_scores(nlp: Language, gold: Sequence[Gold], *, lower: bool) -> dict[str, float]:
    """Return the share of right tags and lemmas, and precision, recall and F1 of PROPN, in percent.

    With `lower` the case of lemmas does not count.
    """
    docs = nlp.pipe(Doc(nlp.vocab, words=words) for words, _, _ in gold)
    right = lemmas = total = hits = n_predicted = wanted = 0
    for doc, (_, tags, gold_lemmas) in zip(docs, gold, strict=True):
        for token, tag, lemma in zip(doc, tags, gold_lemmas, strict=True):
            total += 1
            right += token.pos_ == tag
            lemmas += (token.lemma_.lower() if lower else token.lemma_) == lemma
            hits += token.pos_ == tag == "PROPN"
            n_predicted += token.pos_ == "PROPN"
            wanted += tag == "PROPN"
    return {
        "tokens": total,
        "upos": 100 * right / total,
        "lemma": 100 * lemmas / total,
        "propn_precision": 100 * hits / max(n_predicted, 1),
        "propn_recall": 100 * hits / max(wanted, 1),
        "propn_f1": 200 * hits / max(n_predicted + wanted, 1),
    }


def lambada_scores(nlp: Language) -> dict[str, dict[str, float]]:
    """Return in percent how LAMBADA's targets agree in class, lower-cased against capitalised, by half.

    The even items are those that anything was tuned on; the odd ones are to be reported.
    """
    classes = []
    for variant in ("capitalised", "plain"):
        items = load("lambada", "dev", variant=variant)
        docs = nlp.pipe(Doc(nlp.vocab, words=readable_tokens(item.tokens)) for item in items)
        classes.append([CLASS_OF_TAG.get(doc[-1].pos_, "O") for doc in docs])
    pairs = list(zip(*classes, strict=True))
    parts = {"even": pairs[::2], "odd": pairs[1::2], "all": pairs}
    return {name: _agreement(part) for name, part in parts.items()}


def _agreement(pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    result = {"items": float(len(pairs)), "same": 100 * sum(a == b for a, b in pairs) / len(pairs)}
    for name in (*dict.fromkeys(CLASS_OF_TAG.values()), "O"):
        for side, form in enumerate(("capitalised", "lower-cased")):
            result[f"{name} {form}"] = 100 * sum(pair[side] == name for pair in pairs) / len(pairs)
    return result


def scores(nlp: Language) -> dict[str, Any]:
    """Return all scores."""
    result: dict[str, Any] = {"treebanks": {}}
    for name in SETS:
        gold = list(treebanks.sentences(treebanks.find(name)))
        for lower in (False, True):
            for length, unit in ((1, "sentences"), (_PASSAGE, "passages")):
                key = f"{name}, {'lower-cased' if lower else 'as printed'}, {unit}"
                parts = list(texts(gold, length=length, lower=lower))
                result["treebanks"][key] = treebank_scores(nlp, parts, lower=lower)
    result["lambada"] = lambada_scores(nlp)
    return result


def card(results: Mapping[str, Any], template: str) -> str:
    """Return the card: the template with the tables in it."""
    rows = [
        "| set | tokens | UPOS | lemma | PROPN precision | recall | F1 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in results["treebanks"].items():
        cells = (f"{row[key]:.1f}" for key in list(row)[1:])
        rows.append(f"| {name} | {row['tokens']:,.0f} | {' | '.join(cells)} |")
    halves = results["lambada"]
    lines = ["| % of targets | tuned half | other half | all |", "|---|---|---|---|"]
    for key in halves["all"]:
        form = "{:,.0f}" if key == "items" else "{:.1f}"
        lines.append(f"| {key} | {' | '.join(form.format(half[key]) for half in halves.values())} |")
    return template.format(treebanks="\n".join(rows), lambada="\n".join(lines), **results["facts"])


def facts(nlp: Language, folder: Path, seconds: float) -> dict[str, str]:
    """Return what the card says of the pipeline: version, size, seconds to load, and today's date."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".md")
    return {
        "version": str(nlp.meta["version"]),
        "megabytes": f"{size / 1e6:.1f}",
        "seconds": f"{seconds:.2f}",
        "date": datetime.now(tz=UTC).date().isoformat(),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Score the pipeline, print the card and, with ``--write``, put it beside the pipeline."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pipeline", default="en_narrative", help="another pipeline to score")
    parser.add_argument("--write", action="store_true", help="write scores.json and README.md beside it")
    options = parser.parse_args(argv)
    try:
        source = tagging.find_pipeline(options.pipeline)
        nlp = tagging.load(options.pipeline)
        start = time.perf_counter()
        spacy.load(source.name)  # once more, with spaCy itself imported
        seconds = time.perf_counter() - start
        results = scores(nlp) | {"facts": facts(nlp, source.folder, seconds)}
    except DataError as error:
        print(f"tagger-scores: {error}", file=sys.stderr)
        return 1
    text = card(results, TEMPLATE.read_text(encoding="utf-8"))
    print(text)
    if options.write:
        for name, content in (("README.md", text), ("scores.json", json.dumps(results, indent=1) + "\n")):
            with atomic_path(source.folder / name) as temporary:
                temporary.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
