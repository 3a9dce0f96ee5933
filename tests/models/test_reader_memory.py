"""Memory networks for questions, beside plain loops, worked examples and planted rules."""

import math

import numpy as np
import pytest
import torch
from braced_items import of_sentences
from made_questions import FILLERS, made
from refused import refused

import workbench as wb
from workbench.items.items import Items, items_from_text
from workbench.models.readers.embedding import EmbeddingReader
from workbench.models.readers.encoding import BLANK, PAD, UNKNOWN, Questions
from workbench.models.readers.memory import (
    LexicalMemory,
    LexicalMemoryModule,
    SententialMemory,
    SententialMemoryModule,
    WindowMemory,
    WindowMemoryModule,
)  # fmt: skip
from workbench.models.readers.reader import any_blank

WORDS = [*(f"n{number}" for number in range(10)), *FILLERS, "."]
N_IDS = len(WORDS) + 3
QUIET = {"device": "cpu"}
ALL = {"self_supervised": True, "windows": "all"}


def drawn(rng, choices):
    """Return sentences in which candidates occur, some of them twice or not at all."""
    words = rng.permutation([*rng.choice(choices, 5), *rng.choice(FILLERS, 9)]).tolist()
    query, place = rng.choice(FILLERS, 5).tolist(), int(rng.integers(0, 6))
    return words[:4], words[4:5], words[5:], query, place, words[0] if words[0] in choices else choices[0]


ITEMS = made(drawn, 6)
QUESTIONS = Questions.of(ITEMS, WORDS)


def batch_of(questions, rows=None):
    values = questions.batch(range(len(questions)) if rows is None else rows)
    return {name: torch.from_numpy(array) for name, array in values.items()}


BATCH = batch_of(QUESTIONS)


def one(row):
    """Return a question without padding: lists of ids."""
    part = QUESTIONS.batch([row])
    return {name: array[0].tolist() for name, array in part.items()}


def network(kind, **options):
    torch.manual_seed(1)
    made_one = kind(N_IDS, **options).double()
    with torch.no_grad():
        for weight in made_one.parameters():
            weight.add_(0.3 * torch.randn(weight.shape))
        for part in ("keys", "values"):
            if hasattr(made_one, part):
                getattr(made_one, part).weight[PAD] = 0
    return made_one.eval()


def array(weight):
    return weight.detach().numpy()


def softmax(values):
    powers = np.exp(np.array(values) - max(values))
    return powers / powers.sum()


