"""The chapters of a book as lists of sentences of tokens, from the pieces that everything else reads."""

import tempfile
from pathlib import Path

from workbench.texts.tokenise import HEADING, OPENING, RULE, Tokeniser, tokenise


def chapters_of(book):
    """Return chapters that have prose; each is a list of sentences, each a list of tokens."""
    chapters = [[]]
    with tempfile.TemporaryDirectory() as folder:
        tokeniser = Tokeniser(Path(folder) / "texts")
        tokeniser.read(book)
        for piece in tokeniser.pieces:
            _, words, ids, lengths, roles = tokenise(piece)
            tokens = iter(ids)
            for length, role in zip(lengths, roles, strict=True):
                sentence = [words[next(tokens)] for _ in range(length)]
                if role in (HEADING, OPENING):
                    chapters.append([])
                if role not in (HEADING, RULE):
                    chapters[-1].append(sentence)
    return [chapter for chapter in chapters if chapter]
