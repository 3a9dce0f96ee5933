"""Predictions and annotations of items, by lot, and widgets whose messages are kept."""

import json
import re

import numpy as np
import pandas as pd

from workbench.items.tokens import tokens
from workbench.predictions.schema import check_predictions, frame_of_answers

WORDS = ["the", "a", "of", "little", "house", "garden", "river", "window", "mother", "said"]
CLASSES = ["PN", "CN", "V", "J", "R", "O"]


def predicted(items, m=4, *, seed=0, names=None, scores=(2,), attentive=(1,)):
    """Return a frame per model, each better than the last; `scores` and `attentive` are places of models."""
    return [
        _one(items, np.random.default_rng([seed, k]), names[k] if names else f"model {k}",
             0.15 + 0.5 * k / m, score=k in scores, attentive=k in attentive)
        for k in range(m)
    ]  # fmt: skip


def _one(items, random, name, right, *, score, attentive):
    n = len(items)
    ok = random.random(n) < right
    lists, values = [], []
    for answer, good in zip(items.frame["answer"], ok, strict=True):
        words = [word for word in random.permutation(WORDS).tolist() if word != answer]
        lists.append([answer, *words[:-1]] if good else words)
        part = np.sort(random.dirichlet(np.full(len(WORDS) + 2, 0.4)))[::-1][: len(lists[-1])]
        values.append((part if score else np.log(np.maximum(part, 1e-9))).tolist())
    columns = {
        "model": name, "score_type": "score" if score else "log_prob", "n_tied": 1, "n_choices": 3000,
        "rank": np.where(ok, 1, random.integers(2, 3000, n)),
        "log_prob": np.nan if score else -random.gamma(3, 1.5, n),
        "top_words": lists, "top_log_probs": values,
    }  # fmt: skip
    if attentive:
        weights = [np.full(len(tokens(item).words), 0.2) for item in items]
        columns["attention"] = [random.dirichlet(row).tolist() for row in weights]
    variant = {"vocabulary_size": 3000, "unknown": "unk"}
    words = [row[0] for row in lists]
    return check_predictions(frame_of_answers(items.frame, words, columns, variant), items)


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


def listening(widget):
    """Keep what a widget sends to its page, as the page would read it."""
    widget.sent = []
    widget.send = lambda content, _buffers=None: widget.sent.append(json.loads(json.dumps(content)))
    return widget


def ask(widget, **message):
    """Let the page ask, and return the answers."""
    widget.sent.clear()
    widget._handle_message(widget, message, [])
    return list(widget.sent)
