"""KenLM's programs: real runs on tiny texts, many of them doomed; finding and running them."""

import random
import shutil
import subprocess
import sys
from collections import Counter, defaultdict

import pytest
from ngrams import arpa, random_grams
from refused import refused

from workbench.models.ngram import kenlm as tools
from workbench.models.ngram.kenlm import build_binary, estimate
from workbench.storage.files import temporary_folder

QUICK = {"memory": "40M"}


DRAW = random.Random(0)  # noqa: S311 - no secret
TEXT = [
    " ".join(f"w{min(int(DRAW.paretovariate(0.7)), 400)}" for _ in range(DRAW.randint(3, 14)))
    for _ in range(1500)
]


def fit(folder, lines=TEXT, *, temporary=None, **options):
    """Estimate in a scratch folder, as models are; keep the files of the model."""
    with temporary_folder(temporary or folder) as scratch:
        blocks = (f"{line}\n".encode() for line in lines)
        report = estimate(blocks, scratch / "m", **{"order": 3} | QUICK | options)
        for file in scratch.glob("m.*"):
            shutil.copy(file, folder)
    return report


def counts(folder):
    """Return the number of n-grams of each order, as the model has it."""
    _, line, _ = (folder / "m.kenlm_intermediate").read_text(encoding="utf-8").split("\n", 2)
    return [int(count) for count in line.split()[1:]]


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def program(folder, script="#!/bin/sh\n", mode=0o755):
    folder.mkdir(parents=True)
    (folder / "lmplz").write_text(script)
    (folder / "lmplz").chmod(mode)
    return folder / "lmplz"


@pytest.mark.parametrize("pruning", [None, [0, 1]])
def test_a_model_has_the_n_grams_of_its_text(tmp_path, pruning):
    report = fit(tmp_path, pruning=pruning)
    grams = [Counter(), Counter(), Counter()]
    for line in TEXT:
        words = ["<s>", *line.split(), "</s>"]
        for order in (1, 2, 3):
            grams[order - 1].update(tuple(words[i : i + order]) for i in range(len(words) - order + 1))
    numbers = counts(tmp_path)
    assert numbers[0] == len(grams[0]) + 1  # and <unk>
    assert numbers[1] == len(grams[1]) or pruning
    assert numbers[2] == sum(n > bool(pruning) for n in grams[2].values())
    assert len(report["discounts"]) == 3  # lmplz writes the counts of pruned orders in another way
    assert not report["fallback_discounts"]
    assert left(tmp_path) == ["m.1", "m.2", "m.3", "m.kenlm_intermediate", "m.vocab"]


def test_discounts_are_those_of_chen_and_goodman(tmp_path):
    report = fit(tmp_path)
    sentences = [["<s>", *line.split(), "</s>"] for line in TEXT]
    full = Counter(tuple(s[i : i + 3]) for s in sentences for i in range(len(s) - 2))
    before = defaultdict(set)
    for s in sentences:
        for i in range(1, len(s)):
            before[s[i]].add(s[i - 1])
    starts = Counter(tuple(s[:2]) for s in sentences)  # what begins with <s> is counted, not continued
    pairs = defaultdict(set)
    for gram in full:
        pairs[gram[1:]].add(gram[0])
    adjusted = {1: Counter(len(found) for found in before.values())}
    adjusted[2] = Counter(len(found) for found in pairs.values()) + Counter(starts.values())
    adjusted[3] = Counter(full.values())
    for order, discounts in enumerate(report["discounts"], start=1):
        n = adjusted[order]
        y = n[1] / (n[1] + 2 * n[2])
        published = [j - (j + 1) * y * n[j + 1] / n[j] for j in (1, 2, 3)]
        assert list(discounts) == pytest.approx(published, rel=1e-4)


def test_fixed_discounts_only_where_they_are_needed(tmp_path, started, caplog):
    with caplog.at_level("INFO"):
        report = fit(tmp_path, ["a b a c", "b c a"], order=2)
    assert report["fallback_discounts"]
    assert (0.5, 1.0, 1.5) in report["discounts"]
    assert len(started) == 1  # the text is read once
    assert "discounts" in caplog.text
    assert counts(tmp_path)[0] == 6  # a, b, c and three special words


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "1M"},
        {"memory": "900000G"},
        {"memory": "much"},
    ],
)
def test_options_that_cannot_be(tmp_path, options):
    refused(fit, tmp_path, **options)
    assert left(tmp_path) == []


@pytest.fixture
def model(tmp_path):
    """Give a model in the ARPA format."""
    (tmp_path / "home").mkdir()
    return arpa(random_grams(3, n_words=40, order=3)[1], tmp_path / "home" / "m.arpa")


def test_a_model_that_is_no_model(model):
    whole = model.read_bytes()
    torn = model.with_name("torn.arpa")
    for content in (whole[: len(whole) // 2], b"", b"nonsense\n"):
        torn.write_bytes(content)
        refused(build_binary, torn, torn.with_name("m.bin"))
    assert left(model.parent) == ["m.arpa", "torn.arpa"]


@pytest.fixture
def started(monkeypatch):
    """Give the processes that are started."""
    processes, real = [], subprocess.Popen

    def note(*args, **options):
        processes.append(real(*args, **options))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", note)
    return processes


def test_lmplz_ends_when_its_caller_does(tmp_path, started):
    def lines():
        yield from TEXT * 10
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, lines())
    assert [process.returncode for process in started] == [-9]
    assert left(tmp_path) == []


BANNER = f"----5{''.join(f'---{n}' for n in range(10, 100, 5))}--100\n".encode()


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """Let no program be found: neither as built here, nor beside Python, nor on the PATH."""
    monkeypatch.setattr(tools, "programs_home", lambda: tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path


def test_what_was_built_comes_first_then_what_lies_beside_python_then_the_path(nowhere):
    for place in ("path", "venv", "kenlm/bin"):  # the one that comes first last
        file = program(nowhere / place)
        assert tools.find_program("lmplz") == file.absolute()


def python(code):
    return [sys.executable, "-c", code]


def test_a_program_is_fed_and_its_log_comes_back_without_bars(tmp_path):
    bar = f"=== 1/1 Counting ===\n{BANNER.decode()}{'*' * 100}\n"
    said = f"{bar!r} + f'read {{n}}\\n'"
    code = f"import sys; n = len(sys.stdin.buffer.read()); sys.stderr.write({said})"
    log = tools.run_program(python(code), folder=tmp_path, text=[b"abc", b"de"])
    assert log == "=== 1/1 Counting ===\nread 5\n"


def test_one_that_fails_before_it_has_read_all_is_one_error(tmp_path):
    text = iter([b"x" * 65536] * 1000)
    refused(tools.run_program, python("import sys; sys.exit('enough')"), folder=tmp_path, text=text)
    assert len(list(text)) > 0


def test_one_that_talks_before_it_reads_does_not_wait_for_ever(tmp_path):
    code = "import sys; sys.stderr.write('y' * 3_000_000); print(len(sys.stdin.read()), file=sys.stderr)"
    log = tools.run_program(python(code), folder=tmp_path, text=[b"x" * 3_000_000])
    assert log.endswith("y3000000\n")
