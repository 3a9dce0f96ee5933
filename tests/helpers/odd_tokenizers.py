"""Tiny models whose tokenizers add marks after a text, join words, or mark where words end."""

# ruff: noqa: PLC0415, S106 - heavy; names of special sub-tokens

import shutil

from tiny_models import HEADS, LAYERS, WIDTH, written

LINES = ["by the way the boy ran home by the river", "The old woman put the bread on the table"] * 20
WITH_ENDS = {"one": "<s> $A </s>", "two": "<s> $A </s> <unk>", "no first": "$A </s>", "one first": "<s> $A"}


def with_marks(folder, target, template):
    """Copy the tiny Llama, with another template of what its tokenizer adds to a text."""
    from tokenizers import Tokenizer, processors

    shutil.copytree(folder, target)
    file = str(target / "tokenizer.json")
    words = Tokenizer.from_file(file)
    marks = [("<unk>", 0), ("<s>", 1), ("</s>", 2)]
    words.post_processor = processors.TemplateProcessing(single=template, special_tokens=marks)
    words.save(file)
    return target


def byte_level(*, joins_words=False, suffix=None, decodes=True, doubles=None):
    """Train byte pairs, perhaps of several words, or with a mark at the end of words."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    level = pre_tokenizers.ByteLevel
    ends = {"end_of_word_suffix": suffix} if suffix else {}
    words = Tokenizer(models.BPE(**ends))
    words.pre_tokenizer = level(add_prefix_space=False, use_regex=not joins_words)
    words.normalizer = normalizers.Replace(doubles, 2 * doubles) if doubles else None
    words.decoder = decoders.ByteLevel() if decodes else None
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<s>"], initial_alphabet=level.alphabet(), show_progress=False,
        **ends,
    )  # fmt: skip
    words.train_from_iterator(LINES, trainer)
    return fast(words)


def word_level():
    """Make a tokenizer of whole words, which loses white space."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocab = {word: index for index, word in enumerate(["<s>", *dict.fromkeys(" ".join(LINES).split())])}
    words = Tokenizer(models.WordLevel(vocab | {"<unk>": len(vocab)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return fast(words)


def fast(words):
    """Return a tokenizer of ``transformers``."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="<s>")


def tiny_with(words, folder):
    """Make a GPT-2 with a tokenizer."""
    from transformers import GPT2Config, GPT2LMHeadModel

    words.save_pretrained(folder)
    config = GPT2Config(
        vocab_size=len(words), n_positions=128, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, bos_token_id=0,
        eos_token_id=0, pad_token_id=None,
    )  # fmt: skip
    return written(GPT2LMHeadModel, config, folder)
