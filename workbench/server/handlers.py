"""Request handlers: sign-in, instructions, pages of tasks, answers and refusals."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Awaitable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

import jinja2
from tornado.web import Application, HTTPError, RequestHandler

from workbench.people import Page, Protocol, ProtocolStep, RefusalError, Subject
from workbench.server.service import Form, Service, TaskAnswer, TooManyError
from workbench.storage.errors import DataError

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_HERE = Path(__file__).parent
_RETRY_AFTER = 5  # seconds
_FORM = "application/x-www-form-urlencoded"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_STATUS = {
    "unknown subject": 403,
    "unknown page": 404,
    "item not on the page": 404,
    "page of another subject": 403,
    "expired page": 410,
    "finished page": 409,
    "answered before": 409,
    "wrong context": 409,
    "unanswered tasks": 422,
    "invalid guess": 422,
}
_TEXTS = {
    "unknown page": "There is no such page.",
    "item not on the page": "There is no such task on this page.",
    "page of another subject": "This page belongs to somebody else.",
    "expired page": "The time for this page is over. What you saved is kept; the rest goes to somebody else.",
    "finished page": "This page has been sent already.",
    "answered before": "This was answered before, with another word; the first answer counts.",
    "wrong context": "This was answered meanwhile, perhaps in another window. Reload the page.",
}
_TITLES = {
    400: "This request cannot be understood",
    403: "This is not allowed",
    404: "There is no such page",
    405: "This is not allowed",
    409: "Answered already",
    410: "The time for this page is over",
    413: "This is too long",
    415: "This request cannot be understood",
    422: "This answer cannot be saved",
    429: "Too many attempts",
    503: "The server cannot save now",
}
_SIGNED_OUT = "You are not signed in. Open the link that you were given, or enter its code."
_OUTDATED = "This form is out of date, or was not made here. Go back, reload the page, and send it again."

_DIFFERENCES = {
    "case": "in capital letters",
    "number": "between singular and plural",
    "spelling": "of one letter",
}


class RefusedError(HTTPError):
    """A refused request, with a text for people.

    Attributes
    ----------
    text : str
    name : str
        The reason in short, such as ``expired page``.
    retry_after : int or None
        Seconds to wait before another attempt.
    """

    def __init__(self, status: int, text: str, name: str, *, retry_after: int | None = None) -> None:
        super().__init__(status)
        self.text, self.name, self.retry_after = text, name, retry_after


class Handler(RequestHandler):
    """Base of all handlers: checks, headers, the subject, error pages."""

    SUPPORTED_METHODS = ("GET", "POST")

    def initialize(self, service: Service, hosts: frozenset[str] | None, cookie: str) -> None:
        """Set the attributes passed by `application`."""
        self.service, self.hosts, self.cookie = service, hosts, cookie
        self.subject: Subject | None = None

    def set_default_headers(self) -> None:
        """Set the headers of every answer."""
        self.clear_header("Server")
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def compute_etag(self) -> str | None:
        """Omit the tag of pages, which are not to be stored."""
        return None

    @property
    def secure(self) -> bool:
        """True if the connection is encrypted."""
        return self.request.protocol == "https"

    @property
    def address(self) -> str:
        """Network address of the client."""
        return str(self.request.remote_ip)

    def check_xsrf_cookie(self) -> None:
        """Refuse a form submitted from another site."""
        if self.request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
            raise RefusedError(403, _OUTDATED, "foreign form")
        origin = self.request.headers.get("Origin", "null")  # null, as there is no referrer
        if origin not in {"null", f"{self.request.protocol}://{self.request.host}"}:
            raise RefusedError(403, _OUTDATED, "foreign form")
        try:
            super().check_xsrf_cookie()
        except HTTPError:
            raise RefusedError(403, _OUTDATED, "foreign form") from None

    async def prepare(self) -> None:
        """Check host and form, and identify the subject."""
        if self.hosts is not None and _host_name(self.request.host) not in self.hosts:
            raise RefusedError(403, "This server answers under its own name only.", "foreign host")
        content_type = self.request.headers.get("Content-Type", _FORM).partition(";")[0].strip().lower()
        if self.request.method == "POST" and content_type != _FORM:
            raise RefusedError(415, f"Expected a form ({_FORM}).", "unknown form")
        if token := self.get_cookie(self.cookie):
            self.subject = await self.work(self.service.subject(token))

    async def work(self, waiting: Awaitable[T]) -> T:
        """Return the campaign's answer; a refusal becomes an answer with a status."""
        try:
            return await waiting
        except RefusalError as error:
            raise RefusedError(_STATUS.get(error.reason, 403), _text(error), error.reason) from None
        except DataError as error:
            _LOG.error("%s", error)
            text = "The server cannot save now."
            raise RefusedError(503, text, "not saved", retry_after=_RETRY_AFTER) from None

    def signed_in(self) -> Subject:
        """Return the signed-in subject, or refuse the request."""
        if self.subject is None:
            raise RefusedError(403, _SIGNED_OUT, "signed out")
        return self.subject

    def show(self, template: str, **values: Any) -> None:
        """Answer with a page."""
        values |= {"subject": self.subject, "xsrf": self.xsrf_token.decode("ascii")}
        self.finish(fill_template(template, **values))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with an error page."""
        error = self.refusal(kwargs)
        title = _TITLES.get(status_code, "Something went wrong")
        text = error.text if error else "Go back and try again. What was saved is kept."
        if error and error.name == "signed out":
            self.show("sign_in.html", token=None, problem=text)
            return
        link = ("/page", "Go to your page") if self.subject else ("/", "Sign in")
        self.show("error.html", title=title, text=text, link=link[0], link_text=link[1])

    def refusal(self, values: Mapping[str, Any]) -> RefusedError | None:
        """Return the refusal behind `write_error`, and set its header; None for another error."""
        error = values.get("exc_info", (None, None, None))[1]
        if not isinstance(error, RefusedError):
            return None
        if error.retry_after:
            self.set_header("Retry-After", str(error.retry_after))
        return error

    def log_exception(
        self,
        typ: type[BaseException] | None,  # noqa: ARG002 - as tornado calls it
        value: BaseException | None,
        tb: TracebackType | None,  # noqa: ARG002
    ) -> None:
        """Log a server error without the requested address, which may hold a token."""
        if not isinstance(value, HTTPError):
            _LOG.error("%s by %s", self.request.method, type(self).__name__, exc_info=value)


class Unknown(Handler):
    """Handler of unknown addresses."""

    async def prepare(self) -> None:
        """Refuse the request."""
        await super().prepare()
        raise RefusedError(404, "The address is not one of this server's.", "unknown address")


class Start(Handler):
    """The link of a subject. The code leaves the address with the next click."""

    def get(self, token: str) -> None:
        """Show a button: a link that signs in at once could be followed by any program."""
        self.show("sign_in.html", token=token, problem=None)


class SignIn(Handler):
    """Exchange of a token for a cookie."""

    def get(self) -> None:
        """Show the form."""
        self.redirect("/", status=303)

    async def post(self) -> None:
        """Set the cookie if the token is valid."""
        token = self.get_body_argument("token", "").strip().rstrip("/").rpartition("/")[2]
        try:
            self.subject = await self.work(self.service.sign_in(token, self.address))
        except TooManyError as error:
            seconds = math.ceil(error.seconds)
            text = (
                "Nobody has this code, and too many wrong ones came from your address. Copy the whole link "
                f"again, or try another one in {seconds} seconds."
            )
            raise RefusedError(429, text, "too many attempts", retry_after=seconds) from None
        if self.subject is None:
            self.set_status(403)
            self.show("sign_in.html", token=None, problem="Nobody has this code. Copy the whole link again.")
            return
        self.set_cookie(self.cookie, token, path="/", httponly=True, samesite="Strict", secure=self.secure)
        self.redirect("/", status=303)


class SignOut(Handler):
    """Removal of the cookie."""

    def post(self) -> None:
        """Clear the cookie."""
        self.clear_cookie(self.cookie, path="/", httponly=True, samesite="Strict", secure=self.secure)
        self.redirect("/", status=303)


class Welcome(Handler):
    """The first page: sign-in, or instructions."""

    def get(self) -> None:
        """Show the page."""
        if self.subject is None:
            self.show("sign_in.html", token=None, problem=None)
            return
        protocol = self.service.campaign.protocol
        self.show(
            "welcome.html",
            kinds=all_instructions(protocol),
            candidates=protocol.candidates,
            lease=_duration(protocol.lease),
        )


class Tasks(Handler):
    """The page of tasks of a subject."""

    async def get(self) -> None:
        """Show the page, or a new one."""
        page = await self.work(self.service.next_page(self.signed_in()))
        if page is None:
            self.show("none.html")
        else:
            self.show_tasks(page)

    def show_tasks(
        self,
        page: Page,
        *,
        drafts: Mapping[int, list[str]] | None = None,
        problems: Mapping[int, str] | None = None,
        notice: str | None = None,
        after: int = 0,
    ) -> None:
        """Show a page as a form that needs no script; the first open field has the focus."""
        protocol = self.service.campaign.protocol
        waiting = [index for index, task in enumerate(page.tasks) if not task.finished]
        self.show(
            "tasks.html",
            page=page,
            thing=task_name(protocol, page.condition),
            lines=task_instructions(protocol, protocol.steps[page.step - 1]),
            lease=_duration(page.expires - self.service.campaign.now()),
            n_finished=len(page.tasks) - len(waiting),
            focus=next((index for index in waiting if index >= after), waiting[0] if waiting else None),
            drafts=drafts or {},
            problems=problems or {},
            notice=notice,
        )


class SentForm(Tasks):
    """A submitted page of tasks."""

    def get(self, _number: str) -> None:  # type: ignore[override]
        """Show the current page of the subject."""
        self.redirect("/page", status=303)

    async def post(self, number: str) -> None:
        """Save one task of the form, or all filled ones, or all and submit the page."""
        subject, page, save = self.signed_in(), int(number), self.get_body_argument("save", "filled")
        form = await self.work(self.service.form(page, subject))
        answers = self.answers(save, form)
        outcome = await self.work(self.service.answer_form(page, subject, answers, send=save == "send"))
        if outcome.page is None:
            self.redirect("/page", status=303)
        else:
            self.show_outcome(outcome.page, outcome.refused, save, answers)

    def answers(self, save: str, form: Form) -> dict[int, TaskAnswer]:
        """Return the answers to save, by index of their task on the page."""
        empty = self.get_body_argument("empty", "") == "1"
        answers = {}
        for index, typed in self.typed_words().items():
            words = [word for word in typed if word]
            if save == "filled":
                wanted = len(words) == form.guesses
            elif save == "send":
                wanted = bool(words) or empty
            else:
                wanted = save == str(index) and (bool(words) or form.condition == "unfolding")
            if wanted:
                n_shown, seconds = self.number(f"shown-{index}"), self.number(f"seconds-{index}")
                answers[index] = TaskAnswer(words or [""], None if n_shown is None else int(n_shown), seconds)
        return answers

    def typed_words(self) -> dict[int, list[str]]:
        """Return the words of the form by index of their task, empty fields included."""
        typed: dict[int, list[str]] = {}
        for name in self.request.body_arguments:
            if field := re.fullmatch(r"(guess|shown)-(\d{1,4})(?:-\d{1,4})?", name, re.ASCII):
                words = typed.setdefault(int(field[2]), [])
                if field[1] == "guess":
                    words.extend(self.get_body_arguments(name))
        return dict(sorted(typed.items()))

    def number(self, name: str) -> float | None:
        """Return a number of the form, or None."""
        text = self.get_body_argument(name, "")
        return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII) else None

    def show_outcome(
        self, page: Page, refused: Mapping[int, RefusalError], save: str, answers: Mapping[int, TaskAnswer]
    ) -> None:
        """Show the page again, with missing and refused answers."""
        sent_task = int(save) if re.fullmatch(r"\d{1,4}", save, re.ASCII) else None
        missing = ", ".join(str(index + 1) for index, task in enumerate(page.tasks) if not task.finished)
        problems = {index: _text(error) for index, error in refused.items()}
        if sent_task is not None and sent_task not in answers:
            problems[sent_task] = "There is no word yet."
        notice = None
        if save == "send" and missing:
            notice = f"Not finished yet: {missing}."
            if page.condition != "unfolding":
                notice = f"There is no word yet for {missing}. Type one, or say that you cannot guess it."
        if problems or notice:
            self.set_status(409 if refused else 422)
        drafts = {index: words for index, words in self.typed_words().items() if index not in answers}
        after = 0 if sent_task is None else sent_task
        self.show_tasks(page, drafts=drafts, problems=problems, notice=notice, after=after)


class OneAnswer(SentForm):
    """One answer of a page, sent by the script; the reply is JSON."""

    async def post(self, number: str) -> None:
        """Save the answer."""
        subject, index = self.signed_in(), self.number("place")
        if index is None:
            raise RefusedError(400, "Expected the index of a task.", "item not on the page")
        count = self.number("shown")
        answer = TaskAnswer(
            self.get_body_arguments("guess"), None if count is None else int(count), self.number("seconds")
        )
        task = await self.work(self.service.answer(int(number), subject, int(index), answer))
        self.reply({"finished": task is None, "sentences": [] if task is None else task.sentences})

    def reply(self, values: Mapping[str, Any]) -> None:
        """Answer with JSON."""
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(values))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with the error as JSON."""
        error = self.refusal(kwargs)
        text = error.text if error else _TITLES.get(status_code, "Something went wrong")
        self.reply({"error": text, "reason": error.name if error else None})


