"""Causal language models on a completion server, which is tested with a known text before use."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, TypeVar, get_args
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
    Marks,
    read_echo,
    read_written,
)
from workbench.models.pretrained.loading import Text
from workbench.models.pretrained.prompts import Prompt, PromptedModel, Scored, SplitText, has_answers
from workbench.models.pretrained.subwords import Continuation, ends_word
from workbench.models.text_scores import Beginning, LongText, TextScores, check_beginning
from workbench.predictions.schema import Floats, nullable
from workbench.storage import cache
from workbench.storage.errors import DataError, check_option, check_value
from workbench.storage.progress import progress_bar

HEAD = "Once upon a time there was a little girl who lived with her mother"
LIKELY = f"{HEAD} in a small house near the forest."
"""The known text, and its beginning; `SHUFFLED` has its words in another order."""
SHUFFLED = (
    "forest. house the with was who Once in upon small a lived mother little her a time girl a near there"
)
MARGIN = 1.0
"""Nats a word by which the known text must be more probable than its words in another order. SmolLM2-135M has
5.8 to 6.8 with and without a mark of the beginning, and -2.4 to -5.0 one sub-token out of place."""

_SLICE = 32  # requests that are stored together, so what a killed process loses
_LONGEST_WORD = 12  # sub-tokens that the server writes
_OVERLAP = 64  # letters before a word in which a sub-token that reaches into the word may begin
_RESPONSES = pa.schema([("response", pa.binary())])
T = TypeVar("T")


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
          server (408, 425, 429, 500, 502 to 504), with pauses of up to 60 seconds.

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
    and runs are those of one address and name of a model, and of the sub-tokens of a known text: for another
    model with the same ones, empty the cache (``wb.cache().free("server")``) and pass another `name`.

    Examples
    --------
    >>> from workbench.models import ServerModel
    >>> model = ServerModel(server)  # the address of a server
    >>> bool(model.predict(items[:2])["log_prob_uncorrected"].max() < 0)
    True
    """

    version = 1
    fitted_on = "a server of pretrained weights"
    options = ("model", "text", "candidates", "greedy_only")

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
        name: str | None = None,
        **connection: Any,
    ) -> None:
        check_option("text", text, get_args(Text))
        check_option("candidates", candidates, get_args(Scored))
        check_value("concurrency", concurrency, 1 <= concurrency < math.inf, "a number, 1 or more")
        for option in connection:
            check_option("the option of the connection", option, self.option_names())
        self._client = CompletionClient(url, **connection)
        self.text, self.candidates, self.prompt = text, candidates, prompt
        self.greedy_only = bool(greedy_only)
        self.concurrency = int(concurrency)
        self.model = self._choose_model() if model is None else model
        self.name = name or Path(self.model).name
        self.device = urlsplit(self._client.address).netloc
        self.score_type = "score" if self.greedy_only else "log_prob"
        self._marks, self._digest = self._test()

    @classmethod
    def option_names(cls) -> list[str]:
        """Return the names of what the constructor takes as ``**connection``."""
        return list(CONNECTION)

    @property
    def config(self) -> dict[str, Any]:
        """The server's address, the model's name, the digest of the known text's sub-tokens, and its use."""
        return self._option_values | {
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
        echoes = self._ask([pair for row in pairs for pair in row], self._echo)
        return pad([self._log_probs(row, [echoes[pair] for pair in row]) for row in pairs])

    @staticmethod
    def _log_probs(pairs: Sequence[Continuation], echoes: Sequence[Echo]) -> list[float]:
        """Return the log-probabilities of texts; those after one context are of the same letters."""
        offsets = [_end(before) for before, _ in pairs]
        if len({before for before, _ in pairs}) == 1:
            offset = offsets[0]
            while (start := min(echo.after(offset).spans[0][0] for echo in echoes)) < offset:
                offset = start
            offsets = [offset] * len(pairs)
        return [sum(echo.after(offset).log_probs) for echo, offset in zip(echoes, offsets, strict=True)]

    def log_prob(self, items: Items) -> Floats:
        """Return the log-probability of the sub-tokens of each answer; NaN without an answer."""
        return self._score_answers(items)[0]

    def text_scores(
        self, items: Items, *, beginning: Beginning | None = None, window: LongText = "strided"
    ) -> TextScores:
        """Return the log-probabilities of the sub-tokens of texts; ends of words are not known (NaN).

        Without a context, the first sub-token counts if the server puts a mark of the beginning before it.
        """
        del window  # the server refuses what is too long
        has_mark = self._marks is not None and sum(self._marks) > 0
        usual: Beginning = "BOS" if has_mark else "nothing"
        check_beginning(self.name, beginning, usual)
        texts = [
            (before, text) for item in items for before, text, _ in [super(ServerModel, self)._split(item)]
        ]
        echoes = self._ask(texts, self._echo)
        rows = [echoes[text].after(_end(text[0])).log_probs for text in texts]
        values = [[value for value in row if not math.isnan(value)] for row in rows]
        sums = np.array([sum(row) if row else np.nan for row in values], dtype=float)
        starts = ["context" if before.strip() else usual for before, _ in texts]
        return TextScores(np.full(len(texts), np.nan), sums, list(map(len, values)), starts, [0] * len(texts))

    def _predict(self, items: Items, top_k: int, seed: int) -> pd.DataFrame:
        columns, words = self._columns(items), self._offered(items)
        greedy, has = None, has_answers(items)
        if not self.greedy_only:
            columns["log_prob_uncorrected"], greedy = self._score_answers(items)
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

        `greedy` has the answers that it writes, where these are known already.
        """
        texts, has = [self._split(item) for item in items], has_answers(items)
        asked = [row for row in range(len(items)) if greedy is None or not greedy[row]]
        written = self._ask([(texts[row].context, "") for row in asked], self._written)
        tokens = {row: written[texts[row].context, ""] for row in asked}
        if greedy is None:
            greedy = np.array([_begins_with(tokens[row], texts[row].word) for row in asked], dtype=bool)
            columns["greedy_correct"] = nullable(greedy, has)
        words = ["" if right else _first_word(tokens[row]) for row, right in enumerate(greedy)]
        return self._written_rows(items, words, greedy, np.nan, columns)

    def _columns(self, items: Items) -> dict[str, Any]:
        has_mark = None if self._marks is None else sum(self._marks) > 0
        return {**super()._columns(items), "bos": {None: "unknown", True: "added", False: "none"}[has_mark]}

    def _split(self, item: Item, word: str | None = None) -> SplitText:
        text = super()._split(item, word)
        if not text.context:
            problem = f"expected text before the blank of {item.item_id}, got none"
            hint = "servers give the first sub-token no probability: leave the item out"
            raise DataError(problem, hint=hint)
        return text

    def _score_answers(self, items: Items) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return the log-probability of each answer, and whether all its sub-tokens are the most probable."""
        pairs = [(text.before, text.word) for text in map(self._split, items)]
        echoes = self._ask([pair for pair in pairs if pair[1]], self._echo)
        log_probs, greedy = np.full(len(pairs), np.nan), np.zeros(len(pairs), dtype=bool)
        for row, pair in enumerate(pairs):
            if pair in echoes:
                answer = echoes[pair].after(_end(pair[0]))
                log_probs[row], greedy[row] = sum(answer.log_probs), answer.is_greedy
        return log_probs, greedy

    def _ask(
        self, pairs: Sequence[Continuation], parse: Callable[[Continuation, bytes], T]
    ) -> dict[Continuation, T]:
        """Return what responses say of texts after contexts, or of an empty text where the server writes.

        They are stored in slices, and those that are stored already are not requested again.
        """
        if self.greedy_only and any(after for _, after in pairs):
            problem = f"expected a server that returns log-probabilities, got {self.name}"
            problem += " with greedy_only=True"
            raise DataError(problem, hint="use it on items without candidates, or another server")
        requests, identity = list(dict.fromkeys(pairs)), json.dumps(self.config, sort_keys=True)
        store, answers = cache.Cache("server", _RESPONSES), dict[Continuation, T]()
        with progress_bar(len(requests), label=self.name, unit="requests") as bar:
            for start in range(0, len(requests), _SLICE):
                batch = requests[start : start + _SLICE]
                key = cache.digest(identity, *(text for pair in batch for text in pair))
                table = store.get(key)
                if table is None:
                    with ThreadPoolExecutor(self.concurrency) as threads:
                        bodies = list(threads.map(self._request, batch))
                else:
                    bodies = table["response"].to_pylist()
                answers.update(zip(batch, map(parse, batch, bodies), strict=True))
                if table is None:
                    with suppress(DataError):  # they are here, whatever can be stored
                        store.put(key, pa.table({"response": bodies}, schema=_RESPONSES))
                bar.update(len(batch))
        cache.make_room()
        return answers

    def _request(self, pair: Continuation) -> bytes:
        """Return the response to a text after a context, or to a context that the server goes on with."""
        before, after = pair
        n_written, options = (1, {"echo": True}) if after else (_LONGEST_WORD, {})
        return self._client.complete(
            model=self.model, prompt=before + after, max_tokens=n_written, logprobs=1, **options
        )

    def _echo(self, pair: Continuation, body: bytes) -> Echo:
        """Return the sub-tokens of a text and of the end of its context."""
        before, after = pair
        echo, end = read_echo(body, before + after, self._client.address, self._marks), _end(before)
        log_probs = echo.after(end).log_probs
        if not log_probs or (end and math.isnan(log_probs[0])):  # the first of a text may have none
            problem = f"expected a sub-token of {after[:40]!r} after {before[:end][-40:]!r}, got none"
            raise DataError(problem, file=self._client.address, hint="leave out the item with this text")
        return echo.after(end - _OVERLAP)

    def _written(self, _pair: Continuation, body: bytes) -> list[str]:
        return read_written(body, self._client.address)

    def _choose_model(self) -> str:
        names = self._client.models()
        if len(names) != 1:
            problem = f"expected one model at {self._client.address}, got {', '.join(names[:10]) or 'none'}"
            raise DataError(problem, hint="name one with model=")
        return names[0]

    def _test(self) -> tuple[Marks | None, str]:
        """Test the server with a known text; return marks of the beginning and a digest of its sub-tokens.

        DataError if the text is not more probable than its words in another order, as at chance, or where
        each sub-token has the log-probability of the next one.
        """
        address = self._client.address
        if self.greedy_only:
            return None, cache.digest(*self._written((HEAD, ""), self._request((HEAD, ""))))
        echo = read_echo(self._request(("", LIKELY)), LIKELY, address)
        other = read_echo(self._request(("", SHUFFLED)), SHUFFLED, address, echo.marks)
        likely, shuffled = (float(np.nansum(each.log_probs)) for each in (echo, other))
        if not likely - shuffled > MARGIN * len(LIKELY.split()):
            raise DataError(
                "the server fails the test: expected a known text to be more probable than its words in "
                f"another order, by {MARGIN:g} nats a word, got {likely:.2f} nats against {shuffled:.2f}",
                file=address,
                hint="take another server or model, or other settings: that of llama-cpp-python needs "
                "--logits_all true, and for a model without a mark of the beginning "
                "--kv_overrides tokenizer.ggml.add_bos_token=bool:true",
            )
        return echo.marks, cache.digest(*echo.tokens)

    def _save(self, folder: Path) -> None:
        del folder
        problem = "a model on a server has no files to save"
        raise DataError(problem, hint="name the address of the server again")


def _end(before: str) -> int:
    """Return where a context ends: the white space after it belongs to what follows."""
    return len(before.rstrip())


def _begins_with(tokens: Sequence[str], word: str) -> bool:
    """Return whether the first sub-tokens make up a word, without the white space before it."""
    return bool(word) and any(text.strip() == word for text in accumulate(tokens))


def _first_word(tokens: Sequence[str]) -> str:
    """Return the first of written sub-tokens, and those after it up to one with which no word goes on."""
    inner = takewhile(lambda token: token[:1] == "\ufffd" or not ends_word(token.encode()), tokens[1:])
    return "".join([*tokens[:1], *inner]).strip()
