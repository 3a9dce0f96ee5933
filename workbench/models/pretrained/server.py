"""Causal language models on a completion server, which is tested with a known text before use."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, get_args
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.base import pad
from workbench.models.item_words import ReadContext
from workbench.models.prediction_rows import from_scores
from workbench.models.pretrained.completions import (
    CONNECTION,
    CompletionClient,
    Echo,
    read_echo,
    read_written,
)
from workbench.models.pretrained.loading import Text
from workbench.models.pretrained.prompts import Prompt, PromptedModel, Scored, SplitText, has_answers
from workbench.models.pretrained.subwords import Continuation, ends_word
from workbench.predictions.schema import Floats, nullable
from workbench.storage import cache
from workbench.storage.errors import DataError, check_option, check_value
from workbench.storage.progress import progress_bar, update_with_estimate

HEAD = "Once upon a time there was a little girl who lived with her mother"
LIKELY = f"{HEAD} in a small house near the forest."
"""The known text, and its beginning; `SHUFFLED` has its words in another order."""
SHUFFLED = (
    "forest. house the with was who Once in upon small a lived mother little her a time girl a near there"
)
MARGIN = 1.0
"""Nats a word by which the known text must be more probable than its words in another order. SmolLM2-135M has
5.8 to 6.8 with and without a mark of the beginning, and -2.4 to -5.0 one sub-token out of place."""

_CACHE = "server"
_REMEDY = (
    "take another server or model, or other settings: that of llama-cpp-python needs --logits_all true, "
    "and for a model without a mark of the beginning --kv_overrides tokenizer.ggml.add_bos_token=bool:true"
)
_SLICE = 32  # requests that are stored together, so what a killed process loses
_LONGEST_WORD = 12  # sub-tokens that the server writes
_ANSWERS = pa.schema(
    [
        ("log_prob", pa.float64()),
        ("greedy", pa.bool_()),
        ("tokens", pa.list_(pa.string())),
        ("start", pa.int64()),
    ]
)
_KNOWN = pa.schema([("log_prob", pa.float64())])


class _Answer(NamedTuple):
    """The server's scores of a text after a context, or the text that it generates."""

    log_prob: float  # of all sub-tokens of the text; NaN where it writes
    greedy: bool  # whether each of them is the most probable one
    tokens: list[str]  # the sub-tokens of the text, or those that it writes
    start: int = 0  # of the first of them, in context and text: before the text if it joins both


_NONE = _Answer(math.nan, greedy=False, tokens=[])


