"""The careful writes."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Mapping
from typing import Any

import pytest

from controller.cluster.decode import Decoder
from controller.cluster.protocol import ClusterError, Subject
from controller.cluster.writer import ClusterWriter
from controller.domain.kube import Taint
from controller.domain.outcome import Happened, Refused, Unknown
from controller.domain.reason import Reason
from tests.cluster.scripted import Asked, Clock, Scripted, failure, listed, pod

OURS = Taint("gpu-autoscaler/idle", "", "PreferNoSchedule")
DRAIN = Taint("gpu-autoscaler/draining", "", "NoSchedule")
THEIRS = {"key": "theirs", "value": "x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def writer(*answers: Any) -> tuple[ClusterWriter, Scripted, Clock]:
    transport, clock = Scripted(answers), Clock()
    made = ClusterWriter(transport, namespace="gpu", sleep=clock.sleep, rng=random.Random(1), wall=clock.wall)
    return made, transport, clock


def a_node(*taints: Mapping[str, Any], version: str = "7") -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "resourceVersion": version},
        "spec": {"taints": list(taints)} if taints else {},
    }


def a_pod() -> Any:
    return Decoder().pod(pod("p"))


# ---- taints


async def test_a_taint_names_the_version_it_was_decided_on_and_keeps_everybody_elses() -> None:
    made, transport, _ = writer(a_node(THEIRS), {})
    await made.taint("n", add=(OURS,))
    patch = transport.asked[1]
    assert (patch.method, patch.content_type) == ("PATCH", "application/merge-patch+json")
    assert patch.body["metadata"] == {"resourceVersion": "7"}
    assert patch.body["spec"]["taints"] == [
        THEIRS,
        {"key": "gpu-autoscaler/idle", "effect": "PreferNoSchedule"},
    ]


async def test_a_conflict_is_decided_anew_on_what_is_there_then() -> None:
    other = {"key": "other", "effect": "NoSchedule"}
    made, transport, clock = writer(a_node(THEIRS), failure(409), a_node(THEIRS, other, version="8"), {})
    await made.taint("n", add=(OURS,), remove=(DRAIN,))
    last = transport.asked[-1].body
    assert last["metadata"]["resourceVersion"] == "8"
    assert [taint["key"] for taint in last["spec"]["taints"]] == ["theirs", "other", "gpu-autoscaler/idle"]
    assert len(clock.slept) == 1


@pytest.mark.parametrize(
    ("there", "add", "remove"),
    [
        ([THEIRS], (), (OURS,)),
        ([THEIRS, {"key": OURS.key, "effect": OURS.effect}], (OURS,), ()),
        ([{"key": OURS.key, "effect": OURS.effect, "value": ""}], (OURS,), (DRAIN,)),
        ([], (), ()),
    ],
)
async def test_nothing_is_written_where_nothing_changes(
    there: list[Any], add: tuple[Taint, ...], remove: tuple[Taint, ...]
) -> None:
    made, transport, _ = writer(a_node(*there))
    await made.taint("n", add, remove)
    assert [asked.method for asked in transport.asked] == ["GET"]


async def test_the_last_taint_is_removed_as_null() -> None:
    made, transport, _ = writer(a_node({"key": OURS.key, "effect": OURS.effect}), {})
    await made.taint("n", remove=(OURS,))
    assert transport.asked[1].body["spec"] == {"taints": None}


async def test_a_taint_of_the_same_key_and_another_effect_is_somebody_elses() -> None:
    hard = {"key": OURS.key, "effect": "NoExecute"}
    made, transport, _ = writer(a_node(hard, {"key": OURS.key, "effect": OURS.effect}), {})
    await made.taint("n", remove=(OURS,))
    assert transport.asked[1].body["spec"]["taints"] == [hard]


async def test_a_node_that_changes_all_the_time_is_a_conflict_in_the_end() -> None:
    answers = [each for _ in range(6) for each in (a_node(), failure(409))]
    made, _, _ = writer(*answers)
    with pytest.raises(ClusterError) as caught:
        await made.taint("n", add=(OURS,))
    assert caught.value.kind == "conflict"


async def test_annotations_and_labels_are_merge_patches() -> None:
    made, transport, _ = writer({}, {})
    await made.annotate("n", {"a": "1", "b": None})
    await made.label("n", {"l": "2"})
    await made.label("n", {})
    assert [asked.body for asked in transport.asked] == [
        {"metadata": {"annotations": {"a": "1", "b": None}}},
        {"metadata": {"labels": {"l": "2"}}},
    ]


async def test_a_provider_id_is_written_to_a_node_that_has_none_and_never_changed() -> None:
    made, transport, _ = writer({}, failure(422, "spec.providerID: Forbidden"))
    await made.identify("n", "verda://n", {"l": "1"})
    (asked,) = transport.asked
    assert (asked.method, asked.path) == ("PATCH", "/api/v1/nodes/n")
    assert asked.body == {"spec": {"providerID": "verda://n"}, "metadata": {"labels": {"l": "1"}}}
    with pytest.raises(ClusterError):
        await made.identify("n", "verda://other", {})


# ---- evictions

BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
CAUSE = {
    "causes": [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
        }
    ]
}
MANY = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


async def test_an_eviction_names_the_uid() -> None:
    made, transport, _ = writer({})
    assert await made.evict(a_pod()) == Happened("uid-p")
    asked = transport.asked[0]
    assert asked.path == "/api/v1/namespaces/team/pods/p/eviction"
    assert asked.body["apiVersion"] == "policy/v1"
    assert asked.body["deleteOptions"] == {"preconditions": {"uid": "uid-p"}}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([failure(404)], Happened("uid-p")),
        ([failure(409), failure(404)], Happened("uid-p")),
        ([failure(409), {"metadata": {"uid": "another"}}], Happened("uid-p")),
        ([failure(409), {"metadata": {"uid": "uid-p"}}, {}], Happened("uid-p")),
        (
            [failure(429, BUDGET, details=CAUSE | {"retryAfterSeconds": 10})],
            Refused(Reason.PDB, f"{BUDGET}; {CAUSE['causes'][0]['message']}", 10.0),
        ),
        ([failure(500, MANY)], Refused(Reason.PDB, MANY)),
        ([failure(429, "too many requests")], Refused(Reason.RATE_LIMITED, "too many requests")),
    ],
)
async def test_evictions_end_in_one_of_the_outcomes(answers: list[Any], expected: Any) -> None:
    made, _, _ = writer(*answers)
    assert await made.evict(a_pod()) == expected


async def test_an_eviction_without_an_answer_is_unknown_and_one_without_rights_an_error() -> None:
    made, _, _ = writer(ClusterError("unreachable", "nobody"), failure(403))
    assert await made.evict(a_pod()) == Unknown("nobody")
    with pytest.raises(ClusterError):
        await made.evict(a_pod())


# ---- deleting and listing


async def test_deleting_a_node_names_its_uid_and_another_of_that_name_is_left_alone() -> None:
    for answer in ({}, failure(404), failure(409)):
        made, transport, _ = writer(answer)
        await made.delete_node("n", "u")
        assert transport.asked[0].body["preconditions"] == {"uid": "u"}
    made, _, _ = writer(failure(403))
    with pytest.raises(ClusterError):
        await made.delete_node("n", "u")


async def test_the_consistent_list_asks_for_no_version_and_reads_all_pages() -> None:
    made, transport, _ = writer(listed(pod("a"), token="t"), listed(pod("b", phase="Succeeded")))
    assert [found.name for found in await made.list_pods_on("n")] == ["a", "b"]
    assert transport.asked[0].query == {"fieldSelector": "spec.nodeName=n", "limit": "250"}
    assert transport.asked[1].query["continue"] == "t"


async def test_an_expired_page_of_the_consistent_list_begins_again() -> None:
    made, _, _ = writer(listed(pod("a"), token="t"), failure(410), listed(pod("b")))
    assert [found.name for found in await made.list_pods_on("n")] == ["b"]


async def test_a_pod_that_cannot_be_read_never_makes_a_node_look_empty() -> None:
    broken = pod("x")
    broken["spec"]["priority"] = "high"
    for answer in (listed(broken), b"<html>"):
        made, _, _ = writer(answer)
        with pytest.raises(ClusterError):
            await made.list_pods_on("n")


async def test_a_node_that_is_gone_is_none_and_other_trouble_is_not() -> None:
    made, _, _ = writer(failure(404), failure(503))
    assert await made.get_node("n") is None
    with pytest.raises(ClusterError):
        await made.get_node("n")


# ---- ConfigMaps and Secrets


def a_map(version: str, data: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "m", "resourceVersion": version, "uid": "u"} | meta, "data": data or {}}


async def test_a_config_map_is_replaced_at_exactly_the_version_that_was_read() -> None:
    made, transport, _ = writer(
        a_map("5", {"k": "old"}, annotations={"gpu-autoscaler/pause": "all"}, labels={"l": "m"}),
        a_map("6"),
        a_map("7"),
    )
    stored = await made.read_config_map("m")
    assert stored is not None
    assert (stored.version, stored.data, stored.annotations) == (
        "5",
        {"k": "old"},
        {"gpu-autoscaler/pause": "all"},
    )
    assert await made.write_config_map("m", {"k": "new"}, "5") == "6"
    put = transport.asked[1]
    assert put.method == "PUT"
    assert put.body["metadata"] == {
        "name": "m", "namespace": "gpu", "resourceVersion": "5",
        "annotations": {"gpu-autoscaler/pause": "all"}, "labels": {"l": "m"},
    }  # fmt: skip
    assert put.body["data"] == {"k": "new"}
    assert await made.write_config_map("m", {}, "6") == "7"
    assert [asked.method for asked in transport.asked] == ["GET", "PUT", "PUT"], (
        "no read before the second write"
    )


@pytest.mark.parametrize(
    "answers", [[a_map("9")], [a_map("5"), failure(409)], [a_map("5"), failure(404)], [failure(404)]]
)
async def test_a_config_map_that_has_changed_is_a_conflict(answers: list[Any]) -> None:
    made, _, _ = writer(*answers)
    with pytest.raises(ClusterError) as caught:
        await made.write_config_map("m", {"k": "v"}, "5")
    assert caught.value.kind == "conflict"


async def test_a_new_config_map_is_created_and_an_existing_one_is_a_conflict() -> None:
    made, transport, _ = writer(failure(404), a_map("1"), failure(409, reason="AlreadyExists"))
    assert await made.read_config_map("m") is None
    assert await made.write_config_map("m", {"k": "v"}, None) == "1"
    assert transport.asked[1].path == "/api/v1/namespaces/gpu/configmaps"
    with pytest.raises(ClusterError) as caught:
        await made.write_config_map("m", {"k": "v"}, None)
    assert caught.value.kind == "conflict"


async def test_a_secret_is_read_and_never_told() -> None:
    token = "very-secret"
    secret = {"metadata": {}, "data": {"token": base64.b64encode(token.encode()).decode(), "odd": "!!"}}
    made, _, _ = writer(secret, secret, secret, failure(404))
    assert await made.read_secret("s", "token") == token
    for key in ("missing", "odd", "token"):
        with pytest.raises(ClusterError) as caught:
            await made.read_secret("s", key)
        assert "gpu/s" in caught.value.message
        assert token not in caught.value.message


async def test_a_secret_is_known_by_its_version_and_one_that_is_not_there_by_none() -> None:
    made, transport, _ = writer({"metadata": {"resourceVersion": "17"}, "data": {"token": "x"}}, failure(404))
    assert [await made.secret_version("s") for _ in range(2)] == ["17", ""]
    assert transport.asked[0].path == "/api/v1/namespaces/gpu/secrets/s"


async def test_the_deployments_annotations_are_read_where_there_is_one() -> None:
    made, transport, _ = writer({"metadata": {"annotations": {"a": "b"}}}, {"metadata": {}}, failure(404))
    assert [await made.deployment_annotations("d") for _ in range(3)] == [{"a": "b"}, {}, {}]
    assert transport.asked[0].path == "/apis/apps/v1/namespaces/gpu/deployments/d"


async def test_the_identity_of_the_cluster_is_kube_systems() -> None:
    made, _, _ = writer({"metadata": {"name": "kube-system", "uid": "abc"}})
    assert await made.kube_system_uid() == "abc"


# ---- events

POD = Subject(kind="Pod", name="p", namespace="team", uid="u")


async def test_the_same_words_within_an_hour_raise_a_count() -> None:
    made, transport, clock = writer({}, {}, {}, {}, {})
    for _ in range(3):
        await made.event(POD, type="Normal", reason="Launching", message="one 8-GPU machine")
        clock.pass_(60)
    await made.event(POD, type="Normal", reason="Launching", message="other words")
    clock.pass_(3600)
    await made.event(POD, type="Normal", reason="Launching", message="one 8-GPU machine")
    assert [asked.method for asked in transport.asked] == ["POST", "PATCH", "PATCH", "POST", "POST"]
    first, second, third = transport.asked[:3]
    assert first.path == "/api/v1/namespaces/team/events"
    assert first.body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": "team",
        "uid": "u",
    }
    assert first.body["source"] == {"component": "gpu-autoscaler"}
    assert first.body["reportingComponent"] == "gpu-autoscaler"
    assert first.body["metadata"]["name"].startswith("p.")
    assert second.path == f"{first.path}/{first.body['metadata']['name']}"
    assert [second.body["count"], third.body["count"]] == [2, 3]
    names = {asked.body["metadata"]["name"] for asked in transport.of("POST")}
    assert len(names) == 3


async def test_events_of_nodes_are_in_the_default_namespace() -> None:
    made, transport, _ = writer({})
    await made.event(Subject(kind="Node", name="n"), type="Warning", reason="R", message="m")
    assert transport.asked[0].path == "/api/v1/namespaces/default/events"
    assert "namespace" not in transport.asked[0].body["involvedObject"]


async def test_an_event_that_is_gone_is_told_anew() -> None:
    made, transport, _ = writer({}, failure(404), {}, {})
    for _ in range(3):
        await made.event(POD, type="Normal", reason="R", message="m")
    assert [asked.method for asked in transport.asked] == ["POST", "PATCH", "POST", "PATCH"]


@pytest.mark.parametrize(
    "answer", [failure(403), failure(404), ClusterError("unreachable", "x"), ValueError("bug")]
)
async def test_an_event_never_raises(answer: Exception) -> None:
    made, _, _ = writer(answer)
    await made.event(POD, type="Normal", reason="R", message="m")


async def test_messages_are_cut_to_what_the_server_takes() -> None:
    made, transport, _ = writer({}, {})
    await made.event(POD, type="Normal", reason="R", message="é" * 2000)
    await made.event(
        Subject(kind="Pod", name="x" * 253, namespace="n"), type="Normal", reason="R", message="m"
    )
    assert len(transport.asked[0].body["message"].encode()) <= 1024
    assert transport.asked[0].body["message"].endswith("…")
    assert len(transport.asked[1].body["metadata"]["name"]) <= 253


async def test_a_flood_of_events_leaves_the_server_time_for_what_matters() -> None:
    made, transport, _ = writer()  # nothing is ever answered
    flood = [
        asyncio.create_task(made.event(POD, type="Normal", reason="R", message=str(number)))
        for number in range(1000)
    ]
    await asyncio.sleep(0.01)
    assert 1 <= len(transport.asked) <= 8
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_of_more_events_than_can_be_told_the_oldest_are_dropped_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made, transport, _ = writer()
    answers = asyncio.Event()

    async def told(number: int) -> None:
        await made.event(POD, type="Normal", reason="R", message=str(number))

    async def late(*_: Any, **__: Any) -> bytes:
        await answers.wait()
        return b"{}"

    sent: list[str] = []
    transport.request, ask = late, transport.request  # type: ignore[method-assign]
    first = [asyncio.create_task(told(number)) for number in range(8)]
    flood = [asyncio.create_task(told(number)) for number in range(8, 13_008)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    done = [number for number, task in enumerate(flood, 8) if task.done()]
    assert done == list(range(8, 1008))  # the oldest that wait; what is on the wire goes on
    flood[-1].cancel()
    await asyncio.sleep(0)

    async def quick(_: str, __: str, *, body: Any, **___: Any) -> bytes:
        sent.append(body["message"])
        return b"{}"

    transport.request = quick  # type: ignore[method-assign]
    answers.set()
    await asyncio.gather(*first, *flood, return_exceptions=True)
    assert sent == [str(number) for number in range(1008, 13_007)]
    dropped = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert len(dropped) == 1
    transport.request = ask  # type: ignore[method-assign]
    transport.route = lambda asked: {}
    await told(0)
    assert len(transport.asked) == 1  # every place was given back


async def test_the_memory_of_events_is_bounded() -> None:
    made, transport, clock = writer()
    transport.route = lambda asked: {}
    for i in range(4500):
        await made.event(POD, type="Normal", reason="R", message=str(i))
    assert len(made._events._told) <= 4000
    assert all(isinstance(asked, Asked) for asked in transport.asked)
    clock.pass_(1)


async def test_events_that_are_too_old_to_be_counted_on_are_forgotten() -> None:
    made, transport, clock = writer()
    transport.route = lambda asked: {}
    for message in ("first", "second", "first"):
        await made.event(POD, type="Normal", reason="R", message=message)
        clock.pass_(2000)
    assert [message for _, _, message in made._events._told] == ["second", "first"]
    clock.pass_(3600)
    await made.event(POD, type="Normal", reason="R", message="third")
    assert [message for _, _, message in made._events._told] == ["third"]
