"""Pretrained causal and masked language models of ``transformers``."""
