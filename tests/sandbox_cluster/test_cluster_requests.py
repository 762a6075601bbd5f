"""How requests are read: paths, methods, media types, bodies, options; and what is said to the wrong ones."""

from __future__ import annotations

from typing import Any

import pytest

from .town import MERGE, NODES, PODS, Town

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def a_map(name: str = "m", **more: Any) -> Any:
    return {"metadata": {"name": name}, **more}


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/things", 404),
        ("GET", "/apis/batch/v9/jobs", 404),
        ("GET", f"{NODES}/n/eviction", 404),
        ("GET", "/api/v1/pods/p", 404),
        ("POST", f"{MAPS}/m", 405),
        ("PUT", MAPS, 405),
        ("PATCH", MAPS, 405),
        ("DELETE", f"{PODS}/p/status", 405),
        ("GET", f"{PODS}/p/eviction", 405),
        ("POST", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("POST", "/version", 405),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
    ],
)
def test_a_path_or_method_that_leads_nowhere_is_refused_whatever_is_there(
    town: Town, method: str, path: str, code: int
) -> None:
    answer = town.ask(method, path, {}, content_type=MERGE if method == "PATCH" else "application/json")
    assert (answer.status, answer.json()["details"]) == (code, {})


@pytest.mark.parametrize("path", ["/nothing", "/apis/example.com", "/apis/example.com/v1/things"])
def test_a_group_that_is_not_served_is_a_line_of_text(town: Town, path: str) -> None:
    answer = town.ask("GET", path)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_the_root_lists_where_to_go(town: Town) -> None:
    assert "/apis" in town.get("/")["paths"]


@pytest.mark.parametrize(
    ("accept", "code", "kind"),
    [
        ("", 200, "ConfigMap"),
        ("*/*", 200, "ConfigMap"),
        ("application/cbor;q=0.9,application/json", 200, "ConfigMap"),
        (TABLE, 200, "Table"),
        (f"application/json;as=Thing;v=v1;g=meta.k8s.io,{TABLE}", 200, "Table"),
        (PARTIAL, 200, "PartialObjectMetadata"),
        (PARTIAL.replace("Metadata;", "MetadataList;"), 406, "Status"),
        ("application/json;as=Thing;v=v1;g=meta.k8s.io", 406, "Status"),
        ("text/html", 406, "Status"),
    ],
)
def test_the_first_form_that_can_be_given_is_given(town: Town, accept: str, code: int, kind: str) -> None:
    town.post(MAPS, a_map())
    answer = town.ask("GET", f"{MAPS}/m", accept=accept)
    assert (answer.status, answer.json()["kind"]) == (code, kind)


def test_yaml_goes_in_and_comes_out(town: Town) -> None:
    body = b"metadata: {name: m}\ndata: {a: '1'}\n"
    answer = town.ask("POST", MAPS, body, content_type="application/yaml", accept="application/yaml")
    assert answer.headers["Content-Type"] == "application/yaml"
    assert b"\nkind: ConfigMap\n" in answer.body


def test_a_body_of_an_unknown_type_is_415_before_its_object_is_looked_for(town: Town) -> None:
    assert town.refused("POST", MAPS, a_map(), content_type="text/plain")["code"] == 415
    assert town.refused("PATCH", f"{MAPS}/none", {}, content_type="application/json")["code"] == 415


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        (b"{not json", "invalid character 'n' looking for beginning of object key string ({not json)"),
        (b"[]", "json: cannot unmarshal array into Go value of type struct"),
        (b'{"a": 1} x', "invalid character 'x' after top-level value"),
    ],
)
def test_what_is_no_object_is_refused_in_the_words_of_the_decoder(town: Town, body: bytes, told: str) -> None:
    assert told in town.refused("POST", MAPS, body)["message"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            {"kind": "Node", "apiVersion": "v1"},
            "converting (v1.Node) to (core.ConfigMap): unknown conversion",
        ),
        ({"kind": "Thing"}, 'no kind "Thing" is registered for version "v1"'),
        ({"kind": "ConfigMap", "apiVersion": "v2"}, 'no kind "ConfigMap" is registered for version "v2"'),
    ],
)
def test_an_object_of_another_kind_is_refused(town: Town, body: Any, told: str) -> None:
    assert told in town.refused("POST", MAPS, body | a_map())["message"]


