"""A log line is one line, says what it is about, and never carries a secret in whatever form."""

from __future__ import annotations

import base64
import html
import io
import json
import logging
import sys
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from controller.report import logs


@pytest.fixture(autouse=True)
def no_other_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_secrets", set())


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("gpu_autoscaler")
    before = (root.handlers[:], root.level, ours.level)
    known = set(logs._secrets)
    yield
    root.handlers[:], root.level, ours.level = before[0], before[1], before[2]
    logging.getLogger().setLevel(before[1])
    ours.setLevel(before[2])
    logs._secrets.clear()
    logs._secrets.update(known)


def written(form: str, message: str, *args: object, **extra: object) -> str:
    stream = io.StringIO()
    logs.set_up("info", form, stream)
    logging.getLogger("gpu_autoscaler").info(message, *args, extra=extra or None)
    return stream.getvalue()


SECRETS = [
    "s3cr3t-value",
    'with "quotes" and \\ slash',
    "line one\nline two",
    "spaced out & more/=",
    "päss-wörd",
]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_in_messages_and_in_fields(form: str, secret: str) -> None:
    logs.keep_secret(secret)
    line = written(form, "token %s refused", secret, body=f"x={secret}&y")
    for part in secret.splitlines():
        assert part not in line
    assert "***" in line
    assert line.count("\n") == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_secret_in_the_text_of_an_exception_is_masked(form: str) -> None:
    logs.keep_secret("s3cr3t-value")
    stream = io.StringIO()
    logs.set_up("info", form, stream)
    try:
        raise ValueError("POST /?client_secret=s3cr3t-value failed")
    except ValueError:
        logging.getLogger("gpu_autoscaler").exception("unexpected error")
    assert "s3cr3t" not in stream.getvalue()
    assert "client_secret=***" in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_a_secret_that_begins_like_another_leaves_no_tail() -> None:
    logs.keep_secret("abcdef", "abcdefghij")
    assert logs.mask("abcdefghij") == "***"


def test_a_secret_quoted_for_a_url_is_masked() -> None:
    logs.keep_secret("a/b+c=d&e")
    assert logs.mask("https://x/?k=a%2Fb%2Bc%3Dd%26e") == "https://x/?k=***"


SPELT = "K10ab::node:S3cr3t/+=&<>'\"x\\y"


@pytest.mark.parametrize("before", ["", "u", "me", "user:", "me:"])
@pytest.mark.parametrize("after", ["", "\n", "--", "&z=1"])
@pytest.mark.parametrize("secret", [SPELT, "abcdef", "0123456789abcdef0", "päss-wörd"])
def test_a_secret_in_base64_is_masked_also_as_a_part_of_something_longer(
    secret: str, before: str, after: str
) -> None:
    logs.keep_secret(secret)
    raw = (before + secret + after).encode()
    for text in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
        masked = logs.mask(f"Basic {text.decode()}.")
        kept = masked.removeprefix("Basic ").removesuffix(".").partition("***")
        assert len(masked) < len(text) + 7
        assert len(kept[0] + kept[2]) <= len(text) - len(secret)


@pytest.mark.parametrize(
    "spelt",
    [
        html.escape(SPELT),
        html.escape(SPELT, quote=False),
        repr(SPELT)[1:-1],
        quote(SPELT),
        quote(SPELT, safe="").replace("%3A", "%3a").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d")
        .replace("%3C", "%3c").replace("%3E", "%3e").replace("%5C", "%5c"),
        json.dumps(json.dumps(SPELT))[3:-3],
        json.dumps(SPELT)[1:-1].replace("/", "\\/"),
        json.dumps(SPELT)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    ],
)  # fmt: skip
def test_a_secret_is_masked_however_it_is_spelt(spelt: str) -> None:
    logs.keep_secret(SPELT)
    assert logs.mask(f"<{spelt}>") == "<***>"


def test_very_short_values_do_not_garble_the_log() -> None:
    logs.keep_secret("a", "", "12345")
    assert logs.mask("a 12345") == "a 12345"


def test_fields_stand_in_the_line_and_cannot_replace_its_own() -> None:
    line = json.loads(written("json", "machine ordered", machine="m-1", time="never", level="none"))
    assert line["machine"] == "m-1"
    assert line["level"] == "info"
    assert line["time"] != "never"


def test_words_with_line_breaks_make_one_line() -> None:
    assert written("text", "a\nb\r\nc", error="d\ne").count("\n") == 1


class _Heard(logging.Handler):
    """Set up by the program around us."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_who_listened_before_goes_on_listening() -> None:
    heard = _Heard()
    logging.getLogger().addHandler(heard)
    assert "machine ordered" in written("text", "machine ordered")
    assert heard.lines == ["machine ordered"]


def test_a_second_set_up_takes_the_place_of_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.set_up("info", "text", first)
    logs.set_up("info", "json", second)
    logging.getLogger("gpu_autoscaler").info("once")
    assert (first.getvalue(), second.getvalue().count("once")) == ("", 1)


@pytest.mark.parametrize("name", ["stderr", "stdout"])
def test_a_library_that_set_up_the_console_prints_nothing_a_second_time_and_no_secret(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.keep_secret("s3cr3t-value")
    console = io.StringIO()
    monkeypatch.setattr(sys, "stderr", console)
    monkeypatch.setattr(sys, name, console)
    logging.getLogger().addHandler(logging.StreamHandler(getattr(sys, name)))  # as logging.basicConfig does
    logs.set_up("info", "text")
    logging.getLogger("gpu_autoscaler").info("once, with s3cr3t-value")
    assert console.getvalue().count("once") == 1
    assert "s3cr3t" not in console.getvalue()
