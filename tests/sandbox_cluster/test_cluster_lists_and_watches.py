"""Lists, their pages, and watches: one moment per list, and no change lost between a list and its watch."""

from __future__ import annotations

import pytest

from .town import PODS, Town, events, pod, seen

MAPS = "/api/v1/namespaces/default/configmaps"


def fill(town: Town, names: str, **labels: str) -> None:
    for name in names:
        town.post(MAPS, {"metadata": {"name": name, "labels": labels}})


def names(answer: dict[str, list[dict[str, dict[str, str]]]]) -> str:
    return "".join(each["metadata"]["name"] for each in answer["items"] if len(each["metadata"]["name"]) == 1)


def test_pages_follow_each_other_and_count_what_is_left(town: Town) -> None:
    fill(town, "abcd")
    first = town.get(f"{MAPS}?limit=2")
    assert names(first) == "ab"
    assert first["metadata"]["remainingItemCount"] == 3  # c, d and the root CA
    second = town.get(f"{MAPS}?limit=3&continue={first['metadata']['continue']}")
    assert names(second) == "cd"
    assert "continue" not in second["metadata"]


def test_all_pages_show_one_moment(town: Town) -> None:
    fill(town, "abcd")
    first = town.get(f"{MAPS}?limit=2")
    town.ask("DELETE", f"{MAPS}/c")
    town.patch(f"{MAPS}/d", {"data": {"changed": "yes"}})
    fill(town, "x")
    rest = town.get(f"{MAPS}?continue={first['metadata']['continue']}")
    assert names(rest) == "cd"
    assert all("data" not in each for each in rest["items"] if each["metadata"]["name"] == "d")
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_watch_from_a_list_misses_nothing(town: Town) -> None:
    fill(town, "ab")
    version = town.get(MAPS)["metadata"]["resourceVersion"]
    fill(town, "c")
    town.ask("DELETE", f"{MAPS}/a")
    stream = town.watch(f"{MAPS}?resourceVersion={version}")
    town.patch(f"{MAPS}/b", {"data": {"x": "y"}})
    assert seen(stream) == [("ADDED", "c"), ("DELETED", "a"), ("MODIFIED", "b")]


def test_an_expired_page_is_410_with_a_token_to_go_on(town: Town) -> None:
    fill(town, "abcd")
    first = town.get(f"{MAPS}?limit=2")
    fill(town, "x")
    town.ask("POST", "/_sandbox/compact")
    status = town.refused("GET", f"{MAPS}?continue={first['metadata']['continue']}")
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert "The provided continue parameter is too old" in status["message"]
    assert names(town.get(f"{MAPS}?continue={status['metadata']['continue']}")) == "cdx"


def test_a_watch_from_too_old_a_version_is_told_410_and_ends(town: Town) -> None:
    version = town.get(MAPS)["metadata"]["resourceVersion"]
    fill(town, "ab")
    town.ask("POST", "/_sandbox/compact")
    stream = town.watch(f"{MAPS}?resourceVersion={version}")
    (event,) = events(stream)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert stream.closed
    town.settings(gone_as_http=True)
    assert town.refused("GET", f"{MAPS}?watch=1&resourceVersion={version}")["code"] == 410


def test_the_history_is_bounded(town: Town) -> None:
    town.settings(history=10)
    version = town.get(MAPS)["metadata"]["resourceVersion"]
    for count in range(12):
        town.patch(f"{MAPS}/kube-root-ca.crt", {"data": {"n": str(count)}})
    assert events(town.watch(f"{MAPS}?resourceVersion={version}"))[0]["type"] == "ERROR"


def test_a_watch_without_a_version_begins_with_what_is_there(town: Town) -> None:
    fill(town, "ab")
    assert seen(town.watch(MAPS)) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "kube-root-ca.crt")]


