"""The pages of the server as HTML, from templates in which everything from data is escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from workbench.people import Protocol, ProtocolStep

_HERE = Path(__file__).parent
_DIFFERENCES = {
    "case": "in capital letters",
    "number": "between singular and plural",
    "spelling": "of one letter",
}


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def fill_template(template: str, **values: Any) -> str:
    """Return a template of the server, such as ``"tasks.html"``, filled."""
    return _templates().get_template(template).render(values)


@cache
def static_files() -> dict[str, tuple[str, bytes]]:
    """Return the files that pages load: type and content by name."""
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    return {
        path.name: (f"{kinds[path.suffix[1:]]}; charset=utf-8", path.read_bytes())
        for path in sorted((_HERE / "static").iterdir())
        if path.suffix[1:] in kinds
    }


def task_name(protocol: Protocol, condition: str) -> str:
    """Return what one task is called."""
    return "sentence" if condition == "sentence" or protocol.name == "completion" else "passage"


def task_instructions(protocol: Protocol, step: ProtocolStep) -> list[str]:
    """Return what a person has to do on the pages of a step, and what counts."""
    thing = task_name(protocol, step.condition)
    if protocol.candidates:
        shown = "a sentence" if thing == "sentence" else "a passage"
        lines = [
            f"You see {shown} in which a word is missing. Choose the word that stood there from the list."
        ]
        if protocol.name != "completion" and step.condition == "sentence":
            lines.append("Each sentence comes from a longer text, which is not shown.")
        return lines
    if step.condition == "unfolding":
        lines = [
            "You see the last sentence of a passage, in which a word is missing. Type the word.",
            "If it is wrong, the sentence before appears, until the whole passage is shown.",
            "If you have no idea, leave the field empty and go on.",
        ]
    elif step.condition == "sentence":
        lines = ["You see single sentences in which a word is missing. The text around them is not shown."]
    else:
        lines = ["You see passages in which a word is missing. Read the whole passage, then type the word."]
    if step.guesses > 1:
        lines.append(
            f"Type up to {step.guesses} different words for each {thing}, the most likely one first."
        )
    return [*lines, _what_counts(protocol)]


def _what_counts(protocol: Protocol) -> str:
    ignored = [_DIFFERENCES[each] for each in protocol.accept[1:]]
    strict = "" if "case" in protocol.accept else ", with the same capital letters"
    counts = f"A word is right if it is the one that stood there, in the same form and spelling{strict}."
    if ignored:
        listed = " and ".join(filter(None, [", ".join(ignored[:-1]), ignored[-1]]))
        counts += f" Differences {listed} do not count."
    return counts


def all_instructions(protocol: Protocol) -> list[tuple[str, list[str]]]:
    """Return the instructions of each kind of page of a protocol, with a heading."""
    kinds = {(step.condition, step.guesses): step for step in protocol.steps}
    return [
        (
            f"{task_name(protocol, step.condition).capitalize()}s, {step.per_page} a page",
            task_instructions(protocol, step),
        )
        for step in kinds.values()
    ]
