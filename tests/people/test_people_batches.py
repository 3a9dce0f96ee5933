"""Steps that go out as pages and come back as answers, by the rules of the paper."""

from collections import defaultdict
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from refused import refused

import workbench as wb
from workbench import people
from workbench.models import RandomWord
from workbench.people import export_step, import_answers, protocol
from workbench.people.simulation import _best_words
from workbench.storage.errors import DataError

N = 24


@pytest.fixture(scope="module")
def items():
    return wb.load("sample", "dev").sample(N)


@pytest.fixture
def run(tmp_path, items):
    """Give a function that exports the next step, and the pages with their answers."""

    def export(chosen="lambada", questions=items, **options):
        return export_step(
            questions, people.read_judgments(tmp_path), chosen, tmp_path / "step.csv", **options
        )

    return export


def names_of(items, chosen):
    """Return the items by the names that they have on pages of any step."""
    from workbench.people.batches import _cells  # noqa: PLC0415

    return {_cells(item, step, chosen)["item"]: item for item in items for step in chosen.steps}


def answered(pages, items, word, chosen="lambada", **columns):
    """Return pages with what `word` gives for each item and condition as answers."""
    named, rows = names_of(items, protocol(chosen)), []
    for page in pages.to_dict("records"):
        tasks = {name.removeprefix("item_"): named[page[name]] for name in page if _is_item(name, page)}
        row = {}
        for number, item in tasks.items():
            guesses = word(item, page["condition"])
            for place, guess in enumerate([guesses] if isinstance(guesses, str) else guesses, 1):
                row[f"guess_{number}" if page["guesses"] == 1 else f"guess_{number}_{place}"] = guess
        rows.append(page | row)
    return pd.DataFrame(rows).assign(**{"WorkerId": "W1"} | columns)


def _is_item(name, page):
    return name.startswith("item_") and page[name]


def right(item, _condition):
    return item.answer


def wrong(_item, _condition):
    return "?"


def test_lambada_keeps_what_two_guess_from_the_passage_and_ten_do_not_from_the_sentence(run, items, tmp_path):
    guessed = set(items.frame["item_id"][:5])
    for worker in ("W1", "W2"):
        pages = run()
        assert (len(pages), set(pages["condition"]), set(pages["people"])) == (3, {"passage"}, {1})
        result = import_answers(answered(pages, items, right, WorkerId=worker), items, folder=tmp_path)
        assert (result.n_added, len(result.rejected)) == (N, 0)
    pages = run()
    assert (set(pages["step"]), set(pages["people"]), set(pages["guesses"])) == ({3}, {10}, {3})
    assert (pages[[name for name in pages if name.startswith("context")]] == "").all().all()
    assert set(pages["exclude_1"]) == {"W1|W2"}
    for number in range(3, 13):

        def word(item, _condition, number=number):
            return ["?", item.answer] if number == 6 and item.item_id in guessed else ["?"]

        pages = run(people=1)
        assert set(pages["people"]) == {1}
        result = import_answers(answered(pages, items, word, WorkerId=f"W{number}"), items, folder=tmp_path)
        assert len(result.rejected) == 0
    judgments = people.read_judgments(tmp_path)
    states = people.states(items, judgments).set_index("item_id")
    assert set(states.index[states["state"] == "dropped"]) == guessed
    assert set(states.loc[list(guessed), "reason"]) == {"guessed from the target sentence alone"}
    assert set(states.loc[list(guessed), "n_judged"]) == {4}
    assert set(states["n_judged"]) == {4, 10}
    kept = people.survivors(items, judgments)
    pd.testing.assert_frame_equal(kept.frame, items.where(~items.frame["item_id"].isin(guessed)).frame)
    funnel = people.funnel(items, judgments)
    assert funnel["n_in"].tolist() == [N, N, N]
    assert funnel["n_out"].tolist() == [N, N, N - 5]
    assert len(judgments) == 2 * N + 5 * 4 + (N - 5) * 10
    with pytest.raises(DataError):
        run()


def test_an_item_is_dropped_at_the_first_wrong_guess_from_the_passage(run, items, tmp_path):
    pages = run()
    result = import_answers(answered(pages[:1], items, wrong), items, folder=tmp_path)
    states = people.states(items, result.judgments)
    dropped = states[states["state"] == "dropped"]
    assert len(dropped) == 10
    assert set(dropped["reason"]) == {"not guessed from the whole passage"}
    assert people.funnel(items, result.judgments)["n_dropped"].tolist() == [10, 0, 0]
    assert len(run()) == 2


