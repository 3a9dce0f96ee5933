"""Small frames of annotations, made by hand or drawn."""

import pandas as pd
from hypothesis import strategies as st

CLASSES = ["PN", "CN", "V", "J", "R", "O"]

# One row per item: class, form and lemma in context, mentions, those in the context, distance, speech,
# target in speech, tokens, context sentences. The last row has no answer.
ROWS = [
    ("PN", True, True, 3, 2, 7, True, True, 71, 4),
    ("PN", True, True, 1, 1, 12, True, False, 74, 5),
    ("PN", False, True, 1, 0, 3, False, False, 80, 5),
    ("PN", False, False, 0, 0, None, False, False, 66, 3),
    ("CN", True, True, 1, 1, 24, True, True, 90, 6),
    ("CN", False, False, 0, 0, None, True, False, 75, 4),
    ("CN", False, False, 0, 0, None, False, False, 77, 4),
    ("V", False, False, 0, 0, None, True, True, 70, 3),
    ("R", False, True, 2, 2, 10, False, False, 72, 5),
    (None, None, None, None, None, None, True, False, 69, 4),
]
TYPES = {
    "target_class": "str", "in_context": "boolean", "lemma_in_context": "boolean",
    "n_mentions": "Int64", "n_context_mentions": "Int64", "mention_distance": "Int64",
    "direct_speech": "boolean", "target_in_speech": "boolean",
    "n_tokens": "Int64", "n_context_sentences": "Int64",
}  # fmt: skip


def frame(rows=ROWS, ids="x/dev"):
    """Make a frame of annotations with ids ``x/dev/0`` and so on."""
    columns = zip(*rows, strict=True) if rows else [[]] * len(TYPES)
    made = {
        name: pd.array(list(column), dtype=kind)
        for (name, kind), column in zip(TYPES.items(), columns, strict=True)
    }
    return pd.DataFrame({"item_id": [f"{ids}/{i}" for i in range(len(rows))], **made, "pipeline": "hand 1"})


@st.composite
def frames(draw, *, least=0):
    """Draw a frame of annotations; any value about the target may be null, all together."""
    truth = st.booleans()
    distance = st.one_of(st.none(), st.integers(1, 60))
    counts = [st.integers(0, 4), st.integers(0, 2), distance]
    sizes = [st.integers(1, 90), st.integers(0, 9)]
    row = st.tuples(st.sampled_from(CLASSES), truth, truth, *counts, truth, truth, *sizes)
    rows = draw(st.lists(st.one_of(row, st.just(ROWS[-1])), min_size=least, max_size=25))
    return frame(rows)
