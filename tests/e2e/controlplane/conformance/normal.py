"""Answers without what must differ: identities, versions, times and random endings become symbols.

Symbols are given in the order of first appearance within a probe, so that "the same version as before"
and "another version than before" can still be told apart.
"""

from __future__ import annotations

import re
from typing import Any

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
AGE = re.compile(r"(\d+[dhms])+")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
RANDOM = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
# What depends on how the server is programmed: names of its types' fields, whole objects inside messages.
DUMPS = (
    (re.compile(r"\n(@@ .*)?\Z", re.DOTALL), ""),
    (re.compile(r'Invalid value: "\{.*\}":', re.DOTALL), "Invalid value: <object>:"),
    (re.compile(r"(?<=kube-api-access-)[a-z0-9]{5}"), "<5 letters>"),
)
NUMBERED = (
    re.compile(r"(?<=current: )\d+"),
    re.compile(r"(?<=too old resource version: \d )\(\d+\)"),
)


class Symbols:
    """What stands for what, on one side and in one probe."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._seen: dict[str, int] = {}  # versions of each object
        self._names: dict[str, str] = {}
        self._begun: list[str] = []  # what generated names begin with

    def begun(self, prefix: str) -> None:
        """A name that begins like this will be generated, or refused with its random ending."""
        self._begun.append(prefix)

    def of(self, value: Any) -> Any:
        """The value in symbols."""
        self.learn(value)
        return self._replace(value, "")

    def learn(self, value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                self.learn(each)
        if not isinstance(value, dict):
            return
        version = value.get("resourceVersion")
        # Only objects have a uid beside it: the version of a list is that of the whole store.
        uid = value.get("uid")
        if isinstance(uid, str) and uid:
            whose = self._uids.setdefault(uid, f"uid {len(self._uids) + 1}")
            if isinstance(version, str) and version not in self._versions:
                self._seen[uid] = self._seen.get(uid, 0) + 1
                self._versions[version] = f"version {self._seen[uid]} of {whose}"
        begun, name = value.get("generateName"), value.get("name")
        if isinstance(begun, str) and isinstance(name, str) and name.startswith(begun):
            ending = name.removeprefix(begun)
            if RANDOM.fullmatch(ending):
                self._names[name] = f"{begun}<5 letters>"
        for _, each in sorted(value.items()):
            self.learn(each)

    def _replace(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            shown = {self._text(name, ""): self._replace(each, name) for name, each in value.items()}
            if shown.get("resourceVersion") and "uid" not in shown:
                shown["resourceVersion"] = "<version>"  # of a list or a bookmark: that of the whole store
            return shown
        if isinstance(value, list):
            made = [self._replace(each, key) for each in value]
            # The server checks metadata twice, and lists what it finds twice.
            return [each for at, each in enumerate(made) if key != "causes" or each not in made[:at]]
        return self._text(value, key) if isinstance(value, str) else value

    def _text(self, text: str, key: str) -> str:
        if key == "resourceVersion" and text:
            return self._versions.get(text, "<version>")
        if key == "continue" and text:
            return "<token>"
        if TIME.fullmatch(text):
            return "<time>"
        if MICRO_TIME.fullmatch(text):
            return "<micro time>"
        if key == "cells" and AGE.fullmatch(text):
            return "<age>"
        for known, symbol in (*self._names.items(), *self._uids.items()):
            text = text.replace(known, symbol)
        for prefix in self._begun:
            text = re.sub(rf"{re.escape(prefix)}{RANDOM.pattern}", f"{prefix}<5 letters>", text)
        for known, symbol in self._versions.items():
            text = re.sub(rf"\b{known}\b", symbol, text)
        for pattern in NUMBERED:
            text = pattern.sub("<number>", text)
        for pattern, symbol in DUMPS:
            text = pattern.sub(symbol, text)
        return UID.sub("<uid>", text)


def differences(real: Any, sandbox: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Where two values differ: path, one, other. Places in lists are not told, only that it is a list."""
    if isinstance(real, dict) and isinstance(sandbox, dict):
        found: list[tuple[str, Any, Any]] = []
        for key in sorted(real.keys() | sandbox.keys()):
            where = f"{path}.{key}" if path else key
            if key not in real or key not in sandbox:
                found.append((where, real.get(key, "<missing>"), sandbox.get(key, "<missing>")))
            else:
                found += differences(real[key], sandbox[key], where)
        return found
    if isinstance(real, list) and isinstance(sandbox, list) and len(real) == len(sandbox):
        pairs = zip(real, sandbox, strict=True)
        return [each for one, other in pairs for each in differences(one, other, f"{path}[]")]
    # JSON tells 1 from True, Python does not.
    same = real == sandbox and type(real) is type(sandbox)
    return [] if same else [(path, real, sandbox)]
