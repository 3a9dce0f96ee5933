import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_predictions import made

from workbench import datasets
from workbench.evaluation.interchange.export import export_results
from workbench.evaluation.interchange.import_results import import_results
from workbench.evaluation.leaderboard import leaderboard
from workbench.evaluation.metrics import evaluate
from workbench.items.items import DataError
from workbench.runs.predictions import SCHEMA
from workbench.runs.store import find, runs

ITEMS = datasets.load("sample", "dev", variant="plain")
FEW = ITEMS[:6]
IDS = FEW.frame["item_id"].tolist()
ANSWERS = FEW.frame["answer"].tolist()


@pytest.fixture
def file(no_data, tmp_path):
    assert no_data.is_dir()  # nothing is kept among the runs of this machine
    return tmp_path / "results.csv"


def table(ids, words, head="item_id,prediction", end="\n"):
    return end.join([head, *(f'{i},"{w}"' for i, w in zip(ids, words, strict=True)), ""])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_of_answers(file, end, encoding, separator):
    words = [ANSWERS[0].upper(), f" {ANSWERS[1]} ", "Käse", "", *ANSWERS[4:]]
    text = table(IDS, words, end=end).replace(",", separator) + end * 2
    file.write_bytes(text.encode(encoding))
    found = import_results(file, ITEMS, model="mine")
    frame = found.predictions
    assert frame["item_id"].tolist() == IDS
    assert frame["correct"].tolist() == [True, True, False, False, True, True]
    assert frame["prediction"].tolist()[:3] == [words[0], ANSWERS[1], "Käse"]
    assert pd.isna(frame["prediction"].iloc[3])
    assert set(frame["score_type"]) == {"score"}
    assert (found.kind, found.matched, len(found.items)) == ("answers", {"by id": 6}, 6)
    assert found.runs[0].run == frame["run"].iloc[0]


def test_the_items_of_known_ids_are_loaded(file):
    file.write_text(table(IDS, ANSWERS))
    assert import_results(file, model="m").items.frame["text"].tolist() == FEW.frame["text"].tolist()
    cased = import_results(file, model="m", variant="capitalised").predictions
    assert set(cased["variant"]) == {"capitalised"}
    file.write_text(table(["1", "2"], ["a", "b"]))
    with pytest.raises(DataError, match=r"does not tell which items .* items=wb.load"):
        import_results(file, model="m")


def test_texts_name_the_items_too(file):
    texts = FEW.frame["text"].tolist()
    blank = [item.passage for item in FEW]
    mixed = [texts[0], blank[1], texts[2].replace(" ", "  "), texts[3].rpartition(" ")[0], blank[4], IDS[5]]
    file.write_text(json.dumps([{"text": t, "guess": a} for t, a in zip(mixed, ANSWERS, strict=True)]))
    found = import_results(file, ITEMS, model="m", keep=False)
    assert found.predictions["item_id"].tolist() == IDS
    assert found.predictions["correct"].all()
    assert found.matched == {"by id": 1, "exactly": 1, "by wording": 4}


def test_columns_are_found_or_named(file):
    rows = [{"where": i, "what": w, "lp": -1.0, "who": "x"} for i, w in zip(IDS, ANSWERS, strict=True)]
    pq.write_table(pa.Table.from_pylist(rows), file)
    with pytest.raises(DataError, match=r'none of the columns where, what, lp, who is called .*: item="..."'):
        import_results(file, ITEMS)
    with pytest.raises(DataError, match="no column 'there' -- there are where, what, lp, who"):
        import_results(file, ITEMS, item="there")
    with pytest.raises(DataError, match="no column says whose answers"):
        import_results(file, ITEMS, item="where", prediction="what")
    found = import_results(file, ITEMS, item="where", prediction="what", log_prob="lp", model="m")
    assert found.predictions["log_prob"].tolist() == [-1.0] * 6
    assert set(found.predictions["score_type"]) == {"log_prob"}
    assert evaluate(found)["perplexity"].iloc[0] == pytest.approx(np.e)
    people = import_results(file, ITEMS, item="where", prediction="what", person="who")
    assert people.models == ["person: x", "majority of 1 people"]


def test_several_models_in_one_table(file):
    lines = [f"{i},{m},{w}" for m in ("b", "a") for i, w in zip(IDS, ANSWERS, strict=True)]
    file.write_text("\n".join(["item_id,model,prediction", *lines[:-1]]))
    found = import_results(file, ITEMS)
    assert found.models == ["b", "a"]
    assert [len(run) for run in found.runs] == [6, 5]
    assert len(found.items) == 6


