"""A completion server of a tiny causal model, with plain numbers, and servers that do not behave."""

# ruff: noqa: PLC0415 - imported where needed, for tests that are skipped

import atexit
import json
import math
import re
import threading
from contextlib import ExitStack, contextmanager
from functools import cache
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

from workbench.models.pretrained.server import LIKELY

DAYS = " ".join(["Monday Tuesday Wednesday Thursday Friday Saturday Sunday"] * 2)
WORDS = (LIKELY.split(), DAYS.split())
NEXT = {pair for words in WORDS for pair in pairwise(words)}
STEPS = 60


def taught(source, folder):
    """Write a tiny model that has learnt the known text, and the days of the week."""
    import torch
    import transformers

    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    model = transformers.AutoModelForCausalLM.from_pretrained(source)
    texts = [torch.tensor([tokenizer(text)["input_ids"]]) for text in (LIKELY, DAYS)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for ids in texts:
            model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class TinyCompletions:
    """Complete texts as a server does, by passes over all of a text.

    `mark` tells whether responses list the mark of the beginning, `errors` how single sub-tokens are decoded.
    With `shift` each has the log-probability of the place after it, as llama-cpp-python 0.3.36 has it for
    models without a mark.
    """

    def __init__(self, folder, *, mark=True, errors="replace", shift=False):
        import transformers

        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        self.mark, self.errors, self.shift = mark, errors, shift

    def log_probs(self, ids):
        """Return the log-probabilities of what comes after each of some sub-tokens."""
        import torch

        with torch.inference_mode():
            return self.model(torch.tensor([ids])).logits[0].double().log_softmax(-1).tolist()

    def shown(self, index):
        text = self.tokenizer.decode([index], clean_up_tokenization_spaces=False)
        piece = self.tokenizer.convert_ids_to_tokens(index)
        text = f" {text}" if piece.startswith("▁") and not text.startswith(" ") else text
        return text.replace("\ufffd", "") if self.errors == "ignore" else text

    def complete(self, request):
        """Return the response to a request."""
        prompt = self.tokenizer(request["prompt"])["input_ids"]
        ids = list(prompt)
        for _ in range(request["max_tokens"]):
            following = self.log_probs(ids)
            ids.append(following[-1].index(max(following[-1])))
        following = self.log_probs(ids)
        following = following[1:] + following[:1] if self.shift else following
        first = 0 if request.get("echo") else len(prompt)
        hidden = first == 0 and not self.mark and prompt[0] == self.tokenizer.bos_token_id
        rows = []
        for index in range(first + hidden, len(ids)):
            values = following[index - 1] if index else None
            rows.append((ids[index], values and values[ids[index]], values and max(values)))
        if hidden:
            rows[0] = (rows[0][0], None, None)
        written = self.tokenizer.decode(ids[len(prompt) :])
        return {
            "model": request["model"],
            "choices": [
                {
                    "text": (request["prompt"] if first == 0 else "") + written,
                    "logprobs": {
                        "tokens": [self.shown(index) for index, _, _ in rows],
                        "token_logprobs": [value for _, value, _ in rows],
                        "top_logprobs": [best and {"x": best, "y": value} for _, value, best in rows],
                    },
                }
            ],
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(ids) - len(prompt)},
        }


@contextmanager
def served(complete, *, models=("tiny",)):
    """Serve what a function returns for each request: an object, or a status, headers and bytes.

    Gives the address, and a list of the requests, each with its headers.
    """
    requests, lock = [], threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            self.send({"data": [{"id": name} for name in models]})

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request["headers"] = dict(self.headers)
            with lock:
                requests.append(request)
            self.send(complete(request))

        def send(self, answer):
            if not isinstance(answer, tuple):
                answer = 200, {}, json.dumps(answer).encode()
            status, headers, body = answer
            try:
                self.send_response(status)
                for name, value in (
                    {"Content-Length": str(len(body)), "Connection": "close"} | headers
                ).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # the client has gone away

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def week(request):
    """Respond as a model that knows a few words in a row, and draws other log-probabilities from the text."""
    prompt = re.findall(r"\s*\S+|\s+$", request["prompt"])
    following = (word for before, word in sorted(NEXT) if before == prompt[-1].strip())
    words = [*prompt, f" {next(following, 'and')}"]
    first = 0 if request.get("echo") else len(prompt)
    rows = [week_log_probs(words, index) for index in range(first, len(words))]
    table = {"tokens": words[first:], "token_logprobs": [value for value, _ in rows]}
    table["top_logprobs"] = [best and {"x": best} for _, best in rows]
    text = request["prompt"] + words[-1] if first == 0 else words[-1]
    usage = {"prompt_tokens": len(prompt), "completion_tokens": 1}
    return {"choices": [{"text": text, "logprobs": table, "finish_reason": "length"}], "usage": usage}


def week_log_probs(words, index):
    """Return the log-probability of a word given those before, and of the most probable word."""
    if index == 0:
        return None, None
    before, word = words[index - 1].strip(), words[index].strip()
    if (before, word) in NEXT or (word == "and" and not any(before == first for first, _ in NEXT)):
        return -0.125, -0.125
    code = blake2b("".join(words[: index + 1]).encode(), digest_size=2).digest()
    return -1 - int.from_bytes(code, "little") / 2**13, -0.125


@cache
def week_server():
    """Return the address of a server of `week`, which runs as long as this process."""
    running = ExitStack()
    atexit.register(running.close)
    return running.enter_context(served(week))[0]


def uniform(response, size=600):
    """Give all sub-tokens of a response the same probability."""
    table = response["choices"][0]["logprobs"]
    table["token_logprobs"] = [value and -math.log(size) for value in table["token_logprobs"]]
    table["top_logprobs"] = [top and {"x": -math.log(size)} for top in table["top_logprobs"]]
    return response
