"""The text that a causal model is given: the passage of an item, a template around it, solved examples.

`PromptedModel` is the base class of the models that are given it, here or on a server.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import islice
from string import Formatter
from typing import Any, Literal, NamedTuple, NoReturn, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.base import Predictor
from workbench.models.pretrained.loading import Text
from workbench.models.pretrained.subwords import Continuation
from workbench.predictions.schema import Floats, frame_of_answers, nullable
from workbench.storage.cache import digest
from workbench.storage.errors import DataError, check_option

Beginning = Literal["tokenizer", "nothing", "newline", "mark"]
Scored = Literal["sentence", "rest"]
Space = Literal["word", "context"]

MEASURED = ("test", "control")
"""Splits from which no example may be taken."""

_OPENING = "\"'“‘«([{"  # noqa: RUF001 - typographic quotes are meant


class SplitText(NamedTuple):
    """The text of an item, split around the word at its blank; a bare blank has an empty word."""

    before: str  # with the white space before the word
    word: str
    after: str

    @property
    def context(self) -> str:
        """The text before the word, without trailing white space."""
        return self.before.rstrip()

    @property
    def lead(self) -> str:
        """The white space before the word, which the tokenizer gets with the word."""
        return self.before[len(self.context) :]


def split_text(item: Item, word: str | None = None, *, detokenise: bool = False) -> SplitText:
    """Return the text of an item with a word at its blank, the answer by default.

    `detokenise` writes Treebank tokens as a book would (:func:`workbench.items.text.readable`).
    """
    start, end = item.answer_span
    text = item.text
    if word is not None:
        text, end = f"{text[:start]}{word}{text[end:]}", start + len(word)
    if detokenise and item.tokenised:
        text, [(start, end)] = wt.readable_spans(text, [(start, end)])
    return SplitText(text[:start], text[start:end], text[end:])


class Prompt:
    """A template for the passage, and solved examples that are shown before it ("k-shot").

    Parameters
    ----------
    template : str, default "{text}"
        ``{text}`` is the passage up to the answer. What stands after it comes between passage and answer,
        as in ``"{text} ____. ->"``, with a space after it unless it ends with white space, or a quote or
        bracket that opens. A literal brace is written twice.
    examples : Items, optional
        Items with answers from which examples are drawn, of a split that is not measured.
    shots : int, default 0
        Number of examples.
    seed : int, default 0
        Seed of the draw and the order of the examples.
    separator : str, default two line ends
        Text after each example.
    answer_template : str, default "{answer}"
        How the answer of an example is written. The answer of the item that is asked follows its passage
        directly, so nothing may stand before ``{answer}``; that belongs to the end of `template`.
    per_item : bool, default False
        Whether examples are drawn for each item by the seed and its id; by default all items have the same.
    beginning : {"tokenizer", "nothing", "newline", "mark"}
        Beginning of the whole text: what the tokenizer adds by itself; nothing, also where it would add
        a mark of the beginning (BOS); a newline after what it adds; or the mark in any case.
    space : {"word", "context"}
        Whether the white space before the answer is encoded with the answer, as models have learnt it, or at
        the end of the context, as in a prompt that ends with a space.

    Attributes
    ----------
    between : str
        Text between the passage and the answer, white space included.

    Raises
    ------
    DataError
        If a template has another field or lacks its own, or the examples are too few, without answers, or of
        a split that is measured.

    Notes
    -----
    An example is never the item that is asked: one with its id, or with the same letters and digits, is
    replaced by the next one that was drawn, and left out where there is none. Examples with the same
    letters and digits count once. The draw does not depend on the order of the examples.

    Texts are joined and never read as templates: braces in a passage are ordinary characters.
    """

    def __init__(
        self,
        template: str = "{text}",
        *,
        examples: Items | None = None,
        shots: int = 0,
        seed: int = 0,
        separator: str = "\n\n",
        answer_template: str = "{answer}",
        per_item: bool = False,
        beginning: Beginning = "tokenizer",
        space: Space = "word",
    ) -> None:
        check_option("beginning", beginning, get_args(Beginning))
        check_option("space", space, get_args(Space))
        self.beginning: str = beginning
        self.space: str = space
        self._head, self.between = _split_template("template", template, "text")
        if self.between and not (self.between[-1].isspace() or self.between[-1] in _OPENING):
            self.between += " "
        before, self._tail = _split_template("answer_template", answer_template, "answer")
        if before:
            _wrong("answer_template", f"has {before!r} before {{answer}}", "write it at the end of template")
        for name, value in (("shots", shots), ("seed", seed)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
                _wrong(name, f"is {value!r}", "pass a whole number, 0 or more")
        if not isinstance(separator, str):
            _wrong("separator", f"is {separator!r}", "pass text")
        self.template, self.answer_template, self.separator = template, answer_template, separator
        self.shots, self.seed, self.per_item = int(shots), int(seed), bool(per_item)
        self._pool = _pool(examples, self.shots)
        self._fixed = self._order("")
        rows = [(item.item_id, item.text, item.answer, item.answer_span) for item in self._pool.values()]
        self._digest = digest(*(str(field) for row in rows for field in row)) if rows else None

    def examples_for(self, item: Item | None = None) -> list[Item]:
        """Return the examples before an item, in order.

        Without an item, they are those of all that are not examples themselves; none with ``per_item``.
        """
        if item is None:
            return [] if self.per_item else [self._pool[key] for key in self._fixed[: self.shots]]
        order, letters = self._order(item.item_id) if self.per_item else self._fixed, _letters(item.text)
        examples = (self._pool[key] for key in order if key != letters)
        return list(islice((example for example in examples if example.item_id != item.item_id), self.shots))

    def prefix(self, item: Item, *, detokenise: bool = False) -> str:
        """Return the prompt before an item's own text: the examples, and the template up to ``{text}``."""
        texts = [self._example_text(example, detokenise=detokenise) for example in self.examples_for(item)]
        first = "\n" if self.beginning == "newline" else ""
        return first + "".join(f"{text}{self.separator}" for text in texts) + self._head

    def split(self, item: Item, word: str | None = None, *, detokenise: bool = False) -> SplitText:
        """Return the text of an item (see `split_text`) with the prompt in front.

        What follows the blank is left out where the template has words between passage and answer.
        """
        text = split_text(item, word, detokenise=detokenise)
        before = self.prefix(item, detokenise=detokenise) + self._joined(text.before)
        return SplitText(before, text.word, "" if self.between else text.after)

    def to_json(self, item: Item | None = None) -> str:
        """Return the prompt's column of a predictions table: its configuration and its examples' ids.

        They are those before an item, or those that all items share.
        """
        ids = [example.item_id for example in self.examples_for(item)]
        return json.dumps({**self.config, "examples": ids}, ensure_ascii=False)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments, with a digest of the examples to draw from."""
        names = ["template", "answer_template", "separator", "shots", "seed", "per_item"]
        usual = {"beginning": "tokenizer", "space": "word"}
        names += [name for name, value in usual.items() if getattr(self, name) != value]
        return {name: getattr(self, name) for name in names} | {"digest": self._digest}

    def __repr__(self) -> str:
        shots = f", {self.shots} examples{' per item' if self.per_item else ''}, seed {self.seed}"
        return f"Prompt({self.template!r}{shots if self.shots else ''})"

    def _order(self, item_id: str) -> list[str]:
        """Return the keys of all examples in the order in which they are taken."""
        source = hashlib.blake2b(f"{self.seed}\0{item_id}".encode(), digest_size=16)
        rng = np.random.default_rng(int.from_bytes(source.digest(), "little"))
        keys = list(self._pool)
        return [keys[index] for index in rng.permutation(len(keys))]

    def _joined(self, text: str) -> str:
        return f"{text.rstrip()}{self.between}" if self.between else text

    def _example_text(self, example: Item, *, detokenise: bool) -> str:
        before, answer, after = split_text(example, detokenise=detokenise)
        if self.between and any(map(str.isalnum, after)):
            problem = f"has {self.between!r} between passage and answer, but the example {example.item_id}"
            hint = "end the template with {text}, or take examples whose last word is the answer"
            _wrong("template", f"{problem} goes on after its answer", hint)
        return f"{self._head}{self._joined(before)}{answer}{'' if self.between else after}{self._tail}"


def has_answers(items: Items) -> npt.NDArray[np.bool_]:
    """Return which items have an answer, (n,)."""
    return items.frame["answer"].notna().to_numpy()


class PromptedModel(Predictor):
    """A model that is given the text before the blank, perhaps with a prompt, and writes the answer."""

    text: Text
    candidates: str
    prompt: Prompt | None

    def _columns(self, items: Items) -> dict[str, Any]:
        columns, prompt = super()._columns(items), self.prompt
        if prompt is not None:
            columns["prompt"] = [prompt.to_json(item if prompt.per_item else None) for item in items]
        return columns

    def input_text(self, item: Item) -> str:
        """Return all text before the word at the blank, the prompt included."""
        return self._split(item, "").before

    def _split(self, item: Item, word: str | None = None) -> SplitText:
        """Return the text of an item around a word, as the model is given it."""
        split = split_text if self.prompt is None else self.prompt.split
        return split(item, word, detokenise=self.text == "detokenised")

    def _continuations(self, items: Items, words: Sequence[Sequence[str]]) -> list[list[Continuation]]:
        """Return the words of each item with the rest of its sentence, which goes with them or after them."""
        texts = [[self._split(item, word) for word in row] for item, row in zip(items, words, strict=True)]
        if self.candidates == "rest":
            texts = [
                [SplitText(t.before + t.word, "", t.after) if t.after else t for t in row] for row in texts
            ]
        return [[(text.before, text.word + text.after) for text in row] for row in texts]

    def _written_rows(
        self, items: Items, words: Sequence[str], correct: Any, log_prob: Floats | float, columns: Any
    ) -> pd.DataFrame:
        """Return predictions of the words that were written, and of the answers where these are correct.

        An answer that is written by other sub-tokens is not correct, and there is no prediction then.
        """
        answers, has = items.frame["answer"], has_answers(items)
        predictions = [
            answer if right else None if word in {answer, ""} else word
            for word, answer, right in zip(words, answers, correct, strict=True)
        ]
        required = {
            "model": self.name, "score_type": self.score_type, "log_prob": log_prob,
            "prediction": predictions,  # right by sub-tokens, so not judged by its word
            "correct": nullable(correct, has), "p_correct": np.where(has, correct.astype(float), np.nan),
        }  # fmt: skip
        return frame_of_answers(items.frame, predictions, required, columns)


def _wrong(field: str, problem: str, hint: str) -> NoReturn:
    raise DataError(f"the prompt's {field} {problem}", hint=hint)


def _split_template(field: str, template: Any, name: str) -> tuple[str, str]:
    """Return the text before and after the one field of a template."""
    expected, hint = f"{{{name}}}", f"write {{{name}}} once, and other braces twice"
    if not isinstance(template, str):
        _wrong(field, f"is {template!r}", "pass text")
    try:
        pieces = list(Formatter().parse(template))
    except ValueError as error:
        _wrong(field, f"{template!r} is not a valid template: {error}", hint)
    before, after = "", ""
    fields: list[str] = []
    for literal, key, form, conversion in pieces:
        before, after = (before, after + literal) if fields else (before + literal, "")
        if key is not None:
            fields.append(f"{{{key}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}}}")
    if fields != [expected]:
        _wrong(field, f"has {', '.join(fields) or 'no field'}, expected {expected}", hint)
    return before, after


def _pool(examples: Items | None, shots: int) -> dict[str, Item]:
    """Return the examples to draw from, by id, each text once; check that they may be shown."""
    if not shots:
        return {}
    if examples is None:
        _wrong("examples", f"are missing, but shots is {shots}", "pass items of a development set")
    if measured := sorted(set(examples.frame["split"]) & set(MEASURED)):
        problem = f"are of the split {measured[0]!r}, which is measured"
        _wrong("examples", problem, "take them from development")
    bare = examples.frame["answer"].isna()
    if bare.any():
        which = examples.frame["item_id"][bare].iloc[0]
        _wrong("examples", f"lack an answer: {which}", "pass items whose answer is known")
    pool: dict[str, Item] = {}
    for item in sorted(examples, key=lambda example: example.item_id):
        pool.setdefault(_letters(item.text), item)
    if len(pool) < shots:
        problem = f"is {shots}, but there are {len(pool)} different examples"
        _wrong("shots", problem, "pass more, or fewer shots")
    return pool


def _letters(text: str) -> str:
    """Return the letters and digits of a text in lower case, to compare texts."""
    return "".join(filter(str.isalnum, text.casefold()))
