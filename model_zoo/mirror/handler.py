"""HTTP for the mirror: routes, access, paging and errors, as ``huggingface_hub`` expects them.

The client decides by the ``X-Error-Code`` header before the status, so every error carries one
where the Hub has one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from model_zoo.mirror import documents
from model_zoo.mirror.faults import Fault, Faults
from model_zoo.mirror.files import send_file, send_head
from model_zoo.mirror.listings import Listings
from model_zoo.mirror.pull import Pull
from model_zoo.mirror.repository import MirrorDirectory, MirrorError, Repository
from model_zoo.mirror.storage import Request, Storage
from model_zoo.mirror.upstream import Upstream, UpstreamError

_ACTIONS = ("revision", "tree", "paths-info", "commits", "resolve")
"""Parts of a path after an id that are followed by a revision."""

_BODY_LIMIT = 2**20  # Of a request; the largest the client sends here is a list of paths.


class ApiError(Exception):
    """An answer that is an error: status, the Hub's code for it ("" for none), and a sentence."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}


class HubRequestHandler(BaseHTTPRequestHandler):
    """Answers one connection; the server object carries the directory and the settings."""

    protocol_version = "HTTP/1.1"
    server_version = "ModelMirror/1"
    disable_nagle_algorithm = True  # Head and body go out separately; Nagle would add 40 ms to each answer.
    timeout = 60

    def do_GET(self) -> None:
        """Answer GET."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answer HEAD: the same without the body."""
        self._answer()

    def do_POST(self) -> None:
        """Answer POST, which only paths-info needs."""
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Print a request unless the server is quiet."""
        if not self.server.quiet:  # type: ignore[attr-defined]
            super().log_message(format, *args)

    @property
    def directory(self) -> MirrorDirectory:
        """What is served."""
        return self.server.directory  # type: ignore[attr-defined]

    @property
    def upstream(self) -> Upstream | None:
        """Where what the directory lacks comes from, if from anywhere."""
        return self.server.upstream  # type: ignore[attr-defined]

    def _answer(self) -> None:
        url = urlsplit(self.path)
        faults: Faults = self.server.faults  # type: ignore[attr-defined]
        request = Request(self.command, self.path, self.headers.get("Range", ""))
        self.server.requests.append(request)  # type: ignore[attr-defined]
        self._fault = faults.take(self.command, url.path) or Fault()
        try:
            self._body = self._read_body()
            if not self._commit_fault():
                segments = [unquote(part) for part in url.path.strip("/").split("/")]
                self._route(segments, parse_qs(url.query, keep_blank_values=True))
        except ApiError as error:
            self._send_error(error)
        except documents.BadQueryError as error:
            self._send_error(ApiError(400, "", str(error)))
        except MirrorError as error:
            self._send_error(ApiError(500, "", str(error)))
        except UpstreamError as error:
            self._send_error(ApiError(error.status, error.code, str(error)))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # The client went away; there is nobody to answer.

    def _commit_fault(self) -> bool:
        """Do what a fault says before any answer; whether it was the answer."""
        fault = self._fault
        if fault.delay:
            self.server.stopping.wait(fault.delay)  # type: ignore[attr-defined]
        if fault.drop:
            self.close_connection = True
            return True
        if fault.body is not None:
            self._send_bytes(fault.body, status=fault.status or 200, headers=fault.headers)
            return True
        if fault.status:
            raise ApiError(fault.status, fault.code, "A fault was asked for.", fault.headers)
        return False

    def _read_body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > _BODY_LIMIT:
            self.close_connection = True
            raise ApiError(413, "", "The request is too large.")
        return self.rfile.read(int(length))

    def _route(self, segments: list[str], query: documents.Query) -> None:
        if segments[:2] == ["api", "models"] and len(segments) == 2:
            self._send_listing(query)
        elif segments[:2] == ["api", "models"]:
            self._route_model(segments[2:], query)
        elif segments == ["api", "whoami-v2"]:
            self._send_identity()
        elif "resolve" in segments[1:3]:
            repo, rest = self._find(segments)
            self._send_file(repo, rest)
        elif segments == [""]:
            self._send_json({"service": "model mirror", "models": len(list(self.directory.ids()))})
        else:
            raise ApiError(404, "", "The mirror serves models only, and has no such page.")

    def _route_model(self, segments: list[str], query: documents.Query) -> None:
        repo, rest = self._find(segments)
        action, arguments = (rest[0], rest[1:]) if rest else ("", [])
        if action == "":
            self._send_json(documents.model_document(repo, query))
            return
        if action == "refs":
            self._send_json(documents.refs_document(repo))
            return
        if action not in ("revision", "tree", "paths-info", "commits") or not arguments:
            raise ApiError(404, "", f"The mirror has no {action!r} for a model.")
        self._check_revision(repo, arguments[0])
        if action == "revision":
            self._send_json(documents.model_document(repo, query))
        elif action == "commits":
            self._send_page(documents.commits_document(repo), query)
        elif action == "paths-info":
            self._send_paths(repo)
        else:
            below = "/".join(arguments[1:])
            entries = documents.tree_documents(repo, below, recursive=documents.is_true(query, "recursive"))
            if entries is None:
                raise ApiError(404, "EntryNotFound", f"There is no folder {below}.")
            self._send_page(entries, query)

    def _find(self, segments: list[str]) -> tuple[Repository, list[str]]:
        """The repository that a path begins with, and the rest of the path; two-part ids go first."""
        token = self._token()
        for length in (2, 1):
            repo = self.directory.get("/".join(segments[:length])) if len(segments) >= length else None
            if repo is not None:
                break
        else:
            length = 1 if len(segments) == 1 or segments[1] in (*_ACTIONS, "refs") else 2
            repo = self._find_upstream("/".join(segments[:length]), segments[length:])
        if repo is None or not repo.may_see(token):
            # The Hub answers 401 to the anonymous, so that private names cannot be guessed.
            raise ApiError(404 if token else 401, "RepoNotFound", "Repository not found")
        new_id = self._fault.moved_to or repo.metadata.moved_to
        if new_id and new_id != repo.id:
            self._redirect(repo.id, new_id)
        return repo, segments[length:]

    def _find_upstream(self, repo_id: str, rest: list[str]) -> Repository | None:
        if self.upstream is None:
            return None
        revision = rest[1] if len(rest) > 1 and rest[0] in _ACTIONS else "main"
        return self.upstream.repository(repo_id, revision, self._token())

    def _redirect(self, old: str, new: str) -> None:
        """Send a client to the same path of the name that a model has now."""
        path = unquote(self.path).replace(f"/{old}", f"/{new}", 1)
        raise ApiError(307, "", f"Moved to {new}.", {"Location": quote(path, safe="/?&=%")})

    def _check_revision(self, repo: Repository, revision: str) -> None:
        if revision not in repo.names and revision != repo.sha:
            raise ApiError(404, "RevisionNotFound", f"Invalid rev id: {revision}")

    def _token(self) -> str | None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" and token else None

    def _send_identity(self) -> None:
        if self._token() is None:
            raise ApiError(401, "", "Invalid username or password.")
        self._send_json({"type": "user", "name": "mirror-user", "orgs": [], "auth": {"type": "access_token"}})

    def _send_paths(self, repo: Repository) -> None:
        text = self._body.decode("utf-8", "replace")
        if "json" in self.headers.get("Content-Type", ""):
            try:
                wanted = list(json.loads(text)["paths"])
            except (ValueError, KeyError, TypeError):
                raise ApiError(400, "", "The body must be an object with a list of paths.") from None
        else:
            wanted = parse_qs(text).get("paths", [])
        self._send_json([documents.file_document(repo, name) for name in wanted if name in repo.files])

    def _send_file(self, repo: Repository, rest: list[str]) -> None:
        if len(rest) < 3 or rest[0] != "resolve" or self.command == "POST":
            raise ApiError(404, "", "The mirror has no such page.")
        revision, name = rest[1], "/".join(rest[2:])
        commit = {"X-Repo-Commit": repo.sha}
        self._check_revision(repo, revision)
        token = self._token()
        if not repo.may_read(token):
            sentence = f"Access to model {repo.id} is restricted; ask for access and log in."
            raise ApiError(401 if token is None else 403, "GatedRepo", sentence)
        if name not in repo.files:  # Only listed names are served, so no path can lead outside.
            raise ApiError(404, "EntryNotFound", "Entry not found", commit)
        digest = repo.files[name]
        storage: Storage | None = self.server.storage  # type: ignore[attr-defined]
        if storage is not None and digest.sha256:
            etag = f'"{self._fault.etag or digest.etag}"'
            linked = {"X-Linked-ETag": etag, "X-Linked-Size": str(digest.size), "ETag": etag}
            address = storage.address(repo, name, token)
            send_head(self, 302, {**commit, **linked, "Location": address, "Content-Length": "0"})
            return
        content = repo.content(name, token) if self.command == "GET" else repo.folder
        if isinstance(content, Pull):
            _begin(content)
        send_file(self, content, name, digest, commit, self._fault)

    def _send_listing(self, query: documents.Query) -> None:
        if self.upstream is not None:
            try:
                entries, following = self.upstream.listing(self.path, self._token())
            except UpstreamError as error:
                if not error.down:
                    raise
            else:
                headers = {"Link": f'<{self._own(following)}>; rel="next"'} if following else {}
                self._send_json(entries, headers=headers)
                return
        listings: Listings = self.server.listings  # type: ignore[attr-defined]
        token = self._token()

        def choose() -> list[Repository]:
            kept = self.upstream.kept() if self.upstream is not None else []
            seen = [repo for repo in (*self.directory.all(), *kept) if repo.may_see(token)]
            return documents.chosen(seen, query)

        start, limit = self._span(query)
        page, total = listings.page(query, token, start, limit, choose)
        self._send_json(
            documents.list_documents(page, query), headers=self._next(query, start + limit, total)
        )

    def _send_page(self, entries: Sequence[dict[str, Any]], query: documents.Query) -> None:
        """Send a page of a list, with the absolute address of the next one if there is more."""
        start, limit = self._span(query)
        end = start + limit
        self._send_json(entries[start:end], headers=self._next(query, end, len(entries)))

    def _span(self, query: documents.Query) -> tuple[int, int]:
        """Where a page begins and how many entries it has at most."""
        most: int = self.server.page_size  # type: ignore[attr-defined]
        limit, cursor = documents.first(query, "limit", str(most)), documents.first(query, "cursor", "0")
        if not (limit.isdigit() and cursor.isdigit()):
            raise ApiError(400, "", "limit and cursor must be numbers")
        return (0 if self._fault.endless else int(cursor)), min(int(limit), most)

    def _next(self, query: documents.Query, end: int, total: int) -> dict[str, str]:
        asked = documents.first(query, "limit")
        if not self._fault.endless and (asked == "0" or end >= total):
            return {}
        rest = {**query, "cursor": [str(end)]}
        return {"Link": f'<{self._own(f"?{urlencode(rest, doseq=True)}")}>; rel="next"'}

    def _own(self, address: str) -> str:
        """An address of this server, as the client reached it, with the query of another one."""
        host = self.headers.get("Host", "localhost")  # HTTP/1.1 clients always send it.
        return f"http://{host}{urlsplit(self.path).path}?{urlsplit(address).query}"

    def _send_error(self, error: ApiError) -> None:
        headers = {"X-Error-Message": error.message, **error.headers}
        if error.code:
            headers["X-Error-Code"] = error.code
        self._send_json({"error": error.message}, status=error.status, headers=headers)

    def _send_json(self, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self._send_bytes(json.dumps(value).encode(), status=status, headers=headers or {})

    def _send_bytes(self, body: bytes, *, status: int, headers: Mapping[str, str]) -> None:
        own = {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(len(body))}
        send_head(self, status, {**headers, **own})
        if self.command != "HEAD":
            self.wfile.write(body)


def _begin(content: Pull) -> None:
    try:
        content.begin()
    except OSError as error:
        raise ApiError(502, "", f"The upstream does not send the file: {error.__cause__ or error}") from error
