"""Real runs of lmplz and build_binary on tiny texts, many of them doomed."""

import math
import os
import random
import resource
import subprocess
import sys
from collections import Counter, defaultdict

import kenlm
import pytest

from workbench.items.schema import DataError
from workbench.models.ngram import lmplz, programs
from workbench.models.ngram.lmplz import build_binary, estimate
from workbench.texts.corpus import Corpus

QUICK = {"memory": "40M", "progress": False}


def zipf(n_lines=1500, seed=0):
    chosen = random.Random(seed)  # noqa: S311 - no secret
    return [
        " ".join(f"w{min(int(chosen.paretovariate(0.7)), 400)}" for _ in range(chosen.randint(3, 14)))
        for _ in range(n_lines)
    ]


TEXT = zipf()


def fit(folder, lines=TEXT, order=3, **options):
    return estimate(lambda: lines, folder / "m.arpa", order=order, **QUICK | options)


def unigrams(arpa):
    section = arpa.read_bytes().split(b"\\1-grams:\n")[1].split(b"\n\n")[0].split(b"\n")
    return {line.split(b"\t")[1].decode(): float(line.split(b"\t")[0]) for line in section}


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_model_has_every_n_gram_of_its_text(tmp_path):
    told = fit(tmp_path)
    grams = [set(), set(), set()]
    for line in TEXT:
        words = ["<s>", *line.split(), "</s>"]
        for order in (1, 2, 3):
            grams[order - 1].update(tuple(words[i : i + order]) for i in range(len(words) - order + 1))
    assert told.counts == (len(grams[0]) + 1, len(grams[1]), len(grams[2]))  # and <unk>
    assert not told.fallback
    assert told.seconds > 0
    assert "=== 5/5 Writing ARPA model ===" in told.log
    assert "***" not in told.log
    assert left(tmp_path) == ["m.arpa"]


def test_discounts_are_those_of_chen_and_goodman(tmp_path):
    told = fit(tmp_path)
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
    for order, discounts in enumerate(told.discounts, start=1):
        n = adjusted[order]
        y = n[1] / (n[1] + 2 * n[2])
        assert discounts == pytest.approx([j - (j + 1) * y * n[j + 1] / n[j] for j in (1, 2, 3)], rel=1e-4)


@pytest.mark.parametrize("kind", ["probing", "trie"])
@pytest.mark.parametrize("vocabulary", [None, ["w1", "w2", "w3", "w7", "absent"]])
def test_probabilities_sum_to_one_over_the_vocabulary(tmp_path, kind, vocabulary):
    told = fit(tmp_path, vocabulary=vocabulary)
    assert build_binary(tmp_path / "m.arpa", tmp_path / "m.bin", kind=kind, **QUICK) > 0
    words = set(unigrams(tmp_path / "m.arpa")) - {"<s>"}
    assert told.counts[0] == len(words) + 1
    if vocabulary:
        assert words == {"w1", "w2", "w3", "w7", "<unk>", "</s>"}
    model = kenlm.Model(str(tmp_path / "m.bin"))
    for context in (["w1"], ["w2", "w1"], ["nothing", "w3"], []):
        state, after = kenlm.State(), kenlm.State()
        model.BeginSentenceWrite(state)
        for word in context:
            model.BaseScore(state, word, after)
            state, after = after, kenlm.State()
        total = math.fsum(10 ** model.BaseScore(state, word, after) for word in words)
        assert total == pytest.approx(1, abs=1e-4)
    assert left(tmp_path) == ["m.arpa", "m.bin"]


def test_pruning_leaves_the_rare_out(tmp_path):
    whole, pruned = fit(tmp_path), fit(tmp_path, pruning=[0, 1])
    grams = Counter(
        tuple(words[i : i + 3])
        for line in TEXT
        for words in [["<s>", *line.split(), "</s>"]]
        for i in range(len(words) - 2)
    )
    assert pruned.counts[0] == whole.counts[0]
    assert pruned.counts[2] == sum(count > 1 for count in grams.values())
    assert len(pruned.discounts) == 3  # lmplz writes the counts of pruned orders in another way


