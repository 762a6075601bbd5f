"""Addresses: of an API server, of the cloud, of a script, and of the endpoints that switch a machine.

The first three are written as such addresses are. An endpoint is somebody's hook, and works with whatever his old
caller took: other letters in its host, braces in its query.
"""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import SplitResult, quote, urlsplit

from pydantic import PlainValidator

from controller.config.headers import PLACEHOLDERS
from controller.config.values import parse_text, wrong

_PLACEHOLDER = re.compile(rf"\$\{{(?:{'|'.join(sorted(PLACEHOLDERS))})\}}")
_SENT_OTHERWISE = re.compile(r"[^A-Za-z0-9._~:/?#\[\]@!&()*+,;=%-]")


def _port_is_fine(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def parse_url(value: Any, schemes: tuple[str, ...] = ("https", "http"), bare: bool = False) -> str:
    """A URL with no credentials in it; `bare` allows a host and port alone. Ends up in scripts and logs."""
    text = parse_text(value)
    kind = " or ".join(schemes)
    try:
        parts = urlsplit(text)
    except ValueError:
        raise wrong(f"a URL that begins with {kind}://") from None
    if parts.scheme not in schemes or not re.fullmatch(r"[A-Za-z0-9.:_-]+", parts.hostname or ""):
        raise wrong(f"a URL that begins with {kind}://")
    if not _port_is_fine(parts):
        raise wrong("a URL whose port is a number from 1 to 65535")
    if any(not 0 < len(label) < 64 for label in (parts.hostname or "").rstrip(".").split(".")):
        raise wrong("a URL whose host has names of 1 to 63 characters between its dots")
    if parts.username is not None or parts.password is not None:
        raise wrong("a URL without a name or password in it")
    if bare and (parts.path not in ("", "/") or parts.query or parts.fragment):
        raise wrong(f"{kind}://host:port and nothing after it")
    if not re.fullmatch(r"[A-Za-z0-9._~:/?#\[\]@!&()*+,;=%-]+", text):
        raise wrong("a URL without spaces, quotes or other special characters")
    return text.rstrip("/") if bare else text


def parse_endpoint(value: Any) -> str:
    """An address with other signs behind its host in percents; the client writes a host of other letters in IDNA."""
    text = parse_text(value)
    if found := _PLACEHOLDER.search(text):
        raise wrong(
            f"an address without {found[0]}, which is filled in only in the body and the headers of a webhook"
        )
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:  # which a name that IDNA cannot write raises, too
        return parse_url(text)
    if parts.username is not None or parts.password is not None:
        raise wrong(
            "a URL without a name or password in it; a webhook sends them: "
            "webhooks.<name>.auth.basic = {username, password: {secret: {name, key}}}"
        )
    begin, _, rest = text.partition("//")
    rest = rest[len(parts.netloc) :]
    rest = _SENT_OTHERWISE.sub(lambda sign: quote(sign[0], safe=""), rest)
    if parts.netloc.isascii():
        return parse_url(f"{begin}//{parts.netloc}{rest}" if parts.netloc else text)
    port = parts.netloc.rpartition(":")[2] if ":" in parts.netloc else ""
    parse_url(f"{begin}//{host}{':' if port else ''}{port}{rest}")
    return f"{begin}//{parts.netloc}{rest}"


def as_sent(endpoint: Any) -> Any:
    """One address may be written in several ways; what is wrong with it is told elsewhere."""
    try:
        return parse_endpoint(endpoint)
    except ValueError:
        return endpoint


Url = Annotated[str, PlainValidator(parse_url)]
Endpoint = Annotated[str, PlainValidator(parse_endpoint)]