def around(ids, place, size):
    return [ids[i] if 0 <= i < len(ids) else PAD for i in range(place - size // 2, place + size // 2 + 1)]


def window_vector(table, ids, *, positions):
    """Return the sum of the vectors of the words of a window, of its positions where these differ."""
    offsets = range(0, N_IDS * len(ids), N_IDS) if positions else [0] * len(ids)
    return sum(table[id_ + offset] for id_, offset in zip(ids, offsets, strict=True) if id_ != PAD)


def windows(question, *, every=False):
    """Return place and candidate (1-based) of each window of a question."""
    marks = enumerate(question["slots"])
    return [(place, slot) for place, slot in marks if slot or (every and question["context"][place])]


def loop_hops(query, memories, times, turn, *, hops):
    keys, values = memories
    for _ in range(hops):
        shares = softmax([key @ query + time for key, time in zip(keys, times, strict=True)])
        query = query @ turn + sum(share * value for share, value in zip(shares, values, strict=True))
    return query, shares


@pytest.mark.parametrize("options", [
    {"window": 3},
    {"window": 5, "hops": 2, "time": 1.7},
    {"window": 1, "tied": True},
    {"window": 5, "positions": False, "tied": True, "time": 0.4},
])  # fmt: skip
def test_window_memory_is_what_a_loop_computes(options):
    module = network(WindowMemoryModule, width=7, **options)
    size, positions = options["window"], options.get("positions", True)
    scores = array(module.scores(BATCH))
    a, b, turn = array(module.keys.weight), array(module.values.weight), array(module.turn)
    u = array(module.outputs) if not module.tied else a[(size // 2 if positions else 0) * N_IDS :][:N_IDS]
    losses = array(module.loss(BATCH))
    for row in range(len(ITEMS)):
        question = one(row)
        places = windows(question)
        ids = [around(question["context"], place, size) for place, _ in places]
        memories = [[window_vector(table, part, positions=positions) for part in ids] for table in (a, b)]
        query = window_vector(a, around(question["query"], question["blank"], size), positions=positions)
        times = [module.time * (number + 1) / len(places) for number in range(len(places))]
        query, shares = loop_hops(query, memories, times, turn, hops=module.hops)
        np.testing.assert_allclose(scores[row], [u[id_] @ query for id_ in question["candidates"]], rtol=1e-6)
        answer = question["candidates"][question["answer"]]
        assert losses[row] == pytest.approx(-math.log(softmax((u @ query)[2:])[answer - 2]))
        seen = module.attention_weights(batch_of(QUESTIONS, [row]))
        assert seen.names == tuple(f"hop {hop + 1}" for hop in range(module.hops))
        np.testing.assert_allclose(array(seen.weights)[0, -1], shares, rtol=1e-5)
        length = len([id_ for id_ in question["context"] if id_])
        expected = [(max(0, place - size // 2), min(length, place + size // 2 + 1)) for place, _ in places]
        assert list(zip(seen.begin[0].tolist(), seen.end[0].tolist(), strict=True)) == expected


def matches(module, question, *, every=False):
    """Return the match of each window with the query, and its candidate, by a loop."""
    size, table = module.window, array(module.keys.weight)
    query = window_vector(table, around(question["query"], question["blank"], size), positions=True)
    places = windows(question, every=every)
    ids = [around(question["context"], place, size) for place, _ in places]
    products = np.array([window_vector(table, part, positions=True) @ query for part in ids])
    times = module.time * np.arange(1, len(places) + 1) / len(places)
    return products + times, [slot for _, slot in places]


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("time", [0.0, 2.0])
def test_the_score_of_a_candidate_is_the_sum_of_its_windows_or_the_best(soft, time):
    module = network(WindowMemoryModule, self_supervised=True, width=6, soft_weighting=soft, time=time)
    scores = array(module.scores(BATCH))
    for row in range(len(ITEMS)):
        question = one(row)
        match, slots = matches(module, question)
        shares = softmax(match)
        for column in range(len(question["candidates"])):
            of_candidate = [share for share, slot in zip(shares, slots, strict=True) if slot == column + 1]
            expected = sum(of_candidate) if soft else max(of_candidate, default=0.0)
            assert scores[row, column] == pytest.approx(expected)


@pytest.mark.parametrize("every", [False, True])
def test_the_losses_of_self_supervision_are_those_of_a_loop(every):
    options = {"self_supervised": True, "width": 6, "time": 1.5, "windows": "all" if every else "candidates"}
    update = network(WindowMemoryModule, **options)
    entropy = network(WindowMemoryModule, **options, update="cross-entropy")
    losses = array(update.loss(BATCH)), array(entropy.loss(BATCH))
    assert (losses[0] == 0).any()
    assert (losses[0] > 0).any()
    for row in range(len(ITEMS)):
        question = one(row)
        match, slots = matches(update, question, every=every)
        right = np.array(slots) == question["answer"] + 1
        if not right.any():
            assert losses[0][row] == losses[1][row] == 0
            continue
        best, others = match[right].max(), match[~right]
        expected = math.log(math.exp(best) + np.exp(others).sum()) - best
        assert losses[1][row] == pytest.approx(expected, rel=1e-6)
        assert losses[0][row] == pytest.approx(expected if others.max() >= best else 0.0, rel=1e-6)


def worked(*, right_first):
    """Return a network of two dimensions and a question; the answer is "n0", in two windows.

    Windows of one word: the query is the blank, (1, 0). n0 scores 1 (or 3), n1 scores 2, n2 scores -1.
    """
    module = WindowMemoryModule(N_IDS, self_supervised=True, window=1, width=2, time=0.0)
    with torch.no_grad():
        module.keys.weight.zero_()
        for id_, vector in {1: (1, 0), 3: (3 if right_first else 1, 5), 4: (2, 7), 5: (-1, 1)}.items():
            module.keys.weight[id_] = torch.tensor(vector, dtype=torch.float)
    item = of_sentences(
        ["n0", "n1", "n0", "n2"], ["f1"], place=1, answer="n0", candidates=("n2", "n1", "n0"), tokenised=True
    )
    return module, batch_of(Questions.of(Items.from_records([item]), WORDS))


def test_an_update_worked_by_hand():
    """One window of n0 is compared with n1 and n2; the scores are 1, 2, -1, their shares .26, .71, .04.

    The loss is -ln .26. The gradient of a window's vector is its share, of the answer's .26 - 1, times the
    query (1, 0); that of the query is the sum of the windows, weighted so.
    """
    module, batch = worked(right_first=False)
    loss = module.loss(batch)
    shares = np.exp([1, 2, -1]) / (np.exp(1) + np.exp(2) + np.exp(-1))
    assert loss.item() == pytest.approx(-math.log(shares[0]))
    loss.sum().backward()
    gradient = module.keys.weight.grad.coalesce()
    changes = dict(zip(gradient.indices()[0].tolist(), gradient.values().tolist(), strict=True))
    weights = shares - [1, 0, 0]
    for id_, weight in zip((3, 4, 5), weights, strict=True):
        assert changes.pop(id_) == pytest.approx([weight, 0])
    assert changes == {1: pytest.approx(weights @ [[1, 5], [2, 7], [-1, 1]])}
    shares = softmax([1, 2, 1, -1])
    np.testing.assert_allclose(array(module.scores(batch))[0], [shares[3], shares[1], shares[0] + shares[2]])


def test_there_is_no_update_where_the_supporting_memory_is_the_best():
    module, batch = worked(right_first=True)
    loss = module.loss(batch)
    assert loss.tolist() == [0.0]
    loss.sum().backward()
    assert module.keys.weight.grad.coalesce().values().abs().sum() == 0


def test_all_targets_add_the_loss_of_a_word_read_from_the_supporting_memory():
    options = {"self_supervised": True, "width": 6, "targets": "all"}
    module = network(WindowMemoryModule, **options)
    plain = network(WindowMemoryModule, self_supervised=True, width=6)
    plain.keys.load_state_dict(module.keys.state_dict())
    added = array(module.loss(BATCH) - plain.loss(BATCH))
    a, b, u, turn = map(array, (module.keys.weight, module.values.weight, module.outputs, module.turn))
    for row in range(len(ITEMS)):
        question = one(row)
        match, slots = matches(module, question)
        right = [place for place, slot in enumerate(slots) if slot == question["answer"] + 1]
        query = window_vector(a, around(question["query"], question["blank"], 5), positions=True) @ turn
        if right:
            best = max(right, key=lambda place: match[place])
            place = windows(question)[best][0]
            query = query + window_vector(b, around(question["context"], place, 5), positions=True)
        answer = question["candidates"][question["answer"]]
        assert added[row] == pytest.approx(-math.log(softmax((u @ query)[2:])[answer - 2]), rel=1e-6)


@pytest.mark.parametrize("positions", [True, False])
def test_sentential_memory_is_what_a_loop_computes(positions):
    width = 6
    module = network(SententialMemoryModule, width=width, hops=2, time=0.8, positions=positions)
    a, b, u = array(module.keys.weight), array(module.values.weight), array(module.outputs)

    def sentence(table, ids):
        size, total = len(ids), np.zeros(width)
        for j, id_ in enumerate(ids, 1):
            for k in range(1, width + 1):
                factor = (1 - j / size) - (k / width) * (1 - 2 * j / size) if positions else 1
                total[k - 1] += factor * table[id_][k - 1]
        return total

    scores = array(module.scores(BATCH))
    for row in range(len(ITEMS)):
        question = one(row)
        parts = {}
        for id_, number in zip(question["context"], question["sentences"], strict=True):
            parts.setdefault(number, []).append(id_)
        memories = [[sentence(table, ids) for ids in parts.values()] for table in (a, b)]
        times = [0.8 * (number + 1) / len(parts) for number in range(len(parts))]
        query, _ = loop_hops(sentence(a, question["query"]), memories, times, array(module.turn), hops=2)
        np.testing.assert_allclose(scores[row], [u[id_] @ query for id_ in question["candidates"]], rtol=1e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_lexical_memory_is_what_a_loop_computes(tied):
    memory, width, hops = 6, 8, 3
    module = network(LexicalMemoryModule, memory=memory, width=width, hops=hops, tied=tied)
    parts = {name: array(values) for name, values in module.model.state_dict().items()}
    words = parts["keys.weight"] if tied else parts["output.words"]

    def log_prob(before, target, seen=None):
        last = before[-memory:] or [1]
        query = np.full(width, 0.1)
        keys, values = (
            parts[f"{kind}s.weight"][last] + parts[f"{kind}_ages"][-len(last) :] for kind in ("key", "value")
        )
        for _ in range(hops):
            shares = softmax([key @ query for key in keys])
            if seen is not None:
                seen.append(shares)
            query = query @ parts["turn"] + sum(s * value for s, value in zip(shares, values, strict=True))
            query[width // 2 :] = np.maximum(query[width // 2 :], 0)
        return math.log(softmax(words @ query + parts["output.bias"])[target])

    scores, losses = array(module.scores(BATCH)), array(module.loss(BATCH))
    for row in range(len(ITEMS)):
        question = one(row)
        context, query, blank = question["context"], question["query"], question["blank"]
        for column, candidate in enumerate(question["candidates"]):
            text, place = [*context, *query[:blank], candidate, *query[blank + 1 :]], len(context) + blank
            values = [log_prob(text[:at], text[at]) for at in range(place, len(text))]
            assert scores[row, column] == pytest.approx(sum(values), rel=1e-5)
            if column == question["answer"]:
                assert losses[row] == pytest.approx(-np.mean(values), rel=1e-5)
        seen, shares, place = module.attention_weights(batch_of(QUESTIONS, [row])), [], len(context) + blank
        assert seen.names == ("hop 1", "hop 2", "hop 3")
        log_prob([*context, *query[:blank]], 0, shares)
        np.testing.assert_allclose(array(seen.weights)[0, :, -len(shares[0]) :], shares, rtol=1e-5)
        np.testing.assert_allclose(array(seen.weights)[0].sum(1), 1)
        assert seen.begin[0].tolist() == list(range(place - memory, place))
        assert (seen.end - seen.begin == 1).all()


def test_questions_without_a_context_have_scores():
    bare = items_from_text(
        ["___ f1 f2", "f3 ___"], answers=["n1", "n2"], candidates=[["n1", "n2"]] * 2, tokenised=True
    )
    batch = batch_of(Questions.of(bare, WORDS))
    for kind, options in {
        WindowMemoryModule: {"self_supervised": True, "update": "cross-entropy"}, SententialMemoryModule: {},
        LexicalMemoryModule: {"memory": 3, "width": 4},
    }.items():  # fmt: skip
        module = network(kind, **options)
        loss = module.loss(batch)
        assert module.scores(batch).isfinite().all()
        assert loss.isfinite().all()
        if loss.requires_grad:
            loss.sum().backward()
        gradients = [weight.grad for weight in module.parameters() if weight.grad is not None]
        assert all(gradient.to_dense().isfinite().all() for gradient in gradients)


def test_options_are_checked():
    for name, value in (("window", 4), ("hops", 0), ("update", "x"), ("windows", "x")):
        refused(WindowMemoryModule, N_IDS, **{name: value})
    refused(WindowMemoryModule, N_IDS, window=4)
    refused(WindowMemoryModule, N_IDS, targets="text", self_supervised=True)


def test_as_a_language_model_it_is_asked_for_any_word_of_the_query():
    torch.manual_seed(0)
    seen = [set() for _ in ITEMS]
    for _ in range(300):
        moved = any_blank(BATCH)
        for row, words in enumerate(seen):
            question, place = one(row), int(moved["blank"][row])
            text = list(question["query"])
            text[question["blank"]] = question["candidates"][question["answer"]]
            answer = text[place]
            words.add((place, answer))
            text[place] = BLANK
            assert moved["query"][row].tolist()[: len(text)] == text
            assert moved["candidates"][row].tolist() == [answer]
            context = BATCH["context"][row]
            assert moved["slots"][row].tolist() == (context == answer).long().tolist()
    assert moved["answer"].tolist() == [0] * len(ITEMS)
    for row, words in enumerate(seen):
        known = sum(word > UNKNOWN for word in one(row)["query"])
        assert len(words) == known + 1  # and the answer
    query, candidates = BATCH["query"].clamp_max(UNKNOWN), BATCH["candidates"] * 0 + UNKNOWN
    unknown = BATCH | {"query": query, "candidates": candidates}
    assert any_blank(unknown)["blank"].tolist() == BATCH["blank"].tolist()


@pytest.mark.parametrize(("options", "row"), [
    ({}, "MEMNNS (WINDOW MEMORY)"),
    ({"self_supervised": True}, "MEMNNS (WINDOW MEMORY + SELF-SUP.)"),
    (ALL, "MEMNNS (ALL WINDOWS + SELF-SUP.)"),
    ({**ALL, "targets": "all"}, "MEMNNS (ALL WINDOWS + ALL TARGETS + SELF-SUP.)"),
    ({**ALL, "targets": "text"}, "MEMNNS (LM + SELF-SUP.)"),
])  # fmt: skip
def test_the_rows_of_the_papers_tables(options, row):
    assert row in set(wb.table("cbt-variants", []).frame["system"])
    assert WindowMemory._systems({**WindowMemory.sizes, **options})["cbt"] == row
    assert LexicalMemory._systems(LexicalMemory.sizes)["cbt"] == "MEMNNS (LEXICAL MEMORY)"
    assert SententialMemory._systems(SententialMemory.sizes)["cbt"] == "MEMNNS (SENTENTIAL MEMORY + PE)"


# Planted rules.

ASKED = {f"f{number}": f"g{(number * 3 + 1) % 8}" for number in range(8)}


def partner(rng, choices):
    """Each candidate stands after a marker; the partner of the answer's marker stands before the blank."""
    markers = rng.permutation(FILLERS)[: len(choices)]
    pairs = [[marker, name] for marker, name in zip(markers, choices, strict=True)]
    place = int(rng.integers(len(choices)))
    return *pairs, [ASKED[markers[place]]], 1, choices[place]


def marked(rng, choices):
    """The marker itself stands before the blank."""
    *pairs, [asked], at, answer = partner(rng, choices)
    return *pairs, [marker for marker, other in ASKED.items() if other == asked], at, answer


def second(_rng, choices):
    """The answer is the second word of the text."""
    return list(choices), ["f1"], 1, choices[1]


def accuracy(kind, rule, **options):
    options = {"width": 16, "epochs": 8, "rows": 32, "learning_rate": 0.03, **QUIET, **options}
    model = kind.fit(made(rule, 600, seed=1), **options)
    return model.accuracy(Questions.of(made(rule, 200, seed=2), model.words))


@pytest.mark.parametrize(("kind", "rule", "options"), [
    (WindowMemory, partner, {"self_supervised": True, "window": 3}),
    (WindowMemory, partner, {**ALL, "window": 3, "targets": "text", "epochs": 16}),
    (SententialMemory, marked, {"epochs": 20}),
    (LexicalMemory, second, {"memory": 5, "hops": 2, "epochs": 20}),
])  # fmt: skip
def test_a_planted_rule_is_learnt(kind, rule, options, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    assert accuracy(kind, rule, **options) > 0.95


@pytest.mark.parametrize(("kind", "rule", "options"), [
    (EmbeddingReader, partner, {"reads": "query"}),
    (WindowMemory, second, {"self_supervised": True, "window": 1, "time": 0.0}),
])  # fmt: skip
def test_a_rule_that_it_cannot_see_is_not(kind, rule, options, tmp_path, monkeypatch):
    """Four candidates: chance is 0.25, and 200 questions give it a standard deviation of 0.03."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    assert accuracy(kind, rule, **options) < 0.4


def test_an_ablated_network_has_a_name_and_a_row_of_its_own():
    sizes = WindowMemory.sizes | {"self_supervised": True}
    rows = {}
    for time, soft in ((1.0, True), (0.0, True), (1.0, False), (0.0, False)):
        changed = sizes | {"time": time, "soft_weighting": soft}
        rows[WindowMemory._label(changed)] = WindowMemory._systems(changed)["cnnqa"]
    published = set(wb.table("cnnqa-ablation", []).frame["system"])
    assert len(rows) == 4
    assert set(rows.values()) <= published