def test_fixed_discounts_only_where_they_are_needed(tmp_path, caplog):
    read = []

    def lines():
        read.append(1)
        return ["a b a c", "b c a"]

    with caplog.at_level("INFO"):
        told = estimate(lines, tmp_path / "m.arpa", order=2, **QUICK)
    assert told.fallback
    assert (0.5, 1.0, 1.5) in told.discounts
    assert len(read) == 2
    assert "discounts" in caplog.text
    always = estimate(lines, tmp_path / "n.arpa", order=2, fallback="always", **QUICK)
    assert always.fallback
    assert len(read) == 3
    assert (tmp_path / "n.arpa").read_bytes() == (tmp_path / "m.arpa").read_bytes()
    assert not fit(tmp_path, fallback="always").fallback  # allowed, and not needed
    with pytest.raises(DataError, match=r"cannot compute the discounts.*-- more text"):
        estimate(lines, tmp_path / "o.arpa", order=2, fallback="never", **QUICK)
    assert left(tmp_path) == ["m.arpa", "n.arpa"]


@pytest.mark.parametrize("reserved", ["<unk>", "<s>", "</s>", "<UNK>"])
@pytest.mark.parametrize("limited", [True, False])
def test_reserved_words_are_words_outside_the_vocabulary(tmp_path, reserved, limited):
    text = [
        line.replace("w3", reserved) if n % 3 else f"{reserved} {reserved}" for n, line in enumerate(TEXT)
    ]
    strange = [" ".join("strange" if w == reserved else w for w in line.split()) for line in text]
    words = sorted({word for line in text for word in line.split()} - {reserved})
    told = fit(tmp_path, text, vocabulary=words if limited else None)
    assert reserved not in set(unigrams(tmp_path / "m.arpa")) - {"<s>", "</s>", "<unk>"}
    expected = fit(tmp_path / "other", strange, vocabulary=words)
    assert told.counts == expected.counts
    assert (tmp_path / "m.arpa").read_bytes() == (tmp_path / "other" / "m.arpa").read_bytes()


def test_words_that_only_look_reserved_are_kept(tmp_path):
    fit(tmp_path, [*TEXT, "x<s> <unk>x <s>x"])
    assert {"x<s>", "<unk>x", "<s>x"} <= set(unigrams(tmp_path / "m.arpa"))


def test_a_text_that_begins_like_a_packed_file_is_text(tmp_path):
    fit(tmp_path, ["BZh91AY w1", *TEXT])
    assert "BZh91AY" in unigrams(tmp_path / "m.arpa")


def test_the_words_of_a_corpus_are_the_words_of_its_model(tmp_path, no_data):
    odd = "a\x01b c\x07 d\0e f\x0bg h\x85i j\u2028k l\u200bm \ufeffn \ud800o é\u0301 \x1a \x7f <unk> p\x1fq"
    corpus = Corpus.of([odd, *TEXT], lower=False, progress=False)
    fit(tmp_path, list(corpus.lines()))
    reserved = {"<s>", "</s>", "<unk>"}
    assert set(unigrams(tmp_path / "m.arpa")) - reserved == set(corpus.words) - reserved
    assert set(corpus.vocabulary()) == set(corpus.words) - reserved
    build_binary(tmp_path / "m.arpa", tmp_path / "m.bin", **QUICK)
    model = kenlm.Model(str(tmp_path / "m.bin"))
    assert all(word in model for word in corpus.vocabulary())
    assert no_data.is_dir()


@pytest.mark.parametrize("lines", [[], [""], ["", "  ", ""]])
@pytest.mark.parametrize("fallback", ["auto", "always"])
def test_an_empty_text_is_told(tmp_path, lines, fallback):
    with pytest.raises(DataError, match="the text is empty"):
        fit(tmp_path, lines, fallback=fallback)
    assert left(tmp_path) == []


