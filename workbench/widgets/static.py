"""Passages as a page of HTML that needs neither kernel nor script: the static twin of the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
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
.wbs details,.wbs details::details-content{display:inline}.wbs summary{display:inline-block;list-style:none;
cursor:pointer;min-width:6em;text-align:center;border-bottom:2px solid var(--deep);color:var(--soft)}
.wbs details[open] summary{min-width:0;border:0}.wbs details[open] summary span{display:none}
.wbs details[open] summary::after{content:"hide";font:11px system-ui,sans-serif;padding-right:4px}
.wbs details b{color:var(--deep)}
"""


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
