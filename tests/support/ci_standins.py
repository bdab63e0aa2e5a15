"""Stand-ins for GitHub and Buildkite: real HTTP servers on loopback that keep state and fail on demand."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

HEAD, MOVED, OLD, BASE = "a1" * 20, "b2" * 20, "0d" * 20, "c3" * 20
REPOSITORY, PULL = "acme/engine", 7
# One token has a known shape and one has none, so that both ways of hiding are needed.
GITHUB_TOKEN, BUILDKITE_TOKEN = "ghs_" + "G1" * 18, "7e" * 20
BOT = "github-actions[bot]"
PIPELINE = "/v2/organizations/acme/pipelines/dropgate/builds"
BUILD_URL = "https://buildkite.com/acme/dropgate/builds"
ACTIVE = {"creating", "scheduled", "running", "failing"}
Reply = tuple[int, dict[str, str], Any]


def link(number: int) -> str:
    return f"[#{number}]({BUILD_URL}/{number})"


def marks(pull: str, lanes: str) -> dict[str, str]:
    return {"dropgate-pull-request": pull, "dropgate-lanes": lanes}


TRIGGERED = f"✅ Triggered Buildkite CI {link(1201)} for commit {HEAD[:12]}."


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    body: Any

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Fault:
    """Spoils the next `times` requests that match; `after` lets the request take effect first."""

    method: str
    path: str
    status: int = 500
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    hang: bool = False
    drop: bool = False
    after: bool = False


class StandIn:
    """A server whose state is reset for each case; it knows one token and refuses every other."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.reset()
        standin = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet for an answer, else it waits for an acknowledgement

            def handle_any(self) -> None:
                standin.serve(self)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def reset(self) -> None:
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.page_size = 100
        self.on_fault: Callable[[], object] = lambda: None
        self.over = threading.Event()

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def changes(self) -> list[str]:
        return [str(request) for request in self.requests if request.method != "GET"]

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        length = int(handler.headers.get("Content-Length") or 0)
        body = json.loads(handler.rfile.read(length)) if length else None
        request = Request(handler.command, parts.path, parse_qs(parts.query), body)
        self.requests.append(request)
        if handler.headers.get("Authorization") != f"Bearer {self.token}":
            self.send(handler, (401, {}, {"message": "Bad credentials"}))
            return
        fault = next((f for f in self.faults if f.method == request.method and re.search(f.path, parts.path)), None)
        if fault is None:
            self.send(handler, self.answer(request))
        else:
            self.spoil(handler, request, fault)

    def spoil(self, handler: BaseHTTPRequestHandler, request: Request, fault: Fault) -> None:
        fault.times -= 1
        self.on_fault()
        if fault.times == 0:
            self.faults.remove(fault)
        if fault.after:
            self.answer(request)
        if fault.hang:
            self.over.wait(5)
        if fault.hang or fault.drop:
            handler.close_connection = True
            return
        self.send(handler, (fault.status, fault.headers, fault.body))

    def send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        status, headers, payload = reply
        content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        # Some cases are about a client that stopped waiting.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            handler.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(content)

    def page(self, request: Request, items: list[Any]) -> Reply:
        size = min(self.page_size, int(request.query.get("per_page", ["30"])[0]))
        number = int(request.query.get("page", ["1"])[0])
        headers = {}
        if len(items) > number * size:
            query = urlencode({**request.query, "page": str(number + 1)}, doseq=True)
            headers["Link"] = f'<{self.url}{request.path}?{query}>; rel="next"'
        return 200, headers, items[(number - 1) * size : number * size]

    def answer(self, request: Request) -> Reply:
        raise NotImplementedError


def missing() -> Reply:
    return 404, {}, {"message": "Not Found"}


