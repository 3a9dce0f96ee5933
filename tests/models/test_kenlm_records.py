"""What ``lmplz --intermediate`` writes read into arrays: bit by bit those of its ARPA file of the words."""

import os
import re
import shutil
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ngrams import STRANGE, Sentences, compiled, text

from workbench.models.ngram import backoff, kenlm, kenlm_records
from workbench.models.ngram.kenlm_records import Text, compile_intermediate

UNKNOWN = "<outside>"


def corpus(lines):
    """Give lines of words as a corpus that is not on disk."""
    sentences = Sentences(lines)
    sentences.starts = sentences.starts.astype(np.int64)
    return sentences


def estimate(source, folder, order, pruning=None):
    """Estimate by lmplz from the codes of words."""
    folder.mkdir()
    options = {"order": order, "pruning": pruning, "memory": "60M"}
    return kenlm.estimate(source, folder / "grams", **options)


def of_codes(lines, words, folder, order, pruning=None):
    """Give the arrays by way of the intermediate files."""
    source = Text(corpus(lines), words)
    report = estimate(source, folder / "lmplz", order, pruning)
    (folder / "codes").mkdir()
    with mock.patch.object(os, "fsync"):
        model = compile_intermediate(folder / "lmplz" / "grams", folder / "codes", source)
    assert [path.name for path in (folder / "lmplz").glob("grams.[0-9]")] == []
    return model, report


def of_words(lines, words, folder, order, pruning=None):
    """Give the arrays by way of an ARPA file of the words themselves."""
    known = set(words)
    content = "\n".join([" ".join(w if w in known else UNKNOWN for w in line) for line in lines] + [""])
    command = [kenlm.find_program("lmplz"), "-o", str(order), "-S", "60M", "-T", f"{folder}/"]
    command += ["--arpa", folder / "m.arpa", "--discount_fallback"]
    command += ["--prune", *map(str, pruning)] if pruning else []
    kenlm.run_program(command, folder=folder, text=[f" {content}".encode()])
    file = folder / "m.arpa"
    file.write_text(with_unknown(file.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
    return compiled(file, folder / "words", words)


def with_unknown(arpa):
    """Let the word for unknown ones be <unk>: after each context it has the probability of both together."""
    lines = [line.split("\t") for line in arpa.split("\n")]
    rows = {gram: (float(np.float32(logp)), float(np.float32((*rest, 0)[0]))) for logp, gram, *rest in
            (line for line in lines if len(line) > 1)}  # fmt: skip
    if UNKNOWN not in rows:
        return arpa

    def of_lmplz(context):
        """Return what <unk> has after words, by backing off."""
        if not context:
            return rows["<unk>"][0]
        return of_lmplz(context[1:]) + rows[" ".join(context)][1]

    for line in lines:
        if len(line) > 1 and (gram := line[1].split(" "))[-1] == UNKNOWN:
            line[0] = str(np.float32(np.log10(10 ** rows[line[1]][0] + 10 ** of_lmplz(gram[:-1]))))
    arpa = "\n".join("\t".join(line) for line in lines if line[1:2] != ["<unk>"])
    count = re.compile(r"^ngram 1=(\d+)", re.MULTILINE)
    arpa = count.sub(lambda m: f"ngram 1={int(m[1]) - 1}", arpa)
    return re.sub(rf"(?<=[\t ]){UNKNOWN}(?=[\t\n ])", "<unk>", arpa)


def assert_same(model, expected):
    """Check that two models have the same bits."""
    assert model.words == expected.words
    for level, wanted in zip(model.levels, expected.levels, strict=True):
        assert set(level) == set(wanted)
        for name, array in level.items():
            assert (array.dtype, array.tobytes()) == (wanted[name].dtype, wanted[name].tobytes()), name


PRUNED = [(1, None), (2, None), (3, (0, 0, 1)), (4, (0, 1, 1, 2)), (5, None), (5, (0, 2))]


@pytest.mark.parametrize("vocabulary", [None, 40])
@pytest.mark.parametrize(("order", "pruning"), PRUNED)
def test_the_arrays_are_those_of_the_arpa_file(tmp_path, order, pruning, vocabulary, monkeypatch):
    monkeypatch.setattr(kenlm_records, "_ROWS", 250)
    monkeypatch.setattr(kenlm_records, "_TOKENS", 300)
    monkeypatch.setattr(backoff, "_ROWS", 100)
    lines = [line.split() for line in text(1200)]
    words = corpus(lines).words[:vocabulary]
    model, _ = of_codes(lines, words, tmp_path, order, pruning)
    assert model.order == order
    assert_same(model, of_words(lines, words, tmp_path, order, pruning))


WORDS = st.sampled_from([*"abcdefgh", *STRANGE[:12]])


@settings(max_examples=15)
@example(["a", "add", "acabcdcd", "b", "cbcb"], 3, 0.0, None)  # a weight of 0: nothing else follows a word
@given(
    lines=st.lists(st.lists(WORDS, min_size=1, max_size=9), min_size=1, max_size=12),
    order=st.integers(1, 5),
    share=st.floats(0, 1),
    pruning=st.sampled_from([None, (0, 1), (0, 0, 1), (0, 9)]),
)
def test_the_arrays_of_any_text(tmp_path_factory, lines, order, share, pruning):
    folder = tmp_path_factory.mktemp("text")
    words = corpus(lines).words
    words = words[: max(1, round(share * len(words)))]
    pruning = pruning and pruning[:order]
    model, _ = of_codes(lines, words, folder, order, pruning)
    assert_same(model, of_words(lines, words, folder, order, pruning))
    shutil.rmtree(folder)


@pytest.mark.parametrize("n_words", [2, 70_000])
def test_codes_rise_with_their_hash_and_end_around_that_of_the_end_of_a_sentence(n_words):
    codes = kenlm_records._codes(n_words)
    assert len(set(codes)) == n_words + 1
    shown = [*codes[:500], *codes[-500:]]
    hashes = [murmur(code) for code in shown]
    assert sorted(hashes) == hashes or n_words < 1000
    assert murmur(codes[n_words - 1]) < murmur(b"</s>") < murmur(codes[n_words])
    assert not {byte for code in codes for byte in code} - set(b"0123456789abcdefghijklmnopqrstuv")


def murmur(code):
    """Hash as MurmurHash64A does, in Python's integers."""
    factor, bits = 0xC6A4A7935BD1E995, 2**64 - 1
    value = len(code) * factor & bits
    value = (value ^ int.from_bytes(code, "little")) * factor & bits
    value = (value ^ value >> 47) * factor & bits
    return value ^ value >> 47
