"""A completion server of a tiny causal model, with plain numbers, and servers that do not behave."""

# ruff: noqa: PLC0415 - imported where needed, for tests that are skipped

import json
import math
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from workbench.models.pretrained.server import LIKELY

STEPS = 60


def taught(source, folder):
    """Write a tiny model that has learnt the known text."""
    import torch
    import transformers

    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    model = transformers.AutoModelForCausalLM.from_pretrained(source)
    ids = torch.tensor([tokenizer(LIKELY)["input_ids"]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class TinyCompletions:
    """Complete texts as a server does, one forward pass a sub-token, nothing shared.

    `mark` tells whether responses list the mark of the beginning, `errors` how single sub-tokens are decoded.
    """

    def __init__(self, folder, *, mark=True, errors="replace"):
        import transformers

        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        self.mark, self.errors = mark, errors

    def log_probs(self, ids):
        """Return the log-probabilities of what comes after some sub-tokens."""
        import torch

        with torch.inference_mode():
            return self.model(torch.tensor([ids])).logits[0, -1].double().log_softmax(-1).tolist()

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
            values = self.log_probs(ids)
            ids.append(values.index(max(values)))
        first = 0 if request.get("echo") else len(prompt)
        hidden = first == 0 and not self.mark and prompt[0] == self.tokenizer.bos_token_id
        rows = []
        for index in range(first + hidden, len(ids)):
            values = self.log_probs(ids[:index]) if index else None
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
            with lock:
                requests.append(request | {"headers": dict(self.headers)})
            self.send(complete(request))

        def send(self, answer):
            if not isinstance(answer, tuple):
                answer = 200, {}, json.dumps(answer).encode()
            status, headers, body = answer
            try:
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # the client has gone away
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Remembered:
    """Complete each text once, as several tests ask for the same ones."""

    def __init__(self, complete):
        self.complete, self.responses = complete, {}

    def __call__(self, request):
        key = json.dumps(request, sort_keys=True)
        if key not in self.responses:
            self.responses[key] = self.complete(request)
        return json.loads(json.dumps(self.responses[key]))


def uniform(response, size=600):
    """Give all sub-tokens of a response the same probability."""
    table = response["choices"][0]["logprobs"]
    table["token_logprobs"] = [value and -math.log(size) for value in table["token_logprobs"]]
    table["top_logprobs"] = [top and {"x": -math.log(size)} for top in table["top_logprobs"]]
    return response
