import re

import numpy as np
import pandas as pd
from braced_items import cloze
from html_page import Page
from made_predictions import made

from workbench.evaluation.comparison import Comparison
from workbench.evaluation.significance import significance
from workbench.items.items import Items
from workbench.render.numbers import MINUS
from workbench.widgets.compare.page import comparison_page

RTL, ZERO, LONG = "\u202eشمس\u202c", "zero\u200bwidth", "w" * 3000


def compared(words=("dog", "sun", "moon"), m=3, n=3, **columns):
    frames, rows = [], []
    for k in range(m):
        frame = made(n, seed=k, right=0.5, model=f"model {k}").assign(**columns)
        values = [[-0.1 * k - 0.5 * place for place in range(len(words))]] * n
        frames.append(frame.assign(top_words=pd.Series([list(words)] * n), top_log_probs=pd.Series(values)))
    for item_id, answer in zip(frames[0]["item_id"], frames[0]["answer"], strict=True):
        rows.append(cloze(f"The dog ran . I saw the {{{answer}}} .", item_id=item_id))
    return Comparison.of(Items.from_records(rows), frames, resamples=20), frames


def test_the_page_is_a_document_that_asks_for_nothing():
    html = comparison_page(compared()[0])
    assert html.startswith("<!DOCTYPE html>")
    read = Page(html)
    assert not {"script", "link", "img", "iframe", "base", "form", *read.open} & set(read.tags)
    assert not re.search(r"url\(|@import|https?://|javascript:", html)
    assert ("http-equiv", "Content-Security-Policy") in read.attributes
    assert "prefers-color-scheme:dark" in html


def test_the_models_and_pairs_are_told():
    found, _ = compared(n=40)
    html = comparison_page(found, limit=0)
    read = Page(html)
    pairs = found.pairs()
    for row in found.table().itertuples():
        assert row.label in read.text
        low, high = 100 * row.accuracy_low, 100 * row.accuracy_high
        assert f"{100 * row.accuracy:.1f} % [{low:.1f}, {high:.1f}]" in html
    titles = [value for name, value in read.attributes if name == "title" and value and "minus" in value]
    assert len(titles) == 2 * len(pairs)
    for row in pairs.itertuples():
        points = (
            f"{100 * row.difference:+.1f}".replace("+0.0", "0.0").replace("-0.0", "0.0").replace("-", MINUS)
        )
        told = next(t for t in titles if t.startswith(f"{row.label_a} minus {row.label_b}: {points} points"))
        assert f"{row.n_only_a:,} items only the first got right; {row.n_only_b:,} only the second" in told
    assert "<article" not in html
    rows = np.flatnonzero(found.cell(1, 2))
    told = ["model 1 right, model 2 wrong", "Genre: novel"]
    html = comparison_page(found, rows, pair=(2, 1), outcome="only second", filters=told, models=[1], limit=2)
    assert "Items: model 1 right, model 2 wrong; Genre: novel" in Page(html).text
    assert f"{len(rows)} of 40 items, the first 2 of them here; original order" in html
    assert html.count('class="up chosen"') + html.count('class="down chosen"') + html.count('"chosen"') == 1
    assert html.count("<section><h3><bdi>") == 2, "one model is shown below"
    assert "exploratory" not in html, "there is nothing to test"
    assert "points [" in (text := Page(comparison_page(found, rows, pair=(1, 2), filters=told[1:])).text)
    assert "; exploratory" in text


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
    compared = Comparison.of(items, frames, resamples=20)
    html = comparison_page(compared, np.arange(400), pair=(0, 1), filters=["all"], limit=1)
    text = Page(html).text
    assert text.count(f"{MINUS}10.3") >= 2  # the matrix, and the items that are listed
    assert f"{MINUS}10.3 points" in html  # a tooltip
    assert not re.search(r"-\d|-10\.|10\.2\b", text)
    result = significance(*frames, resamples=20)
    for shown in (Page(result.to_html()).text, result.to_markdown(), str(result.table), str(result)):
        assert f"{MINUS}10.3 points" in shown
    assert "$-$10.3" in result.to_latex()


def test_the_matrix_numbers_many_models_and_needs_two():
    assert "10 model 9" in Page(comparison_page(compared(m=10, n=4)[0], limit=1)).text
    assert "Differences in accuracy" not in comparison_page(compared(m=1)[0])


def test_items_are_listed_as_asked_for():
    comparison, _ = compared(n=6)
    ids = comparison.items.frame["item_id"]
    cases = [(None, 100, range(6)), (None, 2, [0, 1]), (np.array([4, 0, 2]), 100, [4, 0, 2])]
    for rows, limit, places in [*cases, (np.array([], dtype=int), 100, [])]:
        html = comparison_page(comparison, rows, limit=limit)
        listed = re.findall(r"<article><header><bdi>(\S+)</bdi>", html)
        assert listed == ids.iloc[list(places)].tolist()


def test_bars_have_one_scale_and_the_answer_is_marked():
    html = comparison_page(compared(words=("dog", "word0", "sun"), n=1, m=2)[0])
    for k, part in enumerate(html.split("<section><h3>")[-2:]):  # the first model's best word: probability 1
        bars = re.findall(r'<div class="w( in)?( t)?( last)?">.*?--v:([\d.]+)%', part)
        sizes = [float(size) for *_, size in bars]
        np.testing.assert_allclose(sizes, 100 * np.exp([-0.1 * k, -0.1 * k - 0.5, -0.1 * k - 1]), atol=0.06)
        marked = [(bool(inside), bool(target)) for inside, target, *_ in bars]
        assert marked == [(True, False), (False, True), (False, False)]
    assert '<div class="p" dir="auto">The dog ran.</div>' in html
    assert "I saw the <mark>word0</mark>." in html


def test_an_answer_that_is_no_best_word_has_a_line_of_its_own():
    found, frames = compared(n=1, m=1, rank_is_bound=True)
    html = comparison_page(found)
    assert html.count('class="w t last"') == 1
    assert f"rank ≥ {frames[0]['rank'][0]:,}" in html


def test_scores_and_no_best_words():
    found, frames = compared(n=2, m=2)
    given = [frames[0].assign(score_type="score", log_prob=np.nan), frames[1].assign(top_words=None)]
    html = comparison_page(Comparison.of(found.items, given, resamples=20))
    sizes = re.findall(r'<div class="w[^"]*">.*?--v:([\d.]+)%', html.split("<article>")[1])
    assert sizes[:3] == ["100.0", "50.0", "0.0"]
    assert re.search(r"data-of=\"perplexity\">\N{EN DASH}", html)


def test_attention_is_shown_where_it_fits_the_tokens():
    found, frames = compared(n=1, m=1)
    weights = [0.1] * 8 + [0.4]
    cut = Comparison.of(found.items, frames[0].assign(attention=pd.Series([weights])), resamples=20)
    assert comparison_page(cut).count('<span style="--a:25%">') == 8
    assert '<span style="--a:100%">' in comparison_page(cut)
    short = Comparison.of(found.items, frames[0].assign(attention=pd.Series([[0.5]])), resamples=20)
    assert "attention" not in comparison_page(short).split("<body>")[1]


def test_slices_are_told():
    found, frames = compared(n=40)
    kinds = pd.DataFrame(
        {"item_id": frames[0]["item_id"], "target_class": ["PN", "V"] * 20, "word_class": ["a<", "b"] * 20}
    )
    html = comparison_page(Comparison.of(found.items, frames, annotations=kinds, resamples=20), limit=0)
    assert "Target class" in Page(html).text
    assert "proper noun 20 items" in Page(html).text
    assert "a&lt;" in html
