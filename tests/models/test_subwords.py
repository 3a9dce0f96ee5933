# ruff: noqa: RUF001 - typographic apostrophes are meant

from functools import cache, partial
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_tokenizers import WITH_ENDS, byte_level, with_marks, word_level
from refused import refused
from tiny_models import byte_pairs, makers
from tokenizers import normalizers

from workbench.items.items import items_from_text
from workbench.models.pretrained.prompts import SplitText, split_text
from workbench.models.pretrained.subwords import Subwords, anchor_of, ends_word

transformers = pytest.importorskip("transformers")
TEXT = st.text(st.sampled_from("ab A.,'\"-\né“’☃ "), max_size=12)


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    folders = makers(tmp_path_factory.mktemp)

    @cache
    def get(kind):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folders(kind))
        return Subwords(tokenizer, len(tokenizer) + 3)

    return get


@pytest.mark.parametrize(
    ("surfaces", "over"),
    [
        ([" the", "\n", ".", ",", '"', "”", "—", "(", "\u00a0", "🙂"], True),
        (["ing", "'s", "’", "-", "7", "é", "\u0301", "_x", "日", "½", ""], False),
        ([b"\xe2", b"\xe2\x80", b"\xc3", b"\x99", b"\xf0\x9f\x99"], False),  # may be a letter's part
    ],
)
def test_a_word_is_over_where_no_word_goes_on(surfaces, over):
    for surface in surfaces:
        assert ends_word(surface if isinstance(surface, bytes) else surface.encode()) is over, surface


@pytest.mark.parametrize("kind", ["bytes", "gpt2", "llama", "bert"])
def test_ends_are_those_that_decoding_shows(subwords, kind):
    mine = subwords(kind)
    tokenizer = mine.tokenizer
    [letter] = tokenizer("a", add_special_tokens=False)["input_ids"]
    special, seen = set(tokenizer.all_special_ids), 0
    for index in range(0, len(tokenizer), 1 if len(tokenizer) < 10_000 else 97):
        text = tokenizer.decode([letter, index], clean_up_tokenization_spaces=False)[1:]
        if index in special or not text or "�" in text:
            continue
        seen += 1
        first = text[0]
        within = first.isalnum() or first in "'’ʼ-‐‑_\u00ad\u200c\u200d" or category(first)[0] == "M"
        assert within != mine.ends[index], (index, text)
    assert seen > 200
    assert mine.ends[tokenizer.eos_token_id if kind != "bert" else tokenizer.sep_token_id]
    assert not mine.ends[len(tokenizer) :].any()  # logits that are no sub-tokens
    assert kind != "llama" or mine.ends[:3].tolist() == [False, True, True]  # <unk>: a part of a word


@pytest.mark.parametrize("kind", ["bytes", "gpt2", "llama"])
@given(before=TEXT, word=TEXT)
def test_texts_are_cut_as_by_lm_evaluation_harness(subwords, kind, before, word):
    models = pytest.importorskip("lm_eval.api.model")

    class Peer(models.TemplateLM):
        tokenizer = subwords(kind).tokenizer
        eot_token_id = tokenizer.eos_token_id
        prefix_token_id = tokenizer.bos_token_id

        def tok_encode(self, string, add_special_tokens=None):
            more = {} if add_special_tokens is None else {"add_special_tokens": add_special_tokens}
            return self.tokenizer.encode(string, **more)

        def _loglikelihood_tokens(self, requests, **_):
            return [row[1:] for row in requests]

        generate_until = loglikelihood_rolling = None

    peer = object.__new__(type("Peer", (Peer,), {"__abstractmethods__": frozenset()}))
    mine = subwords(kind)
    request = type("Request", (), {"args": (before if before.strip() else "", word)})
    try:
        [(context, rest)] = peer.loglikelihood([request], disable_tqdm=True)
    except IndexError:  # nothing at all is asked of it
        rest = []
    if not before.strip() and not word:
        refused(mine.pairs, [[("", word)]])
    elif rest:
        pair = mine.pairs([[(request.args[0], word)], [("x ", "y")]])[0]
        assert pair == (context, rest) or (
            before.strip() and mine.encode([before + word])[0][: len(context)] != context
        )
        assert mine.contexts([request.args[0]])[0] == context or not before.strip()


