"""The fifteen calls. Reads are answered from memory; writes record, and wait for the cloud only to delete.

A caller may hang up: an increase that is not stored by then never happened, a delete goes on. What is asked
twice is answered twice. Nothing here raises but `Refusal`; a fault of ours is one more refused call, and the
reads of others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import grpc

from compat_grpc import options, prices
from compat_grpc.desk import Desk
from compat_grpc.groups import Group
from compat_grpc.repeated import repeated
from compat_grpc.roster import TEMPLATE, Entry, Roster
from compat_grpc.statuses import Refusal, refused
from compat_grpc.wire import externalgrpc_pb2 as wire
from controller.domain import names
from controller.domain.machine import Machine
from controller.domain.plan import Explanation
from controller.domain.reason import Reason

log = logging.getLogger("gpu_autoscaler.grpc")

PATIENCE = 4.5  # seconds; a client gives up after five unless it is told otherwise
_MARGIN = 0.3
_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_NOT_SWITCHED = Explanation(Reason.UNAVAILABLE, "the machine is not served any more")
_T = TypeVar("_T")
Left = Callable[[], float | None]  # seconds until the caller gives up; None: it never does


class Servicer:
    def __init__(self, desk: Desk, *, gives_options: bool = False, remembers: bool = False) -> None:
        """`remembers`: what an earlier life of the caller asked for is not asked for again."""
        self._desk = desk
        self._remembers = remembers
        self._gives_options = gives_options
        self._closing: set[asyncio.Future[list[None]]] = set()

    def _roster(self) -> Roster:
        why = self._desk.not_serving()
        if why:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, why)
        return self._desk.roster()

    def _group(self, roster: Roster, group_id: str) -> Group:
        group = roster.groups.get(group_id)
        if group is None:
            raise Refusal(grpc.StatusCode.NOT_FOUND, f"no node group is named {group_id!r}")
        return group

    # -- the provider ---------------------------------------------------------------------------

    async def Refresh(self, request: wire.RefreshRequest, left: Left) -> wire.RefreshResponse:
        self._roster()
        return wire.RefreshResponse()

    async def Cleanup(self, request: wire.CleanupRequest, left: Left) -> wire.CleanupResponse:
        """It says that a client ends, and nothing of ours ends with it."""
        log.info("cluster-autoscaler ends or hands over; machines and their follow-up go on")
        return wire.CleanupResponse()

    async def NodeGroups(self, request: wire.NodeGroupsRequest, left: Left) -> wire.NodeGroupsResponse:
        return self._roster().shown

    async def NodeGroupForNode(
        self, request: wire.NodeGroupForNodeRequest, left: Left
    ) -> wire.NodeGroupForNodeResponse:
        """Never an error for a node that is not ours: that would end the whole loop of the caller."""
        roster, provider_id = self._roster(), request.node.providerID
        entry = roster.find(provider_id) if provider_id else roster.nameless(request.node.name)
        if entry is not None:
            return wire.NodeGroupForNodeResponse(nodeGroup=roster.group_message(entry.group))
        if provider_id.startswith(TEMPLATE) and provider_id[len(TEMPLATE) :] in roster.groups:
            found = roster.group_message(provider_id[len(TEMPLATE) :])
            return wire.NodeGroupForNodeResponse(nodeGroup=found)
        return wire.NodeGroupForNodeResponse()

    async def GPULabel(self, request: wire.GPULabelRequest, left: Left) -> wire.GPULabelResponse:
        """Asked once in the life of a process, so it tells that one has begun: to whoever leads, or nobody."""
        if elsewhere := self._desk.led_elsewhere():
            raise Refusal(grpc.StatusCode.UNAVAILABLE, elsewhere)
        self._desk.caller_begins()
        return wire.GPULabelResponse(label=names.LABEL_GPU)

    async def GetAvailableGPUTypes(
        self, request: wire.GetAvailableGPUTypesRequest, left: Left
    ) -> wire.GetAvailableGPUTypesResponse:
        answer = wire.GetAvailableGPUTypesResponse()
        for group in self._roster().groups.values():
            if found := self._desk.gpu_type(group):
                answer.gpuTypes[found].SetInParent()
        return answer

    # -- sizes ----------------------------------------------------------------------------------

    async def NodeGroupTargetSize(
        self, request: wire.NodeGroupTargetSizeRequest, left: Left
    ) -> wire.NodeGroupTargetSizeResponse:
        roster = self._roster()
        return wire.NodeGroupTargetSizeResponse(targetSize=roster.target(self._group(roster, request.id).id))

    async def NodeGroupNodes(
        self, request: wire.NodeGroupNodesRequest, left: Left
    ) -> wire.NodeGroupNodesResponse:
        roster = self._roster()
        return roster.listed(self._group(roster, request.id).id)

    async def NodeGroupIncreaseSize(
        self, request: wire.NodeGroupIncreaseSizeRequest, left: Left
    ) -> wire.NodeGroupIncreaseSizeResponse:
        roster = self._roster()
        group = self._group(roster, request.id)
        if request.delta <= 0:
            raise Refusal(_INVALID, f"delta is {request.delta}; expected more than 0")
        target = roster.target(group.id)
        most = roster.group_message(group.id).maxSize if group.configured else 0
        if target + request.delta > most:
            words = (
                f"group {group.id} has {target} of at most {most} machines, {request.delta} more are too many"
            )
            code = grpc.StatusCode.OUT_OF_RANGE if group.configured else grpc.StatusCode.FAILED_PRECONDITION
            raise Refusal(code, words)
        if (refusal := self._refusal(roster, group, request.delta)) is not None:
            raise refusal
        made = await self._within(left, self._more(group, request.delta))
        if isinstance(made, Explanation):
            log.warning(
                "increase refused", extra={"group": group.id, "reason": made.code, "words": made.message}
            )
            raise refused(made)
        log.info(
            "increase accepted",
            extra={"group": group.id, "delta": request.delta, "machines": ",".join(made)},
        )
        return wire.NodeGroupIncreaseSizeResponse()

    async def _more(self, group: Group, count: int) -> list[str] | Explanation:
        """Names of the machines."""
        if group.switched:
            lever = self._desk.wheel.lever
            why = await lever.on(group.id) if lever is not None else _NOT_SWITCHED
            return [group.id] if why is None else why
        made = await self._desk.wheel.more(group.place, count, "cluster-autoscaler asked for it")
        return made if isinstance(made, Explanation) else [machine.name for machine in made]

    def _refusal(self, roster: Roster, group: Group, count: int) -> Refusal | None:
        """Why it does not grow now, where limits and stock would let it."""
        if group.switched and (why := self._desk.still_there(group.id)):
            return refused(Explanation(Reason.SWITCHING_OFF, why))
        if not self._remembers:
            return None
        why = repeated(roster, group, count, self._desk.caller_began, self._desk.lacking)
        return Refusal(grpc.StatusCode.FAILED_PRECONDITION, why) if why else None

    async def NodeGroupDecreaseTargetSize(
        self, request: wire.NodeGroupDecreaseTargetSizeRequest, left: Left
    ) -> wire.NodeGroupDecreaseTargetSizeResponse:
        """Never below what exists, and never an error for that: it would be asked again for ever."""
        roster = self._roster()
        group = self._group(roster, request.id)
        if request.delta >= 0:
            raise Refusal(_INVALID, f"delta is {request.delta}; expected less than 0")
        too_many, desk = -request.delta, self._desk
        entries = [entry for entry in roster.entries(group.id) if entry.counts]
        for entry in [e for e in entries if e.failure is not None][:too_many]:
            too_many -= desk.failures.collect(entry.name)
        waiting = [e.machine for e in entries if e.machine is not None and desk.wheel.waits(e.machine)]
        gone = desk.wheel.withdraw(list(reversed(waiting))[:too_many] if too_many > 0 else [])
        if group.switched and too_many > 0 and desk.wheel.lever is not None:
            with contextlib.suppress(Refusal):
                await self._within(left, desk.wheel.lever.never_mind(group.id))
        log.info(
            "decrease",
            extra={"group": group.id, "delta": request.delta, "withdrawn": ",".join(m.name for m in gone)},
        )
        return wire.NodeGroupDecreaseTargetSizeResponse()

    async def NodeGroupDeleteNodes(
        self, request: wire.NodeGroupDeleteNodesRequest, left: Left
    ) -> wire.NodeGroupDeleteNodesResponse:
        """All of them are ours, or none is touched. An error means that at least one really remains."""
        roster = self._roster()
        group = self._group(roster, request.id)
        found = [self._ours(roster, group, node) for node in request.nodes]
        entries = {entry.name: entry for entry in found if entry is not None}
        try:
            whys = await self._within(left, self._away(entries.values(), left))
        except (Refusal, asyncio.CancelledError) as end:
            machines = [entry.machine for entry in entries.values() if entry.machine is not None]
            closing = self._given_up(machines)
            if isinstance(end, Refusal):  # else nobody is there any more
                await asyncio.wait([closing], timeout=_MARGIN / 2)
            raise
        if whys:
            raise refused(whys[0])
        return wire.NodeGroupDeleteNodesResponse()

    def _ours(self, roster: Roster, group: Group, node: wire.ExternalGrpcNode) -> Entry | None:
        """None: it was ours and is gone."""
        entry = roster.find(node.providerID) if node.providerID else roster.named(node.name)
        if entry is not None:
            if entry.group != group.id:
                raise Refusal(_INVALID, f"{entry.name} is in group {entry.group}, not in {group.id}")
            return entry
        key = names.resolve(node.providerID) if node.providerID else node.name
        was = self._desk.group_that_was(key) if key else None
        if was is None:
            raise Refusal(
                grpc.StatusCode.NOT_FOUND,
                f"node {node.name} ({node.providerID}) is no machine of these groups",
            )
        if was != group.id and was != f"{group.pool}.":
            raise Refusal(_INVALID, f"{key} was in group {was.rstrip('.')}, not in {group.id}")
        return None

    async def _away(self, entries: Iterable[Entry], left: Left) -> Sequence[Explanation]:
        answers = await asyncio.gather(*(self._one_away(entry, left) for entry in entries))
        return [why for why in answers if why is not None]

    def _given_up(self, machines: Iterable[Machine]) -> asyncio.Future[list[None]]:
        """The caller lets pods in again at once; a moment of what is left of its patience goes to that."""
        closing = asyncio.gather(*(self._desk.wheel.given_up(machine) for machine in machines))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing

    async def _one_away(self, entry: Entry, left: Left) -> Explanation | None:
        desk = self._desk
        if entry.failure is not None:
            desk.failures.collect(entry.name)
        if entry.switched:
            why = await self._off(entry.name, left)
        elif entry.machine is None:
            return None
        else:
            why = await desk.wheel.away(entry.machine)
        extra = {"machine": entry.name, "group": entry.group, "words": why.message if why else ""}
        if why is None:
            log.info("machine deleted for cluster-autoscaler", extra=extra)
        else:
            log.warning("machine stays", extra=extra)
        return why

    async def _off(self, name: str, left: Left) -> Explanation | None:
        """Accepted when it is stored, unless its endpoint certainly refuses before the caller gives up."""
        lever = self._desk.wheel.lever
        if lever is None or not self._desk.roster().groups[name].configured:
            return _NOT_SWITCHED
        why = await lever.off(name)
        if why is None:
            why = await lever.outcome(name, max(0.0, _patience(left) - _MARGIN))
        return why

    async def _within(self, left: Left, work: Awaitable[_T]) -> _T:
        """An answer in time is worth more than a late one: whoever has given up has drawn conclusions."""
        patience = _patience(left)
        try:
            async with asyncio.timeout(patience):
                return await work
        except TimeoutError:
            words = f"no answer within {patience:.1f} s; what was asked of the cloud goes on"
            raise refused(Explanation(Reason.UNAVAILABLE, words)) from None

    # -- what a node will be, and cost ----------------------------------------------------------

    async def NodeGroupTemplateNodeInfo(
        self, request: wire.NodeGroupTemplateNodeInfoRequest, left: Left
    ) -> wire.NodeGroupTemplateNodeInfoResponse:
        roster = self._roster()
        group = self._group(roster, request.id)
        made = self._desk.template(group)
        if not made:
            raise Refusal(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"nothing is known of instance type {group.instance_type}: the cloud does not list it",
            )
        return wire.NodeGroupTemplateNodeInfoResponse(nodeInfo=made, nodeBytes=made)

    async def NodeGroupGetOptions(
        self, request: wire.NodeGroupAutoscalingOptionsRequest, left: Left
    ) -> wire.NodeGroupAutoscalingOptionsResponse:
        self._group(self._roster(), request.id)
        answer = wire.NodeGroupAutoscalingOptionsResponse()
        if self._gives_options:
            answer.nodeGroupAutoscalingOptions.CopyFrom(options.filled(request.defaults, self._desk.policy))
        return answer

    async def PricingNodePrice(
        self, request: wire.PricingNodePriceRequest, left: Left
    ) -> wire.PricingNodePriceResponse:
        roster, node = self._roster(), request.node
        entry = roster.find(node.providerID)
        group = roster.groups.get(entry.group) if entry else None
        if group is None and node.providerID.startswith(TEMPLATE):
            group = roster.groups.get(node.providerID[len(TEMPLATE) :])
        if group is None:
            group = prices.group_of_labels(roster.groups, node.labels)
        price = self._desk.price(group) if group is not None else None
        if entry is not None and entry.machine is not None and entry.machine.price > 0:
            price = entry.machine.price
        if price is None:
            raise Refusal(grpc.StatusCode.NOT_FOUND, f"nothing is known of the price of node {node.name}")
        return wire.PricingNodePriceResponse(price=float(price * prices.hours(request)))

    async def PricingPodPrice(
        self, request: wire.PricingPodPriceRequest, left: Left
    ) -> wire.PricingPodPriceResponse:
        self._roster()
        needs = prices.requests_of(request.pod_bytes or request.pod)
        price = prices.of_pod(self._desk.priced(), needs)
        return wire.PricingPodPriceResponse(price=float(price * prices.hours(request)))


def _patience(left: Left) -> float:
    remaining = left()
    return PATIENCE if remaining is None else min(60.0, max(0.1, remaining - _MARGIN))


__all__ = ["PATIENCE", "Servicer"]
