"""Which answer means what: the table between a lost answer and a machine paid twice."""

from __future__ import annotations

import json

import pytest

from controller.cloud.verda.answers import Call, classify
from controller.cloud.verda.bodies import parse_id
from controller.domain.outcome import Happened, Refused, Unknown
from controller.domain.reason import Reason

ID = "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"
OTHER = "11111111-2222-4333-8444-555555555555"
HTML = "<html><body><h1>502 Bad Gateway</h1></body></html>"


def said(code: str, message: object) -> str:
    return json.dumps({"code": code, "message": message})


def results(*rows: dict[str, object]) -> str:
    return json.dumps([{"action": "delete", **row} for row in rows])


STORAGE = said("invalid_request", "Storage limit exceeded")
NO_ROOM = said(
    "service_unavailable", "Not enough resources to deploy a 1 GPU instance type 1V100.6V in FIN-03"
)

CREATES = [
    (202, ID, ID),
    (201, f'"{ID}"', ID),
    (200, f"{ID}\n", ID),
    (202, "", Unknown),
    (202, "OK", Unknown),
    (202, HTML, Unknown),
    (204, "", Unknown),
    (301, "", Unknown),
    (302, HTML, Unknown),
    (400, said("invalid_request", "location_code is required"), Reason.BAD_REQUEST),
    (400, said("invalid_request", ["hostname must be a string", "image is required"]), Reason.BAD_REQUEST),
    (400, said("invalid_request", ["hostname must be a hostname", "image is in use"]), Reason.BAD_REQUEST),
    (400, said("invalid_request", "Hostname &#39;home-a100-abcdefghij&#39; is already in use"), Unknown),
    (400, "Bad Request", Reason.BAD_REQUEST),
    (400, HTML, Reason.BAD_REQUEST),
    (400, STORAGE, Reason.QUOTA),
    (400, said("invalid_request", ["GPU Limit Exceeded"]), Reason.QUOTA),
    (400, said("invalid_request", "Your quota of instances is used up"), Reason.QUOTA),
    (400, said("GPU_QUOTA_EXCEEDED", ""), Reason.QUOTA),
    (403, said("forbidden_action", "GPU quota exceeded"), Reason.QUOTA),
    (
        400,
        said("invalid_request", "Operating system is not valid for this instance type"),
        Reason.IMAGE_NOT_SUPPORTED,
    ),
    (400, said("insufficient_funds", "Insufficient funds"), Reason.NO_FUNDS),
    (400, said("service_unavailable", "No capacity available"), Reason.BAD_REQUEST),
    (401, said("unauthorized_request", "Access token is missing or invalid"), Reason.UNAUTHORISED),
    (402, said("insufficient_funds", "Insufficient funds"), Reason.NO_FUNDS),
    (402, "", Reason.NO_FUNDS),
    (403, said("forbidden_action", "Insufficient scope"), Reason.UNAUTHORISED),
    (403, HTML, Reason.UNAUTHORISED),
    (404, said("not_found", "Resource not found"), Reason.BAD_REQUEST),
    (408, "", Unknown),
    (409, said("conflict", "conflict"), Reason.BAD_REQUEST),
    (422, said("invalid_request", "no"), Reason.BAD_REQUEST),
    (429, said("rate_limit_exceeded", "Too many requests"), Reason.RATE_LIMITED),
    (429, "Rate limit!", Reason.RATE_LIMITED),
    (500, said("server_error", "Internal server error"), Unknown),
    (500, "", Unknown),
    (502, HTML, Unknown),
    (503, NO_ROOM, Reason.NO_CAPACITY),
    (503, said("service_unavailable", "No capacity available"), Reason.NO_CAPACITY),
    (503, HTML, Unknown),
    (503, "", Unknown),
    (503, said("server_error", "not enough resources"), Unknown),
    (503, '"service_unavailable"', Unknown),
    (504, HTML, Unknown),
    (520, HTML, Unknown),
]


@pytest.mark.parametrize(("status", "body", "expected"), CREATES)
def test_an_answer_to_a_create_is_an_id_a_reason_or_unknown(status: int, body: str, expected: object) -> None:
    outcome = classify(status, body, Call.CREATE)
    if expected is Unknown:
        assert isinstance(outcome, Unknown)
    elif isinstance(expected, Reason):
        assert isinstance(outcome, Refused)
        assert outcome.reason is expected
    else:
        assert outcome == Happened(str(expected))


