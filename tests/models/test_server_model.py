"""Models on a completion server: numbers beside `CausalLM`, and servers that do not behave."""

import contextlib
import json
import math
import pickle
import socket
import threading

import completion_server as servers
import numpy as np
import pandas as pd
import pytest
from refused import refused

import workbench as wb
from workbench.items.items import Items, items_from_frame, items_from_text
from workbench.models import CausalLM, ServerModel
from workbench.models.pretrained import completions
from workbench.models.pretrained.completions import Marks, is_local, locate_tokens, read_echo
from workbench.models.pretrained.prompts import Prompt
from workbench.models.pretrained.server import LIKELY
from workbench.storage.errors import DataError

WEEK = items_from_text(
    ["Friday Saturday Sunday Monday ___", "“Oh — naïve!” — Monday Tuesday Wednesday ___", "It was a ___ day"],
    answers=["Tuesday", "Friday", "naïve"],
)  # fmt: skip
SECRET = "sk-not-to-be-seen"  # noqa: S105 - of no server


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Use a home of its own, and wait for no server."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(completions, "PAUSE", 0.0)


@pytest.fixture(scope="module")
def taught(folders, tmp_path_factory):
    """Give the folders of two tiny models that know the known text, without and with a mark."""
    return {
        kind: servers.taught(folders(kind), tmp_path_factory.mktemp(kind) / "taught")
        for kind in ("bytes", "llama")
    }


def model(url, name=None, **options):
    return ServerModel(url, name, **{"retries": 2, **options})


def refused_model(*arguments, **options):
    """Return the error of a model that is refused."""
    return refused(model, *arguments, **options)


@contextlib.contextmanager
def week(spoil=lambda response, _request: response, **options):
    """Serve the model of the week, with what `spoil` makes of its responses."""
    with servers.served(lambda request: spoil(servers.week(request), request), **options) as served:
        yield served


def questions():
    rows = [
        ("Monday Tuesday ___ Thursday , he said.", ("Wednesday", "Friday", "naïve")),
        ("It was Saturday and ___", ("Sunday", "“Oh”")),
    ]
    frame = pd.DataFrame([(f"q{n}", text, words[0], words) for n, (text, words) in enumerate(rows)])
    frame.columns = ["item_id", "text", "answer", "candidates"]
    return items_from_frame(frame, candidates="candidates", item_id="item_id")


@pytest.mark.parametrize("style", [
    ("bytes", True, "replace"), ("llama", True, "replace"), ("llama", False, "ignore"),
])  # fmt: skip
def test_numbers_are_those_of_the_same_weights_here(taught, style):
    kind, mark, errors = style
    here = CausalLM(taught[kind], device="cpu")
    tiny = servers.TinyCompletions(taught[kind], mark=mark, errors=errors)
    items = Items.concat([WEEK, questions()])
    prompt = Prompt("Sunday Monday {text}")
    with servers.served(tiny.complete) as (url, _):
        there = model(url)
        frame, expected = there.predict(items), here.predict(items)
        np.testing.assert_allclose(there.log_prob(items), expected["log_prob_uncorrected"], atol=1e-4)
        rest = model(url, candidates="rest").predict(questions())
        prompted = model(url, prompt=prompt).predict(WEEK[:1])
    whole = ~expected["prediction"].str.contains("\ufffd", na=False)  # parts of characters differ
    pd.testing.assert_series_equal(frame["prediction"][whole], expected["prediction"][whole])
    assert whole.any()
    for name in ("correct", "greedy_correct", "bos"):
        pd.testing.assert_series_equal(frame[name], expected[name])
    assert frame["correct"].any()
    np.testing.assert_allclose(frame["log_prob_uncorrected"], expected["log_prob_uncorrected"], atol=1e-4)
    assert frame["log_prob"].isna().all()
    scores = [row for row in frame["candidate_scores"] if row is not None]
    words = [text.word for text in map(here._split, questions())]
    ends = here.predict(questions())  # of the second question, where the word ends the text, without its end
    np.testing.assert_allclose(scores[0], ends["candidate_scores"][0], atol=1e-4)
    assert scores[1][0] == pytest.approx(ends["log_prob_uncorrected"][1], abs=1e-4)
    assert words == ["Wednesday", "Sunday"]
    other = CausalLM(taught[kind], device="cpu", candidates="rest").predict(questions())
    np.testing.assert_allclose(rest["candidate_scores"][0], other["candidate_scores"][0], atol=1e-4)
    other = CausalLM(taught[kind], device="cpu", prompt=prompt).predict(WEEK[:1])
    np.testing.assert_allclose(prompted["log_prob_uncorrected"], other["log_prob_uncorrected"], atol=1e-4)
    assert prompted["prompt"].tolist() == other["prompt"].tolist()