@pytest.mark.parametrize("kind", ["bytes", "gpt2", "llama"])
@given(before=TEXT, word=TEXT)
def test_a_text_with_its_own_mark_gets_no_other_one_as_by_lm_evaluation_harness(subwords, kind, before, word):
    peer = pytest.importorskip("lm_eval.models.huggingface").HFLM
    mine = subwords(kind)
    mark = mine.tokenizer.bos_token
    harness = type("Harness", (), {"add_bos_token": None, "tokenizer": mine.tokenizer})()
    harness.prefix_token_id = mine.tokenizer.bos_token_id
    texts = [f"{mark}{before}", f"{mark} {before}", f"x{before}", mark]
    assert mine.encode(texts) == [peer.tok_encode(harness, text) for text in texts]
    assert mine.beginnings(texts) == ["text", "text", "added" if kind == "llama" else "none", "text"]
    assert mine.beginnings([""]) == ["added"]
    for ids in mine.encode(texts[:2]):
        assert ids[0] == harness.prefix_token_id != (*ids, None)[1]
    assert mine.pairs([[(texts[1], f" {word}x")]])[0][0] == mine.encode([texts[1].rstrip()])[0]


@pytest.mark.parametrize("kind", ["bytes", "gpt2", "llama"])
@pytest.mark.parametrize("before", ["She took the ", "She said, “", "He came\n\n", "", 'x "'])
def test_words_of_a_vocabulary_are_cut_as_after_the_context(subwords, kind, before):
    mine = subwords(kind)
    words = ["tea", "teapot", "o'clock", "Zürich", "well-known", "'s"]
    text = SplitText(before, "", "")
    paths = mine.words(words, text.lead, anchor_of(text.context, text.lead))
    pairs, [context] = mine.pairs([[(before, word)] for word in words]), mine.contexts([before])
    for word, path, (head, tail) in zip(words, paths, pairs, strict=True):  # one with the quote: by itself
        assert path == (tail if head == context else mine.encode([text.lead + word], special=False)[0])
    assert sum(head == context for head, _ in pairs) >= len(words) - 1


@pytest.mark.parametrize("kind", ["bytes", "llama"])
def test_sub_tokens_are_written_as_after_their_context(subwords, kind):
    mine = subwords(kind)
    context, path = mine.pairs([[("She took the ", "teapot")]])[0]
    assert mine.text(path, context).strip() == "teapot"
    assert mine.text(context).endswith("She took the")
    if kind == "bytes":  # one sub-token with its context comes after the mark of the beginning
        two = next(t for t in mine.tokenizer.get_vocab() if len(t) == 2 and t.isascii() and t.isalpha())
        assert mine.pairs([[(two[0], two[1])]]) == [([mine.prefix], mine.encode([two])[0])]


def test_a_text_without_any_mark_before_it_is_refused():
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_pairs(300)._tokenizer)
    refused(Subwords(tokenizer, 300).pairs, [[("", "tea")]])


def test_the_text_around_a_word():
    item = items_from_text(["`` I ca n't , '' she said . He left the tea"])[0]
    assert split_text(item) == ("`` I ca n't , '' she said . He left the ", "tea", "")
    assert split_text(item).lead == " "
    shown = split_text(item, "o'clock", detokenise=True)
    assert shown == ("“I can’t,” she said. He left the ", "o’clock", "")
    assert anchor_of("", "") == ""
    assert anchor_of("the", " ") == "a"
    assert anchor_of("said “", "") == "“"


