"""Build the sample's items from its stories: ``python data/sample/build.py [FOLDER]``.

Passages are cut at the planted words and judged by the readings in ``readings.json``; the
unfiltered ones are drawn by seed, and so are the stories of the split "test". Questions
(``questions.jsonl``) were made once, with a tagger, and are kept as they are. The same input gives
the same files, byte for byte.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

from stories import HERE, Passage, Story, passage, planted, stories

N_CONTROL = 9
N_COMPLETIONS = 2
N_TEST = 8
SEED = 2016


def keep(reading: dict[str, Any], target: str) -> bool:
    """Tell whether a passage passes: both readers name the target, nobody from the sentence alone."""
    word = target.lower()
    whole = [guess.lower() for guess in reading["passage"]]
    alone = [guess.lower() for guess in reading["sentence"]]
    return all(guess == word for guess in whole) and word not in alone


def passages(told: list[Story]) -> list[dict[str, str]]:
    """Return the rows of all passages: dev, control, rejected."""
    readings = json.loads((HERE / "readings.json").read_text(encoding="utf-8"))
    rows: dict[str, list[dict[str, str]]] = {"dev": [], "control": [], "rejected": []}
    rng = random.Random(SEED)
    for story in told:
        targets = planted(story)
        for number, target in targets.items():
            if cut := passage(story, number):
                key = f"{story.slug}/{number}"
                split = "dev" if keep(readings[key], target) else "rejected"
                rows[split].append(_row(split, cut))
        free = [n for n in range(len(story.sentences)) if n not in targets and passage(story, n)]
        for number in sorted(rng.sample(free, N_CONTROL)):
            cut = passage(story, number)
            assert cut is not None
            rows["control"].append(_row("control", cut))
    return [row for split in rows.values() for row in split]


def completions(told: list[Story]) -> list[dict[str, Any]]:
    """Return the rows of the sentence completions, the candidates in a drawn order."""
    rng = random.Random(SEED)
    rows = []
    for story in told:
        for chosen in story.completions[:N_COMPLETIONS]:
            words = [chosen["answer"], *chosen["decoys"]]
            rng.shuffle(words)
            found = re.search(rf"(?<![\w'-]){re.escape(chosen['answer'])}(?![\w'-])", chosen["sentence"])
            assert found, chosen
            assert chosen["sentence"] in story.text, chosen
            rows.append(
                {
                    "book": story.slug, "sentence": chosen["sentence"], "blank": found.start(),
                    "answer": chosen["answer"], "candidates": words,
                }
            )  # fmt: skip
    return rows


def split(told: list[Story]) -> dict[str, list[str]]:
    """Return the stories of each split: `N_TEST` for "test", drawn by the seed alone."""
    test = set(random.Random(SEED).sample([story.slug for story in told], N_TEST))
    parts: dict[str, list[str]] = {"train": [], "test": []}
    for story in told:
        parts["test" if story.slug in test else "train"].append(story.slug)
    return parts


def build(folder: Path) -> None:
    """Write ``split.json``, ``passages.jsonl`` and ``completions.jsonl`` into a folder."""
    told = stories()
    text = json.dumps(split(told), indent=1) + "\n"
    (folder / "split.json").write_text(text, encoding="utf-8", newline="\n")
    for name, rows in (("passages", passages(told)), ("completions", completions(told))):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8", newline="\n")
        print(f"{name}.jsonl: {len(rows)}")


def _row(split: str, cut: Passage) -> dict[str, str]:
    target = cut.tokens.rpartition(" ")[2]
    return {"split": split, "book": cut.book, "target": target, "tokens": cut.tokens, "running": cut.running}


if __name__ == "__main__":
    build(Path(sys.argv[1]) if sys.argv[1:] else HERE)
