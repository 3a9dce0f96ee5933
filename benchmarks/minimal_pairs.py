"""How many texts of minimal pairs a second a pretrained model scores, beside minicons at its best batch size.

    python benchmarks/minimal_pairs.py [--model smollm2-135m] [--texts blimp/] [--rounds 3]
                                       [--batches 1,8,16,32,64,128] [--tried 400] [--n 800]
                                       [--device cpu] [--threads 2]

The texts are those of BLiMP's sets in $WORKBENCH_DATA (1,600 of eight sets), or of ``--texts``. Both get the
same texts, the same weights and a mark of the beginning. ``pip install minicons`` brings what is compared.

1. ``IncrementalLMScorer.sequence_score`` of minicons (the sum, ``bos_token=True``) at each batch size, on
   some texts of all sets. The fastest is its best.
2. In turns, for some rounds, all texts: minicons at its best, and ``wb.score_texts``, which also computes the
   end of the last word and stores the scores. The ratio is that of neighbours in time; its median counts.
   The ratio of processor time, with ``--threads 1``, holds on a machine that does other work too.

The sums over the sub-tokens must be equal to 1e-4 nats.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from _report import Row, tell
from _timing import timed

import workbench as wb
from workbench.models import CausalLM
from workbench.probing.pairs import read_pairs

GOAL = 1.3  # times minicons
CLOSE = 1e-4


def parsed() -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m", help="a folder, or a name")
    parser.add_argument("--texts", default="blimp/")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", default="1,8,16,32,64,128")
    parser.add_argument("--tried", type=int, default=400, help="texts on which the batch sizes are tried")
    parser.add_argument("--n", type=int, help="pairs of all sets that are scored; all by default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main() -> int:
    """Run the benchmark; 1 if the numbers differ."""
    options = parsed()
    if importlib.util.find_spec("minicons") is None:
        print("minicons is not installed, and nothing is compared: pip install minicons")
        return 0
    import torch  # noqa: PLC0415 - slow
    from minicons.scorer import IncrementalLMScorer  # type: ignore[import-not-found]  # noqa: PLC0415

    warnings.simplefilter("ignore")
    os.environ["TQDM_DISABLE"] = "1"
    torch.set_num_threads(options.threads)
    table = read_pairs(options.texts)
    table = table.iloc[:: max(1, len(table) // (options.n or len(table)))]
    texts = [
        text for pair in zip(table["sentence_good"], table["sentence_bad"], strict=True) for text in pair
    ]
    model = CausalLM(options.model, device=options.device, dtype="float32")
    checkpoint = model._checkpoint  # noqa: SLF001 - the same weights for both
    tokenizer = checkpoint.tokenizer
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    scorer = IncrementalLMScorer(checkpoint.model, options.device, tokenizer=tokenizer)

    def theirs(size: int, rows: list[str]) -> list[float]:
        batches = [rows[start : start + size] for start in range(0, len(rows), size)]
        sums = [
            scorer.sequence_score(batch, reduction=lambda values: values.sum(0).item(), bos_token=True)
            for batch in batches
        ]
        return [value for batch in sums for value in batch]

    tried = texts[:: max(1, len(texts) // options.tried)]
    sizes = list(map(int, options.batches.split(",")))
    theirs(sizes[-1], tried[: sizes[-1]])
    once = {size: timed(1, partial(theirs, size, tried))[0][0] for size in sizes}
    best = min(sizes, key=lambda size: once[size])
    print("minicons, texts/s: " + ", ".join(f"{len(tried) / once[size]:.1f} at {size}" for size in sizes))
    wb.score_texts(model, tried[:8])
    seconds: dict[str, list[float]] = {"minicons": [], "ours": []}
    processor = [time.process_time()]
    for _ in range(options.rounds):
        (taken,), expected = timed(1, lambda: theirs(best, texts))
        seconds["minicons"].append(taken)
        processor.append(time.process_time())
        with tempfile.TemporaryDirectory() as home:
            os.environ["WORKBENCH_HOME"] = str(Path(home))  # nothing is stored there yet
            (taken,), frame = timed(1, lambda: wb.score_texts(model, texts))
        seconds["ours"].append(taken)
        processor.append(time.process_time())
    ratios = [a / b for a, b in zip(seconds["minicons"], seconds["ours"], strict=True)]
    speeds = [len(texts) / statistics.median(seconds[name]) for name in ("ours", "minicons")]
    row = Row(
        f"texts, {model.name}", speeds[0], "texts/s", peer=f"minicons at {best}", theirs=speeds[1],
        ratio=statistics.median(ratios), higher=True, times=GOAL,
    )  # fmt: skip
    tell(row)
    print(f"{len(texts):,} texts: ours {speeds[0]:.1f} texts/s, minicons at {best} {speeds[1]:.1f}; ", end="")
    print(f"ratio {row.ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}), goal {GOAL}")
    used = np.diff(processor).reshape(-1, 2).sum(axis=0)
    print(f"processor time: minicons {used[0]:.1f} s, ours {used[1]:.1f} s; ratio {used[0] / used[1]:.2f}")
    difference = float(np.abs(np.array(expected) - frame["log_prob_uncorrected"].to_numpy(float)).max())
    print(f"largest difference of a sum: {difference:.1e} nats")
    return 0 if difference <= CLOSE else 1


if __name__ == "__main__":
    sys.exit(main())