def test_no_status_of_a_server_in_trouble_ever_counts_as_a_refused_create() -> None:
    bodies = ("", HTML, "{}", "[]", "null", said("server_error", "x"), said("invalid_request", "x"), STORAGE)
    for status in (*range(100, 400), *range(405, 409), *range(430, 600)):
        for body in bodies:
            assert isinstance(classify(status, body, Call.CREATE), Unknown), (status, body)


NOT_YET = said("forbidden_action", "Can't discontinue a provisioning instance")
DELETES = [
    (202, results({"instanceId": ID, "status": "success"}), "happened"),
    (202, "", "happened"),
    (202, " \n", "happened"),
    (202, results({"instanceId": ID.upper(), "status": "success"}), "happened"),
    (202, json.dumps(results({"instanceId": ID, "status": "success"})), "happened"),
    (202, json.dumps({"instanceId": ID, "status": "success"}), "happened"),
    (202, ID, "happened"),
    (204, "", "happened"),
    (200, HTML, Unknown),
    (202, HTML, Unknown),
    (202, "OK", Unknown),
    (202, OTHER, Unknown),
    (202, json.dumps({"id": ID}), "happened"),
    (202, json.dumps({"id": ID.upper(), "status": "success"}), "happened"),
    (202, json.dumps([{"id": ID}]), "happened"),
    (202, json.dumps({"id": OTHER}), Unknown),
    (202, json.dumps([{"id": ID}, {"id": OTHER}]), Unknown),
    (202, json.dumps({"id": ID, "instanceId": OTHER}), Unknown),
    (202, json.dumps({"id": ID, "status": "error"}), Unknown),
    (202, json.dumps({"id": ID, "status": "running"}), Unknown),
    (202, json.dumps({"id": ID, "error": "no"}), Unknown),
    (202, json.dumps({"id": ID, "message": "Can't discontinue a provisioning instance"}), Unknown),
    (207, json.dumps({"id": ID}), Unknown),
    (202, json.dumps({"message": "deleted"}), Unknown),
    (202, json.dumps({"status": "success"}), Unknown),
    (202, "{}", Unknown),
    (202, "[]", Unknown),
    (202, json.dumps({"message": "Can't discontinue a provisioning instance"}), Unknown),
    (202, results({"instanceId": OTHER, "status": "success"}), Unknown),
    (202, results({"instanceId": ID}), Unknown),
    (202, results({"instanceId": ID, "status": "failed"}), Unknown),
    (207, results({"instanceId": ID, "status": "failed"}), Unknown),
    (207, results({"instanceId": ID, "status": "pending"}), Unknown),
    (202, said("forbidden_action", "Can't discontinue a provisioning instance"), Reason.NOT_ALLOWED_YET),
    (202, said("forbidden_action", "Insufficient scope"), Reason.UNAUTHORISED),
    (200, said("forbidden_action", ""), Reason.NOT_ALLOWED_YET),
    (202, said("not_found", "Instance not found"), Reason.ALREADY_GONE),
    (202, said("rate_limit_exceeded", "Too many requests"), Reason.RATE_LIMITED),
    (202, said("server_error", "Internal server error"), Unknown),
    (202, said("never_heard_of", "no"), Unknown),
    (207, said("invalid_request", "Invalid instance id"), Reason.ALREADY_GONE),
    (202, results({"instanceId": ID, "status": "error", "error": "Can't discontinue a provisioning instance"}), Reason.NOT_ALLOWED_YET),
    (207, results({"instanceId": ID, "status": "success"}, {"instanceId": OTHER, "status": "error", "statusCode": 403}), "happened"),
    (207, results({"instanceId": OTHER, "status": "success"}, {"instanceId": ID, "status": "error", "error": "Can't discontinue a provisioning instance", "statusCode": 403}), Reason.NOT_ALLOWED_YET),
    (207, results({"instanceId": ID, "status": "error", "error": "Instance not found", "statusCode": 404}), Reason.ALREADY_GONE),
    (207, results({"instanceId": ID.upper(), "status": "error", "error": "Internal server error", "statusCode": 500}), Unknown),
    (207, results({"instanceId": ID, "status": "error", "error": {"message": ["no"]}, "statusCode": 400}), Reason.BAD_REQUEST),
    (207, results({"instanceId": OTHER, "status": "success"}), Unknown),
    (207, "", Unknown),
    (207, HTML, Unknown),
    (400, NOT_YET, Reason.NOT_ALLOWED_YET),
    (403, NOT_YET, Reason.NOT_ALLOWED_YET),
    (403, said("forbidden_action", "Can't discontinue a validating instance"), Reason.NOT_ALLOWED_YET),
    (400, said("invalid_request", "Can't discontinue an ordered instance"), Reason.NOT_ALLOWED_YET),
    (400, said("invalid_request", "Can't discontinue a new instance"), Reason.NOT_ALLOWED_YET),
    (400, said("invalid_request", ["Can't discontinue a validating instance"]), Reason.NOT_ALLOWED_YET),
    (207, results({"instanceId": ID, "status": "error", "error": "Can't discontinue an ordered instance", "statusCode": 400}), Reason.NOT_ALLOWED_YET),
    (400, said("invalid_request", "Instance not found"), Reason.ALREADY_GONE),
    (400, said("invalid_request", f"Instance {ID} not found"), Reason.ALREADY_GONE),
    (400, said("invalid_request", "Instance type not found"), Reason.BAD_REQUEST),
    (400, said("invalid_request", f"Volume {OTHER} not found"), Reason.BAD_REQUEST),
    (403, said("forbidden_action", "Can't discontinue a discontinued instance"), Reason.ALREADY_GONE),
    (400, said("invalid_request", ["Can't discontinue a discontinued instance"]), Reason.ALREADY_GONE),
    (403, said("forbidden_action", "Insufficient scope"), Reason.UNAUTHORISED),
    (403, HTML, Reason.UNAUTHORISED),
    (400, said("invalid_request", "Invalid instance id"), Reason.ALREADY_GONE),
    (400, said("invalid_request", f"Invalid volume id {OTHER}"), Reason.BAD_REQUEST),
    (400, said("invalid_request", "Invalid action"), Reason.BAD_REQUEST),
    (404, said("not_found", "Instance not found"), Reason.ALREADY_GONE),
    (404, said("not_found", "Resource not found"), Reason.ALREADY_GONE),
    (404, json.dumps({"message": "Invalid instance id"}), Reason.ALREADY_GONE),
    (404, "", Unknown),
    (404, "404 page not found\n", Unknown),
    (404, "default backend - 404", Unknown),
    (404, json.dumps({"message": "no Route matched with those values"}), Unknown),
    (404, json.dumps({"error": "Not Found"}), Unknown),
    (404, said("not_found", f"Cannot PUT /v2/instances/{ID}"), Unknown),
    (404, said("not_found", ["Cannot GET /instances"]), Unknown),
    (404, said("not_found", "Path not found"), Unknown),
    (404, said("not_found", "Resource or path not found"), Reason.ALREADY_GONE),  # the contract's own words
    (404, said("not_found", "No such route: /instances"), Unknown),
    (404, said("not_found", "Unknown endpoint"), Unknown),
    (404, said("not_found", "The requested URL was not found on this server"), Unknown),
    (404, said("not_found", f"Cannot GET /v1/instance not found/{ID}"), Unknown),
    (404, json.dumps({"code": "not_found", "message": "Instance not found", "path": "/v1/instances"}), Reason.ALREADY_GONE),
    (202, said("not_found", "Cannot PUT /instances"), Unknown),
    (404, "[]", Unknown),
    (404, said("not_found", f"Volume {OTHER} not found"), Reason.BAD_REQUEST),
    (207, results({"instanceId": ID, "status": "error", "statusCode": 404}), Reason.ALREADY_GONE),
    (202, results({"instanceId": ID, "status": "success"}, {"instanceId": ID, "status": "pending"}), Unknown),
    (202, results({"instanceId": ID, "status": "pending"}, {"instanceId": ID, "status": "success"}), Unknown),
    (202, results({"instanceId": ID, "status": "success"}, {"instanceId": ID, "status": "success"}), "happened"),
    (202, results({"instanceId": ID, "status": "error", "error": "Can't discontinue a provisioning instance", "statusCode": 202}), Reason.NOT_ALLOWED_YET),
    (202, json.dumps({"id": ID, "status": "9" * 5000}), Unknown),
    (202, json.dumps({"id": ID, "statusCode": "9" * 5000}), Unknown),
    (202, f'{{"id": "{ID}", "statusCode": {"9" * 5000}}}', Unknown),
    (404, HTML, Unknown),
    (409, said("conflict", "busy"), Reason.NOT_ALLOWED_YET),
    (401, said("unauthorized_request", "Access token is missing or invalid"), Reason.UNAUTHORISED),
    (429, "Rate limit!", Reason.RATE_LIMITED),
    (500, "", Unknown),
    (502, HTML, Unknown),
    (503, said("service_unavailable", "No capacity available"), Unknown),
    (504, "", Unknown),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "expected"), DELETES)