class StaticFile(Handler):
    """The style sheet, the script and the icon; no other file is served."""

    def get(self, name: str) -> None:
        """Send the file."""
        content_type, content = static_files()[name]
        self.set_header("Content-Type", content_type)
        self.set_header("Cache-Control", "no-cache")
        self.finish(content)

    def compute_etag(self) -> str | None:
        """Tag the content, so that it is sent once."""
        return RequestHandler.compute_etag(self)


class Alive(Handler):
    """Health check of the server."""

    def get(self) -> None:
        """Answer the check."""
        self.set_status(204)


def application(service: Service, hosts: frozenset[str] | None, cookie: str, *, secure: bool) -> Application:
    """Return the web application of a campaign.

    Parameters
    ----------
    service : Service
    hosts : frozenset of str or None
        The names under which the server may be asked; None for any.
    cookie : str
        Name of the cookie: several campaigns, and JupyterLab, may run on one machine.
    secure : bool
        Whether connections are encrypted.
    """
    shared = {"service": service, "hosts": hosts, "cookie": cookie}
    names = "|".join(map(re.escape, static_files()))
    routes: list[Any] = [
        (r"/", Welcome, shared),
        (r"/start/([\w-]{1,100})", Start, shared),
        (r"/sign-in", SignIn, shared),
        (r"/sign-out", SignOut, shared),
        (r"/page", Tasks, shared),
        (r"/page/([0-9]{1,18})", SentForm, shared),
        (r"/page/([0-9]{1,18})/answer", OneAnswer, shared),
        (rf"/static/({names})", StaticFile, shared),
        (r"/alive", Alive, shared),
    ]
    return Application(
        routes,
        default_handler_class=Unknown,
        default_handler_args=shared,
        log_function=lambda _: None,  # requests are not logged, for privacy
        xsrf_cookies=True,
        xsrf_cookie_name=f"{cookie}-form",
        xsrf_cookie_kwargs={
            "httponly": True, "samesite": "Strict", "secure": secure, "path": "/", "expires_days": None
        },
    )  # fmt: skip


