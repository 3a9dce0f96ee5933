"""Pretrained language models of ``transformers``: `CausalLM` (GPT-2, Llama, ...) and `MaskedLM` (BERT, ...).

`loading` reads checkpoints, `prompts` builds the input text, `scoring` splits words into sub-tokens and
computes log-probabilities in batches, `search` ranks a vocabulary by branch and bound. Public: the two
classes, `Prompt` and `STOP_WORDS`. Texts must be split as lm-evaluation-harness does: tests compare.
"""
