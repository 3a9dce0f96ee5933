"""Files that a reader of the executed pages would have: a sample log of lm-evaluation-harness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HARNESS_LOG = "samples_lambada_openai_2026-01-01T00-00-00.jsonl"
_RUN = "sample-test-smollm2-135m-instruct-q4-1-a280e1e240"  # of the runs that come with the workbench


def write_harness_log(folder: Path) -> Path:
    """Write what SmolLM2 said of the sample's passages as lm-evaluation-harness logs it.

    The numbers are those of a run that comes with the workbench: the sum over the sub-tokens of the answer,
    without the end of the word, and whether each was the most probable one.
    """
    import workbench as wb  # noqa: PLC0415 - slow
    from workbench.predictions import store  # noqa: PLC0415 - slow
    from workbench.storage.paths import resource  # noqa: PLC0415 - slow

    items = wb.load("sample", "test", variant="capitalised")
    rows: Any = store.open_run(resource("published", "runs", _RUN)).predictions.set_index("item_id")
    lines = []
    for number, item in enumerate(items):
        row = rows.loc[item.item_id]
        context, _, answer = item.text.rpartition(" ")
        response = [str(row["log_prob_uncorrected"]), str(bool(row["greedy_correct"]))]
        record = {
            "doc_id": number, "doc": {"text": item.text}, "target": f" {answer}",
            "arguments": {"gen_args_0": {"arg_0": context, "arg_1": f" {answer}"}},
            "resps": [[response]], "filtered_resps": [response], "filter": "none",
            "metrics": ["perplexity", "acc"], "doc_hash": "0" * 64,
            "perplexity": row["log_prob_uncorrected"], "acc": int(row["greedy_correct"]),
        }  # fmt: skip
        lines.append(json.dumps(record, ensure_ascii=False))
    path = folder / HARNESS_LOG
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path
