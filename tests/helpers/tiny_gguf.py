"""Tiny GGUF files of a random Llama, written with llama.cpp's own package."""

# ruff: noqa: PLC0415 - imported where needed

import numpy as np

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
WIDTH, HEADS, LAYERS = 64, 4, 2


def tiny_model():
    """Return a Llama with random weights, whose matrices are as wide as two blocks of a quantisation."""
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=600, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, max_position_embeddings=512,
        rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            if weight.ndim > 1:
                weight.copy_(torch.randn(weight.shape, generator=draw) * 0.3)
    return model.eval()


def interleaved(weight, heads):
    """Return a matrix of queries or keys with the rows of each head as llama.cpp rotates them: in pairs."""
    halves = weight.reshape(heads, 2, len(weight) // heads // 2, -1)
    return halves.swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path, quantisation="F32", *, architecture="llama", way="gpt-2", leave_out=(), **changed):
    """Write the tiny model and a byte-level tokenizer as a GGUF file; return the model with these weights.

    `changed` are metadata instead of those that belong to the model.
    """
    import gguf
    import torch
    from tiny_models import byte_pairs

    model = tiny_model()
    kind = gguf.GGMLQuantizationType[quantisation]
    writer = gguf.GGUFWriter(path, architecture)
    said = {
        "context_length": 512, "embedding_length": WIDTH, "block_count": LAYERS, "vocab_size": 600,
        "feed_forward_length": 2 * WIDTH, "attention.head_count": HEADS,
        "attention.head_count_kv": HEADS // 2, "rope.dimension_count": WIDTH // HEADS,
    } | changed  # fmt: skip
    for name, value in said.items():
        writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_float32(f"{architecture}.rope.freq_base", 10_000.0)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_string("general.name", "Tiny Llama")
    writer.add_file_type(gguf.LlamaFileType["ALL_F32" if quantisation == "F32" else f"MOSTLY_{quantisation}"])
    state = byte_pairs(600)
    vocabulary = sorted(state.get_vocab(), key=state.get_vocab().get)
    merges = [" ".join(pair) for pair in merges_of(state)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(way)
    writer.add_token_list(vocabulary)
    writer.add_token_types([3, *[1] * (len(vocabulary) - 1)])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue  # it is that of the embeddings
        values = tensor.numpy()
        if kind != gguf.GGMLQuantizationType.F32 and values.ndim == 2:
            data = gguf.quantize(values, kind)
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(gguf.dequantize(data, kind).copy()))
            values = tensor.numpy()
        for projection, heads in (("q_proj", HEADS), ("k_proj", HEADS // 2)):
            if projection in name:
                values = interleaved(values, heads)
        target = name.removesuffix(".weight").replace("model.layers.", "blk.")
        for theirs, ours in NAMES.items():
            target = target.replace(theirs, ours)
        if target not in leave_out:
            quantised = kind != gguf.GGMLQuantizationType.F32 and values.ndim == 2
            data = gguf.quantize(values, kind) if quantised else np.ascontiguousarray(values)
            writer.add_tensor(f"{target}.weight", data, raw_dtype=kind if quantised else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def merges_of(pairs):
    """Return the merges of a byte-level tokenizer."""
    import json

    return json.loads(pairs._tokenizer.to_str())["model"]["merges"]
