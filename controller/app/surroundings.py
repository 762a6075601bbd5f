"""Where startup scripts of the user's own come from: files, a script server, variables of our own environment.

The script server of the Go provider takes a POST without a body, and answers with the id of a script that it has
uploaded; simpler ones answer a GET with the script. Its answer may hold credentials: no message shows any of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp

from controller.join.joiner import Surroundings
from controller.join.own import LARGEST
from controller.join.protocol import JoinError
from controller.report.logs import keep_secret

_WITHIN = 10.0
_NOT_ALLOWED = (404, 405, 501)
_TELLING = ("TOKEN", "SECRET", "PASS", "KEY", "HASH", "CRED", "AUTH", "JOIN")


class OwnSurroundings(Surroundings):
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    async def file(self, path: str) -> str:
        try:
            return await asyncio.to_thread(_read, path)
        except OSError as error:
            raise JoinError(f"the script file {path} cannot be read: {error.strerror}") from None
        except ValueError:
            raise JoinError(f"the script file {path} is no text in UTF-8") from None

    async def fetch(self, url: str) -> str:
        shown = url.partition("?")[0].partition("#")[0]
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_WITHIN)) as http:
                for method in ("POST", "GET"):
                    async with http.request(method, url, headers={"Accept": "*/*"}) as answer:
                        if method == "POST" and answer.status in _NOT_ALLOWED:
                            continue
                        if answer.status != 200:
                            raise JoinError(f"the script server {shown} answered {answer.status}")
                        raw = b""
                        async for piece in answer.content.iter_chunked(65_536):
                            raw += piece
                            if len(raw) > LARGEST:
                                raise JoinError(f"the script server {shown} answered with more than a script")
                        return raw.decode()
        except (aiohttp.ClientError, TimeoutError, OSError):
            raise JoinError(f"the script server {shown} does not answer") from None
        except UnicodeDecodeError:
            raise JoinError(f"the script server {shown} answered with no text") from None
        raise JoinError(f"the script server {shown} takes neither POST nor GET")

    def know(self, wanted: Sequence[str]) -> None:
        for name in wanted:
            if any(word in name for word in _TELLING):
                keep_secret(self._environ.get(name, ""))

    def variables(self, wanted: Sequence[str]) -> Mapping[str, str]:
        self.know(wanted)
        found = {name: self._environ.get(name, "") for name in wanted}
        missing = [name for name, value in found.items() if not value]
        if missing:
            raise JoinError(f"{' and '.join(missing)}: not set, and the startup script is to have them")
        return found


def _read(path: str) -> str:
    with Path(path).open("rb") as file:
        return file.read(LARGEST + 1).decode("utf-8-sig")