@pytest.mark.parametrize("seed", [0, 3])
def test_exported_answered_and_imported_is_the_direct_simulation(seed, tmp_path):
    items, model = wb.load("sample", "dev"), RandomWord("passage")
    is_right = model.predict(items, seed=seed)["correct"].to_numpy(dtype=bool)
    items = items.where(is_right | (np.arange(len(items)) < N))
    chosen = protocol("lambada", people=(1, 1, 3), accept=("exact", "case", "number", "spelling"), per_page=4)
    words = {step.condition: _best_words(items, step, model, seed) for step in chosen.steps}
    for number in range(9):
        judgments = people.read_judgments(tmp_path)
        if (people.states(items, judgments, chosen)["state"] != "open").all():
            break
        pages = export_step(items, judgments, chosen, tmp_path / "step.csv", people=1, seed=number)

        def word(item, condition):
            return words[condition][item.item_id, len(item.context) if condition == "passage" else 0]

        file = tmp_path / "answers.csv"
        answered(pages, items, word, chosen, WorkerId=f"W{number}").to_csv(file, index=False)
        assert len(import_answers(file, items, chosen, tmp_path).rejected) == 0
    direct = people.simulate(items, chosen, model, n_subjects=5, seed=seed)
    pd.testing.assert_frame_equal(
        people.funnel(items, judgments, chosen), people.funnel(items, direct, chosen)
    )
    imported = people.survivors(items, judgments, chosen)
    assert 0 < len(imported) < len(items)
    assert (
        imported.frame["item_id"].tolist()
        == people.survivors(items, direct, chosen).frame["item_id"].tolist()
    )
    by_item = ["item_id", "step", "guesses"]
    pd.testing.assert_frame_equal(
        judgments[by_item].sort_values(by_item[:2], kind="stable", ignore_index=True),
        direct[by_item].sort_values(by_item[:2], kind="stable", ignore_index=True),
    )


def test_answers_are_rejected_by_name_one_by_one(run, items, tmp_path):
    pages = run()
    table = answered(pages, items, right)
    row = table.iloc[0].to_dict()
    bad = {
        "unknown item": [{"item_1": "task-0"}, {"item_1": table.iloc[1]["item_1"] + "0"}],
        "other text": [{"left_1": "Another text "}, {"context_1": ""}],
        "invalid guess": [{"guess_1_2": "second"}, {"guess_1": "x" * 300}, {"guess_1": "a\0b"}],
    }
    for reason, changes in bad.items():
        for change in changes:
            result = import_answers(
                pd.DataFrame([row | change]), items, folder=tmp_path / reason / str(change)[:30]
            )
            assert (result.rejected["reason"].tolist(), result.n_added) == ([reason], 9), change
            assert str(result) == f"9 judgments added, 1 rejected ({reason}: 1)"
    rows = {
        "other step": [{"step": 9}, {"step": "x"}, {"step": ""}],
        "invalid row": [{"WorkerId": ""}, {"WorkerId": "x" * 300}],
        "rejected": [{"AssignmentStatus": "Rejected"}],
    }
    for reason, changes in rows.items():
        for change in changes:
            result = import_answers(pd.DataFrame([row | change]), items, folder=tmp_path)
            assert (result.rejected["reason"].tolist(), result.n_added) == ([reason], 0), change
    later = import_answers(pd.DataFrame([row | {"step": 2}]), items, folder=tmp_path)
    assert set(later.rejected["reason"]) == {"other step"}
    unanswered = pd.DataFrame([row]).drop(columns="guess_2")
    assert import_answers(unanswered, items, folder=tmp_path / "some").rejected["reason"].tolist() == [
        "no answer"
    ]
    assert len(people.read_judgments(tmp_path)) == 0


