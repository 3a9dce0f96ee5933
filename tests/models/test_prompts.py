import dataclasses
import json
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.items.items import Item, Items
from workbench.models.pretrained.prompts import Prompt

NASTY = st.text(alphabet="ab {}!:%$\\'\"\n<>&é", max_size=30)


def item(name, text="the cat sat on the mat", answer="mat", *, split="dev", after=""):
    start = len(text) - len(answer)
    whole = text + after
    return Item(
        item_id=name, dataset="own", split=split, variant="plain", text=whole, answer=answer,
        answer_span=(start, len(text)), sentences=((0, len(whole)),),
    )  # fmt: skip


def items(*texts, split="dev"):
    return Items.from_records(
        item(f"e{place}", text, text.split()[-1], split=split) for place, text in enumerate(texts)
    )


POOL = items(*(f"story {letter} ends in a {letter * 3}" for letter in string.ascii_lowercase[:12]))
ASKED = item("asked")


def test_examples_stand_before_the_passage_in_the_form_of_the_template():
    prompt = Prompt("Q: {text} ____. -> ", examples=items("one two"), shots=1, separator="\n--\n")
    assert prompt.between == " ____. -> "
    assert prompt.prefix(ASKED) == "Q: one ____. -> two\n--\nQ: "
    assert prompt.split(ASKED).before == "Q: one ____. -> two\n--\nQ: the cat sat on the ____. -> "
    for between in (" ____. ->", "\nA:", "\n=>\t", " “", '\n"', " ("):  # a word follows, unless a quote opens
        prompt = Prompt(f"{{text}}{between}", examples=items("one two"), shots=1)
        between += " " if between[-1] in ">:" else ""  # noqa: PLW2901
        assert prompt.prefix(ASKED) == f"one{between}two\n\n"
        assert prompt.split(ASKED).before.endswith(f"sat on the{between}")
    closed = Prompt(examples=items("one two"), shots=1, answer_template="{answer}]")
    assert closed.prefix(ASKED) == "one two]\n\n"
    longer = Items.from_records([item("e", "he saw a fox", "fox", after=" run .")])
    assert Prompt(examples=longer, shots=1).prefix(ASKED) == "he saw a fox run .\n\n"
    with pytest.raises(wb.DataError):
        Prompt("{text} =>", examples=longer, shots=1).prefix(ASKED)
    bare = Item("b", "own", "dev", "plain", "he went ", None, (8, 8), ((0, 8),))
    refused(Prompt, examples=Items.from_records([bare]), shots=1)


def test_examples_are_detokenised_with_the_passage():
    pair = items("`` I ca n't , '' she said", "`` no , '' said he")
    example, asked = (dataclasses.replace(one, tokenised=True) for one in pair)
    prompt = Prompt(examples=Items.from_records([example]), shots=1)
    shown = prompt.split(asked, detokenise=True)
    assert shown.before == "“I can’t,” she said\n\n“no,” said "  # noqa: RUF001 - typographic marks
    assert prompt.split(asked).before == "`` I ca n't , '' she said\n\n`` no , '' said "


@given(shots=st.integers(0, 12), seed=st.integers(0, 2**40), order=st.permutations(range(12)))
def test_the_seed_alone_decides(shots, seed, order):
    one = Prompt(examples=POOL, shots=shots, seed=seed)
    other = Prompt(examples=Items.from_records(POOL[place] for place in order), shots=shots, seed=seed)
    assert one.to_json() == other.to_json()
    assert one.prefix(ASKED) == other.prefix(ASKED)
    assert len(one.examples_for(ASKED)) == shots
    assert len({example.item_id for example in one.examples_for(ASKED)}) == shots


def test_seeds_and_items_differ():
    prefixes = {Prompt(examples=POOL, shots=3, seed=seed).prefix(ASKED) for seed in range(20)}
    assert len(prefixes) > 15
    asked = [item(f"asked{place}") for place in range(20)]
    for per_item, least, most in ((True, 16, 20), (False, 1, 1)):
        prompt = Prompt(examples=POOL, shots=3, per_item=per_item)
        assert least <= len({prompt.prefix(one) for one in asked}) <= most


def test_every_example_is_drawn_about_as_often():
    prompt = Prompt(examples=POOL, shots=4, per_item=True)
    drawn = [prompt.examples_for(item(f"asked{place}")) for place in range(600)]
    counts = Counter(example.item_id for examples in drawn for example in examples)
    assert len(counts) == len(POOL)
    # 600 draws of 4 from 12: 200 each; the standard deviation of one count is 11.5
    assert all(140 < n < 260 for n in counts.values())