def test_a_text_of_reserved_words_alone_is_empty(tmp_path):
    with pytest.raises(DataError, match="empty"):
        fit(tmp_path, ["<unk> <unk>", "<s>"])
    assert left(tmp_path) == []


def test_a_text_of_one_word(tmp_path):
    told = fit(tmp_path, ["word"])
    assert (told.counts, told.fallback) == ((4, 2, 1), True)
    build_binary(tmp_path / "m.arpa", tmp_path / "m.bin", **QUICK)
    model = kenlm.Model(str(tmp_path / "m.bin"))
    assert model.score("word") > model.score("other")


def test_a_line_of_ten_megabytes(tmp_path):
    line = " ".join(f"word{n * n % 797 % 311}" for n in range(1_200_000))
    assert len(line) > 8_000_000
    assert fit(tmp_path, [line, *TEXT], order=2).counts[0] > 400


def test_a_word_of_ten_megabytes(tmp_path):
    fit(tmp_path, ["x" * 10_000_000, *TEXT], order=2)
    assert max(map(len, unigrams(tmp_path / "m.arpa"))) == 10_000_000


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"memory": "1M"}, r"too little memory.*-- take more than memory='1M'"),
        ({"memory": "900000G"}, r"no memory.*-- take less than"),
        ({"memory": "much"}, r"lmplz failed: Failed to parse much"),
        ({"order": 0}, "order 1 or more, not 0"),
        ({"vocabulary": []}, "the vocabulary is empty"),
        ({"pruning": [0, 2, 1]}, "non-decreasing"),
    ],
)
def test_options_that_cannot_be(tmp_path, options, told):
    with pytest.raises(DataError, match=told):
        fit(tmp_path, **options)
    assert left(tmp_path) == []


