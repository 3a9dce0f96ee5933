"""Tables of questions that data sets have: a row that is none stands alone, and other tables are told."""

import csv
import io
import json
from functools import partial

import builders as b
import pytest
from refused import refused

from workbench.datasets import load

ROWS = {
    "cbt": b.hub_rows(b.cbt()),
    "cnnqa": [b.hub_row(b.cnn())] * 2,
    "msrcc": [row | {"answer": "a"} for row in csv.DictReader(io.StringIO(b.CSV[b.TABLE]))],
}
BAD = {
    "cbt": [
        ({"options": b.WORDS[:9]}, "there are 9 options, expected 10"),
        ({"options": [*b.WORDS[:9], ""]}, "an option is empty"),
        ({"options": [*b.WORDS[:8], "", "", "x"]}, "an option is empty"),
        ({"options": None}, "the options are 'None', expected a list"),
        ({"answer": "elsewhere"}, "the answer 'elsewhere' is not among the options"),
        ({"answer": None}, "the answer 'None' is not among the options"),
        ({"question": "No blank ."}, "expected text that holds XXXXX once"),
        ({"question": "XXXXX and XXXXX ."}, "expected text that holds XXXXX once"),
        ({"sentences": ["One ."] * 19}, "there are 19 sentences, expected 20"),
        ({"sentences": "One ."}, "the sentences are .* expected a list"),
    ],
    "cnnqa": [
        ({"answer": "@entity99"}, "the answer '@entity99' is not among the 3 entities"),
        ({"question": "@placeholder and @placeholder"}, "holds @placeholder 2 times"),
        ({"article": None}, "the article is 'None', expected text"),
    ],
    "msrcc": [
        ({"answer": "f"}, "'f' is not among the candidates"),
        ({"answer": "a", "b)": "a"}, "'a' is a choice and the letter of another"),
        ({"question": "No blank."}, "ends with 'blank', not with the answer"),
        ({"c)": ""}, "the candidates are .* expected words"),
    ],
}


@pytest.mark.parametrize(
    ("dataset", "change", "problem"), [(name, *case) for name, cases in BAD.items() for case in cases]
)
def test_a_row_that_is_no_question_is_left_out_alone(tmp_path, dataset, change, problem):
    first, second, *others = ROWS[dataset]
    rows = [first, second | change, *others]
    path = b.write(tmp_path, {"x_ne.jsonl": b.text(map(json.dumps, rows))}) / "x_ne.jsonl"
    for read in (partial(load, dataset, path=path), partial(load, path)):
        refused(rf"x_ne\.jsonl: row 1: .*{problem}.*on_error", read)
        items = read(on_error="skip")
        assert (len(items), len(items.problems)) == (len(rows) - 1, 1)


@pytest.mark.parametrize("dataset", ["cbt", "cnnqa"])
def test_another_table_is_named_by_its_columns(tmp_path, dataset):
    path = b.write(tmp_path, {"a_ne.jsonl": '{"text": "The ___ ran .", "answer": "dog"}\n'}) / "a_ne.jsonl"
    refused(r"got text, answer -- read a table of your own with wb\.load", load, dataset, path=path)
    assert load(path)[0].answer == "dog"


@pytest.mark.parametrize("dataset", ["cbt", "cnnqa"])
def test_a_mark_outside_the_place_of_the_blank_is_text(tmp_path, dataset):
    row = json.loads(json.dumps(ROWS[dataset][0]))
    column = "sentences" if dataset == "cbt" else "article"
    marked = "He saw ___ , XXXXX and @placeholder ."
    row[column] = [marked, *row[column][1:]] if dataset == "cbt" else f"{marked} {row[column]}"
    path = b.write(tmp_path, {"x_ne.jsonl": json.dumps(row) + "\n"}) / "x_ne.jsonl"
    for items in (load(dataset, path=path), load(path)):
        assert items[0].text.startswith(marked)
        assert (len(items), items[0].answer, items.problems) == (1, row["answer"], ())
