"""Label selectors, from the query string of a list and from objects (`matchLabels`…).

The query's grammar is read as the API's own parser does, with its words for what it cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from controller.sandbox.cluster.errors import bad_request, shown
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.rules.names import label_value, qualified

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]
Wanted = tuple[str, str, frozenset[str]]

_TOKENS = re.compile(r"\s*(?:(==|!=|[!=<>(),])|([^\s!=<>(),]+))")
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", "in": "In", "notin": "NotIn"}
_NAMED = "in, notin, =, ==, !=, gt, lt"


class _Parser:
    def __init__(self, text: str) -> None:
        found = [(symbol, word) for symbol, word in _TOKENS.findall(text)]
        self._tokens = [symbol or word for symbol, word in found]
        self._words = [bool(word) for _, word in found]
        self._at = 0

    def _next(self) -> tuple[str, bool]:
        token, word = self._peek()
        self._at += 1
        return token, word

    def _peek(self) -> tuple[str, bool]:
        if self._at < len(self._tokens):
            return self._tokens[self._at], self._words[self._at]
        return "", False

    def all(self) -> list[Wanted]:
        found: list[Wanted] = []
        while True:
            token, word = self._peek()
            if not token:
                return found
            if not word and token != "!":
                raise bad_request(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except ValueError as problem:
                raise bad_request(f"unable to parse requirement: {problem}") from None
            token, _ = self._next()
            if not token:
                return found
            if token != ",":
                raise bad_request(f"found '{token}', expected: ',' or 'end of string'")
            token, word = self._peek()
            if not word and token != "!":
                raise bad_request(f"found '{token}', expected: identifier after ','")

    def _requirement(self) -> Wanted:
        token, word = self._next()
        absent = token == "!"
        if absent:
            token, word = self._next()
        if not word:
            raise ValueError(f"found '{token}', expected: identifier")
        key = token
        if bad := qualified(key):
            raise ValueError(f"<nil>: Invalid value: {shown(key)}: {bad[0]}")
        if absent:
            return key, "DoesNotExist", frozenset()
        if self._peek()[0] in ("", ","):
            return key, "Exists", frozenset()
        token, _ = self._next()
        if token not in _OPERATORS:
            raise ValueError(f"found '{token}', expected: {_NAMED}")
        operator = _OPERATORS[token]
        values = self._set() if token in ("in", "notin") else self._value()
        return key, operator, self._checked(key, operator, values)

    def _set(self) -> list[str]:
        token, _ = self._next()
        if token != "(":
            raise ValueError(f"found '{token}' expected: '('")
        token, word = self._peek()
        if token == ")":
            self._next()
            return [""]
        if not word and token != ",":
            raise ValueError(f"found '{token}', expected: ',', ')' or identifier")
        values: list[str] = []
        last = ","
        while True:
            token, word = self._next()
            if word and last == ",":
                values.append(token)
                if self._peek()[0] not in (",", ")"):
                    raise ValueError(f"found '{self._peek()[0]}', expected: ',' or ')'")
            elif token in (",", ")"):
                if last == ",":
                    values.append("")
                if token == ")":
                    return values
            else:
                raise ValueError(f"found '{token}', expected: ',', or identifier")
            last = token if token == "," else "word"

    def _value(self) -> list[str]:
        token, word = self._peek()
        if token in ("", ","):
            return [""]
        self._next()
        if not word:
            raise ValueError(f"found '{token}', expected: identifier")
        return [token]

    @staticmethod
    def _checked(key: str, operator: str, values: list[str]) -> frozenset[str]:
        for at, value in enumerate(sorted(set(values))):
            if operator in ("Gt", "Lt") and not re.fullmatch(r"-?\d+", value):
                text = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise ValueError(f"values[{at}]: Invalid value: {shown(value)}: {text}")
            if bad := label_value(value):
                raise ValueError(f"values[{at}][{key}]: Invalid value: {shown(value)}: {bad[0]}")
        return frozenset(values)


def parse_labels(text: str) -> LabelTest | None:
    """The test of a `labelSelector` parameter; None where it selects everything."""
    wanted = _Parser(text).all()
    return (lambda labels: all(_meets(labels, *each) for each in wanted)) if wanted else None


def _meets(labels: Labels, key: str, operator: str, values: frozenset[str]) -> bool:
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    if operator in ("Gt", "Lt"):
        left, right = _number(labels.get(key, "")), _number(next(iter(values), ""))
        if left is None or right is None:
            return False
        return left > right if operator == "Gt" else left < right
    return False


def _number(text: str) -> int | None:
    """As Go reads it: 64 bits, and no more than digits behind a sign."""
    found = int(text) if _INTEGER.fullmatch(text) else None
    return found if found is not None and -(2**63) <= found < 2**63 else None


def meets(labels: Labels, requirements: list[Obj]) -> bool:
    """`matchExpressions`, of label selectors and of node selector terms."""
    return all(
        _meets(labels, each["key"], each["operator"], frozenset(each.get("values") or ()))
        for each in requirements
    )


def matches(labels: Labels, selector: Any, *, empty: bool = True) -> bool:
    """A LabelSelector object; None selects nothing, an empty one selects `empty`."""
    if selector is None:
        return False
    exact, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not exact and not expressions:
        return empty
    return all(labels.get(key) == value for key, value in exact.items()) and meets(labels, expressions)
