import re

import numpy as np
import pandas as pd
from braced_items import cloze
from html_page import Page
from made_predictions import made

import workbench as wb
from workbench.evaluation.significance import significance
from workbench.items.items import Items
from workbench.render.numbers import MINUS


def compared(m=3, n=3, annotations=None, **columns):
    frames = [made(n, seed=k, right=0.5, model=f"model {k}").assign(**columns) for k in range(m)]
    rows = [
        cloze(f"The dog ran . I saw the {{{answer}}} .", item_id=item_id)
        for item_id, answer in zip(frames[0]["item_id"], frames[0]["answer"], strict=True)
    ]
    return wb.compare(Items.from_records(rows), frames, annotations, resamples=20), frames


def test_the_page_is_a_document_that_asks_for_nothing():
    html = compared()[0].to_html()
    assert html.startswith("<!DOCTYPE html>")
    read = Page(html)
    assert not {"script", "link", "img", "iframe", "base", "form", *read.open} & set(read.tags)
    assert not re.search(r"url\(|@import|https?://|javascript:", html)
    assert ("http-equiv", "Content-Security-Policy") in read.attributes
    assert "prefers-color-scheme:dark" in html


def test_the_models_and_the_differences_of_the_best_one_are_told():
    widget, _ = compared(n=40)
    text = Page(widget.to_html(limit=0)).text
    for row in widget.comparison.table().itertuples():
        low, high = 100 * row.accuracy_low, 100 * row.accuracy_high
        assert f"{row.label}Accuracy, % {100 * row.accuracy:.1f} [{low:.1f}–{high:.1f}]" in text  # noqa: RUF001
    best = widget.comparison.labels[widget._listing.best[0]]
    for row in widget.comparison.pairs().to_dict("records"):
        if best not in (row["label_a"], row["label_b"]):
            continue
        a, b, sign = ("a", "b", 1) if row["label_a"] == best else ("b", "a", -1)
        points = f"{100 * sign * row['difference']:+.1f}".replace("+0.0", "0.0").replace("-0.0", "0.0")
        assert (
            f"{best} right, {row[f'label_{b}']} wrong{row[f'n_only_{a}']:,} items; the other way: "
            f"{row[f'n_only_{b}']:,}. Difference {points.replace('-', MINUS)} points"
        ) in text
    assert "bootstrap with 20 replicates, seed 0" in text


def test_the_listed_items_have_numbers_of_their_own():
    widget, _ = compared(n=40)
    widget.state = {"search": "word1"}
    rows = widget._listing.rows
    assert 0 < len(rows) < 40
    text = Page(widget.to_html()).text
    for k in range(3):
        share = 100 * widget.comparison.correct[k, rows].mean()
        assert f"of the listed items {share:.1f} %" in text


def test_a_difference_is_written_as_in_tables():
    frames = [made(400, right=0, oov=0, tied=0, model=name) for name in ("A", "B")]
    right = {"correct": True, "p_correct": 1.0, "rank": 1, "prediction": frames[1]["answer"]}
    frames[1].loc[:40, list(right)] = pd.DataFrame(right, index=frames[1].index)  # 41 of 400: 10.25 points
    items = Items.from_records(
        [
            cloze(f"The {{{word}}} ran .", item_id=item_id)
            for item_id, word in frames[0][["item_id", "answer"]].to_numpy()
        ]
    )
    text = Page(wb.compare(items, frames, None, state={"baseline": "B"}, resamples=20).to_html(limit=1)).text
    assert f"A minus B{MINUS}10.3" in text
    assert not re.search(r"-\d|-10\.|10\.2\b", text.partition("Show it again")[0])
    result = significance(*frames, resamples=20)
    for shown in (Page(result.to_html()).text, result.to_markdown(), str(result.table), str(result)):
        assert f"{MINUS}10.3 points" in shown
    assert "$-$10.3" in result.to_latex()


def test_items_are_listed_as_asked_for():
    widget, frames = compared(n=6, m=2)
    ids = widget.comparison.items.frame["item_id"].tolist()
    for limit in (100, 2, 0):
        html = widget.to_html(limit=limit)
        assert (
            re.findall(r'<th scope="row"><bdi>([^<]+)</bdi></th><td dir="auto">The dog', html) == ids[:limit]
        )
    widget.state = {"sort": "all right"}
    order = widget.to_frame()["item_id"].tolist()
    text = Page(widget.to_html()).text
    assert [text.index(item_id) for item_id in order] == sorted(text.index(item_id) for item_id in ids)
    mark = "✓" if frames[0]["correct"][0] else "✗"
    assert f"{frames[0]['answer'][0]}{mark} {frames[0]['prediction'][0]}, " in text


def test_ranks_and_probabilities_that_are_not_known():
    widget, frames = compared(n=2, m=1, rank_is_bound=True)
    assert f"rank ≥ {frames[0]['rank'][0]:,}, ln p " in Page(widget.to_html()).text
    text = Page(compared(n=2, m=1, score_type="score", log_prob=np.nan)[0].to_html()).text
    assert "Perplexity" not in text
    assert "ln p" not in text.partition("ItemPassage")[2]
    assert "probability 0" in Page(compared(n=2, m=1, log_prob=-np.inf)[0].to_html()).text


def test_slices_are_told():
    ids = made(40)["item_id"]
    classes = pd.DataFrame({"item_id": ids, "target_class": ["PN", "V"] * 20, "word_class": ["a<", "b"] * 20})
    widget, _ = compared(n=40, annotations=classes)
    assert "Target class: proper noun20 items; model 0 " in Page(widget.to_html(limit=0)).text
    widget.column = "word_class"
    assert ": a&lt;</bdi>" in widget.to_html(limit=0)
