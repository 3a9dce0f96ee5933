"""Every widget with what its contract needs: a small one, a refused one, hostile text, a cell of JupyterLab.

A new widget is an entry of `CASES`; a test fails until it has one.
"""

from collections.abc import Callable, Sequence
from tempfile import mkdtemp
from typing import Any, NamedTuple

import pandas as pd
from adversarial_items import items_of as hostile_items
from adversarial_items import predictions_of
from ask_models import Counting
from attentive import Windows
from made_predictions import items_of, made
from patience import PATIENCE

import workbench as wb

FRAMES = [made(12, seed=k).assign(model=f"model {k}") for k in range(2)]
ITEMS = items_of(FRAMES[0])


class WidgetCase(NamedTuple):
    """One widget.

    `make` makes a small one, `refuse` passes an argument that is refused, `hostile` makes one of a hostile
    text. Its class is `view`, and `traits` are those that the page may set.

    In a notebook, `cell` makes one of `items`, their annotations `table`, predictions `frame`,
    under its name in `CASES`. `change` chooses something there; the static page then has the text `saved`
    without markup in it. `root` is its element in the page, `names` are roles and names of what a screen
    reader goes to.
    """

    view: str
    make: Callable[[], Any]
    refuse: Callable[[], Any]
    hostile: Callable[[str], Any]
    cell: str
    change: str
    saved: str
    root: str
    names: Sequence[tuple[str, str]]
    traits: Sequence[str] = ()


def _browse(text):
    items = hostile_items(text)
    facts = pd.DataFrame({"item_id": items.frame["item_id"], text or "x": [text, "b"]})
    return wb.browse(items, facts, pd.concat(predictions_of(text, items)))


def _explore(text):
    items = hostile_items(text)
    facts = pd.DataFrame({"item_id": items.frame["item_id"], "target_class": [text, "b"]})
    return wb.explore(items, facts)


def _compare(text):
    items = hostile_items(text)
    facts = pd.DataFrame({"item_id": items.frame["item_id"], text or "x": [text, "b"]})
    return wb.compare(items, predictions_of(text, items), facts, resamples=10)


def _ask(text):
    passage = f"{text} . The keeper saw the ___ {text}"
    return wb.ask([Counting(text)], passage, word=text.strip() or "x").wait(PATIENCE)


def _attention(text):
    return wb.attention([Windows(text, (text, f"{text}, {text}"), prediction=text)], hostile_items(text))


def _guess(text):
    items = hostile_items(text)
    game = wb.guess(
        items, person=text.replace("\0", "").strip()[:200] or "x", folder=mkdtemp(), condition="passage",
        runs=predictions_of(text, items),
    )  # fmt: skip
    for task in game.page.tasks:
        game.answer(task.item_id, [text.replace("\0", "")[:200]])
    game.submit()
    return game


CASES = {
    "browse": WidgetCase(
        view="Browser",
        make=lambda: wb.browse(ITEMS),
        refuse=lambda: wb.browse(ITEMS, state={"facets": {"colour": ["red"]}}),
        hostile=_browse,
        cell="wb.browse(items, table)",
        change="browse.state = browse.state | {'search': 'the'}",
        saved="passage contains “the”",
        root=".wb-browser:not(.we-explore *)",
        names=[
            ("region", "Passage browser"), ("searchbox", "Search items"),
            ("combobox", "Filter by a condition"), ("group", "Filters"), ("listbox", "Items"),
            ("region", "Passage"), ("button", "Keyboard help"),
        ],
        traits=["height"],
    ),
    "explore": WidgetCase(
        view="Explorer",
        make=lambda: wb.explore(ITEMS),
        refuse=lambda: wb.explore(ITEMS, wb.annotate(ITEMS), add_columns=["colour"]),
        hostile=_explore,
        cell="wb.explore(items, table)",
        change="explore.state = explore.state | {'facets': {'target_class': ['CN']}}",
        saved="common noun",
        root=".we-explore",
        names=[
            ("region", "Charts"), ("group", "Target class"), ("button", "Tables"),
            ("region", "Passage browser"), ("slider", "Passage length (tokens), least"),
        ],
        traits=["height"],
    ),
    "compare": WidgetCase(
        view="Compare",
        make=lambda: wb.compare(ITEMS, FRAMES, None, resamples=10),
        refuse=lambda: wb.compare(ITEMS, FRAMES, None, resamples=10, state={"pair": 5}),
        hostile=_compare,
        cell="wb.compare(items, frame, table, resamples=200)",
        change="compare.state = compare.state | {'search': 'she'}",
        saved="she",
        root=".wc-compare",
        names=[
            ("region", "Comparison of models"), ("table", "Models"), ("grid", "Differences in accuracy"),
            ("region", "Slices"), ("button", "Table"), ("listbox", "Items"), ("region", "Passage"),
        ],
        traits=["height"],
    ),
    "ask": WidgetCase(
        view="Ask",
        make=lambda: wb.ask([Counting()], "The keeper saw the boat and the keeper"),
        refuse=lambda: wb.ask([Counting()], 5),
        hostile=_ask,
        cell="wb.ask(Counting('quick'))",
        change="ask.text = TEXT\nask.wait()",
        saved="keeper",
        root=".wa-ask",
        names=[
            ("region", "Questions to models"), ("textbox", "Passage"), ("region", "Answers"),
            ("region", "History"),
        ],
        traits=["text", "other", "word", "candidates", "pairs", "alpha", "k", "top_k"],
    ),
    "attention": WidgetCase(
        view="AttentionView",
        make=lambda: wb.attention(Windows(), ITEMS),
        refuse=lambda: wb.attention(Windows(), ITEMS, row="none"),
        hostile=_attention,
        cell="wb.attention(frame[frame['model'] == 'model 1'], items)",
        change="attention.current = items[2]",
        saved=", 3 of ",
        root=".wt-attention",
        names=[
            ("region", "Attention"), ("region", "Passage"), ("region", "Strongest parts"),
            ("spinbutton", "Number of the item"),
        ],
        traits=["reveal", "scale", "height"],
    ),
    "guess": WidgetCase(
        view="Guess",
        make=lambda: wb.guess(ITEMS, folder=mkdtemp(), runs=FRAMES),
        refuse=lambda: wb.guess(ITEMS, "chess"),
        hostile=_guess,
        cell="wb.guess(items[:40], folder='game', condition='passage')",
        change="guess.answer(guess.page.tasks[0].item_id, ['word'])",
        saved="1 of 40 items",
        root=".wg-guess",
        names=[("region", "Guessing game"), ("list", "Tasks of this page"), ("region", "Passage")],
    ),
}  # fmt: skip
