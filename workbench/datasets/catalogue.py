"""What can be fetched: where data sets are published, under which terms, and what their files must be."""

from __future__ import annotations

import difflib
import os
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from workbench.items.schema import DataError
from workbench.storage.files import resource


@dataclass(frozen=True)
class Remote:
    """One file that is published somewhere.

    Attributes
    ----------
    name : str
        What it is called here.
    addresses : tuple of str
        Where it is published; empty where there is no stable address.
    bytes, sha256 : int and str, or None
        What it must be, where that is known.
    unpack : bool
        Whether it is an archive that is unpacked, too.
    members : mapping of str to str
        The sha256 of files in the archive.
    """

    name: str
    addresses: tuple[str, ...] = ()
    bytes: int | None = None
    sha256: str | None = None
    about: str = ""
    unpack: bool = False
    members: Mapping[str, str] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        """The addresses to try: the mirror's, where ``$WORKBENCH_MIRROR`` names one."""
        if mirror := os.environ.get("WORKBENCH_MIRROR"):
            return (f"{mirror.rstrip('/')}/{quote(self.name)}",)
        return self.addresses

    @property
    def size(self) -> str:
        """The size for people."""
        return "size not known" if self.bytes is None else f"{self.bytes:,} bytes"


@dataclass(frozen=True)
class Entry:
    """One data set of the registry.

    Attributes
    ----------
    manual : str
        What to do by hand where there is no stable address.
    found : tuple of str
        Patterns of which one fits a file in the folder once that is done.
    shipped : str
        The folder of the project's own data that holds the set, if it is ours.
    """

    dataset: str
    title: str
    licence: str
    citation: str
    about: str = ""
    files: tuple[Remote, ...] = ()
    manual: str = ""
    found: tuple[str, ...] = ()
    shipped: str = ""

    @property
    def terms(self) -> str:
        """Licence and citation, as they stand beside the data."""
        return f"{self.title}\n\nLicence: {self.licence}\n\nPlease cite:\n{self.citation.strip()}\n"

    @property
    def published(self) -> bool:
        """Whether every file has an address."""
        return all(remote.sources for remote in self.files)


def names() -> list[str]:
    """Return the names of all data sets of the registry."""
    return list(_registry())


def entry(dataset: str) -> Entry:
    """Return what the registry knows about a data set.

    Raises
    ------
    DataError
        If there is none of that name; the message lists those there are.
    """
    known = _registry()
    if dataset in known:
        return known[dataset]
    close = difflib.get_close_matches(str(dataset), known, 1)
    raise DataError(
        f"there is no data set {dataset!r}; there is {', '.join(known)}",
        remedy=f"did you mean {close[0]!r}?" if close else None,
    )


def describe(dataset: str | None = None) -> str:
    """Return what a data set holds, where it comes from, its licence and citation, as text.

    Parameters
    ----------
    dataset : str, optional
        Its name; without one, the text has a line for each data set.
    """
    if dataset is None:
        known = _registry().values()
        width = max((len(e.dataset) for e in known), default=0)
        return "\n".join(f"{e.dataset:{width}}  {e.title} ({e.licence})" for e in known)
    it = entry(dataset)
    lines = [
        f"{it.dataset}: {it.title}",
        *textwrap.wrap(it.about, 100, initial_indent="  ", subsequent_indent="  "),
    ]
    for remote in it.files:
        lines.append(f"  {remote.name} ({remote.size}): {remote.about}")
        lines += [f"    {address}" for address in remote.sources]
        lines += [f"    sha256 {remote.sha256}"] if remote.sha256 else []
    if it.shipped:
        lines.append("  part of the workbench: nothing to fetch")
    elif not it.published:
        by_hand = f"by hand: {' '.join(it.manual.split())} into its folder"
        lines += textwrap.wrap(by_hand, 100, initial_indent="  ", subsequent_indent="  ")
    lines += [f"  licence: {it.licence}", textwrap.indent(it.citation.strip(), "  ")]
    return "\n".join(lines)


def _registry() -> dict[str, Entry]:
    content = tomllib.loads(resource("registry.toml").read_text(encoding="utf-8"))
    return {name: _entry(name, table) for name, table in content.items()}


def _entry(name: str, table: dict[str, Any]) -> Entry:
    remotes = (
        Remote(**{**remote, "addresses": tuple(remote.get("addresses", ()))})
        for remote in table.get("files", ())
    )
    lists = {"files": tuple(remotes), "found": tuple(table.get("found", ()))}
    return Entry(dataset=name, **{**table, **lists})