class GitHubStandIn(StandIn):
    def reset(self) -> None:
        super().reset()
        repo = {"full_name": REPOSITORY, "clone_url": f"https://github.com/{REPOSITORY}.git"}
        self.pull: dict[str, Any] = {
            "number": PULL,
            "state": "open",
            "draft": False,
            "user": {"login": "author"},
            "labels": [],
            "mergeable": True,
            "head": {"sha": HEAD, "ref": "topic", "repo": repo},
            "base": {"sha": BASE, "ref": "main", "repo": repo},
        }
        self.then: list[dict[str, Any]] = []  # what changes on the pull request after each read of it
        self.roles = {"author": "read", "maintainer": "write", "reviewer": "write", "reader": "read"}
        self.reviews: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.reactions: list[str] = []
        self.statuses: list[dict[str, Any]] = []

    def answer(self, request: Request) -> Reply:
        root = f"/repos/{REPOSITORY}"
        routes = {
            rf"GET {root}/pulls/{PULL}": lambda: self.read_pull(),
            rf"GET {root}/pulls/{PULL}/reviews": lambda: self.page(request, self.reviews),
            rf"GET {root}/collaborators/([^/]+)/permission": lambda: self.permission(request.path.split("/")[5]),
            rf"GET {root}/issues/{PULL}/comments": lambda: self.page(request, self.since(request)),
            rf"POST {root}/issues/{PULL}/comments": lambda: self.add_comment(request.body["body"]),
            rf"POST {root}/issues/comments/\d+/reactions": lambda: self.add_reaction(request.body["content"]),
            rf"POST {root}/statuses/[0-9a-f]{{40}}": lambda: self.add_status(request),
            rf"GET {root}/commits/[0-9a-f]{{40}}/statuses": lambda: self.page(request, self.newest_first(request)),
        }
        return next((act() for route, act in routes.items() if re.fullmatch(route, str(request))), missing())

    def read_pull(self) -> Reply:
        now = json.loads(json.dumps(self.pull))
        for key, value in (self.then.pop(0) if self.then else {}).items():
            self.pull[key] = {**self.pull[key], **value} if isinstance(value, dict) else value
        return 200, {}, now

    def permission(self, login: str) -> Reply:
        role = self.roles.get(login)
        if role is None:
            return missing()
        legacy = {"maintain": "write", "triage": "read"}.get(role, role)
        return 200, {}, {"permission": legacy, "role_name": role}

    def since(self, request: Request) -> list[dict[str, Any]]:
        return [c for c in self.comments if c["created_at"] >= request.query["since"][0]]

    def add_comment(self, body: str, login: str = BOT) -> Reply:
        comment = {
            "id": 9000 + len(self.comments),
            "user": {"login": login},
            "created_at": "2026-01-02T00:00:00Z",
            "body": body,
        }
        self.comments.append(comment)
        return 201, {}, comment

    def add_reaction(self, content: str) -> Reply:
        self.reactions.append(content)
        return 201, {}, {"content": content}

    def add_status(self, request: Request) -> Reply:
        if len(request.body["description"]) > 140:
            return 422, {}, {"message": "Validation Failed"}
        self.statuses.append({"sha": request.path.split("/")[-1], **request.body})
        return 201, {}, {"id": len(self.statuses)}

    def newest_first(self, request: Request) -> list[dict[str, Any]]:
        return [s for s in reversed(self.statuses) if s["sha"] == request.path.split("/")[-2]]


class BuildkiteStandIn(StandIn):
    def reset(self) -> None:
        super().reset()
        self.builds: list[dict[str, Any]] = []
        self.ignores_filters = False
        self.on_create: Callable[[], object] = lambda: None

    def add(self, **fields: Any) -> dict[str, Any]:
        number = 1201 + len(self.builds)
        build = {
            "number": number,
            "state": "scheduled",
            "commit": HEAD,
            "web_url": f"{BUILD_URL}/{number}",
            "meta_data": marks(str(PULL), "auto"),
            "jobs": [],
            **fields,
        }
        self.builds.append(build)
        return build

    def answer(self, request: Request) -> Reply:
        if request.path == PIPELINE:
            return self.create(request.body) if request.method == "POST" else self.list(request)
        act = re.fullmatch(rf"{PIPELINE}/(\d+)/(?:cancel|jobs/([\w-]+)/retry)", request.path)
        build = next((b for b in self.builds if act and b["number"] == int(act[1])), None)
        if act is None or build is None or request.method != "PUT":
            return missing()
        return self.retry(build, act[2]) if act[2] else self.cancel(build)

    def create(self, body: dict[str, Any]) -> Reply:
        self.on_create()
        return 201, {}, self.add(commit=body["commit"], meta_data=body["meta_data"])

    def list(self, request: Request) -> Reply:
        found = list(reversed(self.builds))
        for name, values in {} if self.ignores_filters else request.query.items():
            if name == "commit":
                found = [b for b in found if b["commit"] == values[0]]
            elif key := re.fullmatch(r"meta_data\[(.+)\]", name):
                found = [b for b in found if b["meta_data"].get(key[1]) == values[0]]
        return self.page(request, found)

    def cancel(self, build: dict[str, Any]) -> Reply:
        if build["state"] not in ACTIVE:
            return 422, {}, {"message": "Build can't be canceled because it's already finished."}
        build["state"] = "canceled"
        return 200, {}, build

    def retry(self, build: dict[str, Any], job_id: str) -> Reply:
        job = next(job for job in build["jobs"] if job["id"] == job_id)
        if job["retried"]:
            return 400, {}, {"message": "Only failed, timed out or canceled jobs can be retried"}
        job["retried"] = True
        build["jobs"].append({**job, "id": f"{job_id}-2", "retried": False, "state": "scheduled", "exit_status": None})
        build["state"] = "running"
        return 200, {}, build["jobs"][-1]