def test_an_answer_to_a_delete_is_done_a_reason_or_unknown(status: int, body: str, expected: object) -> None:
    outcome = classify(status, body, Call.DELETE, target=ID)
    if expected is Unknown:
        assert isinstance(outcome, Unknown)
    elif isinstance(expected, Reason):
        assert isinstance(outcome, Refused)
        assert outcome.reason is expected
    else:
        assert outcome == Happened(ID)


@pytest.mark.parametrize(
    ("call", "status", "body", "expected"),
    [
        (Call.DELETE_VOLUME, 202, "", "happened"),
        (Call.DELETE_VOLUME, 204, "", "happened"),
        (Call.DELETE_VOLUME, 202, "Accepted", "happened"),
        (Call.DELETE_VOLUME, 202, HTML, Unknown),
        (Call.DELETE_VOLUME, 202, OTHER, Unknown),
        (Call.DELETE_VOLUME, 202, said("forbidden_action", "The volume is attached"), Reason.NOT_ALLOWED_YET),
        (Call.DELETE_VOLUME, 404, said("not_found", "Volume not found"), Reason.ALREADY_GONE),
        (
            Call.DELETE_VOLUME,
            400,
            said("invalid_request", "Volume x is already permanently deleted"),
            Reason.ALREADY_GONE,
        ),
        (Call.DELETE_VOLUME, 400, said("invalid_request", "The volume is attached"), Reason.NOT_ALLOWED_YET),
        (Call.DELETE_VOLUME, 403, said("forbidden_action", "not now"), Reason.NOT_ALLOWED_YET),
        (Call.DELETE_VOLUME, 500, "", Unknown),
        (Call.DELETE_SCRIPT, 200, "", "happened"),
        (Call.DELETE_SCRIPT, 200, "OK", "happened"),
        (Call.DELETE_SCRIPT, 200, HTML, Unknown),
        (Call.DELETE_SCRIPT, 200, said("unauthorized_request", "expired"), Reason.UNAUTHORISED),
        (Call.DELETE_SCRIPT, 404, said("not_found", "Script not found"), Reason.ALREADY_GONE),
        (Call.DELETE_SCRIPT, 400, said("invalid_request", "Invalid startup script ID"), Reason.ALREADY_GONE),
        (Call.DELETE_VOLUME, 400, said("invalid_request", "Volume not found"), Reason.ALREADY_GONE),
        (Call.DELETE_SCRIPT, 400, said("invalid_request", "Startup script not found"), Reason.ALREADY_GONE),
        (Call.DELETE_VOLUME, 404, "404 page not found", Unknown),
        (Call.DELETE_VOLUME, 404, said("not_found", f"Cannot DELETE /volumes/{ID}"), Unknown),
        (Call.DELETE_SCRIPT, 404, said("not_found", f"Cannot DELETE /scripts/{ID}"), Unknown),
        (Call.DELETE_VOLUME, 404, "", Unknown),
        (Call.DELETE_SCRIPT, 404, json.dumps({"error": "Not Found"}), Unknown),
        (Call.DELETE_SCRIPT, 502, HTML, Unknown),
        (Call.CREATE_SCRIPT, 201, ID, "happened"),
        (Call.CREATE_SCRIPT, 400, said("invalid_request", "Startup script limit exceeded"), Reason.QUOTA),
        (Call.CREATE_SCRIPT, 503, said("service_unavailable", "later"), Unknown),
    ],
)
def test_disks_and_scripts_have_outcomes_too(call: Call, status: int, body: str, expected: object) -> None:
    outcome = classify(status, body, call, target=ID)
    if expected is Unknown:
        assert isinstance(outcome, Unknown)
    elif isinstance(expected, Reason):
        assert isinstance(outcome, Refused)
        assert outcome.reason is expected
    else:
        assert outcome == Happened(ID)


