"""The API server in plain HTTP: what creates objects by the thousand and watches them must itself cost little.

The generated client spends a millisecond of CPU on a pod, on the cores that are being measured.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.parse
from pathlib import Path
from typing import Any

import yaml

TIMEOUT = 60.0


class Refused(Exception):
    def __init__(self, asked: str, status: int, told: str) -> None:
        super().__init__(f"{asked}: {status} {told[:300]}")
        self.status = status


class Api:
    """Where a kubeconfig leads; each `connection` belongs to one thread."""

    def __init__(self, kubeconfig: Path) -> None:
        found = yaml.safe_load(kubeconfig.read_text())
        cluster = found["clusters"][0]["cluster"]
        address = urllib.parse.urlsplit(cluster["server"])
        self._host, self._port = address.hostname or "", address.port or 443
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=ca)
        self._tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._headers = {
            "Authorization": f"Bearer {found['users'][0]['user']['token']}",
            "Content-Type": "application/json",
            "User-Agent": "bench",
        }

    def connection(self, timeout: float | None = TIMEOUT) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, context=self._tls, timeout=timeout)

    def send(
        self,
        on: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
    ) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        on.request(method, path, data, {**self._headers, "Content-Type": content_type})
        answer = on.getresponse()
        raw = answer.read()
        if answer.status >= 300:
            raise Refused(f"{method} {path}", answer.status, raw.decode(errors="replace"))
        return raw

    def stream(self, on: http.client.HTTPSConnection, path: str) -> http.client.HTTPResponse:
        on.request("GET", path, headers=self._headers)
        answer = on.getresponse()
        if answer.status >= 300:
            raise Refused(f"GET {path}", answer.status, answer.read().decode(errors="replace"))
        return answer

    def get(self, path: str) -> bytes:
        connection = self.connection()
        try:
            return self.send(connection, "GET", path)
        finally:
            connection.close()
