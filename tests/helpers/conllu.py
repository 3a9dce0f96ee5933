"""Small treebanks: sentences, and files in CoNLL-U."""

import treebanks


def sentence(words, tags, lemmas=None, spaces=None, doc=""):
    """Make a sentence; without lemmas each word is its own, without spaces one follows each word."""
    return treebanks.Sentence(
        tuple(words), tuple(tags), tuple(lemmas or words), tuple(spaces or [True] * len(words)), doc
    )


def row(number, form, lemma="x", pos="NOUN", misc="_"):
    return "\t".join([str(number), form, lemma, pos, "_", "_", "_", "_", "_", misc])


def write(path, *sentences):
    """Write sentences of (words, tags), each a document of its own."""
    lines = []
    for number, tagged in enumerate(sentences):
        pairs = enumerate(zip(*tagged, strict=True), start=1)
        lines += [f"# newdoc id = {number}", *(row(n, word, word, tag) for n, (word, tag) in pairs), ""]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
