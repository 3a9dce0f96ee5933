"""Tiny transformers of 2 layers with random weights, made in a folder: always the same nonsense.

The weights are larger than those that training starts from, so that a few words get most of the probability.
"""

# ruff: noqa: PLC0415, S106 - imported where needed, for tests that are skipped; names of special sub-tokens

import json
import os
import shutil
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTH, LAYERS, HEADS = 32, 2, 4
VOCABULARY = 600
PEAK = 0.7  # standard deviation of embeddings: the best of 50,000 sub-tokens has a probability of about 0.1


def makers(make):
    """Return a function that gives the folder of a tiny model, made once in a folder from `make`."""

    @cache
    def get(kind):
        if kind == "gpt2" and gpt2_files() is None:
            pytest.skip("needs GPT-2's tokenizer: set WORKBENCH_DATA")
        folder = make(kind) / "tiny"
        if kind in {"llama", "bert"}:
            return tiny_llama(folder) if kind == "llama" else tiny_bert(folder)
        return tiny_gpt2(folder, tokenizer=kind, positions=256 if kind == "bytes" else 1024)

    return get


def texts():
    """Return the sample's passages, as running text and as tokens."""
    lines = (ROOT / "data/sample/passages.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row["running"] for row in rows] + [row["tokens"] for row in rows]


def gpt2_files():
    """Return GPT-2's own vocabulary and merges, None where the data is not there."""
    folder = Path(os.environ.get("WORKBENCH_DATA", "/nowhere")) / "tokenizers"
    files = folder / "gpt2_encoder.json", folder / "gpt2_vocab.bpe"
    return files if all(file.is_file() for file in files) else None


def tiny_gpt2(folder, tokenizer="bytes", *, positions=1024):
    """Make a GPT-2 with GPT-2's own byte pairs ("gpt2"), or some of the sample ("bytes")."""
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer

    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer == "bytes":
        byte_pairs(VOCABULARY).save_model(str(folder))
    else:
        for file, name in zip(gpt2_files(), ("vocab.json", "merges.txt"), strict=True):
            shutil.copyfile(file, folder / name)
    words = GPT2Tokenizer.from_pretrained(folder)
    words.model_max_length = positions
    words.save_pretrained(folder)
    config = GPT2Config(
        vocab_size=len(words), n_positions=positions, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        bos_token_id=words.bos_token_id, eos_token_id=words.eos_token_id, pad_token_id=None,
    )  # fmt: skip
    return written(GPT2LMHeadModel, config, folder)


def tiny_llama(folder):
    """Make a Llama with spaces as in sentencepiece: texts begin with ``<s>`` and a space."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<unk>", "<s>", "</s>"]
    words = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first"), pre_tokenizers.Punctuation()]
    )
    words.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    words.train_from_iterator(texts(), trainer)
    state = json.loads(words.to_str())
    vocab = state["model"]["vocab"]
    for value in range(256):  # as sentencepiece has them: bytes are tokens, not special ones
        vocab.setdefault(f"<0x{value:02X}>", len(vocab))
    words = Tokenizer.from_str(json.dumps(state))
    words.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        model_max_length=512, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(fast), hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=2, max_position_embeddings=512,
        bos_token_id=1, eos_token_id=2, pad_token_id=None, tie_word_embeddings=True,
    )  # fmt: skip
    return written(LlamaForCausalLM, config, folder, seed=1)


def tiny_bert(folder, *, positions=512):
    """Make a lower-casing BERT with the characters and the most frequent words and endings of the sample.

    A vocabulary that `tokenizers` trains is another one in each process.
    """
    from tokenizers import normalizers, pre_tokenizers
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    lower, cut = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words = [word for text in texts() for word, _ in cut.pre_tokenize_str(lower.normalize_str(text))]
    letters = sorted(set("".join(words)))
    counts = Counter([*words, *(f"##{word[-2:]}" for word in words if len(word) > 3)])
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces += sorted(counts.keys() - {*pieces}, key=lambda piece: (-counts[piece], piece))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(pieces[:VOCABULARY]) + "\n", encoding="utf-8")
    fast = BertTokenizer.from_pretrained(folder, do_lower_case=True)
    fast.model_max_length = positions
    fast.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(fast), hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=positions, pad_token_id=fast.pad_token_id,
    )  # fmt: skip
    return written(BertForMaskedLM, config, folder)


def byte_pairs(vocabulary):
    """Train a byte-level BPE on the sample, with GPT-2's end of text."""
    from tokenizers import ByteLevelBPETokenizer

    pairs = ByteLevelBPETokenizer()
    pairs.train_from_iterator(texts(), vocabulary, special_tokens=["<|endoftext|>"], show_progress=False)
    return pairs


def written(kind, config, folder, seed=0):
    """Draw weights by seed and write the model: embeddings large, other matrices by their width."""
    import torch

    with torch.random.fork_rng(devices=[]):
        model = kind(config)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            embedding = any(part in name for part in ("wte", "embed_tokens", "word_embeddings"))
            size = 0.1 if weight.ndim == 1 else PEAK if embedding else WIDTH**-0.5
            if weight.ndim > 1 or name.endswith("bias"):
                weight.copy_(torch.randn(weight.shape, generator=draw) * size)
    model.tie_weights()
    model.eval().save_pretrained(folder, safe_serialization=True)
    return folder
