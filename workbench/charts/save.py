"""Charts to files, with no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt

from workbench.charts.theme import inked
from workbench.items.schema import DataError
from workbench.storage.files import atomic_path

ENDINGS = (".svg", ".png", ".pdf", ".html")

_LIGHT = ("#222222", "#ffffff")
_DARK = ("#dddddd", "#111111")


def save(chart: alt.TopLevelMixin, path: Path | str, *, scale: float = 2, dark: bool = False) -> Path:
    """Write a chart to a file, atomically.

    Parameters
    ----------
    chart : Altair chart
        One of this package's, or any other.
    path : path
        Where to; the ending says in which form: ``.svg``, ``.png``, ``.pdf`` or ``.html`` (a
        page of its own, with tooltips, which loads nothing from elsewhere).
    scale : float, default 2
        Pixels of a PNG for each unit of the chart.
    dark : bool, default False
        Light text on a dark background instead of dark text on white.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    DataError
        If the ending is none of these.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in ENDINGS:
        raise DataError(
            f"a chart cannot be written with the ending {ending or 'of no kind'!r}",
            file=target,
            remedy=f"use one of {' '.join(ENDINGS)}",
        )
    content = _rendered(_coloured(chart.to_dict(), dark=dark), ending, scale=scale)
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)
    return target


def picture(spec: dict[str, Any], *, dark: bool | None = False) -> str:
    """Return the SVG of a chart's specification; with ``dark=None`` in the colours of the page around it."""
    spec = spec if dark is None else _coloured(spec, dark=dark)
    return _rendered(spec, ".svg").decode()


def _coloured(spec: dict[str, Any], *, dark: bool) -> dict[str, Any]:
    """Return a specification with the colours of a light or dark page."""
    ink, paper = _DARK if dark else _LIGHT
    spec = dict(inked(spec, ink))
    spec.pop("usermeta", None)
    # A background that the chart chose for itself stays, unless it chose none at all.
    if spec.get("config", {}).get("background", "transparent") == "transparent":
        spec.setdefault("config", {})["background"] = paper
    return spec


def _rendered(spec: dict[str, Any], ending: str, *, scale: float = 1) -> bytes:
    import vl_convert  # noqa: PLC0415 - takes a while to import

    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    if ending == ".png":
        return bytes(vl_convert.vegalite_to_png(spec, vl_version=version, scale=scale))
    if ending == ".pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec, vl_version=version))
    if ending == ".svg":
        return str(vl_convert.vegalite_to_svg(spec, vl_version=version)).encode()
    page = str(vl_convert.vegalite_to_html(spec, vl_version=version, bundle=True))
    background = spec["config"]["background"]
    return page.replace("</head>", f"<style>body {{ background: {background} }}</style></head>", 1).encode()
