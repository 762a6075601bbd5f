"""How the endpoints that switch machines are called: method, body, proofs, certificates, and how a status is read.

Secrets never stand in the settings; they come from a Secret or from a mounted file.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from controller.config.headers import HeaderName, Headers, unknown_placeholder
from controller.config.joining import SecretKey
from controller.config.section import Section, lasting
from controller.config.values import (
    Path,
    SomeTime,
    Text,
    parse_text,
    several,
    whole,
    wrong,
)

_CODES = re.compile(r"([1-5][0-9]{2})(?:-([1-5][0-9]{2}))?")
_LONGEST_BODY = 65_536


def _parse_body(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_BODY:
        raise wrong("text (JSON in quotes, for example), of at most 64 KiB")
    if problem := unknown_placeholder(value):
        raise wrong(problem)
    return value


def _parse_codes(value: Any) -> tuple[str, ...]:
    found = value if isinstance(value, list | tuple) else [value]
    problems: list[tuple[Path, Any, str]] = []
    for n, given in enumerate(found):
        text = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
        match = _CODES.fullmatch(text) if isinstance(text, str) else None
        if match is None or (match[2] and match[1] > match[2]):
            problems.append(((n,), given, "a status code such as 202, or a range such as 200-299"))
    if not found:
        raise wrong("at least one status code or range, such as 200-299")
    if problems:
        raise several(problems)
    return tuple(str(given) for given in found)


def _words(value: Any) -> tuple[str, ...]:
    found = value if isinstance(value, list | tuple) else [value]
    if not found:
        raise wrong("at least one word")
    words: list[str] = []
    for word in found:
        if isinstance(word, bool):  # YAML reads on, off, yes and no as true and false: whichever was written
            words += ("true", "on", "yes") if word else ("false", "off", "no")
        else:
            words.append(str(word) if isinstance(word, int) else parse_text(word))
    return tuple(dict.fromkeys(words))


def _file_path(value: Any) -> str:
    text = parse_text(value)
    if not text.startswith("/"):
        raise wrong("the whole path of a file, such as /etc/power/token")
    return text


Words = Annotated[tuple[str, ...], PlainValidator(_words), PlainSerializer(list, when_used="json")]


class ValueFrom(Section):
    """Where a credential or certificate comes from: a Secret, or a file."""

    secret: SecretKey | None = Field(
        None,
        description="A key of a Secret in the controller's namespace; needs the right to get it, which pods-only rights lack.",
    )
    file: Annotated[str, PlainValidator(_file_path)] | None = Field(
        None,
        description="A file, such as one of a mounted Secret; read again for every call, so that it may be replaced.",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_of_two(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            raise wrong("{secret: {name, key}} or {file: /path}, and never the value itself")
        if (data.get("secret") is None) == (data.get("file") is None):
            raise wrong("either {secret: {name, key}} or {file: /path}")
        return data


class Basic(Section):
    username: Text = Field(description="Sent in clear by an http endpoint, as is the password.")
    password: ValueFrom = Field(description="Where the password comes from.")


class Hmac(Section):
    key: ValueFrom = Field(description="Where the key comes from that signs the body.")
    header: HeaderName = Field(
        "X-Signature-256",
        description="Carries `<algorithm>=<hex digits>` of the signed text; X-Signature-256, after the custom of webhooks.",
    )
    algorithm: Literal["sha256", "sha512"] = Field(
        "sha256", description="The hash; sha256, because every receiver knows it."
    )
    timestamp_header: HeaderName | None = Field(
        None,
        description="Where given, it carries the time in seconds, and `<time>.<body>` is signed instead of the body, so that a call that was listened to cannot be repeated later.",
    )


class ApiKey(Section):
    name: HeaderName = Field(description="The header that carries the key.")
    value: ValueFrom = Field(description="Where the key comes from.")


class Auth(Section):
    """How a call proves who it is from; a signature may stand beside one of the others."""

    bearer: ValueFrom | None = Field(
        None,
        description="A token for `Authorization: Bearer`; none unless given, as the plain endpoints want.",
    )
    basic: Basic | None = Field(None, description="Name and password; none unless given.")
    header: ApiKey | None = Field(None, description="A key in a header of its own; none unless given.")
    hmac: Hmac | None = Field(None, description="A signature of the body; none unless given.")


class Tls(Section):
    ca: ValueFrom | None = Field(
        None,
        description="Certificates (PEM) that sign the endpoint's, or its own; the system's unless given. There is no switch to trust everybody.",
    )
    certificate: ValueFrom | None = Field(
        None, description="Certificate (PEM) shown to the endpoint; none unless given."
    )
    key: ValueFrom | None = Field(None, description="The private key to it (PEM, without a password).")
    server_name: Text | None = Field(
        None,
        description="Name that the endpoint's certificate must carry; the host of the endpoint unless given.",
    )


class StatusAnswer(Section):
    """How the answer of a status endpoint is read."""

    field: Text | None = Field(
        None,
        description="Where in a JSON answer the state stands, such as `power.state`; the whole answer unless given.",
    )
    means_on: Words = Field(
        ("on", "running", "up", "active", "poweredon", "poweron", "true", "1"),
        description="Words for on; case, spaces, _ and - do not count. What is in neither list is not known.",
    )
    means_off: Words = Field(
        ("off", "stopped", "down", "inactive", "poweredoff", "poweroff", "shutoff", "false", "0"),
        description="The same for off.",
    )


class WebhookSetting(Section):
    """How endpoints are called; a machine names the entry that is its own."""

    method: Literal["POST", "PUT", "PATCH", "GET", "DELETE"] = Field(
        "POST", description="Of the calls that switch; POST, as the small webhook controller does."
    )
    headers: Headers = Field(
        {},
        description="Further headers; none unless given. Placeholders as in the body; no credentials, those belong under auth.",
    )
    body: Annotated[str, PlainValidator(_parse_body)] = Field(
        "{}",
        description="What is sent: `{}`, as the small webhook controller does. `${machine}`, `${action}` (on or off), `${gpus}` and `${id}` (the same in every repetition of one call) are filled in.",
    )
    content_type: Text = Field("application/json", description="Of the body; JSON, because most bodies are.")
    success: Annotated[
        tuple[str, ...], PlainValidator(_parse_codes), PlainSerializer(list, when_used="json")
    ] = Field(
        ("200-299",),
        description="Status codes that acknowledge a call; all of 2xx. An acknowledgement is no proof: that is the Node becoming Ready, or ceasing to be.",
    )
    idempotency_header: HeaderName = Field(
        "Idempotency-Key",
        description="Carries the same text in every repetition of one call, so that an endpoint may tell a repetition from a second wish.",
    )
    timeout: SomeTime = lasting(
        10,
        "For one call, from connecting to the answer; 10 s, because an answer that comes too late is asked for again.",
    )
    tries: Annotated[int, whole(1, 100)] = Field(
        5,
        description="How often a call is tried that got no acknowledgement; 5, about a minute with the pauses below, and then others take the pods.",
    )
    pause: SomeTime = lasting(
        2, "Between the first two tries, doubling; 2 s, because many troubles are that short."
    )
    longest_pause: SomeTime = lasting(30, "It doubles up to this; 30 s, as somebody waits.")
    auth: Auth = Field(default_factory=Auth, description="How a call proves who it is from.")
    tls: Tls = Field(default_factory=Tls, description="For https endpoints.")
    status: StatusAnswer = Field(
        default_factory=StatusAnswer,
        description="How the answer of a machine's status_endpoint is read.",
    )
