"""The components of ``en_narrative``, our spaCy pipeline for narrative prose in any case."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.parts_of_speech import IDS  # type: ignore[import-not-found]
from spacy.pipeline import Tagger
from spacy.scorer import Scorer
from spacy.strings import get_string_id
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry
from spacy.vocab import Vocab
from thinc.api import Model

from workbench.analysis import lemmas
from workbench.analysis.tagger.network import Lexicon, narrative_network, tells_by_case
from workbench.analysis.tagging import UPOS

_IDS = np.array([IDS[tag] for tag in UPOS], dtype=np.uint64)
_PLACES = {number: index for index, number in enumerate(_IDS.tolist())}
_NAME = UPOS.index("PROPN")
_COMMA = get_string_id(",")
_ARTICLES = [get_string_id(form) for word in ("the", "a", "an") for form in (word, word.upper())]

registry.architectures.register("workbench.NarrativeNetwork.v1", func=narrative_network)


class NarrativeTagger(Tagger):  # type: ignore[misc] # spaCy's class has no types
    """Set the universal part of speech (UPOS) of every token.

    Parameters
    ----------
    vocab, model, name
        As for every component of spaCy.
    bias : sequence of three floats
        Added to the log odds of a name (PROPN) in a text whose case says nothing: of a form that
        occurs again in it, after a comma; of such a form elsewhere, but not after an article;
        and of a form that occurs once. Stories repeat their names, and address people by them,
        more than the texts of the treebanks.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[Any, Any],
        name: str = "tagger",
        *,
        bias: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> None:
        super().__init__(vocab, model, name)
        self.bias = tuple(bias)
        self.cfg["labels"] = list(UPOS)

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,  # noqa: ARG002 - spaCy's call
        labels: Sequence[str] | None = None,  # noqa: ARG002
        lexicon: Path | None = None,
    ) -> None:
        """Initialise the network for the training set, with a lexicon from a file."""
        if lexicon is not None:
            self.model.get_ref("reader").attrs["lexicon"] = Lexicon.from_bytes(Path(lexicon).read_bytes())
        sample = [example.predicted for example, _ in zip(get_examples(), range(10), strict=False)]
        self.model.get_ref("output").set_dim("nO", len(UPOS))
        self.model.initialize(X=sample)

    def predict(self, docs: Iterable[Doc]) -> list[NDArray[np.uint64]]:
        """Return the numbers of the tags, an array of shape (tokens,) a document."""
        docs = list(docs)
        if not docs:
            return []
        scores = self.model.predict(docs)
        flat = np.concatenate([np.zeros((0, len(UPOS)), dtype=np.float32), *scores])
        if any(self.bias):
            flat[:, _NAME] *= np.exp(np.concatenate([self._shifts(doc) for doc in docs]))
        edges = np.cumsum([len(doc) for doc in docs])[:-1]
        return np.split(_IDS[flat.argmax(axis=1)], edges)

    def _shifts(self, doc: Doc) -> NDArray[np.float32]:
        """Return the addition to the log odds of a name at each token of a document."""
        if tells_by_case(doc):
            return np.zeros(len(doc), dtype=np.float32)
        after_comma, elsewhere, once = self.bias
        forms = doc.to_array("ORTH")
        _, inverse, counts = np.unique(forms, return_inverse=True, return_counts=True)
        before = np.concatenate([np.zeros(1, dtype=np.uint64), forms[:-1]])
        again = np.where(before == _COMMA, after_comma, np.where(np.isin(before, _ARTICLES), 0.0, elsewhere))
        return np.where(counts[inverse] > 1, again, once).astype(np.float32)

    def set_annotations(self, docs: Iterable[Doc], batch_tag_ids: Sequence[NDArray[np.uint64]]) -> None:
        """Write the tags into the documents, as ``token.pos_``."""
        for doc, numbers in zip(docs, batch_tag_ids, strict=True):
            if len(doc):
                column: Any = numbers.reshape(-1, 1)
                doc.from_array(["POS"], column)

    def get_loss(self, examples: Iterable[Example], scores: Sequence[Any]) -> tuple[float, list[Any]]:
        """Return the cross entropy (nats, summed) and its gradient; tokens without a tag do not count."""
        loss, gradients = 0.0, []
        for example, scored in zip(examples, scores, strict=True):
            gradient = np.array(scored)
            tags = example.reference.to_array("POS").tolist()
            wanted = np.array([_PLACES.get(number, -1) for number in tags], dtype=np.intp)
            labelled = np.flatnonzero(wanted >= 0)
            classes = wanted[labelled]
            loss -= float(np.log(np.maximum(gradient[labelled, classes], 1e-9)).sum())
            gradient[labelled, classes] -= 1
            gradient[wanted < 0] = 0
            gradients.append(gradient)
        return loss, gradients


def score_pos(examples: Iterable[Example], **settings: Any) -> dict[str, Any]:
    """Return the share of tokens with the right tag (``pos_acc``)."""
    result: dict[str, Any] = Scorer.score_token_attr(examples, "pos", **settings)
    return result


@Language.factory(
    "narrative_tagger",
    assigns=["token.pos"],
    default_config={"bias": [0.0, 0.0, 0.0]},
    default_score_weights={"pos_acc": 1.0},
)
def make_tagger(nlp: Language, name: str, model: Model[Any, Any], bias: list[float]) -> NarrativeTagger:
    """Make the tagger of a pipeline."""
    tagger = NarrativeTagger(nlp.vocab, model, name, bias=bias)
    tagger.scorer = score_pos
    return tagger


class NarrativeLemmatizer:
    """Set the lemma of every token from its form and part of speech (`workbench.analysis.lemmas`)."""

    def __call__(self, doc: Doc) -> Doc:
        """Set ``token.lemma_`` of every token of a document."""
        for token in doc:
            token.lemma_ = self.lemma(token.text, token.pos_)
        return doc

    def lemma(self, form: str, pos: str) -> str:
        """Return the lemma of a form that is of the part of speech `pos` (UPOS)."""
        return lemmas.default().lemma(form, pos)


@Language.factory("narrative_lemmatizer", assigns=["token.lemma"], requires=["token.pos"])
def make_lemmatizer(nlp: Language, name: str) -> NarrativeLemmatizer:  # noqa: ARG001 - spaCy's call
    """Make the lemmatizer of a pipeline."""
    return NarrativeLemmatizer()
