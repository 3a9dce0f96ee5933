"""What stands around the passage that a pretrained model is given: a template, and examples with answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any, NoReturn, Self

import numpy as np

from workbench.items.items import Items
from workbench.items.schema import DataError, Item
from workbench.storage.cache import digest

MEASURED = ("test", "control")
"""Splits that no example may be from."""

Parts = tuple[str, str, str]


class Prompt:
    """A template for the passage, and examples that are shown before it ("k-shot").

    Parameters
    ----------
    template : str, default "{text}"
        ``{text}`` is the passage up to the answer. What stands after it comes between passage and answer,
        as in ``"{text} ____. ->"``. A brace that is meant as such is written twice.
    examples : Items, optional
        What examples are drawn from: items with answers, of a split that is not measured.
    shots : int, default 0
        Number of examples.
    seed : int, default 0
        Decides which examples, and in which order.
    separator : str, default two line ends
        Stands after each example.
    answer_template : str, default "{answer}"
        How the answer of an example is written. The item asked is followed by its answer at once, so
        nothing may stand before ``{answer}``; that belongs to the end of `template`.
    per_item : bool, default False
        Whether each item has examples of its own, drawn by the seed and its id, or all have the same.

    Raises
    ------
    DataError
        If a template has another field or lacks its own, or the examples are too few, without answers, or of
        a split that is measured.

    Notes
    -----
    An example is never the item that is asked: one with its id, or with the same letters and digits, gives
    its place to the next one that was drawn, and is left out where there is none. Examples with the same
    letters and digits count once. What is drawn does not depend on the order of the examples.

    Texts are joined and never read as templates: braces in a passage are characters like others.
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
    ) -> None:
        self._head, self._between = _cut("template", template, "text")
        before, self._tail = _cut("answer_template", answer_template, "answer")
        if before:
            _wrong("answer_template", f"has {before!r} before {{answer}}", "write it at the end of template")
        for name, value in (("shots", shots), ("seed", seed)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
                _wrong(name, f"is {value!r}", "pass a whole number, 0 or more")
        if not isinstance(separator, str):
            _wrong("separator", f"is {separator!r}", "pass text")
        self.template, self.answer_template, self.separator = template, answer_template, separator
        self.shots, self.seed, self.per_item = int(shots), int(seed), bool(per_item)
        self.pool = _pool(examples, self.shots)
        self._names = [_letters(item.text) for item in self.pool]
        self._fixed = self._order(None)

    @property
    def bare(self) -> bool:
        """Whether nothing stands around the passage."""
        return not (self._head or self._between or self.shots)

    @property
    def between(self) -> str:
        """What stands between the passage and the answer; the white space before it is the template's."""
        return self._between

    def drawn(self, item: Item | None = None) -> list[Item]:
        """Return the examples that stand before an item, in their order.

        Parameters
        ----------
        item : Item, optional
            Without it, those that all items have but the examples themselves; none with ``per_item``.
        """
        if item is None:
            return [] if self.per_item else [self.pool[place] for place in self._fixed[: self.shots]]
        own = _letters(item.text)
        order = self._order(item) if self.per_item else self._fixed
        others = (
            self.pool[place]
            for place in order
            if self._names[place] != own and self.pool[place].item_id != item.item_id
        )
        return [example for example, _ in zip(others, range(self.shots), strict=False)]

    def prefix(self, item: Item, *, parts: Callable[[Item], Parts] | None = None) -> str:
        """Return all that stands before an item's own text: the examples, and the template up to ``{text}``.

        Parameters
        ----------
        item : Item
        parts : callable, optional
            Gives the text of an example before its answer, the answer, and the text after it, for a model
            that writes texts in another way than they are stored.

        Raises
        ------
        DataError
            If the template has words between passage and answer, and an example has text after its answer.
        """
        shown = [self._shown(example, (parts or _stored)(example)) for example in self.drawn(item)]
        return "".join(f"{text}{self.separator}" for text in shown) + self._head

    def before(
        self, item: Item, text: str | None = None, *, parts: Callable[[Item], Parts] | None = None
    ) -> str:
        """Return all that stands before the answer of an item: prefix, passage, and what comes between.

        Parameters
        ----------
        item : Item
        text : str, optional
            The passage up to the answer; by default as it is stored.
        parts : callable, optional
            As for `prefix`.
        """
        return self.prefix(item, parts=parts) + self._joined(
            (parts or _stored)(item)[0] if text is None else text
        )

    def told(self, item: Item | None = None) -> str:
        """Return what a predictions table keeps of the prompt, as JSON.

        Parameters
        ----------
        item : Item, optional
            Gives the ids of its own examples in place of those that all items share.
        """
        said = {**self.config, "examples": [example.item_id for example in self.drawn(item)]}
        return json.dumps(said, ensure_ascii=False)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments, with a digest of the examples to draw from."""
        texts = [
            part
            for item in self.pool
            for part in (item.item_id, item.text, str(item.answer), str(item.answer_span))
        ]
        return {
            "template": self.template,
            "answer_template": self.answer_template,
            "separator": self.separator,
            "shots": self.shots,
            "seed": self.seed,
            "per_item": self.per_item,
            "digest": digest(*texts) if self.pool else None,
        }

    @classmethod
    def of(cls, config: Mapping[str, Any], examples: Items | None = None) -> Self:
        """Make a prompt again from its `config` and the examples to draw from.

        Raises
        ------
        DataError
            If the examples are others than those of the configuration.
        """
        options = {name: value for name, value in config.items() if name != "digest"}
        prompt = cls(options.pop("template"), examples=examples if config["digest"] else None, **options)
        if prompt.config["digest"] != config["digest"]:
            _wrong("examples", "are others than those that the prompt was made with", "pass the same items")
        return prompt

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prompt) and self.config == other.config

    def __hash__(self) -> int:
        return hash(json.dumps(self.config, sort_keys=True))

    def __repr__(self) -> str:
        how = f", {self.shots} examples{' an item' if self.per_item else ''}, seed {self.seed}"
        return f"Prompt({self.template!r}{how if self.shots else ''})"

    def _order(self, item: Item | None) -> list[int]:
        """Return the places of all examples in the order in which they are taken."""
        if not self.shots:
            return []
        source = hashlib.blake2b(
            f"{self.seed}\0{'' if item is None else item.item_id}".encode(), digest_size=16
        )
        rng = np.random.default_rng(int.from_bytes(source.digest(), "little"))
        return [int(place) for place in rng.permutation(len(self.pool))]

    def _joined(self, text: str) -> str:
        return f"{text.rstrip()}{self._between}" if self._between else text

    def _shown(self, example: Item, parts: Parts) -> str:
        text, answer, after = parts
        if self._between and any(map(str.isalnum, after)):
            _wrong(
                "template",
                f"has {self._between!r} between passage and answer, but the example {example.item_id} goes "
                "on after its answer",
                "end the template with {text}, or take examples whose last word is the answer",
            )
        return f"{self._head}{self._joined(text)}{answer}{'' if self._between else after}{self._tail}"


def _wrong(field: str, problem: str, remedy: str) -> NoReturn:
    raise DataError(f"the prompt's {field} {problem}", remedy=remedy)


def _cut(field: str, template: Any, name: str) -> tuple[str, str]:
    """Return what stands before and after the one field of a template."""
    wanted = f"write {{{name}}} once, and other braces twice"
    if not isinstance(template, str):
        _wrong(field, f"is {template!r}", "pass text")
    try:
        pieces = list(Formatter().parse(template))
    except ValueError as error:
        _wrong(field, f"{template!r} is no template: {error}", wanted)
    sides, seen = ["", ""], 0
    for literal, found, form, conversion in pieces:
        sides[seen] += literal
        if found is None:
            continue
        if found != name or form or conversion:
            told = found + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
            _wrong(field, f"has a field {{{told}}}, expected {{{name}}}", wanted)
        if seen:
            _wrong(field, f"has {{{name}}} twice", wanted)
        seen = 1
    if not seen:
        _wrong(field, f"{template!r} has no field {{{name}}}", wanted)
    return sides[0], sides[1]


def _pool(examples: Items | None, shots: int) -> list[Item]:
    """Return the examples to draw from, by id, each text once; check that they may be shown."""
    if not shots:
        return []
    if examples is None:
        _wrong("examples", f"are missing, but shots is {shots}", "pass items of a development set")
    measured = sorted(set(examples.frame["split"]) & set(MEASURED))
    if measured:
        _wrong(
            "examples", f"are of the split {measured[0]!r}, which is measured", "take them from development"
        )
    bare = examples.frame["answer"].isna()
    if bare.any():
        which = examples.frame["item_id"][bare].iloc[0]
        _wrong("examples", f"lack an answer: {which}", "pass items whose answer is known")
    pool: dict[str, Item] = {}
    for item in sorted(examples, key=lambda example: example.item_id):
        pool.setdefault(_letters(item.text), item)
    if len(pool) < shots:
        _wrong(
            "shots", f"is {shots}, but there are {len(pool)} different examples", "pass more, or fewer shots"
        )
    return list(pool.values())


def _letters(text: str) -> str:
    """Return what tells texts apart, however they are written: letters and digits, in lower case."""
    return "".join(filter(str.isalnum, text.casefold()))


def _stored(item: Item) -> Parts:
    start, end = item.answer_span
    return item.text[:start], item.text[start:end], item.text[end:]