def test_a_model_that_is_no_model(tmp_path):
    fit(tmp_path)
    whole = (tmp_path / "m.arpa").read_bytes()
    torn = tmp_path / "torn.arpa"
    for content in (whole[: len(whole) // 2], b"", b"nonsense\n"):
        torn.write_bytes(content)
        with pytest.raises(DataError, match=r"torn.arpa: build_binary failed: "):
            build_binary(torn, tmp_path / "m.bin", **QUICK)
    with pytest.raises(DataError, match=r"there is no model here -- estimate it first"):
        build_binary(tmp_path / "absent.arpa", tmp_path / "m.bin", **QUICK)
    assert left(tmp_path) == ["m.arpa", "torn.arpa"]


def test_a_model_there_was_stays_when_its_successor_fails(tmp_path):
    fit(tmp_path)
    before = (tmp_path / "m.arpa").read_bytes()
    with pytest.raises(DataError):
        fit(tmp_path, [])
    assert (tmp_path / "m.arpa").read_bytes() == before


def with_own_program(monkeypatch, folder, script):
    fake = folder / "bin" / "lmplz"
    fake.parent.mkdir()
    fake.write_text(f"#!{sys.executable}\n{script}")
    fake.chmod(0o755)
    monkeypatch.setattr(programs, "find", lambda _name: fake)


def test_half_a_model_is_not_kept_whatever_the_program_says(tmp_path, monkeypatch):
    script = (
        "import sys; sys.stdin.read(); path = sys.argv[sys.argv.index('--arpa') + 1]\n"
        r"open(path, 'w').write('\\data\\\nngram 1=4\nngram 2=2\nngram 3=1\n\n\\1-grams:\n-1\ta\n')"
    )
    with_own_program(monkeypatch, tmp_path, script)
    with pytest.raises(DataError, match="no whole model"):
        fit(tmp_path)
    assert left(tmp_path) == ["bin"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_program_that_is_killed(tmp_path, monkeypatch, when):
    script = "import os, sys, time\nopen(sys.argv[sys.argv.index('--arpa') + 1], 'w').write('half')\n"
    if when == "after":
        script += "sys.stdin.read()\n"
    with_own_program(monkeypatch, tmp_path, f"{script}os.kill(os.getpid(), 9)")
    with pytest.raises(DataError, match=r"m.arpa: lmplz was killed by SIGKILL -- most often memory ran out"):
        fit(tmp_path, TEXT * 300)
    assert left(tmp_path) == ["bin"]


@pytest.fixture
def started(monkeypatch):
    """Give the processes that are started."""
    found = []
    real = subprocess.Popen

    def note(*args, **options):
        found.append(real(*args, **options))
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", note)
    return found


def test_lmplz_killed_while_it_reads(tmp_path, started):
    def lines():
        for number, line in enumerate(TEXT * 400):
            if number == 20_000:
                started[0].kill()
            yield line

    with pytest.raises(DataError, match="killed by SIGKILL"):
        estimate(lines, tmp_path / "m.arpa", order=3, **QUICK)
    assert left(tmp_path) == []


@pytest.mark.parametrize("fault", [KeyboardInterrupt, ZeroDivisionError])
def test_lmplz_ends_when_its_caller_does(tmp_path, started, fault):
    def lines():
        yield from TEXT * 10
        raise fault

    with pytest.raises(fault):
        estimate(lines, tmp_path / "m.arpa", order=3, **QUICK)
    assert [process.returncode for process in started] == [-9]
    assert left(tmp_path) == []


def test_without_the_program(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "_TOOLS", tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"'lmplz' is not there.* -- make setup builds it"):
        fit(tmp_path)


@pytest.fixture
def small_files(monkeypatch):
    """Let programs write no file of more than 50 kB."""

    def limited(*args, **options):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
        try:
            return real(*args, **options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    real = subprocess.Popen
    return lambda: monkeypatch.setattr(subprocess, "Popen", limited)


def test_files_that_may_not_grow(tmp_path, small_files):
    fit(tmp_path)
    small_files()
    with pytest.raises(DataError, match=r"lmplz has no room on the disk .* -- make room"):
        fit(tmp_path / "out")
    with pytest.raises(DataError, match=r"build_binary has no room on the disk .* -- make room"):
        build_binary(tmp_path / "m.arpa", tmp_path / "out" / "m.bin", **QUICK)
    assert left(tmp_path / "out") == []


@pytest.fixture
def small_disk(tmp_path):
    """Give a file system of 64 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
    try:
        mounted = subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("which", ["arpa", "temporary"])
def test_a_full_disk_while_a_model_is_estimated(tmp_path, small_disk, which):
    other = tmp_path / "other"
    arpa, temporary = (small_disk, other) if which == "arpa" else (other, small_disk)
    with pytest.raises(DataError, match=r"no room on the disk.* -- make room, or let temporary="):
        fit(arpa, TEXT, temporary=temporary)
    assert left(small_disk) == []
    assert left(other) == []


@pytest.mark.parametrize("kind", ["probing", "trie"])
def test_a_full_disk_while_a_model_is_made_binary(tmp_path, small_disk, kind):
    fit(tmp_path)
    with pytest.raises(DataError, match="no room on the disk"):
        build_binary(tmp_path / "m.arpa", small_disk / "m.bin", kind=kind, **QUICK)
    assert left(small_disk) == []


def test_a_disk_that_is_full_from_the_start(tmp_path, small_disk):
    (small_disk / "much").write_bytes(b"x" * (64 * 1024 - os.statvfs(small_disk).f_bsize))
    words = [f"word{n}" for n in range(5000)]
    with pytest.raises(DataError, match=r"disk.* -- make room"):
        fit(small_disk, vocabulary=words)
    with pytest.raises(DataError, match=r"disk.* -- make room"):
        fit(tmp_path / "other", temporary=small_disk, vocabulary=words)
    assert left(small_disk) == ["much"]


def test_log_is_read_as_it_is():
    assert lmplz._said("a\nx.cc:1 in f threw E because `b'.\nIt is\nso.\n\nERROR\n") == "It is so."
    assert lmplz._said("Reading\nFailed to parse\n") == "Reading Failed to parse"
    assert lmplz._said("") == ""
