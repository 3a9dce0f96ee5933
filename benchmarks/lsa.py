"""How long the vectors of LSA take, beside scikit-learn's TruncatedSVD of the same matrix.

    python benchmarks/lsa.py [--texts PATH] [--sentences N] [--dimensions 300]

The texts are those in a path (file, folder, archive), else the training texts of the sentence completion
challenge where they are found, else the sample's. The matrix is that of `LSA.fit` with the weighting "none";
``--sentences`` takes the first of them. Each method runs in a process of its own: the time is that of the
decomposition alone, the peak memory that of the process. Singular values and vectors are compared with those
of ``algorithm="arpack"``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _report import Row, tell
from _timing import memory

import workbench as wb
from workbench.models import lsa
from workbench.texts.corpus import Corpus

MINIMUM = 5  # words seen less often are left out
GOAL = 2.0  # times as fast as ARPACK


def decompose(options: argparse.Namespace) -> dict[str, Any]:
    """Decompose the matrix by one method; write the vectors and return what was measured."""
    from sklearn.decomposition import (  # type: ignore[import-untyped]  # noqa: PLC0415 - not for ours
        TruncatedSVD,
    )

    _, matrix = lsa._matrix(Corpus(options.corpus), MINIMUM)  # noqa: SLF001 - the decomposition alone
    matrix = matrix[: options.sentences] if options.sentences else matrix
    results: dict[str, Any] = {"sentences": matrix.shape[0], "words": matrix.shape[1]}
    start = time.perf_counter()
    if options.method == "ours":
        size = lsa._SENTENCES  # noqa: SLF001
        parts = [matrix[at : at + size] for at in range(0, matrix.shape[0], size)]
        del matrix
        v, s = lsa._lanczos(parts, options.dimensions, 0)  # noqa: SLF001
    else:
        svd = TruncatedSVD(options.dimensions, algorithm=options.method, random_state=0).fit(matrix)
        v, s = svd.components_.T, svd.singular_values_
    results["seconds"] = time.perf_counter() - start
    np.savez(options.out, v=v, s=s)
    return results | {"peak MB": memory()}


def run(method: str, corpus: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run one method in a process of its own; return what it tells, with its vectors and values."""
    out = folder / f"{method}.npz"
    command = [sys.executable, __file__, "--method", method, "--corpus", str(corpus), "--out", str(out)]
    command += ["--dimensions", str(options.dimensions), "--sentences", str(options.sentences)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)  # noqa: S603 - this file
    if done.returncode:
        raise SystemExit(f"the method {method!r} failed")
    results: dict[str, Any] = json.loads(done.stdout)
    with np.load(out) as arrays:
        return results | {name: arrays[name] for name in arrays}


def compare(one: dict[str, Any], exact: dict[str, Any]) -> tuple[float, float]:
    """Return the greatest relative error of a singular value, and the greatest principal angle (its sine)."""
    beside = exact["v"] - one["v"] @ (one["v"].T @ exact["v"])
    return float(np.abs(one["s"] / exact["s"] - 1).max()), float(np.linalg.norm(beside, 2))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=Path, help="a file, a folder or an archive")
    parser.add_argument("--dimensions", type=int, default=300)
    parser.add_argument("--sentences", type=int, default=0, help="the first of them (default: all)")
    for hidden in ("--method", "--corpus", "--out"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.method:
        options.corpus = Path(options.corpus)
        print(json.dumps(decompose(options)))
        return
    corpus = Corpus.of(options.texts or wb.experiment_data("msrcc", "auto", scale="cpu").texts).path
    with tempfile.TemporaryDirectory() as name:
        methods = ("ours", "arpack", "randomized")
        measured = {method: run(method, corpus, Path(name), options) for method in methods}
    ours, exact = measured["ours"], measured["arpack"]
    size = f"{exact['sentences']:,} sentences, {exact['words']:,} words"
    print(f"{size}, {options.dimensions} dimensions")
    for method, result in measured.items():
        values, angle = compare(result, exact)
        print(f"  {method:10} {result['seconds']:7.1f} s, peak {result['peak MB']:6,.0f} MB; ", end="")
        print(f"values {values:.1e}, vectors {angle:.1e} from those of arpack")
    peer, work = "scikit-learn, arpack", f"{options.dimensions} vectors of {size}"
    tell(Row(work, ours["seconds"], "s", peer=peer, theirs=exact["seconds"], times=GOAL))
    tell(Row("its peak memory", ours["peak MB"], "MB", peer=peer, theirs=exact["peak MB"]))


if __name__ == "__main__":
    main()
