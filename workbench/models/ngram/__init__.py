"""N-gram language models with exact ranks."""