def test_log_probabilities_that_are_one_place_out_are_refused(taught):
    tiny = servers.TinyCompletions(taught["bytes"], shift=True)
    with servers.served(tiny.complete) as (url, _):
        refused_model(url)


def of_table(change):
    """Return what spoils the table of log-probabilities of responses that echo."""

    def spoil(response, request):
        if request.get("echo"):
            change(response["choices"][0]["logprobs"])
        return response

    return spoil


def set_last(name, value):
    return of_table(lambda table: table[name].__setitem__(-2, value))


def content_alone(response, _request):
    """Give the log-probabilities of what is written alone, as llama.cpp's own server does."""
    table = response["choices"][0]["logprobs"]
    pairs = zip(table["tokens"][-1:], table["token_logprobs"][-1:], strict=True)
    response["choices"][0]["logprobs"] = {"content": [{"token": a, "logprob": b} for a, b in pairs]}
    return response


def other_text(response, _request):
    response["choices"][0]["text"] = response["choices"][0]["text"].replace("Once", "Twice")
    return response


def no_logprobs(response, _request):
    response["choices"][0]["logprobs"] = None
    return response


JSON = json.dumps(servers.week({"prompt": LIKELY, "echo": True})).encode()
REFUSED = {
    "no log-probabilities": no_logprobs,
    "chance": of_table(lambda t: servers.uniform({"choices": [{"logprobs": t}]})),
    "one too few": of_table(lambda t: t["token_logprobs"].pop()),
    "NaN": set_last("token_logprobs", math.nan),
    "positive": set_last("token_logprobs", 0.5),
    "another text": other_text,
    "another token": set_last("tokens", " Moon"),
    "truncated": lambda *_: (200, {}, JSON[:-9]),
    "500 always": lambda *_: (500, {}, b"out of memory"),
    "redirect": lambda *_: (307, {"Location": "http://me:pw@example.com/?key=1"}, b""),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_server_that_does_not_behave_is_refused_with_the_reason(name):
    with week(REFUSED[name]) as (url, requests):
        caught = refused_model(url)
        assert url in str(caught)
        assert caught.hint
        assert not {"pw", "key=1"} & set(str(caught).split())
    assert name != "500 always" or len(requests) == 3


def test_a_silent_server_and_no_server_are_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        refused_model(f"http://127.0.0.1:{port}", timeout=0.05)
    refused_model(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(("status", "headers", "expected"), [
    (429, {"Retry-After": "1"}, [1, 1, 1]), (429, {"Retry-After": "3600"}, [60, 60, 60]),
    (503, {}, [1.0, 2.0]),
])  # fmt: skip
def test_a_temporary_error_is_tried_again_after_pauses(status, headers, expected, monkeypatch):
    monkeypatch.setattr(completions, "PAUSE", 0.5)
    pauses, answers = [], iter([status] * 3)
    monkeypatch.setattr("urllib3.util.retry.time.sleep", pauses.append)

    def spoil(response, _request):
        code = next(answers, None)
        return response if code is None else (code, headers, b"busy")

    with week(spoil) as (url, _):
        assert model(url, retries=3).config == model(url).config
    assert pauses == expected


def test_requests_at_once_change_nothing():
    with week() as (url, _):
        several, alone = model(url, concurrency=4), model(url)
        items = wb.load("sample", "dev")[:6]
        frame = several.predict(items)
        wb.cache().free("server")
        pd.testing.assert_frame_equal(frame, alone.predict(items))


def test_a_run_that_was_interrupted_goes_on(monkeypatch):
    monkeypatch.setattr("workbench.models.pretrained.server._SLICE", 4)
    items, alive, dies = wb.load("sample", "dev")[:20], [True], [True]

    def spoil(response, request):
        alive[0] &= not dies[0] or items[13].text[:200] not in request["prompt"]
        return response if alive[0] else (503, {}, b"dead")

    with week(spoil) as (url, requests):
        dying = model(url)
        refused(wb.predict, items, dying)
        assert not len(wb.runs())
        alive[0], dies[0] = True, False
        again = model(url)
        tests = len(requests)
        run = wb.predict(items, again)
        echoed = [request["prompt"] for request in requests[tests:] if request.get("echo")]
        assert len(echoed) == 8
        assert wb.predict(items, again).run == run.run
    wb.cache().free("server")
    with week() as (url, _):
        expected = run.predictions.assign(run="")[list(run.predictions)]
        pd.testing.assert_frame_equal(model(url).predict(items), expected)


def test_a_server_at_another_address_is_another_run():
    """Both have one name, and the same answers to the first questions."""

    def other(response, request):
        if request["prompt"].startswith("Friday"):
            response["choices"][0]["logprobs"]["tokens"][0] = "Sunday"
        return response

    with week() as (first, _), week(other) as (second, _):
        models = [model(url, "tiny", greedy_only=True) for url in (first, second)]
        assert models[0].config["known_text"] == models[1].config["known_text"]
        runs = [wb.predict(WEEK[:1], each) for each in models]
        again = wb.predict(WEEK[:1], model(f"{first}/v1/", "tiny", greedy_only=True))
        scored = [model(url) for url in (first, second)]
    assert [run.predictions["prediction"].tolist() for run in runs] == [["Tuesday"], ["Sunday"]]
    assert again.run == runs[0].run != runs[1].run
    assert scored[0].config != scored[1].config


@pytest.mark.parametrize(("url", "address"), [
    ("http://LOCALHOST/", "http://localhost/v1"),
    ("https://[::1]/v1/", "https://[::1]/v1"),
    ("http://localhost:8000/api//", "http://localhost:8000/api/v1"),
])  # fmt: skip
def test_an_address_has_one_form(url, address):
    client = completions.CompletionClient(url, key_variable=None, remote=False, timeout=1, retries=0)
    assert client.address == address


def test_the_key_is_sent_and_stands_nowhere_else(monkeypatch, tmp_path):
    monkeypatch.setenv("A_KEY", SECRET)

    with week() as (url, requests):
        mine = model(url, key_variable="A_KEY")
        assert {request["headers"]["Authorization"] for request in requests} == {f"Bearer {SECRET}"}
        run = wb.predict(WEEK, mine)
        assert model(url).config == mine.config
    with servers.served(lambda request: (401, {}, request["headers"]["Authorization"].encode())) as (url, _):
        caught = refused_model(url, key_variable="A_KEY")
    gone = refused(mine.predict, wb.load("sample", "dev")[:1])
    seen = [repr(vars(mine)), json.dumps(run.info), str(caught), str(gone)]
    seen += [repr(error.__context__) + repr(error.__cause__) for error in (caught, gone)]
    assert SECRET.encode() not in pickle.dumps(mine)
    assert not any(SECRET in text for text in seen)
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert files
    assert not any(SECRET.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize("key", [None, "line\nbreak"])
def test_a_key_that_no_header_can_hold_is_not_shown(key, monkeypatch):
    monkeypatch.delenv("A_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("A_KEY", key)
    caught = refused_model("http://127.0.0.1:9", key_variable="A_KEY")
    assert not key or key not in str(caught)


def test_no_proxy_sees_what_a_local_server_is_sent(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    with week() as (url, _):
        model(url)


ADDRESSES = [
    "file:///etc/passwd", "localhost:8000", "http://", "http://localhost?key=1",
]  # fmt: skip
OPTIONS = [{"timeout": 0}, {"retries": -1}, {"concurrency": 0}, {"key": SECRET}]
WRONG = [
    *((url, {}) for url in ADDRESSES),
    *(("http://127.0.0.1:9", options) for options in OPTIONS),
    (f"http://me:{SECRET}@localhost:8000", {}),
    ("http://no-such-host.invalid", {}),
]


@pytest.mark.parametrize(("url", "options"), WRONG)
def test_an_address_or_option_that_is_none_is_refused(url, options):
    assert SECRET not in str(refused_model(url, **options))


def test_a_server_elsewhere_needs_a_word(monkeypatch):
    url = "http://8.8.8.8"
    caught = refused_model(url)
    assert "remote=True" in caught.hint
    asked = []

    def request(_session, *arguments, **_options):
        asked.append(arguments)
        raise OSError("no network")

    monkeypatch.setattr("requests.Session.request", request)
    refused_model(url, remote=True)
    assert asked == [("GET", f"{url}/v1/models")]


def test_addresses_of_this_machine_and_of_private_networks():
    local = ["127.0.0.1", "127.9.9.9", "::1", "10.0.0.1", "192.168.1.9", "172.16.0.1", "fe80::1%eth0"]
    local += ["fd00::1"]
    other = ["8.8.8.8", "172.32.0.1", "2001:4860:4860::8888", "::ffff:8.8.8.8", "100.128.0.1"]
    assert [is_local(number) for number in local + other] == [True] * len(local) + [False] * len(other)


def test_the_model_is_named_where_a_server_has_several():
    with week(models=("a", "b")) as (url, requests):
        refused_model(url)
        assert model(url, "folder/b").name == "b"
        assert {request["model"] for request in requests} == {"folder/b"}


def test_a_server_without_prompt_log_probs_can_be_used_for_what_it_writes():
    with week(content_alone) as (url, _):
        greedy = model(url, greedy_only=True)
        frame = wb.predict(WEEK[:2], greedy).predictions
        refused(greedy.predict, questions())
        refused_model(url)
    with week() as (url, _):
        full = model(url).predict(WEEK[:2])
    for name in ("prediction", "correct", "greedy_correct"):
        assert frame[name].tolist() == full[name].tolist()
    assert frame["correct"].tolist() == [True, False]
    assert frame["prediction"].tolist() == ["Tuesday", "Thursday"]
    assert frame[["log_prob", "log_prob_uncorrected", "rank"]].isna().all(axis=None)
    with week(lambda r, _: content_alone(r, _) and no_logprobs(r, _)) as (url, _):
        refused_model(url, greedy_only=True)


def test_an_item_without_a_context_is_named():
    items = items_from_text(["___ day"], answers=["One"])
    with week() as (url, _), pytest.raises(DataError):
        model(url).predict(items)


@pytest.mark.parametrize(
    ("tokens", "text", "spans"),
    [
        (["a", " b"], "a b", [(0, 1), (1, 3)]),
        (["a", "b"], "a b", [(0, 1), (1, 3)]),  # the white space is lost
        ([" a", " b"], "a b", [(0, 1), (1, 3)]),  # and put before a text
        ([" \ufffd", "\ufffd", "I"], " “I", [(0, 2), (1, 2), (2, 3)]),
        ([" ", "", "I"], " “I", [(0, 1), (1, 2), (2, 3)]),
        (["\ufffd", "\ufffd", "I"], "“ I", [(0, 1), (0, 1), (1, 3)]),
        (["a", "\ufffd", "\ufffd"], "a”", [(0, 1), (1, 2), (1, 2)]),
        (["a", "c"], "a b", None),
        (["a"], "a b", None),
        (["a", "b"], "axb", None),
        ([], "", []),
    ],
)
def test_where_sub_tokens_are(tokens, text, spans):
    assert locate_tokens(tokens, text) == spans


def test_words_of_an_item_are_scored_from_where_one_of_their_sub_tokens_reaches_into_the_context():
    cuts = {"e a-b": ["e", " a", "-b"], "e a-d": ["e", " a-", "d"], "e a-f": ["e", " a-f"]}
    values = {" a": -0.5, "-b": -2.0, " a-": -0.7, "d": -0.25, " a-f": -9.0}

    def complete(request):
        tokens = cuts.get(request["prompt"])
        if tokens and request.get("echo"):
            listed = [None, *map(values.get, tokens[1:]), -0.1]
            table = {"tokens": [*tokens, " c"], "token_logprobs": listed}
            table["top_logprobs"] = [value and {"x": value} for value in listed]
            choice = {"text": f"{request['prompt']} c", "logprobs": table}
            return {"choices": [choice], "usage": {"prompt_tokens": len(tokens)}}
        return servers.week(request)

    items = items_from_text(["e a-___"] * 2, answers=["b", "d"])
    with servers.served(complete) as (url, _):
        server = model(url)
        assert server.log_prob(items).tolist() == [-2.0, -0.25]
        scores = server.score(
            items, [["b", "d"], ["d", "b", "f"]]
        )  # of "-b", and of " a-f", begin further left
    expected = [[-2.5, -0.95, np.nan], [-0.95, -2.5, -9.0]]
    np.testing.assert_allclose(scores, expected)


def test_a_response_that_drips_ends_at_the_deadline():
    """Each byte comes in time, the whole does not."""
    stop = threading.Event()

    def drip(listener):
        with listener.accept()[0] as connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
            with contextlib.suppress(OSError):
                while not stop.wait(0.05):
                    connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        caught = refused_model(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.3)
        stop.set()
        thread.join()
    assert "not complete after 0.3 seconds" in caught.problem


@pytest.mark.parametrize("listed", [0, 1])
def test_a_text_that_ends_with_a_part_of_a_character_has_all_its_sub_tokens(listed):
    """Whether the last one was written by the server is known from a text that ends with a letter."""

    def response(tokens, text):
        values = [None, *(-1.0 - index for index in range(len(tokens) - 1 + listed))]
        table = {"tokens": tokens + [" and"] * listed, "token_logprobs": values}
        table["top_logprobs"] = [value and {"x": value} for value in values]
        usage = {"prompt_tokens": len(tokens), "completion_tokens": 1}
        return json.dumps({"choices": [{"text": text, "logprobs": table}], "usage": usage}).encode()

    tokens, text = ["He", " said", " \ufffd", "\ufffd"], "He said ”"
    marks = read_echo(response(["He", " said"], "He said"), "He said", "here").marks
    assert marks == Marks(0, 0)
    assert read_echo(response(tokens, text), text, "here", marks).tokens == tokens
