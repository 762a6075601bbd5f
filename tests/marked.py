"""The secrets that tests use, in one place, so that everything that is told can be searched for them."""

from __future__ import annotations

ALWAYS = {
    "the stub's client secret": "s3cret-of-the-client",
    "the client secret of the sandbox cloud's tests": "its-secret-in-the-sandbox",
    "a life's client secret": "the-secret-of-this-life",
    "the stage's client secret": "stage-client-key",
    "a process' client secret": "never-in-any-log",
    "the command line's client secret": "a-secret-that-must-not-show",
    "the console's client secret": "console-key",
    "the join token": "not-a-real-token",
}
BEGINNING = 20
_noted: set[str] = set()


def note(*secrets: str) -> None:
    """Of this test alone: a token, a line of a script."""
    _noted.update(secret for secret in secrets if len(secret) >= 6)


def note_script(text: str) -> None:
    """The whole of it, and how each longer line begins: sentences are told on one line, and cut."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    note(text, *(line[:BEGINNING] for line in lines if len(line) >= BEGINNING))


def forget() -> None:
    _noted.clear()


def found_in(text: str) -> list[str]:
    """What kind of secret the text shows; never the secret itself."""
    found = [name for name, secret in ALWAYS.items() if secret in text]
    return found + (["a token or a script"] if any(secret in text for secret in _noted) else [])
