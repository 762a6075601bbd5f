"""How things go away: grace, finalizers, what owners leave behind; and what updates make of what is gone."""

from __future__ import annotations

from typing import Any

import pytest

from .town import NODES, PODS, Town, events

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def a_map(name: str, **meta: Any) -> Any:
    return {"metadata": {"name": name, **meta}, "data": {"a": "1"}}


def owned(town: Town, name: str, owner: str) -> None:
    uid = town.get(f"{MAPS}/{owner}")["metadata"]["uid"]
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": True}
    town.post(MAPS, a_map(name, ownerReferences=[ref]))


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({}, 60),
        ({"gracePeriodSeconds": 90}, 90),
        ({"gracePeriodSeconds": -1}, 1),
        ({"gracePeriodSeconds": 5}, 5),
    ],
)
def test_a_bound_pod_is_given_its_grace(town: Town, asked: Any, left: int) -> None:
    town.add_pod("p", nodeName="nowhere", terminationGracePeriodSeconds=60)
    meta = town.ask("DELETE", f"{PODS}/p", asked).json()["metadata"]
    assert (meta["deletionGracePeriodSeconds"], meta["generation"]) == (left, 2)


def test_a_grace_is_shortened_and_never_prolonged(town: Town) -> None:
    town.add_pod("p", nodeName="nowhere", terminationGracePeriodSeconds=60)
    for asked, left in ((None, 60), (90, 60), (20, 20), (40, 20)):
        body = {} if asked is None else {"gracePeriodSeconds": asked}
        assert town.ask("DELETE", f"{PODS}/p", body).json()["metadata"]["deletionGracePeriodSeconds"] == left
    town.run(30)
    # A grace that is over cannot be shortened into the past.
    meta = town.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 5}).json()["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 1


def test_a_pod_that_nobody_runs_goes_at_once_and_is_seen_marked_before(town: Town) -> None:
    stream = town.watch(f"{PODS}?resourceVersion={town.world.store.version}")
    town.add_pod("p", schedulerName="nobody")
    gone = town.ask("DELETE", f"{PODS}/p").json()
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    told = events(stream)
    assert [each["type"] for each in told] == ["ADDED", "MODIFIED", "DELETED"]
    assert all(each["object"]["metadata"]["deletionTimestamp"] for each in told[1:])


def test_taking_the_last_finalizer_off_shows_watchers_the_state_before(town: Town) -> None:
    town.post(MAPS, a_map("m", finalizers=["example.com/a"]))
    town.ask("DELETE", f"{MAPS}/m")
    stream = town.watch(f"{MAPS}?resourceVersion={town.world.store.version}")
    answer = town.patch(f"{MAPS}/m", {"metadata": {"finalizers": None}, "data": {"last": "word"}}).json()
    (told,) = events(stream)
    assert told["type"] == "DELETED"
    assert told["object"]["metadata"]["finalizers"] == ["example.com/a"]
    assert "last" not in told["object"]["data"]
    assert answer["data"] == {"a": "1", "last": "word"}
    assert "finalizers" not in answer["metadata"]


def test_nobody_adds_finalizers_to_what_is_being_deleted(town: Town) -> None:
    town.post(MAPS, a_map("m", finalizers=["example.com/a"]))
    town.ask("DELETE", f"{MAPS}/m")
    added = {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}
    assert (
        'found new finalizers []string{"example.com/b"}' in town.patch(f"{MAPS}/m", added).json()["message"]
    )
    again = town.refused("POST", MAPS, a_map("m"))
    assert again["message"] == 'object is being deleted: configmaps "m" already exists'


@pytest.mark.parametrize(
    ("policy", "finalizer", "stays"),
    [("Background", None, False), ("Orphan", "orphan", True), ("Foreground", "foregroundDeletion", False)],
)
def test_what_is_owned_follows_or_stays_as_the_policy_says(
    town: Town, policy: str, finalizer: str | None, stays: bool
) -> None:
    town.post(MAPS, a_map("owner"))
    owned(town, "owned", "owner")
    answer = town.ask("DELETE", f"{MAPS}/owner", {"propagationPolicy": policy}).json()
    if finalizer:
        assert answer["metadata"]["finalizers"] == [finalizer]
    town.run()
    town.refused("GET", f"{MAPS}/owner")
    if stays:
        assert "ownerReferences" not in town.get(f"{MAPS}/owned")["metadata"]
    else:
        town.refused("GET", f"{MAPS}/owned")


def test_a_foreground_delete_waits_for_what_blocks_it(town: Town) -> None:
    town.post(MAPS, a_map("owner"))
    owned(town, "owned", "owner")
    town.patch(f"{MAPS}/owned", {"metadata": {"finalizers": ["example.com/a"]}})
    town.ask("DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    town.run(10)
    assert town.get(f"{MAPS}/owner")["metadata"]["deletionTimestamp"]
    assert town.get(f"{MAPS}/owned")["metadata"]["deletionTimestamp"]
    town.patch(f"{MAPS}/owned", {"metadata": {"finalizers": None}})
    town.run()
    town.refused("GET", f"{MAPS}/owner")


def test_a_second_owner_keeps_an_object_alive(town: Town) -> None:
    for name in ("one", "two"):
        town.post(MAPS, a_map(name))
    owned(town, "owned", "one")
    uid = town.get(f"{MAPS}/two")["metadata"]["uid"]
    second = {"apiVersion": "v1", "kind": "ConfigMap", "name": "two", "uid": uid}
    refs = town.get(f"{MAPS}/owned")["metadata"]["ownerReferences"]
    town.patch(f"{MAPS}/owned", {"metadata": {"ownerReferences": [*refs, second]}})
    town.ask("DELETE", f"{MAPS}/one")
    town.run()
    assert [ref["name"] for ref in town.get(f"{MAPS}/owned")["metadata"]["ownerReferences"]] == ["two"]
    town.ask("DELETE", f"{MAPS}/two")
    town.run()
    town.refused("GET", f"{MAPS}/owned")


def test_a_claim_stays_while_a_pod_uses_it(town: Town) -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    town.post(claims, {"metadata": {"name": "c"}, "spec": spec})
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    town.add_pod("p", nodeName="nowhere", volumes=[volume])
    town.ask("DELETE", f"{claims}/c")
    town.run(1)
    assert town.get(f"{claims}/c")["metadata"]["deletionTimestamp"]
    town.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    town.run(1)
    town.refused("GET", f"{claims}/c")


def test_what_goes_at_once_is_shown_by_some_kinds_and_confirmed_by_others(town: Town) -> None:
    town.post(MAPS, a_map("m"))
    assert town.ask("DELETE", f"{MAPS}/m").json()["status"] == "Success"
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    town.post(accounts, {"metadata": {"name": "a"}})
    assert town.ask("DELETE", f"{accounts}/a").json()["kind"] == "ServiceAccount"


def test_a_lease_is_never_replaced_blindly_and_is_made_by_an_update(town: Town) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    made = town.ask("PUT", f"{LEASES}/l", body)
    assert made.status == 201
    blind = town.refused("PUT", f"{LEASES}/l", body)
    assert (blind["code"], blind["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    mine = made.json() | {"spec": {"holderIdentity": "b"}}
    assert town.ask("PUT", f"{LEASES}/l", mine).status == 200
    assert town.refused("PUT", f"{LEASES}/l", mine)["code"] == 409
    # One that was deleted meanwhile comes back: its old version stops nobody.
    town.ask("DELETE", f"{LEASES}/l")
    again = town.ask("PUT", f"{LEASES}/l", {**body, "metadata": {"name": "l", "resourceVersion": "5"}})
    assert again.status == 201
    town.ask("DELETE", f"{LEASES}/l")
    assert town.refused("PUT", f"{LEASES}/l", again.json())["code"] == 409  # but its identity does


@pytest.mark.parametrize(("version", "code"), [("0", 200), ("text", 500), ("1", 409)])
def test_a_version_of_zero_is_none_and_others_are_compared(town: Town, version: str, code: int) -> None:
    town.post(MAPS, a_map("m"))
    assert town.ask("PUT", f"{MAPS}/m", a_map("m", resourceVersion=version)).status == code


def test_an_object_with_a_version_is_not_new(town: Town) -> None:
    assert town.refused("POST", MAPS, a_map("m", resourceVersion="5"))["code"] == 500


def test_identity_and_times_are_not_the_client_s_to_choose(town: Town) -> None:
    made = town.post(NODES, {"metadata": {"name": "n", "uid": "mine", "generation": 7}})
    assert made["metadata"]["uid"] != "mine"
    assert "generation" not in made["metadata"]
    wrong = {"metadata": {"name": "n", "uid": "other"}}
    assert (
        "Precondition failed: UID in precondition: other"
        in town.refused("PUT", f"{NODES}/n", wrong)["message"]
    )
    early = {"metadata": {"name": "n", "deletionTimestamp": "2020-01-01T00:00:00Z"}}
    assert (
        town.refused("PUT", f"{NODES}/n", early)["details"]["causes"][0]["field"]
        == "metadata.deletionTimestamp"
    )


def test_a_namespace_is_emptied_before_it_goes(town: Town) -> None:
    path = "/api/v1/namespaces/a"
    town.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    town.run()
    town.post(f"{path}/configmaps", a_map("held", finalizers=["example.com/a"]))
    assert town.ask("DELETE", path).json()["status"]["phase"] == "Terminating"
    late = town.refused("POST", f"{path}/configmaps", a_map("late"))
    assert (late["code"], late["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    town.run(2)
    assert town.get(path)["status"]["phase"] == "Terminating"
    town.patch(f"{path}/configmaps/held", {"metadata": {"finalizers": None}})
    town.run(2)
    town.refused("GET", path)


def test_an_eviction_names_its_pod_and_may_be_a_trial(town: Town) -> None:
    town.add_pod("p", nodeName="nowhere")
    door = f"{PODS}/p/eviction"
    assert town.refused("POST", door, {"metadata": {"name": "other"}})["code"] == 400
    for trial in ({"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}},):
        assert town.ask("POST", door, trial).json()["code"] == 201
    assert town.ask("POST", f"{door}?dryRun=All", {"metadata": {"name": "p"}}).status == 201
    assert "deletionTimestamp" not in town.pod("p")["metadata"]
    wrong = {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": "other"}}}
    assert town.refused("POST", door, wrong)["code"] == 409
    assert town.ask("POST", door, {"metadata": {"name": "p"}}).status == 201
    assert town.pod("p")["metadata"]["deletionTimestamp"]
