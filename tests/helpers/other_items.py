"""What tests of annotating need in other processes: imports nothing that is slow."""

import importlib.util
import sys

import pandas as pd

from workbench.analysis import tagging
from workbench.items.items import Items


def more(items, n, start=0):
    """Give `n` items of other texts: those of a set, with a sentence of their own before."""
    rows = []
    for number in range(start, start + n):
        item = items[number % len(items)]
        text = f"Note {number} . {item.text}"
        rows.append({"item_id": f"x/{number:05d}", "text": text, "answer": item.answer})
    return Items.from_frame(pd.DataFrame(rows), text="text", answer="answer", item_id="item_id")


def imports_torch(name):
    """Load a pipeline; return whether that imported PyTorch, and whether it can be imported afterwards."""
    tagging.load(name)
    return "torch" in sys.modules, importlib.util.find_spec("torch") is not None
