"""Single-player campaigns: their protocols, locations and players."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.items.items import Items
from workbench.items.schema import content_digest
from workbench.people import Campaign, Protocol, ProtocolStep, RefusalError, Subject
from workbench.people.protocols import protocol as named_protocol
from workbench.predictions.store import items_digest
from workbench.storage.errors import DataError, check_option, writing
from workbench.storage.paths import data_home

PLAYER = "me"
"""Name of the person who plays, where none is passed."""

_EVERYBODY = 1000  # people who may judge an item: none is taken from a person because others were quicker
_TEN_YEARS = 10 * 365 * 86_400.0  # seconds: a page waits for its only reader
_LONGEST_NAME = 80


def solitary(protocol: str | Protocol = "lambada", **settings: Any) -> Protocol:
    """Return a protocol for a single player.

    Each item is judged in one condition, which is drawn where there are several. Nothing stops an item, so
    every player can judge all of them. Case does not count.

    Parameters
    ----------
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol
        A Protocol is used unchanged, except for the settings passed.
    **settings
        ``condition``, of ``lambada`` and ``cbt``: ``"passage"``, ``"sentence"``, or ``"both"``, the default.
        Other settings as of :func:`workbench.people.protocol`.

    Examples
    --------
    >>> from workbench.widgets.guess.game import solitary
    >>> [(step.condition, step.guesses, step.per_page) for step in solitary("lambada").steps]
    [('passage', 1, 10), ('sentence', 3, 20)]
    """
    if not isinstance(protocol, str):
        return named_protocol(protocol, **settings)
    base = named_protocol(protocol)
    steps = {step.condition: step for step in base.steps}  # of lambada the second step is as the first one
    if protocol == "cbt":
        steps["sentence"] = replace(steps["passage"], condition="sentence")
    if (condition := settings.pop("condition", "both")) != "both":
        check_option("condition", condition, [*steps, "both"] if len(steps) > 1 else ["both"])
        steps = {condition: steps[condition]}
    alone = tuple(_for_everybody(step) for step in steps.values())
    accept = ("exact", "case")
    chosen = replace(base, steps=alone, accept=accept, lease=_TEN_YEARS, drawn=len(alone) > 1)
    return named_protocol(chosen, **settings)


def _for_everybody(step: ProtocolStep) -> ProtocolStep:
    return replace(step, people=_EVERYBODY, passes="any", price=0.0)


def default_path(items: Items, protocol: Protocol, seed: int, name: str | None = None) -> Path:
    """Return the path of the campaign of these items, protocol and seed below ``data/guess``."""
    if name is None:
        digest = content_digest(items_digest(items), protocol.to_json(), seed)
        sets = sorted(set(items.frame["dataset"] + "-" + items.frame["split"]))[:2]
        words = re.sub(r"[^A-Za-z0-9]+", "-", "-".join([*sets, protocol.name]))
        name = f"{words.strip('-')[:_LONGEST_NAME]}-{digest}"
    elif not re.fullmatch(rf"[\w][\w .-]{{0,{_LONGEST_NAME - 1}}}", name):
        expected = f"up to {_LONGEST_NAME} letters, digits, spaces, dots and hyphens"
        raise DataError(f"expected a name of {expected}, got {name!r:.60}", remedy="or pass path=")
    return data_home() / "guess" / f"{name}.db"


def open_campaign(path: Path, items: Items, protocol: Protocol, seed: int) -> Campaign:
    """Open or create the campaign at a path; DataError if it has other items or another protocol."""
    with writing(path.parent, "the folder of this campaign"):
        path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        try:
            return Campaign.create(path, items, protocol, seed)
        except DataError:
            if not path.exists():  # else another process was quicker
                raise
    campaign = Campaign.open(path)
    has_items = items_digest(campaign.items()) == items_digest(items)
    if not has_items or campaign.protocol != protocol:
        campaign.close()
        other = (
            f"another protocol or other settings ({campaign.protocol.name!r})" if has_items else "other items"
        )
        raise DataError(
            f"this campaign has {other}", file=path, remedy="pass the same, or another path or name"
        )
    return campaign


def player_of(campaign: Campaign, subject: str | int | Subject | None) -> Subject:
    """Return a subject by name or number; a new name is added."""
    if isinstance(subject, Subject):
        subject = subject.id
    wanted = PLAYER if subject is None else subject
    if isinstance(wanted, str):
        wanted = " ".join(wanted.split())
        if (existing := _find_subject(campaign, wanted)) is not None:
            return existing
        with suppress(RefusalError):  # another process was quicker
            return replace(campaign.add_subject(wanted), token=None)
    existing = _find_subject(campaign, wanted)
    if existing is None:
        problem = f"there is no subject {wanted!r:.60} in this campaign"
        raise DataError(problem, file=campaign.path, remedy="pass a name; a new one is added")
    return existing


def _find_subject(campaign: Campaign, wanted: str | int) -> Subject | None:
    people = campaign.subjects()
    for number, name in zip(people["subject"].tolist(), people["name"].tolist(), strict=True):
        if wanted == (name if isinstance(wanted, str) else number):
            return Subject(int(number), str(name))
    return None
