"""Protocols of one model, beside a plain loop over transformers' own model."""

from dataclasses import replace
from functools import cache
from itertools import pairwise, product

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


@cache
@torch.inference_mode()
def log_probs_of(plain, ids):
    """Return the log-probabilities after each sub-token, and the best sub-tokens."""
    log_probs = plain.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return log_probs, log_probs.argmax(-1).tolist()


def counted(plain, item, protocol):
    """Return whether an answer is right under a protocol, and its log-probability."""
    ids, n = encoded(plain, item, protocol)
    log_probs, best = log_probs_of(plain, tuple(ids))
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
        for end in range(n, len(ids) + 1):
            head = ids[:end]
            best = log_probs_of(plain, tuple(ids))[1][end - 1]
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

        def counting(scorer, ids, **options):
            passes.append(len(ids))
            return encode(scorer, ids, **options)

        patch.setattr(CausalScorer, "contexts", counting)
        items = chosen["bytes"]
        upper = Items.from_records(
            replace(item, variant="upper", text=item.text[:5].upper() + item.text[5:]) for item in items
        )
        steps = [{"text": text, "unit": unit} for unit, text in product(UNITS, ("openai", "upper"))]
        result = wb.protocols(causal(folders("bytes")), [items, upper], steps, resamples=100)
        yield result, items, passes


def test_the_units_of_a_text_are_counted_from_one_pass(evaluated):
    result, items, passes = evaluated
    assert len(result.runs) == 6
    assert sum(passes) == 2 * len(items)  # once a text


def test_a_step_has_the_interval_of_the_paired_test_and_the_items_that_it_turned(evaluated):
    result, items, _ = evaluated
    table, runs = result.table, list(result.runs.values())
    assert table["factor"].tolist() == ["first", "text", "text, unit", "text", "text, unit", "text", "total"]
    assert table["before"].tolist()[2:4] == ["upper, whole-word", "openai"]
    assert table["after"].tolist()[-2:] == ["upper", "upper, last-token"]
    assert table["step"].tolist() == [0, 1, 2, 3, 4, 5, pd.NA]
    for row, (before, after) in enumerate([*pairwise(range(6)), (0, 5)], start=1):
        test = significance(runs[after], runs[before], resamples=100)
        expected = (test.difference, *test.interval, test.n_only_a, test.n_only_b)
        names = ("difference", "difference_low", "difference_high", "n_gained", "n_lost")
        assert tuple(table.iloc[row][list(names)]) == pytest.approx(expected)
    assert table["n_gained"].sum() > 0
    for row, run in enumerate(runs):
        predictions = run.predictions
        assert table["accuracy"].iloc[row] == pytest.approx(predictions["correct"].mean())
        log_probs = predictions["log_prob_uncorrected" if row in {2, 3} else "log_prob"]
        assert table["perplexity"].iloc[row] == pytest.approx(np.exp(-log_probs.mean()))
    view = wb.compare(result.items, runs, state={"where": "disagreement > 0"})
    turned = {name for name in items.frame["item_id"] if len({run_right(run, name) for run in runs}) == 2}
    assert set(view.selection.frame["item_id"]) == turned
    view.close()
    assert "by protocol" in result._repr_html_()


def run_right(run, item_id):
    """Return whether a run has the right answer of an item."""
    return run.predictions.set_index("item_id")["correct"][item_id]


def test_runs_are_found_again_as_those_of_the_model_itself(folders, no_data):
    items = wb.load("sample")[:3]
    model = causal(folders("bytes"))
    run = wb.predict(items, causal(folders("bytes"), correct="last-token"))
    result = wb.protocols(model, items, [{"unit": "word"}, {"unit": "last-token"}])
    assert [each.run for each in result.runs.values()][1] == run.run
    assert len(list((no_data / "runs").iterdir())) == 2
    newline = causal(folders("bytes"), prompt=Prompt(beginning="newline"))
    again = wb.protocols(model, items, [{"unit": "word", "beginning": "newline"}, {"unit": "word"}] * 2)
    assert [each.run for each in again.runs.values()] == [
        wb.predict(items, newline).run, next(iter(result.runs.values())).run,
    ]  # fmt: skip