@given(shots=st.integers(1, 12), seed=st.integers(0, 99), which=st.integers(0, 11), per_item=st.booleans())
def test_the_item_asked_is_never_an_example(shots, seed, which, per_item):
    prompt = Prompt(examples=POOL, shots=shots, seed=seed, per_item=per_item)
    asked = POOL[which]
    renamed = item("elsewhere", asked.text.upper().replace(" ", "  "), asked.answer.upper())
    for one in (asked, renamed):
        examples = prompt.examples_for(one)
        assert asked.item_id not in {example.item_id for example in examples}
        assert asked.text not in prompt.prefix(one)
        assert len(examples) == min(shots, 11)
    if not per_item:  # the others stay what they were, in their order
        others = [example for example in prompt.examples_for(ASKED) if example.item_id != asked.item_id]
        assert prompt.examples_for(asked)[: len(others)] == others


@given(text=NASTY, answer=NASTY.filter(str.strip), other=NASTY, per_item=st.booleans())
def test_braces_in_a_passage_are_characters(text, answer, other, per_item):
    pool = Items.from_records([item("e", f"qq {text}{answer}", answer)])
    asked = item("asked", f"other {other}z", "z")
    prompt = Prompt("<{text}", examples=pool, shots=1, per_item=per_item, separator="|")
    assert prompt.prefix(asked) == f"<qq {text}{answer}|<"
    assert prompt.split(asked).before == f"<qq {text}{answer}|<other {other}"
    assert json.loads(prompt.to_json(asked))["examples"] == ["e"]
    escaped = text.replace("{", "{{").replace("}", "}}")
    assert Prompt(f"{escaped}{{text}}").split(asked).before == f"{text}other {other}"


@pytest.mark.parametrize("options", [
    {"template": "Complete:"},
    {"template": "{text} {text}"},
    {"answer_template": "{text}"},
    {"shots": -1},
    {"shots": 1},
    {"shots": 13, "examples": POOL},
    {"shots": 2, "examples": items("one two", "One  two")},
    {"shots": 1, "examples": items("one two", split="test")},
])  # fmt: skip
def test_errors_name_the_field(options):
    refused(Prompt, **options)


def test_the_stored_prompt_shows_every_difference():
    options = {"template": "T: {text}", "examples": POOL, "shots": 2, "seed": 5}
    prompt = Prompt(**options)
    stored = json.loads(prompt.to_json())
    assert stored.items() >= {"template": "T: {text}", "shots": 2, "seed": 5, "per_item": False}.items()
    assert stored["examples"] == [example.item_id for example in prompt.examples_for(ASKED)]
    changes = [
        {}, {"template": "{text}"}, {"shots": 3}, {"seed": 6}, {"separator": "\n"}, {"per_item": True},
        {"answer_template": "{answer}."}, {"examples": POOL[:-1]},
    ]  # fmt: skip
    assert len({Prompt(**options | change).to_json() for change in changes}) == len(changes)
    moved = Item("e0", "own", "dev", "plain", "to be or not", "or", (6, 8), ((0, 12),))
    pools = items("to be or not"), Items.from_records([moved])
    one, other = (Prompt(examples=pool, shots=1).config["digest"] for pool in pools)
    assert one != other
    each = Prompt(examples=POOL, shots=2, per_item=True)
    assert json.loads(each.to_json())["examples"] == []
    assert len(json.loads(each.to_json(ASKED))["examples"]) == 2


def test_a_beginning_and_a_space_are_of_the_prompt_and_usual_ones_leave_no_trace():
    newline = Prompt("Q: {text}", examples=items("one two"), shots=1, beginning="newline")
    assert newline.prefix(ASKED) == "\nQ: one two\n\nQ: "
    assert Prompt(beginning="mark").prefix(ASKED) == Prompt(space="context").prefix(ASKED) == ""
    assert json.loads(newline.to_json())["beginning"] == "newline"
    assert json.loads(Prompt(space="context").to_json())["space"] == "context"
    assert set(Prompt(beginning="tokenizer", space="word").config) == set(Prompt().config)
    assert not {"beginning", "space"} & set(Prompt().config)
    for name in ("beginning", "space"):
        refused(Prompt, **{name: "tab"})
