"""How many passages a second our pretrained models read, beside lm-evaluation-harness at its best batch size.

    python benchmarks/harness.py [--size small|tiny] [--model smollm2-135m] [--n 200]
                                 [--rounds 5] [--batches 1,8,32,64] [--device cpu] [--dtype float32]
                                 [--threads 2] [--ranked 40]

The model is a GPT-2 with random weights, made here: ``small`` has the sizes of GPT-2's smallest (124M),
``tiny`` 2 layers of width 32. Its tokenizer is GPT-2's own where $WORKBENCH_DATA has it, else is trained on
the sample. After it the trained weights of ``--model`` are measured, a folder or a name: by default
SmolLM2-135M-Instruct where it is installed with the workbench. The passages are LAMBADA's development set
(cased) where $WORKBENCH_DATA has it, else the sample's. Both get the same passages and the same weights, and
nothing is fetched.

1. The harness at each batch size, once: ``HFLM.loglikelihood`` of ready requests, from texts to
   log-likelihoods, without its tasks and metrics. The fastest one is its best. ``auto`` finds the largest
   batch by running out of memory: on a CPU that ends the process, so it is tried on a GPU alone.
2. In turns, for some rounds: the harness at its best; ours, ``CausalLM.log_prob``, which asks for the same
   and for the end of the word; ours, ``CausalLM.predict``, which also writes the word that the model prefers,
   and makes the checked table. Random weights seldom end a word, so up to 12 sub-tokens are written;
   trained ones end it soon. The ratio is that of neighbours in time; its median over the rounds is
   reported, as other work on the machine slows both.

3. Exact ranks, by trained weights alone: ``CausalLM.predict`` with a vocabulary (LAMBADA's 60,000 words where
   $WORKBENCH_DATA has them, else those of the sample's books) beside ``CausalLM.log_prob`` of the same
   passages, ``--ranked`` of them, in processor time, one round after a warm one.

Accuracy (every sub-token greedy) must be equal, and perplexity (without the end of the word) to 1e-4.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _report import Row, tell
from _timing import timed

import workbench as wb
from workbench.datasets.lambada import vocabulary_at_hand
from workbench.texts.corpus import Corpus

GOALS = {"log_prob": 1.3, "predict": 1.0}  # times the harness, but for the size tiny
MOST_TIMES = 3.0  # what ranks may take, in times of log_prob
CLOSE = 1e-4
TRAINED = "smollm2-135m"
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"n_embd": 32, "n_layer": 2, "n_head": 4},
    "small": {"n_embd": 768, "n_layer": 12, "n_head": 12},
}
OFFLINE = {
    **dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1"),
    **dict.fromkeys(("HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"), "1"),
    "TOKENIZERS_PARALLELISM": "false",
}


def passages(n: int) -> wb.Items:
    """Give the passages."""
    try:
        return wb.load("lambada", "dev", variant="capitalised")[:n]
    except wb.DataError:
        return wb.load("sample", "dev", variant="capitalised")[:n]


def make(folder: Path, size: str, items: wb.Items) -> None:
    """Make the model."""
    import torch  # noqa: PLC0415 - after the settings
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer  # noqa: PLC0415

    source = Path(os.environ.get("WORKBENCH_DATA", "/nowhere")) / "tokenizers"
    files = source / "gpt2_encoder.json", source / "gpt2_vocab.bpe"
    if all(file.is_file() for file in files):
        for file, name in zip(files, ("vocab.json", "merges.txt"), strict=True):
            (folder / name).write_bytes(file.read_bytes())
    else:
        from tokenizers import ByteLevelBPETokenizer  # noqa: PLC0415

        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator(
            items.frame["text"].tolist(),
            vocab_size=2000,
            special_tokens=["<|endoftext|>"],
            show_progress=False,
        )
        trained.save_model(str(folder))
    tokenizer = GPT2Tokenizer.from_pretrained(folder)
    tokenizer.model_max_length = 1024
    tokenizer.save_pretrained(folder)
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **SIZES[size])
    GPT2LMHeadModel(config).save_pretrained(folder)


Said = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def harness(checkpoint: Any, items: wb.Items, batch: str, options: argparse.Namespace) -> Callable[[], Said]:
    """Return what lets the harness read all passages: log-likelihoods, and whether they were greedy."""
    from lm_eval.api.instance import Instance  # type: ignore[import-untyped]  # noqa: PLC0415
    from lm_eval.models.huggingface import HFLM  # type: ignore[import-untyped]  # noqa: PLC0415

    size: Any = int(batch) if batch.isdigit() else batch
    model = HFLM(
        pretrained=checkpoint.model,
        tokenizer=checkpoint.tokenizer,
        batch_size=size,
        device=options.device,
        dtype=options.dtype,
        max_batch_size=256,
    )
    pairs = [text.rpartition(" ")[::2] for text in items.frame["text"]]
    requests = [
        Instance("loglikelihood", {}, (before, f" {word}"), number, ("lambada", number, 1))
        for number, (before, word) in enumerate(pairs)
    ]

    def work() -> Said:
        answers = model.loglikelihood(requests, disable_tqdm=True)
        return np.array([value for value, _ in answers]), np.array([bool(greedy) for _, greedy in answers])

    return work


def measured(options: argparse.Namespace, source: str, size: str) -> bool:
    """Measure all of it, by the weights in a folder or of a name; return whether the numbers are equal."""
    import torch  # noqa: PLC0415

    from workbench.models.pretrained.causal import CausalLM  # noqa: PLC0415

    torch.set_num_threads(options.threads)
    items = passages(options.n)
    n = len(items)
    print(f"{n:,} passages; {size}; {options.device}")
    model = CausalLM(source, device=options.device, dtype=options.dtype)
    checkpoint = model._checkpoint  # noqa: SLF001 - the same weights for both
    works = {batch: harness(checkpoint, items, batch, options) for batch in options.batches.split(",")}
    next(iter(works.values()))()
    once = {batch: timed(1, work)[0][0] for batch, work in works.items()}
    best = min(once, key=lambda batch: once[batch])
    print("  harness, passages/s: " + ", ".join(f"{n / once[batch]:.1f} at {batch}" for batch in once))
    model.predict(items[:8])
    rounds: dict[str, list[float]] = {"harness": [], "log_prob": [], "predict": []}
    for _ in range(options.rounds):
        (seconds,), theirs = timed(1, works[best])
        rounds["harness"].append(seconds)
        (seconds,), _values = timed(1, lambda: model.log_prob(items))
        rounds["log_prob"].append(seconds)
        (seconds,), frame = timed(1, lambda: model.predict(items))
        rounds["predict"].append(seconds)
    for ours, goal in GOALS.items():
        ratios = [a / b for a, b in zip(rounds["harness"], rounds[ours], strict=True)]
        speeds = [n / statistics.median(rounds[name]) for name in (ours, "harness")]
        row = Row(
            f"{ours}, {size}", speeds[0], "passages/s", peer=f"lm-evaluation-harness at {best}",
            theirs=speeds[1], ratio=statistics.median(ratios), higher=True,
            times=None if size == "tiny" else goal,
        )  # fmt: skip
        tell(row)
        print(f"  {ours:8}: ours {speeds[0]:8.1f} passages/s, harness at {best} {speeds[1]:8.1f}; ", end="")
        print(f"ratio {row.ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    log_probs, greedy = (frame[name].to_numpy(float) for name in ("log_prob_uncorrected", "greedy_correct"))
    accuracies = [float(values.mean()) for values in (theirs[1], greedy)]
    perplexities = [float(np.exp(-values.mean())) for values in (theirs[0], log_probs)]
    print(f"  accuracy: harness {accuracies[0]:.6f}, ours {accuracies[1]:.6f}")
    print(f"  perplexity: harness {perplexities[0]:.4f}, ours {perplexities[1]:.4f}")
    print(f"  largest difference of a log-probability: {np.abs(theirs[0] - log_probs).max():.2e}")
    return accuracies[0] == accuracies[1] and abs(perplexities[1] / perplexities[0] - 1) <= CLOSE


def ranked(options: argparse.Namespace, source: str) -> None:
    """Measure the ranks among the words of a vocabulary."""
    import torch  # noqa: PLC0415

    from workbench.models.pretrained.causal import CausalLM  # noqa: PLC0415

    torch.set_num_threads(1)  # processor time of several threads is mostly waiting
    items = passages(options.n).sample(options.ranked)
    words = list(vocabulary_at_hand() or Corpus.of(wb.books("sample")).vocabulary())[:60_000]
    model = CausalLM(source, vocabulary=words, device=options.device, dtype=options.dtype)
    model.predict(items[:2])
    start = time.process_time()
    model.log_prob(items)
    seconds = {"log_prob": time.process_time() - start}
    start = time.process_time()
    frame = model.predict(items)
    seconds["predict"] = time.process_time() - start
    ratio = seconds["predict"] / seconds["log_prob"]
    bounds = int(frame["rank_is_bound"].fillna(value=False).sum())
    print(
        f"  ranks among {len(words):,} words: {ratio:.2f} times log_prob; {len(items)} passages, "
        f"{bounds} bounds; goal {MOST_TIMES:g}: {'met' if ratio <= MOST_TIMES else 'MISSED'}"
    )
    tell(Row("exact ranks", ratio, "times log_prob", goal=MOST_TIMES))


def main() -> int:
    """Run the benchmark; 1 if the numbers differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=[*SIZES, "none"], default="small")
    parser.add_argument("--model", default=TRAINED, help="trained weights: a folder, or a name; or none")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", help="1,8,32,64 by default, on a GPU auto too")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ranked", type=int, default=40, help="passages of which exact ranks are measured")
    options = parser.parse_args()
    options.batches = options.batches or ("1,8,32,64" if options.device == "cpu" else "1,8,32,64,256,auto")
    os.environ.update(OFFLINE)
    warnings.simplefilter("ignore")
    equal = []
    with tempfile.TemporaryDirectory() as folder:
        if options.size != "none":
            make(Path(folder), options.size, passages(options.n))
            equal.append(measured(options, folder, options.size))
    if options.model != "none":
        equal.append(measured(options, options.model, Path(options.model).name))
        if options.ranked:
            ranked(options, options.model)
    print(f"numbers {'equal' if all(equal) else 'DIFFER'}")
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