@pytest.mark.parametrize("call", [Call.DELETE_VOLUME, Call.DELETE_SCRIPT])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "happened"),
        ([], "happened"),
        ([{}], "happened"),
        ({"id": ID}, "happened"),
        ([{"id": ID.upper()}], "happened"),
        ({"message": "deleted"}, "happened"),
        ({"status": "success"}, "happened"),
        ({"id": ID, "status": "deleting"}, "happened"),
        ({"success": True, "statusCode": 200, "error": None}, "happened"),
        ({"id": OTHER}, Unknown),
        ({"id": 7}, Unknown),
        ([{"id": ID}, {"id": OTHER}], Unknown),
        ([{"instanceId": OTHER, "status": "success"}], Unknown),
        ({"status": "error", "error": "no"}, Unknown),
        ({"id": ID, "status": "error"}, Unknown),
        ({"status": "failed"}, Unknown),
        ({"status": 409, "title": "Conflict"}, Unknown),
        ({"statusCode": 409, "message": "no"}, Unknown),
        ({"errors": ["no"]}, Unknown),
        ({"success": False}, Unknown),
        ({"message": "This is not allowed"}, Unknown),
        ({"message": "Insufficient scope"}, Unknown),
        ({"code": "forbidden_action", "message": "not now"}, Reason.NOT_ALLOWED_YET),
        ({"code": "not_found", "message": "gone", "id": ID}, Reason.ALREADY_GONE),
        ({"code": "server_error", "message": "deleted"}, Unknown),
        ({"status": "ERROR"}, Unknown),
        ({"status": "Failed"}, Unknown),
        ({"statusCode": "500"}, Unknown),
        ({"success": "false"}, Unknown),
    ],
)
def test_an_object_that_a_disk_or_script_is_answered_with_is_no_trouble_unless_it_says_so(
    call: Call, body: object, expected: object
) -> None:
    test_disks_and_scripts_have_outcomes_too(call, 202, json.dumps(body), expected)
    if expected == "happened":
        assert isinstance(classify(207, json.dumps(body), call, target=ID), Unknown)


