"""Items as HTML for a notebook: a passage that can be read, the blank marked, the target folded away."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import jinja2

BLANK_MARK = "▁▁▁"
_END = 110  # characters of a passage before the blank in a table

_STYLE = """
<style>
.wb-items{color:var(--jp-content-font-color1,inherit);max-width:78ch;overflow-x:auto;
font:14px/1.6 var(--jp-ui-font-family,system-ui,sans-serif)}
.wb-items p{margin:6px 0;white-space:pre-line}
.wb-items .c{color:var(--jp-content-font-color2,inherit)}
.wb-items small,.wb-items summary{color:var(--jp-content-font-color2,inherit);font-size:12px}
.wb-items mark{color:inherit;background:var(--jp-warn-color3,#ffe0b2);border-radius:3px;padding:0 3px}
[data-jp-theme-light="false"] .wb-items mark{background:#5d4a1f}
.wb-items table{border-collapse:collapse;font:inherit;font-size:13px;color:inherit;background:transparent}
.wb-items :is(th,td){text-align:left!important;vertical-align:top;padding:3px 10px 3px 0;border:0;
background:transparent}
.wb-items th{border-bottom:1px solid var(--jp-border-color1,#8888)}
.wb-items td:first-child{white-space:nowrap}
</style>
"""
_ITEM = """
<div class="wb-items"><small>{{ item.item_id }} · {{ item.variant }}
{%- if item.word_class %} · {{ item.word_class }}{% endif %}
{%- if item.book_id %} · {{ item.book_id }}{% endif %}</small>
<p><span class="c">{{ parts.context }}</span>{{ parts.left }}<mark>{{ blank }}</mark>{{ parts.right }}</p>
{%- if item.candidates %}<p><small>candidates: {{ item.candidates | join(", ") }}</small></p>{% endif %}
<details><summary>target</summary>{{ item.answer or "not known" }}</details></div>
"""
_ITEMS = """
<div class="wb-items" tabindex="0" role="region" aria-label="Items"><table aria-label="Items"><thead><tr>
<th scope="col">item</th><th scope="col">end of the passage</th><th scope="col">target</th></tr></thead>
<tbody>
{%- for item, parts in rows %}<tr><td>{{ item.item_id }}</td>
<td>{{ parts.end }}<mark>{{ blank }}</mark>{{ parts.right }}</td>
<td>{{ item.answer or "" }}</td></tr>{% endfor -%}
</tbody></table><small>{{ rows | length }} of {{ summary }}</small></div>
"""


class ReadableParts(NamedTuple):
    """An item as readable text: the context, and the target sentence before and after the blank."""

    context: str
    left: str
    right: str

    @property
    def end(self) -> str:
        """The passage before the blank, cut to its last words."""
        passage = f"{self.context}{self.left}"
        return passage if len(passage) <= _END else f"…{passage[-_END:].partition(' ')[2]}"


def item_html(item: object, readable: ReadableParts) -> str:
    """Return one item as an escaped HTML fragment."""
    return _template(_STYLE + _ITEM).render(item=item, parts=readable, blank=BLANK_MARK)


def items_html(rows: Iterable[tuple[object, ReadableParts]], summary: str) -> str:
    """Return a table of items as an escaped HTML fragment; `summary` says of how many."""
    return _template(_STYLE + _ITEMS).render(rows=list(rows), blank=BLANK_MARK, summary=summary)


@cache
def _template(source: str) -> jinja2.Template:
    import jinja2  # noqa: PLC0415 - only what is shown needs it

    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source.strip())