def test_twice_the_same_worker_and_both_conditions(run, items, tmp_path):
    first = answered(run(), items, right, WorkerId="W1")
    assert import_answers(first, items, folder=tmp_path).n_added == N
    again = import_answers(first, items, folder=tmp_path)
    assert (again.n_added, set(again.rejected["reason"])) == (0, {"same answer before"})
    second = answered(run(), items, right, WorkerId="W1")
    assert set(import_answers(second, items, folder=tmp_path).rejected["reason"]) == {"judged before"}
    assert import_answers(second.assign(WorkerId="W2"), items, folder=tmp_path).n_added == N
    third = answered(run(), items, wrong)
    for worker in ("W1", "W2"):
        result = import_answers(third.assign(WorkerId=worker), items, folder=tmp_path)
        assert (result.n_added, set(result.rejected["reason"])) == (0, {"both conditions"})
        assert set(result.rejected["item_id"]) == set(items.frame["item_id"])
    assert import_answers(third.assign(WorkerId="W3"), items, folder=tmp_path).n_added == N


@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize("person", ["WorkerId", "PROLIFIC_PID", "annotator", "Participant id", "who"])
def test_files_of_services_are_read(separator, person, run, items, tmp_path):
    table = answered(run(), items, right).rename(columns={"WorkerId": person})
    if person == "WorkerId":  # as MTurk writes it
        is_answer = table.columns.str.match("guess_")
        table.columns = [
            f"{'Answer' if flag else 'Input'}.{name}" if name != person else name
            for name, flag in zip(table, is_answer, strict=True)
        ]
        table = table.assign(AssignmentId="A", WorkTimeInSeconds=7)
    table = table[sorted(table, key=lambda name: name[::-1])]
    path = tmp_path / "results.csv"
    text = table.to_csv(sep=separator, index=False) + f"W9{separator}A9\n"
    path.write_bytes(text.encode("utf-16" if separator == "\t" else "utf-8-sig"))
    result = import_answers(path, items, folder=tmp_path, person="who" if person == "who" else None)
    assert (result.n_added, result.rejected["reason"].tolist()) == (N, ["invalid row"])
    assert set(result.judgments["person"]) == {"W1"}


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"a,b\n1,2\n", b'"', b"WorkerId\nW1\n", b"PK\x03\x04"]
)
def test_files_that_are_no_answers(content, items, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    refused(import_answers, path, items, folder=tmp_path / "table")
    refused(import_answers, tmp_path / "absent.csv", items, folder=tmp_path / "table")
    both = pd.DataFrame({"WorkerId": ["a"], "annotator": ["b"], "step": [1]})
    assert "WorkerId, annotator" in refused(import_answers, both, items, folder=tmp_path).problem
    refused(import_answers, both, items, folder=tmp_path, person="who")


def test_what_cannot_be_exported(run, items):
    refused(run, step=2)
    refused(run, step=4)
    refused(run, "unfolding")
    refused(run, "cbt")
    refused(run, questions=items[:0])


def test_no_name_in_a_page_tells_which_item_it_is(run, items, tmp_path):
    run()
    written = (tmp_path / "step.csv").read_text(encoding="utf-8")
    assert not any(item_id in written for item_id in items.frame["item_id"])
    read = pd.read_csv(tmp_path / "step.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(read, run(), check_dtype=False)
    assert not read["item_1"].equals(run(seed=1)["item_1"])


def test_no_text_that_is_shown_depends_on_the_answer(items, tmp_path):
    spans = zip(items.frame["text"], items.frame["answer_span"], strict=True)
    texts = [f"{text[:a]}zzz{k}{text[b:]}" for k, (text, (a, b)) in enumerate(spans)]
    hidden = wb.items_from_text(texts, tokenised=True)
    export_step(hidden, people.read_judgments(tmp_path), "lambada", tmp_path / "step.csv")
    assert "zzz" not in (tmp_path / "step.csv").read_text(encoding="utf-8")


def test_both_conditions_of_cbt_are_judged_by_different_people(tmp_path):
    questions = wb.load("sample", variant="cbt")[:10]
    chosen = protocol("cbt", condition="both", people=1)

    def export():
        return export_step(questions, people.read_judgments(tmp_path), chosen, tmp_path / "step.csv")

    pages = export()
    assert set(pages["condition"]) == {"sentence"}
    assert pages["candidates_1"].str.count(r"\|").tolist() == [9]
    strange = answered(pages, questions, lambda *_: "zebra", chosen)
    rejected = import_answers(strange, questions, chosen, tmp_path).rejected
    assert set(rejected["reason"]) == {"invalid guess"}
    ada = answered(pages, questions, lambda item, _: item.candidates[0], chosen, WorkerId="Ada")
    assert import_answers(ada, questions, chosen, tmp_path).n_added == 10
    second = answered(export(), questions, lambda item, _: item.candidates[0], chosen, WorkerId="Ada")
    rejected = import_answers(second, questions, chosen, tmp_path).rejected
    assert set(rejected["reason"]) == {"both conditions"}
    import_answers(second.assign(WorkerId="Eve"), questions, chosen, tmp_path)
    table = people.predictions(questions, people.read_judgments(tmp_path), chosen)
    ablated = table["variant"].str.endswith(" (query only)")
    assert ablated.tolist() == (table["model"] == "person: Ada").tolist()


PASSAGES = wb.load("sample", "dev")[:5]
ROUND = st.tuples(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([None, 1]),
)


@settings(max_examples=8, deadline=None)
@given(
    kind=st.sampled_from(["lambada", "cbt"]), n=st.integers(1, 3), per_page=st.integers(1, 4),
    rounds=st.lists(ROUND, min_size=1, max_size=7),
)  # fmt: skip
def test_nobody_sees_an_item_twice_and_steps_come_in_order(kind, n, per_page, rounds):
    """Workers answer any pages, old ones too, again and again; the table keeps the rules whatever they do."""
    questions = PASSAGES if kind == "lambada" else wb.load("sample", variant="cbt")[:5]
    special = {"people": (1, 1, n)} if kind == "lambada" else {"condition": "both", "people": n}
    chosen = protocol(kind, per_page=per_page, **special)
    named = names_of(questions, chosen)
    with TemporaryDirectory() as folder:
        pages = []
        for answers, most in rounds:
            before = people.read_judgments(folder)
            judged = defaultdict(set)
            for item_id, person in zip(before["item_id"], before["person"], strict=True):
                judged[item_id].add(person)
            if (people.states(questions, before, chosen)["state"] == "open").any():
                new = export_step(questions, before, chosen, f"{folder}/step.csv", people=most)
                for page in new.to_dict("records"):
                    for place in range(1, per_page + 1):
                        if page.get(f"item_{place}"):
                            item = named[page[f"item_{place}"]]
                            excluded = set(filter(None, page[f"exclude_{place}"].split("|")))
                            assert excluded == judged[item.item_id]
                pages += new.to_dict("records")
            rows = []
            for number, worker, is_right in answers:
                page = pages[number % len(pages)]
                row = {**page, "WorkerId": f"W{worker}"}
                for place in range(1, per_page + 1):
                    item = named.get(page.get(f"item_{place}"))
                    if item is not None:
                        other = next(word for word in item.candidates or ["?"] if word != item.answer)
                        row[f"guess_{place}"] = item.answer if is_right else other
                rows.append(row)
            result = import_answers(pd.DataFrame(rows), questions, chosen, folder)
            assert result.n_added == len(result.judgments) - len(before)
            reasons = {"same answer before", "judged before", "both conditions"}
            assert set(result.rejected["reason"]) <= reasons
        judgments = people.read_judgments(folder)
    assert not judgments.duplicated(["item_id", "person"]).any()
    states_follow_from_the_judgments(questions, judgments, chosen)


def states_follow_from_the_judgments(questions, judgments, chosen):
    """Judge all items again, one answer after the other, and compare."""
    scored = people.score_judgments(questions, judgments, chosen)
    states = people.states(questions, judgments, chosen)
    for row in states.itertuples():
        state, step = "open", 1
        mine = scored[scored["item_id"] == row.item_id]
        while state == "open" and step <= len(chosen.steps):
            described = chosen.steps[step - 1]
            outcomes = mine.loc[mine["step"] == step, "correct"].tolist()[: described.people]
            stops = {"right": False in outcomes, "wrong": True in outcomes, "any": False}[described.passes]
            if stops:
                state = "dropped"
            elif len(outcomes) < described.people:
                break
            else:
                step += 1
        state = "kept" if state == "open" and step > len(chosen.steps) else state
        assert (row.state, row.step) == (state, min(step, len(chosen.steps)))
        assert (mine["step"] <= row.step).all()  # nobody was asked before the item had come so far
    funnel = people.funnel(questions, judgments, chosen)
    assert (funnel["n_in"] == funnel["n_open"] + funnel["n_dropped"] + funnel["n_out"]).all()
    assert funnel["n_in"].tolist() == [len(questions), *funnel["n_out"].tolist()[:-1]]
    assert funnel["n_out"].iloc[-1] == (states["state"] == "kept").sum()