@pytest.mark.parametrize(
    "body",
    [
        ID,
        f"{ID}\n",
        f"  {ID}\r\n",
        f'"{ID}"',
        f'"{ID}\\n"',
        f'\n"{ID}"\n',
        json.dumps(json.dumps(ID)),
        f'{{"id": "{ID}"}}',
        f'[{{"id": "{ID}"}}]',
        f'["{ID}"]',
        ID.upper(),
        f"\ufeff{ID}",
    ],
)
def test_an_id_is_found_however_it_is_wrapped(body: str) -> None:
    assert parse_id(body) == ID


@pytest.mark.parametrize(
    "body",
    [
        "",
        " ",
        "null",
        "[]",
        "{}",
        HTML,
        "8472bacf",
        f"{ID}{ID}",
        f"id: {ID}",
        f"['{ID}']",
        '{"id": 7}',
        "[" * 100_000,
    ],
)
def test_what_is_no_id_is_never_taken_for_one(body: str) -> None:
    assert parse_id(body) == ""


def test_a_rate_limit_keeps_its_retry_after() -> None:
    assert classify(429, "Rate limit!", Call.CREATE, retry_after=12.0) == Refused(
        Reason.RATE_LIMITED, "create: answered 429: without an explanation", 12.0
    )


def test_a_refusal_is_told_in_one_line_of_bearable_length() -> None:
    outcome = classify(400, said("invalid_request", ["a\nb", "c " * 900]), Call.CREATE)
    assert isinstance(outcome, Refused)
    assert outcome.message.startswith("create: answered 400: a b; c c")
    assert "\n" not in outcome.message
    assert len(outcome.message) < 250


def test_the_text_of_a_script_is_never_repeated_in_its_refusal() -> None:
    outcome = classify(400, said("invalid_request", "script is bad: K3S_TOKEN=hunter2"), Call.CREATE_SCRIPT)
    assert isinstance(outcome, Refused)
    assert "hunter2" not in outcome.message


@pytest.mark.parametrize(
    "more", [{"message": "Action failed"}, {"status": "Failed"}, {"success": "False"}, {"statusCode": "409"}]
)
def test_an_id_with_words_of_trouble_beside_it_is_no_deleted_machine(more: dict[str, object]) -> None:
    assert classify(202, json.dumps({"id": ID}), Call.DELETE, target=ID) == Happened(ID)
    assert isinstance(classify(202, json.dumps({"id": ID, **more}), Call.DELETE, target=ID), Unknown)