def test_people_are_models_and_so_is_their_majority(file):
    said = {
        "Ann": [*ANSWERS[:4], "x", ""],
        "Bob": [*ANSWERS[:3], "y", "x", "z"],
        "<b>Cy</b>": [*ANSWERS[:2], "q", "y", "w", ANSWERS[5]],
    }
    lines = [f"{i};{who};{word}" for who, words in said.items() for i, word in zip(IDS, words, strict=True)]
    file.write_text("\n".join(["item;Person;response", *lines]))
    found = import_results(file, ITEMS, seed=3)
    assert found.models == [*(f"person: {who}" for who in said), "majority of 3 people"]
    assert found.people.set_index("person")["n_right"].to_dict() == {"Ann": 4, "Bob": 3, "<b>Cy</b>": 3}
    assert found.by_item["n_right"].tolist() == [3, 3, 2, 1, 0, 1]
    most = found.predictions[found.predictions["model"] == "majority of 3 people"].set_index("item_id")
    assert most["correct"].tolist()[:5] == [True, True, True, False, False]
    assert most["p_correct"].tolist() == [1, 1, 1, 0, 0, 0.5]
    assert most["prediction"].iloc[5] in {"z", ANSWERS[5]}
    assert (found.agreement.n_people, found.agreement.n_answers) == (3, 17)
    assert len(found.runs) == 4
    page = found._repr_html_()
    assert "&lt;b&gt;Cy" in page
    assert "<b>Cy" not in page
    assert "Krippendorff" in str(found)


def test_a_predictions_table_of_others(file):
    copied = FEW.frame[["item_id", "dataset", "split", "variant", "word_class", "book_id", "answer"]]
    frame = made(6, right=0, oov=0, **copied, model="theirs", run="first")
    frame = frame.assign(top_words=[["a", "b"]] * 6, top_log_probs=[[-1.0, float("-inf")]] * 6)
    path = export_results(frame, file.with_suffix(".jsonl"), items=ITEMS)
    found = import_results(path)
    assert found.kind == "predictions"
    pd.testing.assert_frame_equal(found.predictions, frame)
    assert found.runs[0].model == "theirs"
    assert import_results(path, ITEMS, model="mine").models == ["mine"]
    lines = [json.loads(line) for line in path.read_text().splitlines()]

    def again(change, **options):
        path.write_text("\n".join(json.dumps(line | change) for line in lines[:1]) + "\n")
        return import_results(path, ITEMS, **options)

    with pytest.raises(DataError, match=r"line 1: the answer is 'zzz', that of the item"):
        again({"answer": "zzz"})
    with pytest.raises(DataError, match="no prediction is about one of the items"):
        again({"item_id": "no/such/1"})
    with pytest.raises(DataError, match=r"'openai', the items of 'plain' .*variant='openai'"):
        again({"variant": "openai"})
    assert set(again({"variant": "openai"}, variant="openai").predictions["variant"]) == {"openai"}
    for change, problem in (
        ({"rank": "x"}, "line 1: the column 'rank' holds no number"),
        ({"rank": 1.5}, "'rank' holds no whole number"),
        ({"correct": "perhaps"}, "'correct' holds neither true nor false"),
        ({"top_words": "["}, "'top_words' holds no list"),
        ({"top_words": ["\ud800"]}, "'top_words' holds half a surrogate pair"),
        ({"model": 3}, "'model' holds no text"),
        ({"model": None}, "the column 'model' is empty"),
        ({"correct": True}, "'correct' says yes"),
    ):
        with pytest.raises(DataError, match=problem):
            again(change)
    extra = again({"colour": "red"})
    assert extra.report["problem"].tolist() == ["not read: the columns 'colour'"]


