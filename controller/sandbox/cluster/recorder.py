"""Events, as `kubectl describe` shows them: a repeated one counts up instead of being written again."""

from __future__ import annotations

from collections import OrderedDict

from controller.sandbox.cluster.resources import EVENTS, Obj, Resource
from controller.sandbox.cluster.shelf import Key
from controller.sandbox.cluster.stamps import stamp
from controller.sandbox.cluster.store import Store

REMEMBERED = 4000  # and kept: older ones are deleted, where the real API forgets them after an hour


class Recorder:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: OrderedDict[tuple[str, ...], Key] = OrderedDict()

    def forget(self, before: float) -> None:
        """Events that were told last before this time go, whoever wrote them: as with the real API, after an hour."""
        limit = stamp(before)
        for item in list(self.store.shelf(EVENTS).items.values()):
            event = item.decode()
            if (event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]) < limit:
                self.store.delete(EVENTS, item.key)
        there = self.store.shelf(EVENTS).items
        self._known = OrderedDict((seen, key) for seen, key in self._known.items() if key in there)

    def tell(
        self, resource: Resource, about: Obj, reason: str, message: str, source: str, *, warning: bool = False
    ) -> None:
        meta = about["metadata"]
        namespace = meta.get("namespace") or "default"
        seen = (meta["uid"], reason, message, source)
        now = self.store.now()
        if (key := self._known.get(seen)) is not None:

            def again(event: Obj) -> None:
                event["count"] = event.get("count", 1) + 1
                event["lastTimestamp"] = now

            if self.store.modify(EVENTS, key, again) is not None:
                return
        name = f"{meta['name'][:200]}.{self.store.rng.getrandbits(64):016x}"
        reference = {"kind": resource.kind, "apiVersion": resource.api_version, "name": meta["name"]}
        if meta.get("namespace"):
            reference["namespace"] = meta["namespace"]
        reference |= {"uid": meta["uid"], "resourceVersion": meta.get("resourceVersion", "")}
        self.store.create(
            EVENTS,
            {
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": reference,
                "reason": reason,
                "message": message,
                "source": {"component": source},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
                "type": "Warning" if warning else "Normal",
                "eventTime": None,
                "reportingComponent": source,
                "reportingInstance": "",
            },
        )
        self._known[seen] = (namespace, name)
        if len(self._known) > REMEMBERED:
            _, old = self._known.popitem(last=False)
            if self.store.item(EVENTS, *old):
                self.store.delete(EVENTS, old)
