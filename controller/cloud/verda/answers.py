"""What an answer to a changing call means: it happened, it was refused for a reason, or nobody knows. Pure.

The API has no idempotency keys, so this table is what stands between a lost answer and a machine paid
twice: only statuses that are known to be sent before anything happened count as refused. The quirks:
"no capacity" and "the API is down" share status 503; the same refusal of a delete came with different
statuses over the years, so its sentence decides; a 202 may carry an error inside; and what the delete of
a disk or a script is answered with, when it is done, is written nowhere.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from controller.cloud.verda.bodies import error_of, message_of, parse_id, unwrapped
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.reason import Reason


class Call(StrEnum):
    CREATE = "create"
    DELETE = "delete"
    DELETE_VOLUME = "delete volume"
    CREATE_SCRIPT = "create script"
    DELETE_SCRIPT = "delete script"


# These, and no others, are sent before anything was done.
REFUSALS: dict[int, Reason] = {
    400: Reason.BAD_REQUEST,
    401: Reason.UNAUTHORISED,
    402: Reason.NO_FUNDS,
    403: Reason.UNAUTHORISED,
    404: Reason.BAD_REQUEST,
    409: Reason.BAD_REQUEST,
    422: Reason.BAD_REQUEST,
    429: Reason.RATE_LIMITED,
}

# The same as the code of an error body, for one that comes with a status of success.
CODES: dict[str, int] = {
    "invalid_request": 400,
    "unauthorized_request": 401,
    "insufficient_funds": 402,
    "forbidden_action": 403,
    "not_found": 404,
    "conflict": 409,
    "rate_limit_exceeded": 429,
}

# Sentences that were seen, as patterns. Each has a row in docs/verda-api.md, which a test holds against this.
SENTENCES: dict[str, tuple[str, ...]] = {
    "quota": (r"limit exceeded", r"quota"),
    "image": (r"operating system is not valid",),
    "tags": (r"\btags?\b",),
    # Ours are made for one order each, so whoever has it is what an earlier copy of the same request made.
    "taken": (
        r"host ?name\b[^;]*\balready",
        r"host ?name\b[^;]*\btaken",
        r"host ?name\b[^;]*\bin use",
        r"host ?name\b[^;]*\bexists",
        r"host ?name\b[^;]*\bunique",
        r"duplicate[^;]*\bhost ?name",
    ),
    "volumes": (r"\bvolumes?\b",),
    "rights": (r"scope", r"token", r"credential", r"unauthori[sz]ed"),
    # Of the path, and of nothing that it leads to: such a 404 comes from another API, or a gateway in front.
    "path": (
        r"cannot [a-z]+ /",
        r"(?<!resource or )\bpath\b",
        r"\broute\b",
        r"\bendpoint\b",
        r"\burl\b",
        r"\bpage\b",
    ),
    "gone: delete": (
        r"invalid instance id",
        r"instance ([0-9a-f-]{36} )?not found",
        r"discontinue an? (already )?discontinued\b",
        r"discontinue an? (already )?deleted\b",
        r"discontinue an? (already )?deleting\b",
    ),
    "gone: delete volume": (
        r"invalid volume id",
        r"volume ([0-9a-f-]{36} )?not found",
        r"already (permanently )?deleted",
    ),
    "gone: delete script": (r"invalid (startup )?script id", r"script ([0-9a-f-]{36} )?not found"),
    # Which states refuse a delete is not published: whatever state is named, it passes.
    "not yet: delete": (r"provisioning", r"discontinue an? \w+ instance", r"not allowed"),
    "not yet: delete volume": (r"attached", r"not allowed"),
    "not yet: delete script": (r"not allowed",),
}
ABOUT_THE_STATE = (400, 403, 409, 422)  # what an impossible action was answered with over the years

_OF_RESULTS = {403: "forbidden_action", 404: "not_found"}  # a result has a status and no code
_NAMES = ("id", "instanceId")  # of whom an object speaks
_CREATES = (Call.CREATE, Call.CREATE_SCRIPT)
_LONGEST_MESSAGE = 230


def classify(
    status: int,
    body: str,
    call: Call,
    *,
    retry_after: float | None = None,
    target: str = "",
    hide: Callable[[str], str] = str,
) -> Outcome:
    """The outcome of a call. `target` is the id that a delete was for; `hide` takes secrets out of words."""
    if call in _CREATES:
        outcome = _of_create(status, body, call, retry_after)
    else:
        outcome = _of_delete(status, body, call, retry_after, target)
    if isinstance(outcome, Happened):
        return outcome
    return replace(outcome, message=hide(outcome.message)[:_LONGEST_MESSAGE])


def _of_create(status: int, body: str, call: Call, retry_after: float | None) -> Outcome:
    if 200 <= status < 300:
        found = parse_id(body)
        return Happened(found) if found else Unknown(f"{call}: answered {status} without a readable id")
    code, message = error_of(body)
    told = _told(call, status, code, message)
    if status == 503 and code == "service_unavailable" and call is Call.CREATE:
        return Refused(Reason.NO_CAPACITY, told, retry_after)
    reason = REFUSALS.get(status)
    if reason is None or (call is Call.CREATE and _says("taken", message)):
        return Unknown(told)
    if code == "insufficient_funds":
        reason = Reason.NO_FUNDS
    elif reason is Reason.BAD_REQUEST or status == 403:
        if _says("quota", f"{code} {message}"):
            reason = Reason.QUOTA
        elif _says("image", message):
            reason = Reason.IMAGE_NOT_SUPPORTED
        elif _says("tags", message) and not _says("rights", message):
            reason = Reason.BAD_REQUEST
    return Refused(reason, told, retry_after)


def _of_delete(status: int, body: str, call: Call, retry_after: float | None, target: str) -> Outcome:
    if status == 204:
        return Happened(target)
    if 200 <= status < 300:
        return _of_results(status, body, call, retry_after, target)
    code, message = error_of(body)
    return _of_refused_delete(status, code, message, call, retry_after, target)


def _of_refused_delete(
    status: int, code: str, message: str, call: Call, retry_after: float | None, target: str
) -> Outcome:
    told = _told(call, status, code, message)
    reason = REFUSALS.get(status)
    if reason is None:
        return Unknown(told)
    known = code == "not_found" or _says(f"gone: {call}", message)
    if status == 404 and (not known or _says("path", message)):
        # Whatever stands in front of the API, or at a wrong base URL, has such an answer too: it proves nothing.
        return Unknown(told)
    another = call is Call.DELETE and _says("volumes", message)  # the machine may well be there
    if (status == 404 and not another) or (status in ABOUT_THE_STATE and _says(f"gone: {call}", message)):
        return Refused(Reason.ALREADY_GONE, told)
    if status in ABOUT_THE_STATE:
        forbidden = code == "forbidden_action" and not _says("rights", message)
        if forbidden or status == 409 or _says(f"not yet: {call}", message):
            reason = Reason.NOT_ALLOWED_YET
    return Refused(reason, told, retry_after)


def _of_results(status: int, body: str, call: Call, retry_after: float | None, target: str) -> Outcome:
    """A 2xx: for an action a list with one result for each id, in older answers and for others nothing."""
    if not body.strip() and status != 207:
        return Happened(target)
    unclear = Unknown(f"{call}: answered {status} without a result for {target}")
    value = unwrapped(body)
    refusal = _refusal_within(status, value, target)
    if refusal is not None:
        return _of_refused_delete(*refusal, call, retry_after, target)
    rows = _rows(value)
    if ours := _ours(rows, target):
        return Happened(target) if all(row.get("status") == "success" for row in ours) else unclear
    if status == 207 or body.lstrip().startswith("<"):
        return unclear
    named = {parse_id(body), *(str(row.get(key) or "").lower() for row in rows for key in _NAMES)} - {""}
    # What else a disk or a script is answered with is written nowhere, so there the status tells.
    done = named == {target.lower()} if named else call is not Call.DELETE
    return Happened(target) if done and not any(_complains(row, call) for row in rows) else unclear


def _complains(row: Mapping[str, Any], call: Call) -> bool:
    """Whether an object that comes with a status of success speaks of anything else."""
    state, message = _word(row.get("status")), message_of(row)
    numbers = (word for word in (state, _word(row.get("statusCode"))) if word.isdecimal())
    return (
        any(row.get(key) for key in ("code", "error", "errors"))
        or _word(row.get("success")) == "false"
        or any(len(number) > 3 or int(number) >= 400 for number in numbers)
        # A disk may be answered with as it is by now; a machine that is described is not a deleted one, and of
        # one that somebody has words about nobody knows.
        or (
            state not in ("", "success") or bool(message)
            if call is Call.DELETE
            else state in ("error", "failed")
        )
        or any(_says(what, message) for what in (f"not yet: {call}", "rights"))
    )


def _word(value: Any) -> str:
    return "" if value is None else str(value).strip().lower()


def _refusal_within(status: int, value: Any, target: str) -> tuple[int, str, str] | None:
    """Status, code and sentence of a refusal that came with a status of success."""
    if isinstance(value, dict) and "code" in value:
        code = str(value["code"] or "")
        # The code stands for the status that it should have come with; without one nothing was told.
        return CODES.get(code, status), code, message_of(value)
    row = next((row for row in _ours(_rows(value), target) if row.get("status") != "success"), None)
    if row is None or row.get("status") != "error":
        return None
    inner = row.get("statusCode")
    # Without a status of its own the sentence decides, like that of any refusal.
    inner = inner if isinstance(inner, int) and inner >= 400 else 400
    return inner, _OF_RESULTS.get(inner, ""), message_of(row.get("error"))


def _rows(value: Any) -> list[Mapping[str, Any]]:
    return [row for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict)]


def _ours(rows: list[Mapping[str, Any]], target: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if str(row.get("instanceId", "")).lower() == target.lower()]


def is_about_tags(status: int, body: str) -> bool:
    """A create that was refused, for certain, and for its tags: younger than some accounts."""
    return status in ABOUT_THE_STATE and _says("tags", error_of(body)[1])


def is_about_volumes(status: int, body: str, target: str) -> bool:
    """A delete of a machine that was refused for a disk that it names, be it inside a 2xx."""
    message = error_of(body)[1]
    if 200 <= status < 300:
        status, _, message = _refusal_within(status, unwrapped(body), target) or (status, "", "")
    return (
        status in (400, 404, 422) and _says("volumes", message) and not _says(f"gone: {Call.DELETE}", message)
    )


_PATTERNS = {key: re.compile("|".join(found), re.IGNORECASE) for key, found in SENTENCES.items()}


def _says(what: str, message: str) -> bool:
    return _PATTERNS[what].search(html.unescape(message)) is not None  # a ; of &#39; parts no complaints


def _told(call: Call, status: int, code: str, message: str) -> str:
    """One line for people. A script's text may come back in a refusal and carries a token: not quoted."""
    if call is Call.CREATE_SCRIPT and not (_says("quota", message) and len(message) < 80):
        message = ""
    return f"{call}: answered {status}: {message or code or 'without an explanation'}"