@pytest.mark.parametrize("beginning", ["tokenizer", "nothing", "newline", "mark"])
@pytest.mark.parametrize("marks", WITH_ENDS)
def test_what_a_tokenizer_adds_after_a_text_is_left_out(tmp_path_factory, marks, beginning):
    folder = makers(tmp_path_factory.mktemp)("llama")
    first = "one first" if "<s>" in WITH_ENDS[marks] else None
    with_end, plain = (
        Subwords(transformers.AutoTokenizer.from_pretrained(path), 900, beginning=beginning)
        for path in (
            with_marks(folder, tmp_path_factory.mktemp("ends") / "a", WITH_ENDS[marks]),
            with_marks(folder, tmp_path_factory.mktemp("none") / "b", WITH_ENDS.get(first, "$A")),
        )
    )
    texts = ["She took the tea", "<s> She", "é"]
    assert with_end.encode(texts) == plain.encode(texts)
    assert all(row[-1] > 2 for row in with_end.encode(texts))
    assert with_end.contexts([*texts, ""]) == plain.contexts([*texts, ""])
    assert with_end.beginnings([*texts, ""]) == plain.beginnings([*texts, ""])
    assert [with_end.offsets(text) for text in texts] == [plain.offsets(text) for text in texts]
    rows = [[("She took the ", "tea"), ("She took the ", "teapot")], [("", "tea")]]
    assert with_end.pairs(rows) == plain.pairs(rows)
    words = ["tea", "teapot"]
    assert with_end.words(words, " ", "a") == [path for _, path in plain.pairs(rows)][:2]
    for text in texts:
        assert len(with_end.offsets(text)) == len(with_end.encode([text])[0])


@pytest.mark.parametrize(
    "words",
    [
        partial(byte_level, suffix="</w>"),
        word_level,
        partial(byte_level, decodes=False),
        partial(byte_level, doubles="o"),
    ],
)
def test_a_tokenizer_that_does_not_show_where_words_begin_is_refused(words):
    tokenizer = words()
    refused(Subwords, tokenizer, len(tokenizer))


def test_a_tokenizer_that_lower_cases_and_knows_few_letters_is_none_that_is_refused():
    tokenizer = byte_level()
    lower = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace("o", "")])
    tokenizer.backend_tokenizer.normalizer = lower
    assert Subwords(tokenizer, len(tokenizer)).whole_words()


CHOICES = [
    ("by the way the boy ran ", " by the river", ["home", "after", "off"]),
    ("The old woman put the ", " on the table", ["bread", "cat", "boat"]),
    ("by the way the boy ran ", "", ["home", "after", "ho"]),
    ("by the way the b", " ran home", ["oy", "ull"]),
]


@pytest.mark.parametrize(("before", "rest", "words"), CHOICES)
def test_candidates_are_encoded_from_where_their_sub_tokens_part(before, rest, words):
    tokenizer = byte_level(joins_words=True)
    mine = Subwords(tokenizer, len(tokenizer))
    texts = [before + word + rest for word in words]
    whole = mine.encode(texts)
    assert any(
        mine.encode([before.rstrip()])[0] != row[: len(mine.encode([before.rstrip()])[0])] for row in whole
    )
    pairs = mine.pairs([[(before, word + rest) for word in words], [("The old ", "woman")]])[:-1]
    for (head, tail), ids, text in zip(pairs, whole, texts, strict=True):
        assert head == pairs[0][0]
        assert ids == (tail if head == [mine.prefix] else head + tail)
        assert tokenizer.decode(tail) == text[0 if head == [mine.prefix] else len(tokenizer.decode(head)) :]
        assert before.startswith(tokenizer.decode(head).removeprefix("<s>"))
    for word in words:  # alone: from the sub-token on that reaches over the edge
        [(head, tail)] = mine.pairs([[(before, word)]])
        ends = [end for _, end in mine.offsets(before + word)]
        n = sum(end <= len(before.rstrip()) for end in ends)
        assert tail == mine.encode([before + word])[0][n:]
    refused(mine.words, words, " ", "a")
    assert mine.whole_words() == {}