class ServerModel(PromptedModel):
    """Predict a word by a causal language model on a server with OpenAI's completions API.

    Such servers are vLLM and that of llama-cpp-python; see docs/models.md. A server is refused, with the
    reason, unless it returns the log-probabilities of a known text as a language model has them.

    Parameters
    ----------
    url : str
        Address of the server, such as ``"http://localhost:8000"``.
    model : str, optional
        Name of the model on the server; by default the one that it lists.
    text : {"as-is", "detokenised"}
        Whether texts of Treebank tokens are sent as they are, or as a book would print them.
    candidates : {"sentence", "rest"}
        What is scored of an item with candidates, as in :class:`workbench.models.CausalLM`.
    prompt : Prompt, optional
        What stands before the passage.
    greedy_only : bool, default False
        For servers that return no log-probabilities of the prompt (llama.cpp's own, Ollama): an answer is
        correct if the server writes it. There are no log-probabilities then, and no items with candidates.
    concurrency : int, default 1
        Requests at once.
    tolerance : float, default 0.02
        Nats by which log-probabilities of one text may differ between two requests.
    name : str, optional
        Name in tables.
    **connection
        How the server is reached:

        - ``key_variable``: name of the environment variable that holds the server's key. The key itself is
          never stored.
        - ``remote`` (False): whether the texts of items may be sent to a server that is neither on this
          machine nor in a private network.
        - ``timeout`` (600): seconds for one response.
        - ``retries`` (6): further tries after a refused connection, no response, or a temporary error of the
          server (408, 425, 429, 5xx), with pauses of 0.5 to 60 seconds.

    Attributes
    ----------
    model : str
        Name of the model on the server.

    Raises
    ------
    DataError
        If the address is not local, there is no such server or model, or it fails the test; the message says
        what was expected and what the server returned.

    Notes
    -----
    The answer follows its context in one text, which the server echoes; white space before the word belongs
    to it, as in lm-evaluation-harness. ``log_prob_uncorrected`` is the sum over the sub-tokens of the answer,
    and ``greedy_correct`` says whether each was the most probable one. ``log_prob`` is null in predictions:
    that the word is over is a sum over the whole vocabulary, which servers do not return. Scores of
    candidates, and `log_prob` of this class, leave the end of the word out too.

    Responses are stored in ``cache/server`` in slices of 32, so that a run that was interrupted goes on. They
    and runs are those of one address: a server at another one is asked anew.

    Examples
    --------
    >>> from workbench.models import ServerModel
    >>> model = ServerModel(server)  # the address of a server
    >>> bool(model.predict(items[:2])["log_prob_uncorrected"].max() < 0)
    True
    """

    version = 1
    fitted_on = "a server of pretrained weights"

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        text: Text = "as-is",
        candidates: Scored = "sentence",
        prompt: Prompt | None = None,
        greedy_only: bool = False,
        concurrency: int = 1,
        tolerance: float = 0.02,
        name: str | None = None,
        **connection: Any,
    ) -> None:
        check_option("text", text, get_args(Text))
        check_option("candidates", candidates, get_args(Scored))
        check_value("concurrency", concurrency, 1 <= concurrency < math.inf, "a number, 1 or more")
        check_value("tolerance", tolerance, 0 <= tolerance < math.inf, "nats, 0 or more")
        for option in connection:
            check_option("the option of the connection", option, self.option_names())
        self._client = CompletionClient(url, **connection)
        self.text, self.candidates, self.prompt = text, candidates, prompt
        self.greedy_only = bool(greedy_only)
        self.concurrency, self.tolerance = int(concurrency), float(tolerance)
        self.model = self._choose_model() if model is None else model
        self.name = name or Path(self.model).name
        self.device = urlsplit(self._client.address).netloc
        self.score_type = "score" if self.greedy_only else "log_prob"
        self._hidden: int | None = None
        self._bos, self._digest = self._test()

    @classmethod
    def option_names(cls) -> list[str]:
        """Return the names of what the constructor takes as ``**connection``."""
        return list(CONNECTION)

    @property
    def config(self) -> dict[str, Any]:
        """The server's address, the model's name, the digest of the known text, and how it is used."""
        options = ("model", "text", "candidates", "greedy_only", "tolerance")
        return {name: getattr(self, name) for name in options} | {
            "address": self._client.address,
            "known_text": self._digest,
            "prompt": None if self.prompt is None else json.loads(self.prompt.to_json()),
        }

    @property
    def context(self) -> ReadContext:
        """All before the blank."""
        return ReadContext("before", scores_rest=True)

    @property
    def training(self) -> dict[str, Any]:
        """The name of the model; its training data are unknown."""
        return {"pretrained": self.model}

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the log-probability of each word with the rest of the sentence, or of the rest after it.

        Where nothing follows the blank, it is that of the sub-tokens of the word. Where a sub-token of one of
        the words reaches into the context, the scores of all words of the item begin there.
        """
        pairs = self._continuations(items, words)
        answers = self._ask([pair for row in pairs for pair in row])
        while uneven := [row for row in pairs if self._starts_differ(row, answers)]:
            for row in uneven:
                start = min(answers[pair].start for pair in row)
                row[:] = [(text[:start], text[start:]) for text in map("".join, row)]
            answers |= self._ask([pair for row in uneven for pair in row])
        return pad([[answers[pair].log_prob for pair in row] for row in pairs])

    @staticmethod
    def _starts_differ(row: Sequence[Continuation], answers: Mapping[Continuation, _Answer]) -> bool:
        """Return whether words after one context are scored from different places on."""
        contexts = {before for before, _ in row}
        return len(contexts) == 1 and len({answers[pair].start for pair in row}) > 1

    def log_prob(self, items: Items) -> Floats:
        """Return the log-probability of the sub-tokens of each answer; NaN without an answer."""
        return np.array([answer.log_prob for answer in self._score_answers(items)], dtype=float)

    def _predict(self, items: Items, top_k: int, seed: int) -> pd.DataFrame:
        columns, words = self._columns(items), self._offered(items)
        greedy, has = None, has_answers(items)
        if not self.greedy_only:
            answers = self._score_answers(items)
            greedy = np.array([answer.greedy for answer in answers], dtype=bool)
            columns["log_prob_uncorrected"] = [answer.log_prob for answer in answers]
            columns["greedy_correct"] = nullable(greedy, has)
        if words is not None:
            return from_scores(
                items, self.score(items, words), words, model=self.name, score_type=self.score_type,
                seed=seed, top_k=top_k, **columns,
            )  # fmt: skip
        return self._write(items, greedy, columns)

    def _write(
        self, items: Items, greedy: npt.NDArray[np.bool_] | None, columns: dict[str, Any]
    ) -> pd.DataFrame:
        """Return the rows of generated predictions, as :class:`workbench.models.CausalLM` has them.

        `greedy` tells which answers it writes, where that is known already.
        """
        texts, has = [self._split(item) for item in items], has_answers(items)
        asked = [row for row in range(len(items)) if greedy is None or not greedy[row]]
        written = self._ask([(texts[row].context, "") for row in asked])
        tokens = {row: written[texts[row].context, ""].tokens for row in asked}
        if greedy is None:
            greedy = np.array([_begins_with(tokens[row], texts[row].word) for row in asked], dtype=bool)
            columns["greedy_correct"] = nullable(greedy, has)
        words = ["" if right else _first_word(tokens[row]) for row, right in enumerate(greedy)]
        return self._written_rows(items, words, greedy, np.nan, columns)

    def _columns(self, items: Items) -> dict[str, Any]:
        return {**super()._columns(items), "bos": self._bos}

    def _split(self, item: Item, word: str | None = None) -> SplitText:
        text = super()._split(item, word)
        if not text.context:
            problem = f"expected text before the blank of {item.item_id}, got none"
            remedy = "servers give the first sub-token no probability: leave the item out"
            raise DataError(problem, remedy=remedy)
        return text

    def _score_answers(self, items: Items) -> list[_Answer]:
        """Return the server's scores of each answer; NaN and not greedy without an answer."""
        texts = [self._split(item) for item in items]
        answers = self._ask([(text.before, text.word) for text in texts if text.word])
        return [answers.get((text.before, text.word), _NONE) for text in texts]

    def _ask(self, pairs: Sequence[Continuation]) -> dict[Continuation, _Answer]:
        """Return the answers to requests: texts after contexts, or an empty text where the server writes.

        They are stored in slices, and those that are stored already are not sent again.
        """
        if self.greedy_only and any(after for _, after in pairs):
            problem = f"expected a server that returns log-probabilities, got {self.name}"
            problem += " with greedy_only=True"
            raise DataError(problem, remedy="use it on items without candidates, or another server")
        requests, identity = list(dict.fromkeys(pairs)), json.dumps(self.config, sort_keys=True)
        store, answers = cache.Cache(_CACHE, _ANSWERS), dict[Continuation, _Answer]()
        with progress_bar(len(requests), label=self.name, unit="requests") as bar:
            update = update_with_estimate(bar)
            for start in range(0, len(requests), _SLICE):
                batch = requests[start : start + _SLICE]
                key = cache.digest(identity, *(text for pair in batch for text in pair))
                table = store.get(key)
                if table is None or len(table) != len(batch):
                    with ThreadPoolExecutor(self.concurrency) as threads:
                        rows = list(threads.map(self._answer, batch))
                    with suppress(DataError):  # they are here, whatever can be stored
                        store.put(key, pa.Table.from_pylist([row._asdict() for row in rows], _ANSWERS))
                else:
                    rows = [_Answer(**row) for row in table.to_pylist()]
                answers.update(zip(batch, rows, strict=True))
                update(len(batch))
        cache.make_room()
        return answers

    def _answer(self, pair: Continuation) -> _Answer:
        """Return the server's scores of a text after a context, or the text that it generates."""
        before, after = pair
        if not after:
            return _Answer(math.nan, greedy=False, tokens=self._written(before))
        echo, context = self._echo(before + after), before.rstrip()
        start = echo.boundary(len(context))
        log_probs = echo.log_probs[start:]
        if not log_probs or math.isnan(log_probs[0]):
            problem = f"expected a sub-token of {after[:40]!r} after {context[-40:]!r}, got none"
            raise DataError(problem, file=self._client.address, remedy="leave out the item with this text")
        greedy = all(value >= best for value, best in zip(log_probs, echo.best[start:], strict=True))
        return _Answer(sum(log_probs), greedy, echo.tokens[start:], echo.spans[start][0])

    def _echo(self, text: str) -> Echo:
        body = self._client.complete(model=self.model, prompt=text, max_tokens=1, logprobs=1, echo=True)
        return read_echo(body, text, self._client.address, self._hidden)

    def _written(self, text: str) -> list[str]:
        body = self._client.complete(model=self.model, prompt=text, max_tokens=_LONGEST_WORD, logprobs=1)
        return read_written(body, self._client.address)

    def _choose_model(self) -> str:
        names = self._client.models()
        if len(names) != 1:
            problem = f"expected one model at {self._client.address}, got {', '.join(names[:10]) or 'none'}"
            raise DataError(problem, remedy="name one with model=")
        return names[0]

    def _test(self) -> tuple[str, str]:
        """Test the server with the known text; return the beginning of texts and a digest of its numbers."""
        if self.greedy_only:
            first, second = self._written(HEAD), self._written(HEAD)
            if not first or first != second:
                got = f"{''.join(first)!r}, then {''.join(second)!r}"
                self._refuse("the same words twice for the same text", got)
            return "unknown", cache.digest("written", self.model, *first)
        echo = self._echo(LIKELY)
        self._hidden = echo.hidden
        self._compare("the same text twice", echo, self._echo(LIKELY))
        self._compare("a text and its beginning", echo, self._echo(HEAD))
        likely, shuffled = (np.nansum(each.log_probs) for each in (echo, self._echo(SHUFFLED)))
        if not likely - shuffled > MARGIN * len(LIKELY.split()):
            self._refuse(
                f"it to be more probable than its words in another order, by {MARGIN:g} nats a word",
                f"{likely:.2f} nats against {shuffled:.2f}, as at chance or one sub-token out of place",
            )
        for token in self._written(HEAD)[:1]:
            self._test_written(HEAD, token)
        return echo.bos, self._known_digest(echo)

    def _test_written(self, text: str, token: str) -> None:
        """Refuse a server that generates a different sub-token than its most probable one."""
        echo = self._echo(text + token)
        start = echo.boundary(len(text))
        if echo.tokens[start:] == [token]:
            value, best = echo.log_probs[-1], echo.best[-1]
            if value < best - self.tolerance:
                self._refuse(
                    f"it to write the most probable sub-token, of {best:.2f} nats",
                    f"{token!r}, of {value:.2f} nats",
                )

    def _compare(self, subject: str, echo: Echo, other: Echo) -> None:
        """Refuse a server whose log-probabilities of a common beginning differ between two texts."""
        n = min(len(echo.tokens), len(other.tokens))
        if echo.tokens[:n] != other.tokens[:n]:
            self._refuse(f"the same sub-tokens for {subject}", f"{echo.tokens[:n]} and {other.tokens[:n]}")
        difference = float(np.nanmax(np.abs(np.subtract(echo.log_probs[:n], other.log_probs[:n]))))
        if difference > self.tolerance:
            self._refuse(
                f"the same log-probabilities for {subject}, within {self.tolerance:g} nats (tolerance=)",
                f"{difference:.3f} nats between them",
            )

    def _refuse(self, expected: str, got: str) -> NoReturn:
        raise DataError(
            f"the server fails the test with a known text: expected {expected}, got {got}",
            file=self._client.address, remedy=_REMEDY,
        )  # fmt: skip

    def _known_digest(self, echo: Echo) -> str:
        """Return a digest of log-probabilities of the known text: the stored ones if within `tolerance`."""
        key = cache.digest(self._client.address, self.model, *echo.tokens)
        values, store = np.array(echo.log_probs[1:]), cache.Cache(_CACHE, _KNOWN)
        table = store.get(key)
        stored = values + np.inf if table is None else table["log_prob"].to_numpy()
        if len(stored) == len(values) and np.abs(stored - values).max() <= self.tolerance:
            values = stored
        else:
            with suppress(DataError):
                store.put(key, pa.table({"log_prob": values}))
        return cache.digest(key, *map(repr, values.tolist()))

    def _save(self, folder: Path) -> None:
        del folder
        problem = "a model on a server has no files to save"
        raise DataError(problem, remedy="name the address of the server again")


def _begins_with(tokens: Sequence[str], word: str) -> bool:
    """Return whether the first sub-tokens make up a word, without the white space before it."""
    return bool(word) and any(text.strip() == word for text in accumulate(tokens))


def _first_word(tokens: Sequence[str]) -> str:
    """Return the first of written sub-tokens, and those after it up to one with which no word goes on."""
    inner = takewhile(lambda token: token[:1] == "\ufffd" or not ends_word(token.encode()), tokens[1:])
    return "".join([*tokens[:1], *inner]).strip()
