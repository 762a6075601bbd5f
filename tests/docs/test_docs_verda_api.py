"""The page about Verda's API leaves nothing out, and no row of it is without a test that runs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from verda.authentication._authentication import TOKEN_ENDPOINT

from controller.cloud.protocol import Cloud
from controller.cloud.verda import answers
from controller.domain import cloudthings
from controller.domain.outcome import Happened
from controller.domain.reason import Reason
from controller.sandbox.cloud.answers import CODES
from controller.sandbox.cloud.api import PROTECTED, PUBLIC
from controller.sandbox.cloud.page import QUESTIONS
from controller.sandbox.fault_rules import FAULTS
from tests.cloud.test_verda_on_sandbox import ORDER, Scene
from tests.docs import tables
from tests.docs.tables import ROOT, all_rows, codes, homes, marked_rows, shown_by

TEXT = (ROOT / "docs" / "verda-api.md").read_text(encoding="utf-8")
CALLS = re.findall(r"(?m)^\| `((?:GET|POST|PUT|DELETE) /[^`]+)` \|", TEXT.partition("<!-- not used -->")[0])
UNUSED = [call for row in marked_rows(TEXT, "not used") for call in codes(row[0])]
TO = {
    "an order": ("quota", "image", "tags", "taken", "rights"),
    "a new script": ("quota",),
    "a delete": ("volumes", "rights", "path", "gone: delete", "not yet: delete"),
    "a delete of a disk": ("gone: delete volume", "not yet: delete volume"),
    "a delete of a script": ("gone: delete script", "not yet: delete script"),
}
OF_THE_ADAPTER = {
    Reason.NO_CAPACITY, Reason.QUOTA, Reason.NO_FUNDS, Reason.IMAGE_NOT_SUPPORTED, Reason.RATE_LIMITED,
    Reason.NOT_ALLOWED_YET, Reason.ALREADY_GONE, Reason.BAD_REQUEST, Reason.UNAUTHORISED, Reason.UNAVAILABLE,
}  # fmt: skip


def test_every_row_names_tests_that_run() -> None:
    rows = [row for row in all_rows(TEXT) if row not in marked_rows(TEXT, "not used")]
    assert len(rows) > 150
    for row in rows:
        assert shown_by(row[-1]), row
    assert shown_by(TEXT) - set(homes()) == set()


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.skip\ndef test_one(): pass",
        "@pytest.mark.xfail(strict=True)\nasync def test_one(): pass",
        "def test_one():\n    pytest.skip('not today')",
        "pytestmark = [pytest.mark.skipif(True, reason='x')]\ndef test_one(): pass",
        "x = pytest.importorskip('x')\ndef test_one(): pass",
        "class Helper:\n    def test_one(self): pass",
    ],
)
def test_a_test_that_does_not_run_shows_nothing(text: str) -> None:
    assert tables._running(ast.parse(text)) == set()


# ---- calls


def test_every_path_in_the_adapter_has_a_row() -> None:
    """Whatever looks like a path in its code, and the SDK's path of the token."""
    found = {TOKEN_ENDPOINT}
    for source in (ROOT / "controller" / "cloud" / "verda").glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"\A(?:[A-Z]+ )?(/[a-z]+[a-z/{}-]*)\Z", node.value))
    assert found == {call.split(" ")[1] for call in CALLS}


async def test_a_life_calls_what_has_a_row_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every verb that the program has for a cloud, over real HTTP; the sandbox counts what arrives."""
    monkeypatch.setenv("NO_PROXY", "*")
    scene = await Scene().open()
    cloud = scene.cloud
    seen: set[str] = set()
    handle = scene.world.handle

    def watched(request):  # type: ignore[no-untyped-def]
        seen.add(f"{request.method} {request.path.removeprefix('/v1')}")
        return handle(request)

    scene.world.handle = watched  # type: ignore[method-assign]
    verbs = {name for name in vars(Cloud) if not name.startswith("_")} - {"health", "close", "trust"}
    try:
        script = await cloud.create_script("gpuas-home-x", "#!/bin/bash\n")
        machine = await scene.order_running(ORDER)
        assert isinstance(script, Happened)
        assert await cloud.tag(machine.id, "gpuas-pool", "a100") == Happened(machine.id)  # by command only
        assert await cloud.delete(machine.id, ()) == Happened(machine.id)
        scene.wait(500)
        assert await cloud.delete_volume(machine.os_volume_id) == Happened(machine.os_volume_id)
        assert await cloud.delete_script(script.id) == Happened(script.id)
        for read in (cloud.catalogue(), cloud.inventory(), cloud.volumes(), cloud.scripts("")):
            await read
    finally:
        await scene.close()
    assert verbs == {
        "create", "delete", "delete_volume", "create_script", "delete_script", "catalogue", "inventory", "instance",
        "volumes", "scripts",
    }  # fmt: skip
    assert {re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "{id}", call) for call in seen} == set(CALLS)


def test_what_the_api_has_beside_the_calls_is_listed_as_not_used() -> None:
    served = {f"{route.method} {route.path}" for route in (*PUBLIC, *PROTECTED)}
    assert set(CALLS) <= served | {f"POST {TOKEN_ENDPOINT}"}
    assert sorted(UNUSED) == sorted(served - set(CALLS))


# ---- words


def test_every_pattern_of_the_adapter_has_a_row_and_every_pattern_of_a_row_is_in_the_adapter() -> None:
    told: dict[str, set[str]] = {}
    for words, _, to, *_ in marked_rows(TEXT, "sentences"):
        for pattern in codes(words):
            groups = [group for group in TO[to] if pattern in answers.SENTENCES[group]]
            assert len(groups) == 1, (pattern, to)
            told.setdefault(groups[0], set()).add(pattern)
    assert told == {group: set(patterns) for group, patterns in answers.SENTENCES.items()}


def test_every_status_that_refuses_and_every_code_of_an_error_has_a_row() -> None:
    rows = marked_rows(TEXT, "statuses")
    assert {int(row[0]) for row in rows} >= set(answers.REFUSALS) | set(CODES) | {202, 204, 207, 502, 504}
    assert {code for row in rows for code in codes(row[1])} == set(CODES.values())


def test_every_state_of_a_machine_has_a_row() -> None:
    told = [status for row in marked_rows(TEXT, "states") for status in codes(row[0])]
    assert sorted(told) == sorted({*cloudthings._STATES, "unknown"})


def test_every_reason_of_the_adapter_has_a_row() -> None:
    used = {
        Reason[node.attr]
        for source in Path(ROOT / "controller" / "cloud").rglob("*.py")
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason"
    }
    told = [codes(row[0])[0] for row in marked_rows(TEXT, "reasons")]
    assert used == OF_THE_ADAPTER
    assert sorted(told) == sorted(OF_THE_ADAPTER)


def test_every_fault_has_a_row_and_is_in_the_lives_that_it_names() -> None:
    rows = marked_rows(TEXT, "faults")
    assert [codes(row[0])[0] for row in rows] == list(FAULTS)
    for row in rows:
        for test in shown_by(row[-1]):
            assert f'"{codes(row[0])[0]}"' in homes()[test], row


def test_every_open_question_has_a_row() -> None:
    assert {int(row[0]): row[1] for row in marked_rows(TEXT, "questions")} == dict(QUESTIONS)
