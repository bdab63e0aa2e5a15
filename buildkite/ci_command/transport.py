"""One HTTP client for both services: bounded in time and in tries, and honest about what it does not know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlsplit

import requests
from pydantic import TypeAdapter, ValidationError
from requests.auth import AuthBase

from buildkite.ci_command.models import first_problem
from buildkite.ci_command.redact import Redactor, one_line

T = TypeVar("T")
Query = Sequence[tuple[str, str]]
MAX_PAGES = 50
MAX_DETAIL = 300


class ServiceError(Exception):
    """A service did not do what was asked.

    Attributes:
        service: "GitHub" or "Buildkite".
        status: HTTP status, or None when no whole answer came.
        ambiguous: the request may have taken effect all the same, so it must not simply be sent again.
        passing: trying again later may help.
        retry_after: seconds the service asked to wait, if it did.

    """

    def __init__(
        self,
        service: str,
        detail: str,
        *,
        status: int | None = None,
        ambiguous: bool = False,
        passing: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(one_line(f"{service}: {detail}", MAX_DETAIL))
        self.service = service
        self.status = status
        self.ambiguous = ambiguous
        self.passing = passing
        self.retry_after = retry_after


@dataclass(frozen=True)
class Patience:
    """How long to wait for one request and how often to try.

    Attributes:
        connect: seconds for the connection.
        read: seconds between two bytes of the answer.
        tries: requests in all, the first included.
        first_wait: seconds before the second try; doubled for each further one.
        longest_wait: seconds; a service that asks for more is not waited for.

    """

    connect: float = 5.0
    read: float = 20.0
    tries: int = 4
    first_wait: float = 1.0
    longest_wait: float = 60.0
    sleep: Callable[[float], None] = time.sleep

    def wait(self, tried: int, error: ServiceError) -> None:
        """Sleep before try number `tried + 1`.

        Raises:
            ServiceError: no tries are left, or the service asked for more than `longest_wait`.

        """
        asked = error.retry_after or 0.0
        if tried >= self.tries or asked > self.longest_wait:
            raise error
        self.sleep(max(asked, min(self.longest_wait, self.first_wait * 2 ** (tried - 1))))


class Bearer(AuthBase):
    """The Authorization header; set as `auth` so that no .netrc can put another one in its place."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the header to a request."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Transport:
    """JSON over HTTP to one service, its token sent to that service's origin only."""

    def __init__(
        self,
        service: str,
        base_url: str,
        token: str,
        patience: Patience,
        redact: Redactor,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.service = service
        self.patience = patience
        self.redact = redact
        self._base_url = base_url
        self._session = requests.Session()
        self._session.auth = Bearer(token)
        self._session.headers.update({"User-Agent": "dropgate-ci", "Accept": "application/json", **(headers or {})})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def get(self, kind: type[T], path: str, query: Query = ()) -> T:
        """Return the answer to a GET, checked against `kind`."""
        return self._typed(kind, self.send("GET", path, query=query))

    def pages(self, kind: type[T], path: str, query: Query = ()) -> Iterator[T]:
        """Yield the items of a list, following Link headers within the service's own origin.

        Raises:
            ServiceError: as `send`, or the list has more than MAX_PAGES pages.

        """
        where, rest = path, query
        for _ in range(MAX_PAGES):
            answer = self.send("GET", where, query=rest)
            yield from self._typed(list[kind], answer)  # type: ignore[valid-type]
            following = answer.links.get("next", {}).get("url")
            if following is None:
                return
            where, rest = self._same_origin(following), ()
        raise ServiceError(self.service, f"more than {MAX_PAGES} pages of {urlsplit(path).path}")

    def create(self, kind: type[T], path: str, body: Mapping[str, object]) -> T:
        """Return the answer to a POST that must not be sent twice; pair it with `create_once`."""
        return self._typed(kind, self.send("POST", path, body=body, repeatable=False), changed=True)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Mapping[str, object] | None = None,
        repeatable: bool = True,
    ) -> requests.Response:
        """One request, tried again while that is safe and may help.

        Raises:
            ServiceError: the service refused, or did not answer within the tries allowed.

        """
        url = path if path.startswith("http") else f"{self._base_url}{path}"
        tried = 0
        while True:
            tried += 1
            try:
                return self._once(method, url, query, body)
            except ServiceError as error:
                if not error.passing or (error.ambiguous and not repeatable):
                    raise
                self.patience.wait(tried, error)

    def _once(self, method: str, url: str, query: Query, body: Mapping[str, object] | None) -> requests.Response:
        what = f"{method} {urlsplit(url).path}"
        timeout = (self.patience.connect, self.patience.read)
        try:
            # A redirect could lead the token elsewhere, or turn a POST into a GET.
            answer = self._session.request(
                method, url, params=list(query), json=body, timeout=timeout, allow_redirects=False
            )
        except requests.ConnectTimeout as error:
            raise ServiceError(self.service, f"{what}: no connection in time", passing=True) from error
        except requests.Timeout as error:
            raise ServiceError(
                self.service, f"{what}: no answer in {self.patience.read:g} s", ambiguous=True, passing=True
            ) from error
        except requests.RequestException as error:
            reason = f"{what}: connection failed ({type(error).__name__})"
            raise ServiceError(self.service, reason, ambiguous=True, passing=True) from error
        if answer.status_code // 100 == 2:
            return answer
        raise self._refusal(what, answer)

    def _refusal(self, what: str, answer: requests.Response) -> ServiceError:
        status = answer.status_code
        limited = status == 429 or (status == 403 and _rate_limited(answer.headers))
        return ServiceError(
            self.service,
            # Redacted before it is cut, else half a token could be left at the end.
            f"{what} answered {status}: {self.redact(_reason(answer))}",
            status=status,
            ambiguous=status >= 500,
            passing=limited or status >= 500,
            retry_after=retry_after(status, answer.headers),
        )

    def _typed(self, kind: type[T], answer: requests.Response, *, changed: bool = False) -> T:
        try:
            return TypeAdapter(kind).validate_json(answer.content)
        except ValidationError as error:
            what = f"{answer.request.method} {urlsplit(answer.url).path}"
            detail = f"{what}: the answer is malformed ({first_problem(error)})"
            raise ServiceError(self.service, detail, status=answer.status_code, ambiguous=changed) from error

    def _same_origin(self, url: str) -> str:
        if urlsplit(url)[:2] != urlsplit(self._base_url)[:2]:
            raise ServiceError(self.service, "the next page is on another host; not followed")
        return url