def _text(error: RefusalError) -> str:
    return _TEXTS.get(error.reason, f"{error.problem[:1].upper()}{error.problem[1:]}.")


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _duration(seconds: float) -> str:
    minutes = max(1, math.floor(seconds / 60))
    hours, rest = divmod(minutes, 60)
    amounts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((hours, "hour"), (rest, "minute")) if n]
    return " ".join(amounts)


# -- pages as HTML, from templates in which everything from data is escaped


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def fill_template(template: str, **values: Any) -> str:
    """Return a template of the server, such as ``"tasks.html"``, filled."""
    return _templates().get_template(template).render(values)


@cache
def static_files() -> dict[str, tuple[str, bytes]]:
    """Return the static files of the pages: type and content by name."""
    types = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    return {
        path.name: (f"{types[path.suffix[1:]]}; charset=utf-8", path.read_bytes())
        for path in sorted((_HERE / "static").iterdir())
        if path.suffix[1:] in types
    }


def task_name(protocol: Protocol, condition: str) -> str:
    """Return the name of one task."""
    return "sentence" if condition == "sentence" or protocol.name == "completion" else "passage"


def task_instructions(protocol: Protocol, step: ProtocolStep) -> list[str]:
    """Return the instructions for the pages of a step."""
    thing = task_name(protocol, step.condition)
    if protocol.candidates:
        extract = "a sentence" if thing == "sentence" else "a passage"
        lines = [
            f"You see {extract} in which a word is missing. Choose the word that stood there from the list."
        ]
        if protocol.name != "completion" and step.condition == "sentence":
            lines.append("Each sentence comes from a longer text, which is not shown.")
        return lines
    if step.condition == "unfolding":
        lines = [
            "You see the last sentence of a passage, in which a word is missing. Type the word.",
            "If it is wrong, the sentence before appears, until the whole passage is shown.",
            "If you have no idea, leave the field empty and go on.",
        ]
    elif step.condition == "sentence":
        lines = ["You see single sentences in which a word is missing. The text around them is not shown."]
    else:
        lines = ["You see passages in which a word is missing. Read the whole passage, then type the word."]
    if step.guesses > 1:
        lines.append(
            f"Type up to {step.guesses} different words for each {thing}, the most likely one first."
        )
    return [*lines, _what_counts(protocol)]


def _what_counts(protocol: Protocol) -> str:
    ignored = [_DIFFERENCES[each] for each in protocol.accept[1:]]
    strict = "" if "case" in protocol.accept else ", with the same capital letters"
    counts = f"A word is right if it is the one that stood there, in the same form and spelling{strict}."
    if ignored:
        listed = " and ".join(filter(None, [", ".join(ignored[:-1]), ignored[-1]]))
        counts += f" Differences {listed} do not count."
    return counts


def all_instructions(protocol: Protocol) -> list[tuple[str, list[str]]]:
    """Return the instructions for each type of page of a protocol, with a heading."""
    steps = {(step.condition, step.guesses): step for step in protocol.steps}
    return [
        (
            f"{task_name(protocol, step.condition).capitalize()}s, {step.per_page} a page",
            task_instructions(protocol, step),
        )
        for step in steps.values()
    ]
