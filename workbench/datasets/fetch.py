"""Fetch data sets of the registry: download, check, and write the terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pooch
from requests import RequestException

from workbench.datasets import sources
from workbench.storage import checksums, files, paths
from workbench.storage.errors import DataError, innermost, writing
from workbench.storage.progress import progress_bar, say

LICENCE = "LICENCE.txt"
"""The file beside the data with licence and citation."""
RETRIES = 4
"""Further downloads from an address after one that failed."""

_CHUNK = 1 << 16  # bytes


@dataclass(frozen=True)
class Remote:
    """One published file.

    Its `addresses` are tried in order; there are none where no address is stable, and then neither size nor
    checksum are known. `members` has the sha256 of files in an archive, with which those that are read are
    compared.
    """

    name: str
    addresses: Sequence[str] = ()
    bytes: int | None = None
    sha256: str | None = None
    about: str = ""
    members: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One data set of the registry.

    `manual` says what to do by hand where there is no stable address; a file in the folder then fits one of
    `patterns`. `shipped` is the folder of the project's own data that holds the set, if it is ours.
    `notice` says what may not be passed on, for pages that show items to others.
    """

    dataset: str
    title: str
    licence: str
    citation: str
    about: str = ""
    files: tuple[Remote, ...] = ()
    manual: str = ""
    patterns: Sequence[str] = ()
    shipped: str = ""
    notice: str = ""

    @property
    def terms(self) -> str:
        """Licence and citation, as written beside the data."""
        return f"{self.title}\n\nLicence: {self.licence}\n\nPlease cite:\n{self.citation.strip()}\n"

    @property
    def published(self) -> bool:
        """Whether every file has an address."""
        return all(remote.addresses for remote in self.files)


def entry_of(dataset: str) -> Entry:
    """Return the entry of a data set in the registry or its package; DataError without one."""
    names = list(dict.fromkeys([*sources.registry(), *sources.readers()]))
    table = sources.table_of(sources.check_choice("data set", dataset, names, "the registry"))
    if not table:
        problem = f"the package of {dataset!r} does not say where to fetch it"
        raise DataError(problem, hint="read its documentation, and put the files into data/raw")
    remotes = tuple(Remote(**remote) for remote in table.get("files", ()))
    entry = {key: value for key, value in table.items() if key != "reader"}
    return Entry(dataset=dataset, **{**entry, "files": remotes})


def fetch(dataset: str, *, dry_run: bool = False, folder: Path | str | None = None) -> Path:
    """Download a data set, check it, and return the folder that holds it.

    Files that are there with the right sha256 are not downloaded again. A download is put in place when its
    sha256 is right. One that fails is tried five times, from the beginning each time. An archive stays
    packed: :func:`workbench.load` unpacks it once, into the cache.

    Parameters
    ----------
    dataset : str
        Its name, such as ``"lambada"``; an unknown one raises an error that lists them.
    dry_run : bool
        Print what would be done, and change nothing.
    folder : path, optional
        Where to put it, in place of ``data/raw/<dataset>``, which :func:`workbench.load` searches.

    Returns
    -------
    Path
        The folder, to be passed as `path` to :func:`workbench.load` if it is not the usual one.

    Raises
    ------
    DataError
        If there is no such data set, it cannot be had, or it is not what it should be; the message says
        what to do by hand instead.

    Notes
    -----
    Environment variables: ``WORKBENCH_TIMEOUT``, the seconds that a server may be silent (30 by default);
    ``WORKBENCH_HOME``, the folder that holds ``raw/``, in place of ``data/``; and ``HTTP_PROXY``,
    ``HTTPS_PROXY`` and ``NO_PROXY``.

    Examples
    --------
    >>> wb.fetch("lambada", dry_run=True)
    lambada: The LAMBADA dataset
      licence: CC BY 4.0
      into: ...raw/lambada
      lambada-dataset.tar.gz: 334,527,694 bytes, to be fetched
        https://zenodo.org/record/2630551/files/lambada-dataset.tar.gz
    ...Path('...raw/lambada')
    """
    entry = entry_of(dataset)
    if entry.shipped:
        say(f"{dataset} is part of the workbench: nothing to fetch")
        return paths.resource(entry.shipped)
    where = paths.data_home() / "raw" / dataset if folder is None else Path(folder).expanduser()
    if dry_run:
        say(_plan(entry, where))
        return where
    if entry.published:
        with writing(where, "the data"):
            where.mkdir(parents=True, exist_ok=True)
            for remote in entry.files:
                _download(remote, where)
    elif not _is_got(entry, where):
        raise DataError(
            f"{dataset} has no address that it can be fetched from",
            hint=f"{' '.join(entry.manual.split())} into {where}",
        )
    with suppress(OSError, DataError):  # the data can be used where the folder cannot be written to
        _write_terms(entry, where)
    return where


def _is_got(entry: Entry, where: Path) -> bool:
    """Return whether a data set without an address was put into its folder by hand."""
    return any(path for pattern in entry.patterns for path in where.glob(pattern))


def _download(remote: Remote, folder: Path) -> None:
    """Download a file, unless it is there, from the first of its addresses with the right content."""
    seconds = paths.number_in_environment("WORKBENCH_TIMEOUT", 30, "seconds")

    def download(url: str, output_file: str, _pooch: pooch.Pooch) -> None:
        with progress_bar(remote.bytes, label=remote.name, unit="B") as bar:
            downloader = pooch.HTTPDownloader(
                progressbar=bar, chunk_size=_CHUNK, timeout=seconds, headers={"Accept-Encoding": "identity"}
            )
            downloader(url, output_file, _pooch)
        Path(output_file).chmod(0o644)  # a temporary file can be read by its owner alone

    problems = []
    for address in remote.addresses:
        source = pooch.create(
            folder,
            base_url="",
            registry={remote.name: remote.sha256},
            urls={remote.name: address},
            retry_if_failed=RETRIES,
        )
        try:
            source.fetch(remote.name, downloader=download)
        except (RequestException, ValueError) as error:
            inner = innermost(error)
            problem = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
            problems.append(f"{address} cannot be downloaded: {problem}")
        else:
            say(f"{folder / remote.name}: {remote.bytes:,} bytes, sha256 {remote.sha256}")
            return
    raise DataError(
        "; ".join(problems),
        hint="call wb.fetch again, which downloads from the beginning, or download it by hand to "
        f"{folder / remote.name}",
    )


def _plan(entry: Entry, where: Path) -> str:
    lines = [f"{entry.dataset}: {entry.title}", f"  licence: {entry.licence}", f"  into: {where}"]
    if not entry.published:
        is_got = _is_got(entry, where)
        lines.append(
            "  there already" if is_got else f"  by hand: {' '.join(entry.manual.split())} into this folder"
        )
        return "\n".join(lines)
    for remote in entry.files:
        path = where / remote.name
        is_there = path.is_file() and checksums.sha256(path) == remote.sha256
        state = "there already" if is_there else "to be fetched"
        size = "size not known" if remote.bytes is None else f"{remote.bytes:,} bytes"
        lines.append(f"  {remote.name}: {size}, {state}")
        lines += [f"    {address}" for address in remote.addresses]
    return "\n".join(lines)


def _write_terms(entry: Entry, where: Path) -> None:
    """Print licence and citation and put them beside the data, the first time."""
    path = where / LICENCE
    before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if entry.terms in before:
        return
    files.write_atomic(path, f"{before}\n{entry.terms}" if before else entry.terms)
    say(entry.terms)