def test_what_is_imported_goes_wherever_runs_go(file):
    file.write_text(table(IDS, ANSWERS))
    found = import_results(file, ITEMS, model="m")
    other = made(6, right=0, **FEW.frame[["item_id", "dataset", "split", "variant", "answer"]], model="other")
    assert evaluate(found)["accuracy"].tolist() == [1]
    assert leaderboard([found, other], resamples=50)["model"].tolist() == ["m", "other"]
    assert leaderboard(resamples=50)["run"].tolist() == [found.runs[0].run]
    assert find(found.runs[0].run).info["imported"]["from"] == "results.csv"
    assert import_results(file, ITEMS, model="m").runs == found.runs
    assert len(runs()) == 1
    assert import_results(file, ITEMS, model="n", keep=False).runs == ()
    assert len(runs()) == 1


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("item_id,prediction\na,b\nc\n", 3, "there are 1 fields, the header has 2"),
        ('item_id,prediction\na,b\nc,"d\n', 3, "the file ends within this record"),
        ('item_id,prediction\n"a"b,c\n', 2, "no row of a table"),
        ("item_id,item_id\na,b\n", 1, "names 'item_id' twice"),
        ('{"item_id": "a", "prediction": "b"}\n{"item_id": \n{"item_id": "c"}\n', 2, "no JSON"),
        ('{"item_id": "a", "prediction": "b"}\n\n{"item_id": "c", "pre', 3, "the file ends within"),
        ('{"item_id": "a", "prediction": "b"}\n[1]\n', 2, "but no record with names"),
        ('[{"item_id": "a",\n "prediction": "b"},\n{"item_id": "c"', 3, "the file ends within"),
        ('[{"item_id": "a", "prediction": "b"},\n 7]', 2, "no record with names"),
        ('[{"item_id": "a", "prediction": "b"},', 1, "ends within its list"),
        ('[{"item_id": "a", "prediction": "b"}]\nx', 2, "something follows"),
        ("item_id,prediction\n,b\n", 2, "it names no item"),
        ("item_id,prediction,log_prob\na,b,x\n", 2, "'log_prob' holds no number: 'x'"),
        ("item_id,prediction,log_prob\na,b,0.5\n", 2, "the log-probability 0.5 is above 0"),
        ("item_id,prediction\na,b\na,c\n", 3, "answered this item on line 2 already"),
        ("item_id,model,prediction\na,m,b\na,,c\n", 3, "'model' is empty: whose answer"),
        ('{"item_id": "a", "prediction": {"x": 1}}\n', 1, "'prediction' holds a list or record"),
        ('{"item_id": "a", "prediction": "\\ud800"}\n', 1, "half a surrogate pair"),
    ],
)
def test_errors_name_file_line_and_remedy(file, text, line, problem):
    text = text.replace('"a"', f'"{IDS[0]}"').replace("\na,", f"\n{IDS[0]},")
    file = file.with_suffix(".txt")
    file.write_text(text)
    model = None if ",model," in text else "m"
    with pytest.raises(DataError, match=problem) as caught:
        import_results(file, ITEMS, model=model)
    assert (caught.value.file, caught.value.line) == (str(file), line)
    if "twice" in problem:  # of the header: no record can be told
        return
    try:
        found = import_results(file, ITEMS, model=model, on_error="report")
    except DataError as error:  # nothing is left
        assert any(end in str(error) for end in ("none of the", "no record"))  # noqa: PT017 - either
    else:
        assert len(found) == 1
        assert line in found.report["line"].tolist()


def test_files_that_are_none(file, tmp_path):
    def refused(match, path=file, **options):
        with pytest.raises(DataError, match=match):
            import_results(path, ITEMS, model="m", **options)

    refused("there is no such file")
    file.write_text(" \n")
    refused("the file is empty")
    file.write_text("item_id,prediction\n")
    refused("no record that can be read")
    file.write_bytes("item_id,prediction\na,Käse".encode("latin-1"))
    refused("line 2: the byte 0xe4 .* UTF-8")
    file.write_bytes(b"\xff\xfea")
    refused("no UTF-16")
    file.write_bytes(b"PAR1 and then")
    refused("no valid parquet file")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "samples_x_1.jsonl").touch()
    refused(r"cannot be read .*as samples_x_1.jsonl", tmp_path / "out")
    aggregated = tmp_path / "results_1.json"
    aggregated.write_text(json.dumps({"results": {"lambada_openai": {}}}, indent=2))
    refused("results over all items.*--log_samples", aggregated)
    file.write_text(table(IDS, ANSWERS))
    refused('use "raise" or "report"', on_error="skip")
    with pytest.raises(TypeError, match="expected Items"):
        import_results(file, FEW.frame)


def test_a_huge_field_and_records_by_number(file):
    huge = "x" * 300_000
    file.write_text(f'item_id,prediction,note\n{IDS[0]},b,"{huge}"\n')
    assert len(import_results(file, ITEMS, model="m", keep=False)) == 1
    file.write_text(json.dumps({"0": {"item": IDS[0], "guess": ANSWERS[0]}}, indent=1))
    found = import_results(file.rename(file.with_suffix(".json")), ITEMS, model="m", keep=False)
    assert found.predictions["correct"].tolist() == [True]


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("bytes") / "file"
    path.write_bytes(data)
    with pytest.raises(DataError):
        import_results(path, ITEMS, model="m", keep=False)


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from(IDS), st.text(min_size=1, max_size=12)),
        min_size=1,
        unique_by=lambda r: r[0],
    )
)
def test_whatever_was_answered_is_in_the_table(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"id": i, "response": w}) for i, w in rows))
    frame = import_results(path, FEW, model="m", keep=False).predictions
    wanted = {i: w.strip() or None for i, w in rows}
    found = {i: None if pd.isna(p) else p for i, p in zip(frame["item_id"], frame["prediction"], strict=True)}
    assert found == wanted
    assert frame["item_id"].tolist() == sorted(wanted)
    assert set(SCHEMA.names) == set(frame.columns)
