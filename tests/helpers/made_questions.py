"""Questions by a rule, and a plain encoder of questions, for the tests of readers."""

from collections import Counter
from dataclasses import replace

import numpy as np
from braced_items import of_sentences

from workbench.items.items import Items
from workbench.models.readers.encoding import RESERVED, UNKNOWN

FILLERS = [f"f{number}" for number in range(8)]
NAMES = [f"n{number}" for number in range(10)]


def made(rule, number, *, seed=0, candidates=4):
    """Make questions: `rule` gets a generator and the candidates; returns sentences, place and answer."""
    rng = np.random.default_rng(seed)
    items = []
    for row in range(number):
        choices = tuple(rng.permutation(NAMES)[:candidates].tolist())
        *sentences, place, answer = rule(rng, choices)
        item = of_sentences(*sentences, place=place, answer=answer, candidates=choices, tokenised=True)
        items.append(replace(item, item_id=f"x/dev/{row}"))
    return Items.from_records(items)


def plain(item, words, known):
    """Encode a question whose words are single tokens, one step at a time."""
    ids = {word: number for number, word in enumerate(known, RESERVED)}
    forms = []
    for word in words:
        if word.lower() not in forms:
            forms.append(word.lower())
    context, slots, sentences = [], [], []
    for number, sentence in enumerate(item.context):
        for word in sentence.lower().split():
            context.append(ids.get(word, UNKNOWN))
            slots.append(forms.index(word) + 1 if word in forms else 0)
            sentences.append(number)
    left, right = item.left.lower().split(), item.right.lower().split()
    query = [ids.get(word, UNKNOWN) for word in left] + [1] + [ids.get(word, UNKNOWN) for word in right]
    answer = item.answer.lower() if item.answer else None
    return {
        "context": context, "slots": slots, "sentences": sentences, "query": query,
        "candidates": [ids.get(form, UNKNOWN) for form in forms], "blank": len(left),
        "answer": forms.index(answer) if answer in forms else -1,
    }  # fmt: skip


def counted(items, words):
    """Count the words of questions, and their answers where these are among the words to choose from."""
    counts = Counter()
    for item, choices in zip(items, words, strict=True):
        counts.update(word for sentence in item.context for word in sentence.lower().split())
        counts.update(f"{item.left} {item.right}".lower().split())
        if item.answer.lower() in [word.lower() for word in choices]:
            counts[item.answer.lower()] += 1
    return counts
