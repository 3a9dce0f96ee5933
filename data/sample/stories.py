"""The stories of the sample as sentences, and LAMBADA-shaped passages cut from them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from workbench.items import text as wt

HERE = Path(__file__).parent
_FINAL = re.compile(r"[.!?\"']+$")
_LEAST = 50


@dataclass(frozen=True)
class Story:
    """A story: its running text (chapters joined by blank lines) and the spans of its sentences."""

    slug: str
    text: str
    sentences: tuple[tuple[int, int], ...]
    chapters: tuple[int, ...]
    planted: tuple[tuple[str, str], ...]
    completions: tuple[dict[str, object], ...]


@dataclass(frozen=True)
class Passage:
    """A context of more than 50 tokens and a target sentence that ends with the target."""

    book: str
    sentence: int
    running: str

    @property
    def tokens(self) -> str:
        """The passage as cased Treebank tokens, the target last."""
        return " ".join(wt.tokenize(self.running))


def stories() -> list[Story]:
    """Read all stories with what was planted in them."""
    return [_story(path) for path in sorted((HERE / "novels").glob("*.md"))]


def passage(story: Story, sentence: int) -> Passage | None:
    """Cut the passage whose target sentence is the given one.

    The context is the fewest whole sentences with more than 50 tokens (Paperno et al. 2016,
    section 3.1, as released) of the same chapter; None where the chapter has fewer before it,
    or where the sentence does not end in a plain word.
    """
    start, end = story.sentences[sentence]
    core = _FINAL.sub("", story.text[start:end])
    if not re.search(r"(?<![\w'-])[A-Za-z]+$", core) or len(wt.tokenize(core)) < _SHORTEST:
        return None
    opening = max(place for place in story.chapters if place <= start)
    for first in range(sentence - 1, -1, -1):
        begin = story.sentences[first][0]
        if begin < opening:
            return None
        if len(wt.tokenize(story.text[begin:start])) > _LEAST:
            return Passage(story.slug, sentence, story.text[begin : start + len(core)])
    return None


_SHORTEST = 2


def planted(story: Story) -> dict[int, str]:
    """Return the sentences whose last word was planted, with that word."""
    found = {}
    for sentence, target in story.planted:
        end = story.text.index(sentence) + len(_FINAL.sub("", sentence))
        number = next(i for i, span in enumerate(story.sentences) if span[0] < end <= span[1])
        if _FINAL.sub("", story.text[slice(*story.sentences[number])]).endswith(target):
            found[number] = target
    return dict(sorted(found.items()))


def _story(path: Path) -> Story:
    body = path.read_text(encoding="utf-8").partition("-------\n")[2]
    chapters = [part.strip() for part in re.split(r"^## .*$", body, flags=re.MULTILINE) if part.strip()]
    places, text = [], ""
    for chapter in chapters:
        places.append(len(text))
        text += f"{chapter}\n\n"
    text = text.rstrip()
    chosen = json.loads((HERE / "selection" / f"{path.stem}.json").read_text(encoding="utf-8"))
    return Story(
        path.stem,
        text,
        tuple(wt.sentences(text, tokenised=False)),
        tuple(places),
        tuple((row["sentence"], row["target"]) for row in chosen["passages"]),
        tuple(chosen["completions"]),
    )
