"""A power server for tests: real HTTP or HTTPS on loopback, with proofs that it asks for and faults on request.

`/on/<machine>`, `/off/<machine>` and `/status/<machine>`, or as a predecessor's documentation has it `/<machine>/start`
and `/<machine>/stop`. A key that it heard already is acknowledged again and has
no second effect, as a good server does; `forgetful` makes it one that does not know keys.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import hmac
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_NEW = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


@dataclass(frozen=True)
class Heard:
    method: str
    path: str
    headers: dict[str, str]
    body: str

    @property
    def key(self) -> str:
        return self.headers.get("idempotency-key", "")


def _hear_out(of: socket.socket) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(of.fileno())) as plain:
        plain.settimeout(5)
        plain.shutdown(socket.SHUT_WR)
        while plain.recv(4096):
            pass


def _call(path: str) -> tuple[str, str]:
    """What is asked for, and of which machine."""
    verb, _, name = path.partition("?")[0].strip("/").partition("/")
    documented = {"start": "on", "stop": "off"}
    return (documented[name], verb) if name in documented else (verb, name)


@dataclass
class PowerServer:
    """`faults`: for each of the next calls of a path (or of "*") a status, or hang, slow, reset, nothing, twice.

    One that hangs or is reset has had its effect; "hang before" and "reset before" have none, "500 after" has one.
    """

    tls: ssl.SSLContext | None = None
    token: str = ""
    basic: str = ""
    signing: str = ""
    api_key: str = ""
    forgetful: bool = False
    faults: dict[str, list[int | str]] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    powers: dict[str, str] = field(default_factory=dict)
    effects: list[tuple[str, bool, str]] = field(default_factory=list)  # machine, on, key
    pieces: bool = False  # its answers come in two
    packs: bool = False  # its answers are packed where the caller offers to unpack them
    on_effect: Callable[[str, bool], None] = lambda _name, _on: None
    before: Callable[[str, bool], None] = lambda _name, _on: None
    on_wish: Callable[[str, bool], None] = lambda _name, _on: None  # a key that was not heard before

    def __enter__(self) -> PowerServer:
        server = self
        self.released = threading.Event()
        self._lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def log_message(self, *_: Any) -> None:
                pass

            def _any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length).decode()
                headers = {name.lower(): value for name, value in self.headers.items()}
                server._answer(self, Heard(self.command, self.path, headers, body))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Clients that break off are a part of the tests. One whose handshake failed is told why: closing a
                connection with bytes that nobody has read resets it, and the alert may be lost with that."""
                if isinstance(sys.exc_info()[1], ssl.SSLError):
                    _hear_out(request)

        self._server = Quiet(("127.0.0.1", 0), Handler)
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        scheme = "https" if self.tls is not None else "http"
        return f"{scheme}://127.0.0.1:{self._server.server_address[1]}"

    def keys(self, on: bool, name: str = "") -> list[str]:
        wanted = "on" if on else "off"
        found = ((h, *_call(h.path)) for h in self.heard)
        return list(dict.fromkeys(h.key for h, verb, of in found if verb == wanted and of.startswith(name)))

    def _answer(self, to: Any, heard: Heard) -> None:
        verb, name = _call(heard.path)
        if verb in ("on", "off"):
            self.before(name, verb == "on")
            if not any(known.key == heard.key for known in self.heard):
                self.on_wish(name, verb == "on")
        with self._lock:
            if verb in ("on", "off"):
                self.heard.append(heard)
            faults = self.faults.get(heard.path) or self.faults.get("*") or []
            fault = faults.pop(0) if faults and verb != "status" else ""
            status = 200 if self._proved(heard) else 401
            if isinstance(fault, int):
                status = fault
            effective = fault not in ("nothing", "hang before", "reset before")
            done = status < 300 and effective and verb in ("on", "off")
            if done:
                self._effect(name, verb == "on", heard.key)
                if fault == "twice":
                    self._effect(name, verb == "on", heard.key)
            body = json.dumps({"power": {"state": self.powers.get(name, "off")}}).encode()
        if fault in ("hang", "hang before"):
            self.released.wait(20)
            return
        if fault == "slow":
            self.released.wait(0.15)
        if fault in ("reset", "reset before"):
            to.close_connection = True
            return
        to.send_response(500 if fault == "500 after" else status)
        to.send_header("Content-Type", "application/json")
        if self.packs and "gzip" in heard.headers.get("accept-encoding", ""):
            body = gzip.compress(body)
            to.send_header("Content-Encoding", "gzip")
        to.send_header("Content-Length", str(len(body)))
        if status in (301, 302, 307, 308):
            to.send_header("Location", f"{self.url}/elsewhere")
        if status == 429:
            to.send_header("Retry-After", "7")
        to.end_headers()
        for piece in (body[:12], body[12:]) if self.pieces else (body,):
            to.wfile.write(piece)
            if self.pieces:
                self.released.wait(0.05)

    def _effect(self, name: str, on: bool, key: str) -> None:
        known = any(effect[2] == key for effect in self.effects)
        if known and not self.forgetful:
            return
        self.effects.append((name, on, key))
        self.powers[name] = "on" if on else "off"
        self.on_effect(name, on)

    def _proved(self, heard: Heard) -> bool:
        got = heard.headers
        if self.token and got.get("authorization") != f"Bearer {self.token}":
            return False
        if self.basic and got.get("authorization") != f"Basic {self.basic}":
            return False
        if self.api_key and got.get("x-api-key") != self.api_key:
            return False
        if self.signing:
            stamp = got.get("x-timestamp", "")
            signed = f"{stamp}.{heard.body}" if stamp else heard.body
            digest = hmac.new(self.signing.encode(), signed.encode(), hashlib.sha256).hexdigest()
            return got.get("x-signature-256") == f"sha256={digest}"
        return True


class Authority:
    """A CA, a certificate for 127.0.0.1 and one for a client, made with openssl."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._openssl("req", "-x509", *_NEW, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=power-ca")
        self._issue("server", "subjectAltName=IP:127.0.0.1,DNS:power.test")
        self._issue("client", "extendedKeyUsage=clientAuth")

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def context(self, *, asks_for_client: bool = False) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        if asks_for_client:
            made.verify_mode = ssl.CERT_REQUIRED
            made.load_verify_locations(self.folder / "ca.crt")
        return made

    def _issue(self, name: str, extension: str) -> None:
        self._openssl("req", *_NEW, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (self.folder / f"{name}.ext").write_text(extension)
        self._openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out",
            f"{name}.crt", "-days", "2", "-extfile", f"{name}.ext",
        )  # fmt: skip

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True, timeout=30)
