"""The few forms of CEL in which people ask for a GPU by product or memory, and which models they match.

This is no interpreter of CEL: a form that is not known here is not understood, and nothing is bought for it.
Patterns are taken apart by hand, because they come from whoever may create a claim.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from controller.domain.gpu_labels import LOOKS
from controller.domain.quantity import scheduler_units

# The driver's names of the boards, by `gpu_slug` of the catalogue's model.
PRODUCTS: Mapping[str, str] = {
    "tesla-v100": "Tesla V100-SXM2-16GB",
    "a100-40gb": "NVIDIA A100-SXM4-40GB",
    "a100-80gb": "NVIDIA A100-SXM4-80GB",
    "h100": "NVIDIA H100 80GB HBM3",
    "h200": "NVIDIA H200",
    "b200": "NVIDIA B200",
    "b300": "NVIDIA B300 SXM6 AC",
    "gb300": "NVIDIA GB300",
    "l40s": "NVIDIA L40S",
    "rtx-a6000": "NVIDIA RTX A6000",
    "rtx-6000-ada": "NVIDIA RTX 6000 Ada Generation",
    "rtx-pro-6000": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
}
EVERY = frozenset(PRODUCTS)
_LONGEST = 2000
_DEEPEST = 50  # brackets
_TEXT = r"""("[^"\\]*"|'[^'\\]*')"""
_DOMAIN = r"""\[\s*(?:"gpu\.nvidia\.com"|'gpu\.nvidia\.com')\s*\]"""
_PRODUCT = rf"device\.attributes{_DOMAIN}\.productName(\.lowerAscii\(\))?"
_MEMORY = rf"device\.capacity{_DOMAIN}\.memory"
_QUANTITY = rf"quantity\(\s*{_TEXT}\s*\)"
_IS = re.compile(rf"{_PRODUCT}\s*(==|!=)\s*{_TEXT}")
_IN = re.compile(rf"{_PRODUCT}\s+in\s+\[\s*({_TEXT}(?:\s*,\s*{_TEXT})*)\s*\]")
_CALL = re.compile(rf"{_PRODUCT}\.(contains|startsWith|endsWith|matches)\(\s*{_TEXT}\s*\)")
_COMPARE = re.compile(rf"{_MEMORY}\.compareTo\(\s*{_QUANTITY}\s*\)\s*(==|!=|>=|<=|>|<)\s*(-1|0|1)")
_GREATER = re.compile(rf"{_MEMORY}\.(isGreaterThan|isLessThan)\(\s*{_QUANTITY}\s*\)")
# Always so of whole GPUs of this driver.
_TRUE = (
    re.compile(r"""device\.driver\s*==\s*(?:"gpu\.nvidia\.com"|'gpu\.nvidia\.com')"""),
    re.compile(rf"""device\.attributes{_DOMAIN}\.type\s*==\s*(?:"gpu"|'gpu')"""),
    re.compile(r"""(?:"gpu\.nvidia\.com"|'gpu\.nvidia\.com')\s+in\s+device\.(?:attributes|capacity)"""),
    re.compile(rf"has\(\s*device\.attributes{_DOMAIN}\.productName\s*\)"),
    re.compile(rf"has\(\s*{_MEMORY}\s*\)"),
    re.compile(r"true"),
)
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}
_LITERAL = re.compile(r"(\^?)(?:\.\*)?([A-Za-z0-9 _-]*)((?:\.\*)?)(\$?)")


@lru_cache(maxsize=512)
def models_matching(expression: str) -> frozenset[str] | None:
    """Slugs of the models that the selector takes; None: it is not understood."""
    if len(expression) > _LONGEST or expression.count("(") > _DEEPEST:
        return None
    return _any(expression)  # as it is: blanks in a text count, and those between words are in the forms


def _any(text: str) -> frozenset[str] | None:
    parts = [_all(part) for part in _split(text, "||")]
    known = [part for part in parts if part is not None]
    return frozenset[str]().union(*known) if len(known) == len(parts) else None


def _all(text: str) -> frozenset[str] | None:
    parts = [_one(part) for part in _split(text, "&&")]
    known = [part for part in parts if part is not None]
    return EVERY.intersection(*known) if len(known) == len(parts) else None


def _one(text: str) -> frozenset[str] | None:
    text = text.strip()
    if text.startswith("(") and _closes(text) == len(text) - 1:
        return _any(text[1:-1])
    if any(form.fullmatch(text) for form in _TRUE):
        return EVERY
    if found := _IS.fullmatch(text):
        lower, operator, value = found.groups()
        same = _products(lower, lambda name: name == value[1:-1])
        return same if operator == "==" else EVERY - same
    if found := _IN.fullmatch(text):
        values = {quoted[1:-1] for quoted in re.findall(_TEXT, found[2])}
        return _products(found[1], lambda name: name in values)
    if found := _CALL.fullmatch(text):
        return _called(found[1], found[2], found[3][1:-1])
    if found := _COMPARE.fullmatch(text):
        asked, compare, than = _bytes(found[1]), _COMPARISONS[found[2]], int(found[3])
        return None if asked is None else _larger(asked, compare, than)
    if found := _GREATER.fullmatch(text):
        asked, compare = _bytes(found[2]), _COMPARISONS[">" if found[1] == "isGreaterThan" else "<"]
        return None if asked is None else _larger(asked, compare, 0)
    return None


def _called(lower: str | None, name: str, value: str) -> frozenset[str] | None:
    if name == "contains":
        return _products(lower, lambda product: value in product)
    if name == "startsWith":
        return _products(lower, lambda product: product.startswith(value))
    if name == "endsWith":
        return _products(lower, lambda product: product.endswith(value))
    parts = _LITERAL.fullmatch(value)
    if parts is None:
        return None
    begins = bool(parts[1]) and not value.startswith("^.*")
    ends = bool(parts[4]) and not parts[3]
    literal = parts[2]
    return _products(
        lower,
        lambda product: (
            literal in product
            and (not begins or product.startswith(literal))
            and (not ends or product.endswith(literal))
            and (not (begins and ends) or product == literal)
        ),
    )


def _products(lower: str | None, takes: Callable[[str], bool]) -> frozenset[str]:
    return frozenset(slug for slug, name in PRODUCTS.items() if takes(name.lower() if lower else name))


def _larger(asked: int, compare: Callable[[int, int], bool], than: int) -> frozenset[str]:
    """Models whose memory, compared with what is asked for (-1, 0 or 1), compares so with `than`."""
    sizes = {slug: LOOKS[slug].memory << 20 for slug in PRODUCTS}
    return frozenset(s for s, there in sizes.items() if compare((there > asked) - (there < asked), than))


def _bytes(quoted: str) -> int | None:
    try:
        return scheduler_units("memory", quoted[1:-1])
    except ValueError:
        return None


def _split(text: str, operator: str) -> list[str]:
    """At operators that are in no quotes and no brackets."""
    parts, depth, quote, begin, at = [], 0, "", 0, 0
    while at < len(text):
        letter = text[at]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif not depth and text.startswith(operator, at):
            parts.append(text[begin:at])
            begin = at = at + len(operator)
            continue
        at += 1
    return [*parts, text[begin:]]


def _closes(text: str) -> int:
    """Where the bracket that the text begins with is closed."""
    depth, quote = 0, ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
            if not depth:
                return at
    return -1
