"""Every table and static page of the workbench, on a home of its own."""

from patience import PATIENCE
from random_predictions import annotated, predicted

import workbench as wb
from workbench.items import notes as remarks
from workbench.models import NGram

ITEMS = wb.load("sample", variant="capitalised")[:40]
RUNS = predicted(ITEMS, 3)
TEXT = "It rained all night. She opened the bag and looked for the ___ again."


def asked():
    models = [NGram.fit(wb.books("sample"), order=2)]
    widget = wb.ask(models, TEXT, word="key", other=TEXT.replace("bag", "door")).wait(PATIENCE)
    html = widget.to_html()
    widget.close()
    return html


def saved_comparison():
    return wb.compare(ITEMS, RUNS, None, resamples=20).saved.html()


def noted():
    item = ITEMS[0]
    remarks.write_notes(item.dataset, {item.item_id: {"tags": ["odd"], "text": item.text}})
    return wb.notes()._repr_html_()


PAGES = {
    "available": lambda: wb.available()._repr_html_(),
    "notes": noted,
    "models": lambda: wb.models()._repr_html_(),
    "runs": lambda: wb.runs()._repr_html_(),
    "evaluate": lambda: wb.evaluate(RUNS, resamples=20).to_html(),
    "leaderboard": lambda: wb.leaderboard(RUNS, resamples=20).to_html(),
    "significance": lambda: wb.significance(RUNS[0], RUNS[1], resamples=20).to_html(),
    "contamination": lambda: wb.contamination(ITEMS, "sample")._repr_html_(),
    "items": ITEMS._repr_html_,
    "statistics": lambda: wb.statistics(ITEMS, annotated(ITEMS))._repr_html_(),
    "browse": lambda: wb.browse(ITEMS, annotated(ITEMS), RUNS, state={"table": True}).to_html(),
    "explore": lambda: wb.explore(ITEMS, annotated(ITEMS)).to_html(),
    "compare": lambda: wb.compare(ITEMS, RUNS, annotated(ITEMS), resamples=20).to_html(),
    "compare, saved": saved_comparison,
    "table of the CBT": lambda: wb.table("cbt", RUNS, resamples=20).to_html(),
    "ask": asked,
}
