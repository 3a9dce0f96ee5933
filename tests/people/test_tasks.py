"""What a person sees does not depend on the answer, and protocols are what they say."""

from dataclasses import replace

import pytest
from refused import refused

import workbench as wb
from workbench.people import ProtocolStep, protocol
from workbench.people.tasks import task_of
from workbench.storage.errors import DataError


@pytest.mark.parametrize("variant", ["plain", "cbt", "openai"])
def test_no_text_that_is_shown_depends_on_the_answer(variant):
    for item in wb.load("sample", variant=variant)[:20]:
        start, end = item.answer_span
        text = f"{item.text[:start]}xylophone{item.text[end:]}"
        shift = len("xylophone") - (end - start)
        sentences = (*item.sentences[:-1], (item.sentences[-1][0], item.sentences[-1][1] + shift))
        span = (start, end + shift)
        other = replace(item, text=text, answer="xylophone", answer_span=span, sentences=sentences)
        one, two = (task_of(each, 99, candidates=False) for each in (item, other))
        assert one == two
        shown, _ = item.readable()
        assert " ".join(f"{' '.join(one.sentences)} {one.query[0]}".split()) in " ".join(shown.split())


def test_protocols_are_those_of_the_papers_and_refuse_what_they_are_not():
    steps = [(step.condition, step.people, step.passes, step.guesses) for step in protocol("lambada").steps]
    assert steps == [("passage", 1, "right", 1), ("passage", 1, "right", 1), ("sentence", 10, "wrong", 3)]
    pages = [(step.per_page, step.price) for step in protocol("lambada").steps]
    assert pages == [(10, 0.22), (10, 0.22), (20, 0.15)]
    assert [step.people for step in protocol("lambada", people=(1, 1, 3)).steps] == [1, 1, 3]
    for settings in (
        {"people": 0}, {"people": (1, 2)}, {"price": -1}, {"price": float("nan")},
        {"accept": ("case",)}, {"accept": "no"}, {"accept": ("exact", "no")}, {"condition": "passage"},
        {"per_page": 10**9},
    ):  # fmt: skip
        with pytest.raises(DataError):
            protocol("lambada", **settings)
    refused(protocol, "x")
    refused(ProtocolStep, "unfolding", guesses=2)
    with pytest.raises(TypeError, match="colour"):
        protocol("lambada", colour=1)