def test_initial_events_end_with_a_bookmark_that_says_so(town: Town) -> None:
    fill(town, "a")
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    told = events(town.watch(f"{MAPS}?{query}"))
    assert [each["type"] for each in told] == ["ADDED", "ADDED", "BOOKMARK"]
    assert told[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert town.refused("GET", f"{MAPS}?watch=1&sendInitialEvents=true")["code"] == 422


def test_an_object_that_leaves_the_selection_is_deleted_to_the_watcher(town: Town) -> None:
    stream = town.watch(f"{MAPS}?labelSelector=on=yes&resourceVersion={town.world.store.version}")
    fill(town, "a", on="yes")
    town.patch(f"{MAPS}/a", {"metadata": {"labels": {"on": "no"}}})
    town.patch(f"{MAPS}/a", {"data": {"x": "y"}})
    town.patch(f"{MAPS}/a", {"metadata": {"labels": {"on": "yes"}}})
    told = events(stream)
    assert [each["type"] for each in told] == ["ADDED", "DELETED", "ADDED"]
    # The last selected state, but with the version of the change, so that a watch can go on from it.
    assert told[1]["object"]["metadata"]["labels"] == {"on": "yes"}
    assert told[1]["object"]["metadata"]["resourceVersion"] > told[0]["object"]["metadata"]["resourceVersion"]


def test_a_watch_of_a_node_s_pods_sees_them_arrive_and_leave(town: Town) -> None:
    town.add_node("n")
    stream = town.watch(
        f"/api/v1/pods?fieldSelector=spec.nodeName=n&resourceVersion={town.world.store.version}"
    )
    town.add_pod("p")
    town.run()
    assert seen(stream) == [("ADDED", "p")]
    town.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    assert seen(stream) == [("MODIFIED", "p"), ("DELETED", "p")]  # marked first, then gone


def test_watches_end_in_time_and_are_forgotten(town: Town) -> None:
    stream = town.watch(f"{MAPS}?timeoutSeconds=5&resourceVersion={town.world.store.version}")
    town.run(4.9)
    assert not stream.closed
    town.run(0.2)
    assert stream.closed
    fill(town, "a")
    assert seen(stream) == []
    left = town.watch(MAPS)
    followers = len(town.world.store.shelf(_maps(town)).followers)
    left.abandon()
    assert len(town.world.store.shelf(_maps(town)).followers) == followers - 1


def _maps(town: Town):  # type: ignore[no-untyped-def]
    return next(each for each in town.world.store.shelves if each.plural == "configmaps")


def test_bookmarks_come_when_nothing_else_does(town: Town) -> None:
    version = town.world.store.version
    stream = town.watch(f"{MAPS}?allowWatchBookmarks=true&resourceVersion={version}")
    town.run(61)
    told = events(stream)
    assert {each["type"] for each in told} == {"BOOKMARK"}
    assert int(told[-1]["object"]["metadata"]["resourceVersion"]) >= version


def test_all_watches_can_be_cut_at_once(town: Town) -> None:
    stream = town.watch(MAPS)
    assert town.post("/_sandbox/disconnect", {}) == {"ended": 1}
    assert stream.closed


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("app=web", "ab"),
        ("app==web,tier!=back", "a"),
        ("app in (web, db)", "abc"),
        ("app notin (web)", "cd"),
        ("tier", "bc"),
        ("!tier", "ad"),
        ("app,tier=back", "b"),
        ("", "abcd"),
    ],
)
def test_label_selectors(town: Town, selector: str, found: str) -> None:
    rows = {
        "a": {"app": "web"},
        "b": {"app": "web", "tier": "back"},
        "c": {"app": "db", "tier": "front"},
        "d": {},
    }
    for name, labels in rows.items():
        town.post(MAPS, {"metadata": {"name": name, "labels": labels}})
    assert names(town.get(f"{MAPS}?labelSelector={selector.replace(' ', '%20')}")) == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=a", "a"),
        ("spec.nodeName=n", "a"),
        ("spec.nodeName=", "b"),
        ("spec.nodeName!=n", "b"),
        ("status.phase=Pending", "b"),
        ("status.phase!=Succeeded,metadata.namespace=default", "ab"),
        ("metadata.namespace=other", ""),
    ],
)
def test_field_selectors_of_pods(town: Town, selector: str, found: str) -> None:
    town.add_node("n")
    town.post(PODS, pod("a"))
    town.post(PODS, pod("b", nodeSelector={"no": "where"}))
    town.run(5)
    assert names(town.get(f"{PODS}?fieldSelector={selector}")) == found


def test_an_unknown_field_is_refused(town: Town) -> None:
    status = town.refused("GET", f"{PODS}?fieldSelector=spec.magic=1")
    assert status["code"] == 400
    assert "field label not supported: spec.magic" in status["message"]
    assert town.refused("GET", f"{PODS}?labelSelector=a=b=c")["code"] == 400


def test_a_version_from_the_future_is_too_large(town: Town) -> None:
    status = town.refused("GET", f"{PODS}?resourceVersion=99999999&resourceVersionMatch=NotOlderThan")
    assert (status["code"], status["reason"]) == (504, "Timeout")
