"""An annotations table with the columns and types that ``wb.annotate`` gives, made without a tagger."""

import re

import numpy as np
import pandas as pd

CLASSES = ["PN", "CN", "V", "J", "R", "O"]


def annotated(items, seed=0):
    """Annotate by the plain text, and by lot where that says nothing; every eleventh answer is unknown."""
    random = np.random.default_rng(seed)
    rows = []
    for number, item in enumerate(items):
        before = item.text[: item.answer_span[0]]
        answer = item.answer if number % 11 else None
        whole = rf"\b{re.escape(answer or '')}\b"
        found = [m.span() for m in re.finditer(whole, before, re.IGNORECASE)] if answer else []
        speech = [m.span() for m in re.finditer(r"``.*?''", item.text, re.DOTALL)]
        rows.append({
            "item_id": item.item_id,
            "target_class": CLASSES[min(5, int(random.exponential(1.4)))] if answer else None,
            "target_lemma": answer.lower() if answer else None,
            "in_context": bool(found) if answer else None,
            "lemma_in_context": bool(found) if answer else None,
            "mention_distance": len(before[found[-1][0] :].split()) if found else None,
            "n_mentions": len(found) if answer else None,
            "direct_speech": bool(speech),
            "n_tokens": len(item.text.split()),
            "mentions": found,
            "speech": speech,
            "pipeline": "by_lot 0.0.0",
        })  # fmt: skip
    kinds = dict.fromkeys(("item_id", "target_class", "target_lemma", "pipeline"), "str")
    kinds |= dict.fromkeys(("in_context", "lemma_in_context", "direct_speech"), "boolean")
    kinds |= dict.fromkeys(("mention_distance", "n_mentions", "n_tokens"), "Int64")
    return pd.DataFrame(rows).astype(kinds)