@pytest.mark.parametrize(
    ("method", "query", "kind"),
    [
        ("POST", "dryRun=Some", "CreateOptions"),
        ("DELETE", "dryRun=Some", "DeleteOptions"),
        ("DELETE", "propagationPolicy=Sideways", "DeleteOptions"),
        ("GET", "resourceVersionMatch=Exact", "ListOptions"),
        ("GET", "resourceVersion=0&resourceVersionMatch=Exact", "ListOptions"),
        ("GET", "resourceVersion=1&resourceVersionMatch=Exactly", "ListOptions"),
        ("GET", "sendInitialEvents=true", "ListOptions"),
        ("GET", "watch=1&sendInitialEvents=true", "ListOptions"),
        ("GET", "watch=1&resourceVersionMatch=NotOlderThan", "ListOptions"),
    ],
)
def test_options_that_make_no_sense_are_refused(town: Town, method: str, query: str, kind: str) -> None:
    path = f"{MAPS}/m" if method == "DELETE" else MAPS
    status = town.refused(method, f"{path}?{query}", a_map() if method == "POST" else b"")
    assert (status["code"], status["details"]["kind"]) == (422, kind)


def test_a_name_in_the_path_makes_a_watch_a_get_and_the_old_paths_watch(town: Town) -> None:
    assert town.refused("GET", f"{MAPS}/m?watch=1")["code"] == 404
    version = town.world.store.version
    old = town.ask("GET", f"/api/v1/watch/namespaces/default/configmaps/m?resourceVersion={version}")
    town.post(MAPS, a_map("other"))
    town.post(MAPS, a_map())
    assert old.stream is not None
    assert b"".join(old.stream.drain()).count(b"ADDED") == 1


def test_a_continue_token_says_behind_which_key_to_go_on(town: Town) -> None:
    for name in "abc":
        town.post(MAPS, a_map(name))
    token = town.get(f"{MAPS}?limit=1")["metadata"]["continue"]
    everywhere = town.get("/api/v1/configmaps?limit=1")["metadata"]["continue"]
    assert token != everywhere
    assert town.get(f"{MAPS}?limit=1&continue={token}")["items"][0]["metadata"]["name"] == "b"
    found = town.get(f"/api/v1/configmaps?limit=1&continue={everywhere}")["items"][0]["metadata"]
    assert (found["namespace"], found["name"]) == ("default", "b")
    assert town.refused("GET", f"{MAPS}?limit=1&continue={token}&resourceVersion=5")["code"] == 400
    assert "continue key is not valid" in town.refused("GET", f"{MAPS}?continue=nonsense")["message"]


def test_a_version_that_has_not_come_says_when_to_try_again(town: Town) -> None:
    answer = town.ask("GET", f"{MAPS}?resourceVersion=99999999")
    assert (answer.status, answer.headers["Retry-After"]) == (504, "1")
    assert answer.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    town.post(MAPS, a_map())
    assert town.ask("GET", f"{MAPS}/m?resourceVersion=99999999").status == 504


def test_whatever_a_client_sends_the_sandbox_goes_on(town: Town) -> None:
    """Shapes that no client sends on purpose: each is refused, none is an error of the sandbox itself."""
    for body in ([], "text", 3, {"metadata": []}, {"spec": 3}, {"metadata": {"name": {"a": 1}}}):
        for path in (PODS, NODES, MAPS, "/apis/batch/v1/namespaces/default/jobs"):
            assert town.refused("POST", path, body)["code"] in (400, 422), (path, body)
