"""Train ``en_narrative`` from the data: ``make tagger``.

Steps: the novels as tokens, the lexicon, a first tagger from the gold treebanks alone, novels
tagged by it as they are printed, the tagger itself from gold and those, the lemma tables; `scores`
comes after it. Each step's product stays in ``.tools/tagger`` and is made again only where it is
missing (``--fresh``: all); the lemma tables are made each time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the sums come out the same on every machine

import corpora  # noqa: F401 - registers the readers that the configuration names
import lemma_tables
import lexicon_table
import novels
import silver
import treebanks
from spacy import load
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config

from workbench.analysis import tagging
from workbench.analysis.tagger import narrative  # noqa: F401 - narrative registers its components
from workbench.analysis.tagger.network import Lexicon
from workbench.storage.errors import DataError

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".tools" / "tagger"
TARGET = ROOT / "data" / "en_narrative"
CONFIG = Path(__file__).with_name("config.cfg")
# Tuned on the even half of LAMBADA's development set, see docs/experiments/2026-11-20-tagger.md.
BIAS = (3.0, 1.0, -0.5)
META = {
    "name": "narrative",
    "version": "1.0.1",
    "description": "Parts of speech (UPOS) and lemmas for English narrative prose in any case",
    "author": "lambada-workbench contributors",
    "license": "CC BY-SA 4.0",
    "sources": [
        {"name": "UD English EWT", "license": "CC BY-SA 4.0", "author": "Natalia Silveira et al."},
        {
            "name": "UD English GUM (news, interview, bio, voyage, textbook, vlog, speech, conversation)",
            "license": "CC BY",
            "author": "Amir Zeldes et al.",
        },
        {"name": "LitBank entities", "license": "CC BY 4.0", "author": "David Bamman et al."},
        {"name": "Novels and stories out of copyright", "license": "public domain", "author": "various"},
    ],
}
STEPS_GOLD, STEPS_ALL = 1_200, 6_000


def fit(target: Path, *, lexicon: Path, silver_path: Path | None, steps: int, **sizes: object) -> None:
    """Train a tagger by the configuration and write the best on EWT's development set to `target`.

    `sizes` replace settings of the network.
    """
    overrides: dict[str, object] = {"paths.lexicon": str(lexicon), "training.max_steps": steps}
    overrides |= {f"components.tagger.model.{name}": value for name, value in sizes.items()}
    if silver_path is not None:
        overrides["paths.silver"] = str(silver_path)
    nlp = init_nlp(load_config(CONFIG, overrides=overrides, interpolate=False))
    tagging.use_numpy(nlp)
    work = target.with_name(f"{target.name}.work")
    work.mkdir(parents=True, exist_ok=True)
    train(nlp, work)
    shutil.rmtree(target, ignore_errors=True)
    (work / "model-best").rename(target)
    shutil.rmtree(work)


def build() -> None:
    """Do every step whose product is missing."""
    books, table = BUILD / "novels.txt", BUILD / "lexicon.npz"
    first, tagged, final = BUILD / "first", BUILD / "silver.jsonl", BUILD / "final"
    gold = [s for name in treebanks.TRAINING for s in treebanks.sentences(treebanks.find(name))]
    _step(books, lambda: novels.collect(books))
    _step(table, lambda: lexicon_table.make(books, table, gold))
    _step(first, lambda: fit(first, lexicon=table, silver_path=None, steps=STEPS_GOLD))
    _step(
        tagged,
        lambda: silver.make(tagging.load(first), Lexicon.from_bytes(table.read_bytes()), books, tagged),
    )
    _step(final, lambda: fit(final, lexicon=table, silver_path=tagged, steps=STEPS_ALL))
    lemma_tables.main()
    package(final, TARGET, BIAS)


def package(trained: Path, target: Path, bias: Sequence[float]) -> None:
    """Write the pipeline as it ships: the tagger, the lemmatizer, no vocabulary (none is needed)."""
    nlp = load(trained, config={"components": {"tagger": {"bias": list(bias)}}})
    nlp.add_pipe("narrative_lemmatizer", name="lemmatizer")
    nlp.meta.update(META)
    for section in ("paths", "corpora", "training", "initialize"):  # of this machine, and of no use there
        nlp.config[section] = {}
    nlp.to_disk(target, exclude=["vocab"])


def _step(product: Path, make: Callable[[], None]) -> None:
    if product.exists():
        print(f"tagger: {product.name} is there")
        return
    print(f"tagger: {product.name} ...", flush=True)
    start = time.monotonic()
    make()
    print(f"tagger: {product.name}: {time.monotonic() - start:.0f} s", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the build and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="make everything again")
    if parser.parse_args(argv).fresh:
        shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        build()
    except DataError as error:
        print(f"tagger: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
