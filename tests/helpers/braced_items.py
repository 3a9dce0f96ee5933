"""Items made from texts in which braces mark the answer: ``It rained . The {dog} ran .``."""

from hypothesis import strategies as st

from workbench.items import text as wt
from workbench.items.items import Item, Items

LETTERS = st.text("abcxyzABC", min_size=1, max_size=5)
TOKENS = st.one_of(
    LETTERS,
    st.sampled_from(["``", "''", "-lrb-", "-rrb-", "did", "n't", "'s", ".", ",", "?", "...", "etc.", "--"]),
    st.sampled_from(["can", "not", "'", "`", '"', "$", "5", "é", "日本", "😀", "_____", "<b>", "x\ue000y"]),
)


def cloze(marked, item_id="x/dev/0", **values):
    """Make an item; the target sentence is the one with the braces, ``{}`` is an unknown answer."""
    left, _, rest = marked.partition("{")
    answer, _, right = rest.partition("}")
    text, span = left + answer + right, (len(left), len(left) + len(answer))
    tokenised = values.get("tokenised", True)
    starts = [start for start, _ in wt.sentences(text, tokenised=tokenised) if start <= span[0]] or [0]
    ends = [*(len(text[:start].rstrip()) for start in starts[1:]), len(text)]
    dataset, split, _ = item_id.split("/")
    known = {"dataset": dataset, "split": split, "variant": "plain", "text": text} | values
    spans = tuple(zip(starts, ends, strict=True))
    return Item(item_id=item_id, answer=answer or None, answer_span=span, sentences=spans, **known)


def clozes(*marked, dataset="x", **values):
    """Make items with ids ``x/dev/0`` and so on."""
    return Items.from_records(cloze(text, f"{dataset}/dev/{i}", **values) for i, text in enumerate(marked))


def of_sentences(*sentences, place, answer, **values):
    """Make a tokenised item of lists of words; a word or nothing stands before a place in the last."""
    *before, last = sentences
    texts = [" ".join(words) for words in (*before, [*last[:place], answer, *last[place:]])]
    starts = [sum(len(text) + 1 for text in texts[:i]) for i in range(len(texts))]
    begin = starts[-1] + sum(len(word) + 1 for word in last[:place])
    spans = tuple((start, start + len(text)) for start, text in zip(starts, texts, strict=True))
    span = (begin, begin + len(answer))
    return Item("x/dev/0", "x", "dev", "plain", " ".join(texts), answer or None, span, spans, **values)


@st.composite
def passages(draw, *, known=None):
    """Draw a tokenised item with one to three sentences and a blank of one token anywhere in the last."""
    sentences = draw(st.lists(st.lists(TOKENS, min_size=1, max_size=8), min_size=1, max_size=3))
    place = draw(st.integers(0, len(sentences[-1]) - 1))
    word = sentences[-1].pop(place)
    known = draw(st.booleans()) if known is None else known
    return of_sentences(*sentences, place=place, answer=word if known else "")