def create_once(patience: Patience, create: Callable[[], T], find: Callable[[], T | None]) -> T:
    """Create something that must not exist twice.

    When it is unclear whether a try took effect, `find` looks before `create` is called again.

    Raises:
        ServiceError: refused, or still unclear when the tries are used up.

    """
    tried = 0
    while True:
        tried += 1
        try:
            return create()
        except ServiceError as error:
            if not error.ambiguous:
                raise
            unclear = error
        patience.sleep(patience.first_wait)
        if (found := find()) is not None:
            return found
        if not unclear.passing:
            raise unclear
        patience.wait(tried, unclear)


def _rate_limited(headers: Mapping[str, str]) -> bool:
    return "Retry-After" in headers or headers.get("X-RateLimit-Remaining") == "0"


def retry_after(status: int, headers: Mapping[str, str]) -> float | None:
    """Return the seconds until another try is welcome, or None when the service did not say.

    That is Retry-After (a number or a date), else the end of the rate limit's window. Buildkite sends
    RateLimit-Reset (seconds) and GitHub X-RateLimit-Reset (Unix time) with every answer, so these two count
    only when the limit is what refused.
    """
    asked = headers.get("Retry-After", "").strip()
    if asked.isdecimal():
        return float(asked)
    if asked:
        try:
            return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
        except (TypeError, ValueError):
            return None
    if status == 429 and headers.get("RateLimit-Reset", "").isdecimal():
        return float(headers["RateLimit-Reset"])
    if headers.get("X-RateLimit-Remaining") == "0" and headers.get("X-RateLimit-Reset", "").isdecimal():
        return max(0.0, float(headers["X-RateLimit-Reset"]) - time.time())
    return None


def _reason(answer: requests.Response) -> str:
    """Return the service's own words when it sent JSON with a message, else the standard phrase."""
    try:
        body = answer.json()
    except ValueError:
        return str(answer.reason)
    if not isinstance(body, dict) or not isinstance(body.get("message"), str):
        return str(answer.reason)
    details = [str(item) for item in body["errors"]] if isinstance(body.get("errors"), list) else []
    return "; ".join([body["message"], *details])
