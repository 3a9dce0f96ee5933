"""Sentence completion questions, each with thirty alternates."""

import workbench as wb
from workbench.items.schema import Item

WORDS = [f"w{number}" for number in range(30)]


def question(number, sentence="the old cat sat down .", answer="cat", words=WORDS):
    start = sentence.index(answer)
    return Item(
        f"msrcc/built/a/{number:06d}-002", "msrcc", "built", "novels", sentence, answer,
        (start, start + len(answer)), ((0, len(sentence)),), candidates=(answer, *words[:4]), book_id="a",
        meta={"alternates": list(words), "scores": [-1.0] * len(words), "answer_score": -2.0},
    )  # fmt: skip


def questions(n=4):
    return wb.Items.from_records(
        [question(number, f"sentence {number} has the cat .") for number in range(n)]
    )
