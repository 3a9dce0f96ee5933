"""Charts in notebooks, with no network and with a picture for pages without a kernel."""

from __future__ import annotations

from typing import Any

import altair as alt

from workbench.charts.save import picture

RENDERER = "workbench"


def offline() -> None:
    """Let notebooks show charts with what is installed here, unless another way was chosen."""
    alt.JupyterChart.enable_offline()
    if RENDERER not in alt.renderers.names():
        alt.renderers.register(RENDERER, _render)
    if alt.renderers.active == "default":
        alt.renderers.enable(RENDERER)


def _render(spec: dict[str, Any], **options: Any) -> Any:
    """Return a live chart, and a picture for where it cannot live: a saved page, a viewer.

    Altair's own renderer returns the live chart alone; a notebook that was run without a page,
    or opened without its kernel, then shows nothing in its place.
    """
    alt.JupyterChart.enable_offline()
    chart = alt.JupyterChart(chart=alt.Chart.from_dict(spec), embed_options=options.get("embed_options"))
    shown = chart._repr_mimebundle_()
    data, metadata = shown if isinstance(shown, tuple) else (shown, {})
    return {**(data or {}), "image/svg+xml": picture(spec)}, metadata
