"""What names, label keys and values may look like; an empty list where one is right.

The sentences are the API's own: people search for them, and programs print them.
"""

from __future__ import annotations

import re
from functools import lru_cache

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_NAME})?"
_CONFIG_KEY = r"[-._a-zA-Z0-9]+"
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_PARTS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    f"is '{_VALUE}')"
)
CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    f"or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
)


def _limit(text: str, most: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {most} {unit}"] if len(text) > most else []


@lru_cache(maxsize=1024)
def label_name(text: str) -> tuple[str, ...]:
    """An RFC 1123 label: namespaces, containers."""
    if re.fullmatch(_LABEL, text) and len(text) <= 63:
        return ()
    said = _limit(text, 63)
    if not re.fullmatch(_LABEL, text):
        dotted = bool(re.fullmatch(_SUBDOMAIN, text))
        said.append("must not contain dots" if dotted else LABEL_TEXT)
    return tuple(said)


@lru_cache(maxsize=1024)
def subdomain(text: str) -> tuple[str, ...]:
    said = _limit(text, 253)
    return tuple(said if re.fullmatch(_SUBDOMAIN, text) else [*said, SUBDOMAIN_TEXT])


@lru_cache(maxsize=1024)
def path_segment(text: str) -> tuple[str, ...]:
    """Roles and their bindings, which may be called anything that fits into a path."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{each}'" for each in "/%" if each in text)


@lru_cache(maxsize=1024)
def qualified(text: str) -> tuple[str, ...]:
    """A label or annotation key: a name, with a subdomain in front or without."""
    parts = text.split("/")
    if len(parts) > 2:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_PARTS}{suffix}",)
    said: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            said.append("prefix part must be non-empty")
        else:
            said += [f"prefix part {each}" for each in subdomain(parts[0])]
    name = parts[-1]
    if not name:
        said.append("name part must be non-empty")
    elif len(name) > 63:
        said.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_NAME, name):
        said.append(f"name part {_PARTS}")
    return tuple(said)


@lru_cache(maxsize=1024)
def label_value(text: str) -> tuple[str, ...]:
    said = _limit(text, 63, "bytes")
    return tuple(said if re.fullmatch(_VALUE, text) else [*said, VALUE_TEXT])


def config_key(text: str) -> tuple[str, ...]:
    said = _limit(text, 253)
    if not re.fullmatch(_CONFIG_KEY, text):
        said.append(CONFIG_KEY_TEXT)
    elif text in (".", ".."):
        said.append(f"must not be '{text}'")
    return tuple(said)
