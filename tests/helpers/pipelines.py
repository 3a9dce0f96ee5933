"""Small spaCy pipelines, made here: no download, and nothing that was trained."""

import spacy
from spacy.language import Language
from spacy.lookups import Lookups
from spacy.tokens import Doc
from spacy.training import Example

NOT_A_WORD = r"^\W+$"


@Language.factory("test_lemmas")
class Lemmas:
    """Has a method for single lemmas, and must not run."""

    def __init__(self, nlp, name):  # noqa: ARG002 - spaCy's call
        self.asked = []

    def lemma(self, form, pos):
        self.asked.append((form, pos))
        return f"{form.lower()}/{pos}"

    def __call__(self, _):
        raise AssertionError("the lemmatizer ran on a whole document")


@Language.component("test_breaks")
def breaks(doc):
    if any(token.text == "poison" for token in doc):
        raise RuntimeError("it is poison")
    return doc


def ruled(*, lemmas=True):
    """Give a pipeline that tells parts of speech by the look of a word."""
    nlp = spacy.blank("en", meta={"name": "ruled", "version": "1.2.3"})
    ruler = nlp.add_pipe("attribute_ruler")
    ruler.add([[{"ORTH": {"REGEX": "."}}]], {"POS": "NOUN"})
    ruler.add([[{"ORTH": {"REGEX": "^[A-Z]"}}]], {"POS": "PROPN"})
    ruler.add([[{"ORTH": {"REGEX": "ed$"}}]], {"POS": "VERB"})
    ruler.add([[{"ORTH": {"REGEX": NOT_A_WORD}}]], {"POS": "PUNCT"})
    if lemmas:
        looks = Lookups()
        looks.add_table("lemma_lookup", {"herons": "heron", "waited": "wait"})
        nlp.add_pipe("lemmatizer", config={"mode": "lookup"}).initialize(lookups=looks)
    return nlp


def neural(labels=("NOUN", "VERB", "PUNCT"), name="neural"):
    """Give a pipeline of random weights with shared embeddings, a tagger, and what nobody needs here."""
    nlp = spacy.blank("en", meta={"name": name, "version": "0.1"})
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("tok2vec")
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96, "upstream": "*"}
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
    nlp.add_pipe("tagger", config={"model": model})
    nlp.add_pipe("ner")
    words = ["the", "heron", "waited", "."]
    doc = Doc(nlp.vocab, words=words, tags=[labels[n % len(labels)] for n in range(4)], ents=["O"] * 4)
    example = Example(nlp.make_doc(" ".join(words)), doc)
    nlp.initialize(lambda: [example])
    return nlp
