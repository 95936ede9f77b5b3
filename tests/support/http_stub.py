"""A local HTTP server in a thread, which answers by a function and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import MIMEPart
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def form(self) -> dict[str, MIMEPart]:
        """The parts of a multipart body, by name."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        message = BytesParser(policy=HTTP).parsebytes(head + self.body)
        return {str(part.get_param("name", header="content-disposition")): part for part in message.iter_parts()}


@dataclass(frozen=True)
class Answer:
    """What is sent back; `hold` is waited for first."""

    body: bytes | str | dict[str, Any] = b""
    status: int = 200
    media_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    hold: threading.Event | None = None


def always(answer: Answer) -> Callable[[Asked], Answer]:
    """The same answer to whatever is asked."""
    return lambda asked: answer


class HttpStub:
    """`answer` gets each request; None is a 404. Use as a context manager; `asked` has the requests."""

    def __init__(self, answer: Callable[[Asked], Answer | None]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, body)
                stub.asked.append(asked)
                answer = stub.answer(asked) or Answer("not found", 404)
                if answer.hold is not None:
                    answer.hold.wait(30)
                self._send(answer)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _any

            def _send(self, answer: Answer) -> None:
                body, kind = answer.body, answer.media_type
                if isinstance(body, dict):
                    body, kind = json.dumps(body), kind or "application/json"
                data = body.encode() if isinstance(body, str) else body
                try:
                    self.send_response(answer.status)
                    self.send_header("Content-Type", kind or "text/plain")
                    self.send_header("Content-Length", str(len(data)))
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(data)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # who asked has given up

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> HttpStub:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
