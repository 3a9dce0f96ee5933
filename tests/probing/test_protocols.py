"""Protocols of one model, beside a plain loop over transformers' own model."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from refused import refused

import workbench as wb
from workbench.evaluation.significance import significance
from workbench.items.items import Items
from workbench.models import RandomWord
from workbench.models.pretrained.prompts import Prompt
from workbench.models.pretrained.scoring import CausalScorer
from workbench.probing.protocols import ScoringProtocol

pytest.importorskip("transformers")

import torch
from plain_causal import Plain
from plain_causal import model as causal

from workbench.models import CausalLM

torch.set_num_threads(1)

CONTEXTS = [item.text[: item.answer_span[0]] for item in wb.load("sample", variant="openai")[:4]]
FIRST = {"newline": "\n"}


def encoded(plain, item, protocol):
    """Return the sub-tokens of a text up to the end of its answer, and how many are before the answer."""
    context = FIRST.get(protocol.beginning, "") + item.text[: item.answer_span[0]]
    tokenizer = plain.tokenizer
    options = {"add_special_tokens": protocol.beginning != "nothing"}
    if protocol.space == "context":
        head = tokenizer(context, **options)["input_ids"]
        ids = head + tokenizer(item.answer, add_special_tokens=False)["input_ids"]
    else:
        head = tokenizer(context.rstrip(), **options)["input_ids"]
        ids = tokenizer(context + item.answer, **options)["input_ids"]
    mark = tokenizer.bos_token_id
    if protocol.beginning == "mark" and ids[0] != mark:
        head, ids = [mark, *head], [mark, *ids]
    return ids, len(head)


@torch.inference_mode()
def counted(plain, item, protocol):
    """Return whether an answer is right under a protocol, and its log-probability."""
    ids, n = encoded(plain, item, protocol)
    log_probs = plain.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    best = log_probs.argmax(-1).tolist()
    each = [log_probs[k - 1, ids[k]].item() for k in range(n, len(ids))]
    if protocol.unit == "last-token":
        return best[-2] == ids[-1], each[-1]
    greedy = best[n - 1 : -1] == ids[n:]
    end = log_probs[-1][plain.over].logsumexp(0).item()
    return greedy and (protocol.unit == "word" or bool(plain.over[best[-1]])), sum(each) + end


def answers(plain, context, protocol):
    """Yield words that the model writes after a context, whole or their beginnings, and after other words."""
    words = [plain.writes(context), *wb.load("sample", variant="openai")[:9].frame["answer"]]
    for first in words:
        ids, n = encoded(plain, made_item("x", context, first), protocol)
        for extra in range(len(ids) - n + 2):
            head = ids[: n + extra]
            best = int(plain.model(torch.tensor([head])).logits[0, -1].argmax())
            yield plain.tokenizer.decode([*head, best])[len(plain.tokenizer.decode(ids[:n])) :].strip()


def made_item(name, context, word):
    text = context + word
    span = len(context), len(text)
    return wb.Item(name, "own", "dev", "openai", text, word, span, ((0, len(text)),), tokenised=False)


ASKED = [
    ScoringProtocol("openai", *rest)
    for rest in (
        ("whole-word",), ("word",), ("last-token",), ("word", "none", "newline"), ("word", "none", "mark"),
        ("last-token", "none", "nothing"), ("whole-word", "none", "tokenizer", "context"),
        ("last-token", "none", "tokenizer", "context"),
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def plains(folders):
    return {kind: Plain(folders(kind)) for kind in ("bytes", "llama")}


@pytest.fixture(scope="module")
def chosen(plains):
    """Give items for each model that differ in which units are right."""
    return {kind: chosen_items(plain) for kind, plain in plains.items()}


def chosen_items(plain):
    """Return items that differ in which units are right."""
    records, seen = [], set()
    for number, context in enumerate(CONTEXTS):
        for word in answers(plain, context, ASKED[1]):
            if not word.isalpha():
                continue
            item = made_item(f"own/{number}/{word}", context, word)
            outcome = tuple(counted(plain, item, protocol)[0] for protocol in ASKED[:3])
            if outcome not in seen:
                seen.add(outcome)
                records.append(item)
    return Items.from_records(records)


@pytest.mark.parametrize("kind", ["bytes", "llama"])
@pytest.mark.usefixtures("no_data")
def test_each_protocol_is_counted_as_a_plain_loop_counts_it(folders, plains, chosen, kind):
    plain, items = plains[kind], chosen[kind]
    result = wb.protocols(causal(folders(kind)), items, [vars(protocol) for protocol in ASKED])
    for protocol in ASKED:
        frame = result.runs[protocol].predictions.set_index("item_id").loc[items.frame["item_id"]]
        expected = [counted(plain, item, protocol) for item in items]
        assert frame["correct"].tolist() == [right for right, _ in expected], protocol
        np.testing.assert_allclose(frame["log_prob"], [value for _, value in expected], atol=1e-4)
        assert set(frame["unit"]) == {protocol.unit}
    right = {unit: [counted(plain, item, ScoringProtocol("openai", unit))[0] for item in items]
             for unit in ("whole-word", "word", "last-token")}  # fmt: skip
    assert all(0 < sum(values) < len(items) for values in right.values())
    assert right["word"] != right["last-token"]
    assert right["whole-word"] != right["word"] or kind == "llama"  # which writes no word on


UNITS = ["whole-word", "word", "last-token"]


@pytest.fixture(scope="module")
def evaluated(folders, chosen, tmp_path_factory):
    """Give the waterfall of a tiny model through two texts and three units, and the passes that it took."""
    passes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        encode = CausalScorer.contexts

        def counting(scorer, ids):
            passes.append(len(ids))
            return encode(scorer, ids)

        patch.setattr(CausalScorer, "contexts", counting)
        items = chosen["bytes"]
        upper = Items.from_records(
            replace(item, variant="upper", text=item.text[:5].upper() + item.text[5:]) for item in items
        )
        result = wb.protocols(
            causal(folders("bytes")), [items, upper], text=["openai", "upper"], unit=UNITS, resamples=100
        )
        yield result, items, passes


def test_the_units_of_a_text_are_counted_from_one_pass(evaluated):
    result, items, passes = evaluated
    assert len(result.runs) == 6
    assert sum(passes) == 2 * len(items)  # once a text


def test_a_step_has_the_interval_of_the_paired_test_and_the_items_that_it_turned(evaluated):
    result, items, _ = evaluated
    assert [protocol.changes(other) for protocol, other in pairwise(result.path)] == [
        ["text"], ["unit"], ["unit"],
    ]  # fmt: skip
    table = result.waterfall
    assert table["factor"].tolist() == ["first", "text", "unit", "unit", "total"]
    ends = [(0, 1), (1, 2), (2, 3), (0, 3)]
    for step, (before, after) in zip((1, 2, 3, 0), ends, strict=True):
        runs = [result.runs[result.path[k]] for k in (after, before)]
        row = table.iloc[step or 4]
        test = significance(*runs, resamples=100)
        expected = (test.difference, *test.interval, test.n_only_a, test.n_only_b)
        names = ("difference", "difference_low", "difference_high", "n_gained", "n_lost")
        assert tuple(row[list(names)]) == pytest.approx(expected)
        right = [run.predictions.set_index("item_id")["correct"] for run in runs]
        flips = result.flips(step).set_index("item_id")["change"]
        expected = {
            name: "gained" if right[0][name] else "lost" for name in items.frame["item_id"]
            if right[0][name] != right[1][name]
        }  # fmt: skip
        assert flips.to_dict() == expected
        log_probs = [run.predictions.set_index("item_id")["log_prob"] for run in runs]
        ratio = np.exp(-(log_probs[0] - log_probs[1]).mean())
        if step == 1:  # the same unit on both sides
            assert row["perplexity_ratio"] == pytest.approx(ratio)
        else:
            assert pd.isna(row["perplexity_ratio"])
    assert len(result.flips(3)) > 0
    view = result.compare(3)
    assert set(view.selection.frame["item_id"]) == set(result.flips(3)["item_id"])
    view.close()
    view = result.compare()
    assert len(view.comparison.labels) == len(result.path) == len(set(view.comparison.labels))
    view.close()
    assert "from one protocol to the other" in result._repr_html_()
    for step in (4, -1, "1"):
        refused(result.flips, step)


def test_runs_are_found_again_as_those_of_the_model_itself(folders, no_data):
    items = wb.load("sample")[:3]
    model = causal(folders("bytes"))
    run = wb.predict(items, causal(folders("bytes"), correct="last-token"))
    result = wb.protocols(model, items, unit=["word", "last-token"], beginning="tokenizer")
    assert [each.run for each in result.runs.values()][1] == run.run
    assert len(list((no_data / "runs").iterdir())) == 2
    newline = causal(folders("bytes"), prompt=Prompt(beginning="newline"))
    again = wb.protocols(model, items, unit="word", beginning=["tokenizer", "newline"])
    assert again.runs[again.path[1]].run == wb.predict(items, newline).run


@pytest.mark.usefixtures("no_data")
def test_a_step_of_the_waterfall_has_the_perplexities_of_the_table(folders, chosen):
    result = wb.protocols(
        causal(folders("bytes")), chosen["bytes"], text="openai", unit="last-token",
        beginning=["tokenizer", "newline"], resamples=20,
    )  # fmt: skip
    before, after = result.table["perplexity"]
    assert result.waterfall["perplexity_ratio"].iloc[1] == pytest.approx(after / before)
    assert before != after


@pytest.mark.usefixtures("no_data")
def test_combinations_without_a_meaning_are_left_out_or_an_error(folders):
    items, model = wb.load("sample")[:3], causal(folders("bytes"))
    words = ["the", "door", "cat", *items.frame["answer"]]
    filters, units = ["none", "vocabulary", "stop-words"], ["whole-word", "word"]
    result = wb.protocols(model, items, filter=filters, unit=units, vocabulary=words)
    assert [protocol.filter for protocol in result.path] == ["none", "vocabulary", "stop-words"]
    assert {(protocol.unit, protocol.filter) for protocol in result.skipped} == {
        ("word", "vocabulary"), ("word", "stop-words"),
    }  # fmt: skip
    frame = result.runs[result.path[2]].predictions
    assert set(frame["filter"]) == {"stop-words"}
    assert set(frame["vocabulary_size"]) == {len(set(words) - {"the"})}
    shots = wb.protocols(model, items, shots=[0, 1], examples=wb.load("sample")[5:9], template="{text}")
    assert shots.path[1].shots == 1
    listed = [{}, {"text": "plain detokenised", "unit": "last-token"}]
    assert [each.unit for each in wb.protocols(model, items, listed).path] == [
        "whole-word", "whole-word", "last-token",
    ]  # fmt: skip
    for options in (
        {"text": "openai"},
        {"unit": "last-token", "filter": "stop-words", "vocabulary": words},
        {"filter": "stop-words"},
        {"shots": 2},
        {"unit": []},
        {"units": "word"},
        {"protocols": []},
        {"protocols": [{"units": "word"}]},
        {"protocols": listed, "unit": "word"},
    ):
        refused(wb.protocols, model, items, **options)
    refused(ScoringProtocol, unit="tokens")
    refused(causal, folders("bytes"), vocabulary=words, prompt=Prompt(space="context"))
    refused(wb.protocols, model, [items, items])
    other = wb.load("sample", variant="capitalised")
    shifted = Items.from_records(
        replace(one, item_id=two.item_id) for one, two in zip(other[3:6], items, strict=True)
    )
    refused(wb.protocols, model, [items, shifted])


@pytest.mark.usefixtures("no_data")
def test_a_model_of_words_is_evaluated_on_the_variants_alone():
    variants = [wb.load("sample", variant=name)[:8] for name in ("plain", "capitalised")]
    model = RandomWord("passage")
    result = wb.protocols(model, [variants[0], variants[1][1:]], text=["plain", "capitalised"])
    assert len(result.comparison.items) == 7
    assert "1 items are left out" in " ".join(result.waterfall.attrs["note"])
    refused(wb.protocols, model, variants[0], unit="last-token")


def test_the_real_model_is_counted_as_a_plain_loop_counts_it(smollm):
    items = wb.load("sample", variant="openai")
    items = Items.from_records(sorted(items, key=lambda item: len(item.text))[:2])
    model = CausalLM(smollm)
    result = wb.protocols(model, items, text="openai", unit=["whole-word", "last-token"])
    assert len(result.path) == 2
    plain = Plain.__new__(Plain)
    plain.tokenizer, plain.model = model._checkpoint.tokenizer, model._checkpoint.model
    plain.over = torch.from_numpy(model._scorer.subwords.ends)
    for protocol in result.path:
        expected = [counted(plain, item, protocol) for item in items]
        frame = result.runs[protocol].predictions
        assert frame["correct"].tolist() == [right for right, _ in expected]
        np.testing.assert_allclose(frame["log_prob"], [value for _, value in expected], atol=1e-3)


def test_the_bars_of_a_waterfall_go_from_accuracy_to_accuracy(evaluated):
    result, items, _ = evaluated
    spec = wb.charts.waterfall(result).to_dict()
    [data] = spec["datasets"].values()
    right = [result.runs[protocol].predictions["correct"].mean() for protocol in result.path]
    ends = [(0, right[0]), *pairwise(right), (0, right[-1])]
    assert [(row["start"], row["end"]) for row in data] == [pytest.approx(pair) for pair in ends]
    kinds = ["rises" if b > a else "falls" if b < a else "accuracy" for a, b in pairwise(right)]
    assert [row["kind"] for row in data] == ["accuracy", *kinds, "accuracy"]
    assert data[0]["label"] == "first\nopenai, whole-word"
    assert f"{len(items)} items" in str(spec["title"])
