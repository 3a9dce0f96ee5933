"""Passages and charts as HTML that needs neither kernel nor script: the widgets' static twins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import inf
from typing import Any

_STYLE = """
.wbs{--ink:#111;--soft:#555;--paper:#fff;--line:#ccc;--tint:#e3eefa;--hit:#ffe08a;--deep:#0b4f94;
color:var(--ink);background:var(--paper);font:15px/1.6 Georgia,serif;padding:12px 16px;max-width:76ch}
@media(prefers-color-scheme:dark){.wbs{--ink:#eee;--soft:#aaa;--paper:#16181c;--line:#444;--tint:#1d3550;
--hit:#6b5200;--deep:#8cc1ff}}
.wbs article{border-top:1px solid var(--line);padding:10px 0}
.wbs header,.wbs footer{font:12px/1.5 system-ui,sans-serif;color:var(--soft)}
.wbs .p{margin:8px 0;white-space:pre-wrap;overflow-wrap:anywhere}
.wbs .q{border-left:4px solid var(--deep);padding-left:10px}
.wbs article:has(details[open]) .m{text-decoration:underline 3px var(--deep);text-underline-offset:4px;
font-weight:600}
.wbs .s{background:var(--tint)}.wbs .h{background:var(--hit)}
.wbs details,.wbs details[open]::details-content{display:inline}
.wbs summary{display:inline-block;list-style:none;cursor:pointer;min-width:6em;text-align:center;
border-bottom:2px solid var(--deep);color:var(--soft)}
.wbs details[open] summary{min-width:0;border:0}.wbs details[open] summary span{display:none}
.wbs details[open] summary::after{content:"hide";font:11px system-ui,sans-serif;padding-right:4px}
.wbs details b{color:var(--deep)}
.wbs:has(.charts){max-width:none}
.wbs .charts{display:flex;flex-wrap:wrap;gap:12px 28px;font:12px/1.5 system-ui,sans-serif}
.wbs table{border-collapse:collapse;font:inherit}.wbs .charts b{display:block}
.wbs .charts :is(th,td){padding:0 8px 0 0;font-weight:400;text-align:left}
.wbs .charts .r{padding:0 0 0 8px;text-align:right}
.wbs .bar{width:130px;background:linear-gradient(var(--deep) 0 0) 0/var(--left) 11px no-repeat,
linear-gradient(var(--tint) 0 0) 0/var(--all) 11px no-repeat;background-position:0 center}
.wbs svg{display:block;width:270px}.wbs svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.wbs .all{fill:var(--tint)}.wbs .left{fill:var(--deep)}
.wbs .off{--deep:#8a8a8a;--tint:var(--line)}
"""

_WIDE, _HIGH = 250, 100  # of a histogram, in px


def page(passages: Sequence[Mapping[str, Any]], shown: int, total: int, filters: Mapping[str, Any]) -> str:
    """Return the passages as HTML.

    Parameters
    ----------
    passages : sequence of mapping
        Passages as the browser sends them to the page.
    shown, total : int
        How many items pass the filters, and how many there are.
    filters : mapping
        What was searched and chosen.

    Returns
    -------
    str
        A fragment that stands by itself: style and text, everything from data escaped.
    """
    chosen = [f"{filters['field']} matches “{filters['query']}”"] if filters.get("query") else []
    chosen += [f"{name}: {', '.join(map(str, values))}" for name, values in filters.get("facets", {}).items()]
    some = f"{len(passages):,} of " if len(passages) < shown else ""
    head = f"{some}{shown:,} of {total:,} items{'; ' if chosen else ''}{'; '.join(chosen)}"
    body = "".join(_article(passage) for passage in passages)
    return (
        f'<meta charset="utf-8"><style>{_STYLE}</style>'
        f'<div class="wbs"><header>{escape(head)}</header>{body}</div>'
    )


def charts(state: Mapping[str, Any]) -> str:
    """Return the charts of a linked view as HTML: tables with bars, histograms as SVG.

    Parameters
    ----------
    state : mapping
        What the charts draw, as the widget sends it to the page.

    Returns
    -------
    str
        A fragment that stands by itself, everything from data escaped.
    """
    said = "; ".join(text for _, text in state["words"])
    head = f"{state['shown']:,} of {state['total']:,} passages{': ' if said else ''}{said}"
    body = "".join(_chart(chart) for chart in state["charts"])
    return (
        f'<meta charset="utf-8"><style>{_STYLE}</style>'
        f'<div class="wbs"><p><b>{escape(head)}</b></p><div class="charts">{body}</div></div>'
    )


def _chart(chart: Mapping[str, Any]) -> str:
    drawn = {"bars": _bars, "bins": _bins}.get(chart["kind"], lambda c: escape(c["why"]))(chart)
    return f"<div><b>{escape(chart['title'])}</b>{drawn}</div>"


def _bars(chart: Mapping[str, Any]) -> str:
    most = max(total for *_, total, _ in chart["rows"])
    chosen = chart["chosen"]
    rows = "".join(
        f'<tr{_off(not chosen or value in chosen)}><th scope="row">{escape(label)}</th>'
        f'<td class="bar" style="--all:{total / most:.2%};--left:{left / most:.2%}"></td>'
        f'<td class="r">{left:,} of {total:,}</td></tr>'
        for value, label, total, left in chart["rows"]
    )
    return f"<table>{rows}</table>"


def _bins(chart: Mapping[str, Any]) -> str:
    starts, width, most = chart["starts"], chart["width"], max(1, *chart["total"])
    names = [f"{start}" if width == 1 else f"{start} to {start + width - 1}" for start in starts]
    if chart["open"]:
        names[-1] = f"{starts[-1]} or more"
    wide = _WIDE / len(starts)
    low, high = (-inf if end is None else end for end in chart["chosen"] or (None, None))
    high = inf if high == -inf else high
    parts = []
    for place, (name, total, left) in enumerate(zip(names, chart["total"], chart["left"], strict=True)):
        box = f'x="{10 + place * wide:.1f}" width="{wide * 0.9:.1f}"'
        bars = "".join(
            f'<rect class="{kind}" {box} y="{_HIGH * (1 - n / most):.1f}" height="{_HIGH * n / most:.1f}"/>'
            for kind, n in (("all", total), ("left", left))
        )
        last = inf if chart["open"] and place == len(starts) - 1 else starts[place] + width - 1
        inside = _off(starts[place] <= high and last >= low)
        parts.append(f"<g{inside}><title>{name}: {left:,} of {total:,}</title>{bars}</g>")
        if place % -(-len(starts) // 5) == 0:
            parts.append(f'<text x="{10 + place * wide:.1f}" y="{_HIGH + 13}">{starts[place]}</text>')
    missing, total, left = chart["missing"]
    note = f"{escape(missing)}: {left:,} of {total:,}; " if total else ""
    return (
        f'<svg viewBox="0 0 {_WIDE + 20} {_HIGH + 16}" role="img" aria-label="{escape(chart["title"])}">'
        f"{''.join(parts)}</svg>{note}highest bar {most:,}"
    )


def _off(chosen: bool) -> str:  # noqa: FBT001 - the one thing it asks
    return "" if chosen else ' class="off"'


def _article(passage: Mapping[str, Any]) -> str:
    answer = "?" if passage["answer"] is None else passage["answer"]
    title = " · ".join([passage["id"], *([passage["source"]] if passage["source"] else []), *passage["kind"]])
    parts = [f"<header>{escape(title)}</header>"]
    if passage["context"]:
        parts.append(f'<div class="p" dir="auto">{_words(passage["context"], answer)}</div>')
    parts.append(f'<div class="p q" dir="auto">{_words(passage["query"], answer)}</div>')
    if passage["candidates"]:
        parts.append(f"<footer>Candidates: {escape(', '.join(passage['candidates']))}</footer>")
    if left := [*passage["tags"], *filter(None, [passage["note"]])]:
        parts.append(f"<footer>{escape('; '.join(left))}</footer>")
    return f"<article>{''.join(parts)}</article>"


def _words(pieces: Sequence[tuple[str, str]], answer: str) -> str:
    out = []
    for text, kinds in pieces:
        if "b" in kinds:
            out.append(f"<details><summary><span>_____</span></summary><b>{escape(answer)}</b></details>")
        elif kinds:
            out.append(f'<span class="{escape(" ".join(kinds))}">{escape(text)}</span>')
        else:
            out.append(escape(text))
    return "".join(out)