@pytest.mark.usefixtures("no_data")
def test_words_of_a_vocabulary_and_examples(folders):
    items, model = wb.load("sample")[:3], causal(folders("bytes"))
    words = ["the", "door", "cat", *items.frame["answer"]]
    steps = [{}, {"filter": "vocabulary"}, {"filter": "stop-words"}, {"shots": 1}]
    result = wb.protocols(model, items, steps, vocabulary=words, examples=wb.load("sample")[5:9])
    assert [(protocol.filter, protocol.shots) for protocol in result.runs] == [
        ("none", 0), ("vocabulary", 0), ("stop-words", 0), ("none", 1),
    ]  # fmt: skip
    frame = list(result.runs.values())[2].predictions
    assert set(frame["filter"]) == {"stop-words"}
    assert set(frame["vocabulary_size"]) == {len(set(words) - {"the"})}


@pytest.mark.usefixtures("no_data")
def test_protocols_that_cannot_be_followed_are_refused(folders):
    items, model = wb.load("sample")[:3], causal(folders("bytes"))
    words = ["the", "door", "cat", *items.frame["answer"]]
    for protocols, options in (
        ([{"text": "openai"}], {}),
        ([{}, {"unit": "last-token", "filter": "stop-words"}], {"vocabulary": words}),
        ([{"filter": "vocabulary", "space": "context"}], {"vocabulary": words}),
        ([{"filter": "stop-words"}], {}),
        ([{"shots": 2}], {}),
        ([{"units": "word"}], {}),
        ([{"unit": "tokens"}], {}),
        ([], {}),
    ):
        refused(wb.protocols, model, items, protocols, **options)
    assert wb.runs().empty
    refused(causal, folders("bytes"), vocabulary=words, prompt=Prompt(space="context"))
    refused(wb.protocols, model, [items, items], [{}])
    other = wb.load("sample", variant="capitalised")
    shifted = Items.from_records(
        replace(one, item_id=two.item_id) for one, two in zip(other[3:6], items, strict=True)
    )
    refused(wb.protocols, model, [items, shifted], [{}])


@pytest.mark.usefixtures("no_data")
def test_a_model_of_words_is_evaluated_on_the_variants_alone():
    variants = [wb.load("sample", variant=name)[:8] for name in ("plain", "capitalised")]
    model = RandomWord("passage")
    result = wb.protocols(model, [variants[0], variants[1][1:]], [{}, {"text": "capitalised"}])
    assert len(result.comparison.items) == 7
    assert "1 items are left out" in " ".join(result.table.attrs["note"])
    refused(wb.protocols, model, variants[0], [{"unit": "last-token"}])


def test_the_real_model_is_counted_as_a_plain_loop_counts_it(smollm):
    items = wb.load("sample", variant="openai")
    items = Items.from_records(sorted(items, key=lambda item: len(item.text))[:2])
    model = CausalLM(smollm)
    result = wb.protocols(model, items, [{"unit": "whole-word"}, {"unit": "last-token"}])
    plain = Plain.__new__(Plain)
    plain.tokenizer, plain.model = model._checkpoint.tokenizer, model._checkpoint.model
    plain.over = torch.from_numpy(model._scorer.subwords.ends)
    for protocol, run in result.runs.items():
        expected = [counted(plain, item, protocol) for item in items]
        frame = run.predictions
        assert frame["correct"].tolist() == [right for right, _ in expected]
        np.testing.assert_allclose(frame["log_prob"], [value for _, value in expected], atol=1e-3)


def test_the_bars_of_a_waterfall_go_from_accuracy_to_accuracy(evaluated):
    result, items, _ = evaluated
    spec = wb.charts.waterfall(result).to_dict()
    [data] = spec["datasets"].values()
    right = [run.predictions["correct"].mean() for run in result.runs.values()]
    ends = [(0, right[0]), *pairwise(right), (0, right[-1])]
    assert [(row["start"], row["end"]) for row in data] == [pytest.approx(pair) for pair in ends]
    kinds = ["rises" if b > a else "falls" if b < a else "accuracy" for a, b in pairwise(right)]
    assert [row["kind"] for row in data] == ["accuracy", *kinds, "accuracy"]
    assert data[0]["label"] == "first\nopenai, whole-word"
    assert data[2]["label"] == "text, unit\nupper, whole-word \N{RIGHTWARDS ARROW} openai, word"
    assert f"{len(items)} items" in str(spec["title"])
