"""From the settings to the plain values that planning and the fleet read."""

from __future__ import annotations

from controller.config.joining import JoinEntry
from controller.config.kubernetes_names import FACTS
from controller.config.pools import PoolSetting
from controller.config.settings import Settings
from controller.config.switching import SwitchedMachine, WebhookSetting
from controller.domain.gpu_labels import PREFIX
from controller.domain.kube import Taint
from controller.domain.names import gpu_slug
from controller.domain.policy import (
    Billing,
    Deadlines,
    DefaultSpread,
    Headroom,
    Limits,
    NamespaceLimit,
    Policy,
    Pool,
)
from controller.domain.prices import ANY, PriceRule
from controller.domain.quantity import scheduler_units
from controller.domain.switching import Switch
from controller.domain.windows import parse_window


def to_policy(settings: Settings, *, cluster_id: str | None = None) -> Policy:
    """`cluster_id` is the one derived from the cluster, for when none is set."""
    known = settings.cluster_id or cluster_id
    if not known:
        raise ValueError("a cluster id is needed: none is set and none was derived")
    limits = settings.limits
    return Policy(
        cluster_id=known,
        namespace=settings.namespace,
        pools=tuple(_pool(pool, settings.join.get(pool.join or "")) for pool in settings.pools),
        limits=Limits(
            machines=limits.machines,
            gpus=limits.gpus,
            cores=limits.cores,
            memory_gb=limits.memory_gb,
            cluster_wide=limits.cluster_wide,
            price_per_hour=limits.price_per_hour,
            price_per_month=limits.price_per_month,
            launches_per_minute=limits.launches_per_minute,
            scripts=limits.scripts,
        ),
        deadlines=_deadlines(settings),
        strategy=settings.scale_up.strategy,
        priorities=settings.scale_up.priorities,
        spread_locations=settings.scale_up.spread_locations,
        max_overshoot=settings.planning.max_overshoot,
        cooldown=settings.scale_down.cooldown.total_seconds(),
        order=settings.scale_down.order,
        min_age=settings.scale_down.min_age.total_seconds(),
        removed_pools=settings.scale_down.removed_pools,
        consolidate=settings.scale_down.consolidate,
        consolidate_saving=settings.scale_down.consolidate_saving,
        disruption_budget=settings.disruption.budget,
        disruption_budgets=settings.disruption.budgets.model_dump(exclude_none=True),
        windows=tuple(parse_window(text) for text in settings.disruption.windows),
        not_during=tuple(parse_window(text) for text in settings.disruption.not_during),
        scheduler_names=settings.planning.scheduler_names,
        priority_cutoff=settings.planning.priority_cutoff,
        ignore_namespaces=settings.planning.ignore_namespaces,
        min_pod_age=settings.planning.min_pod_age.total_seconds(),
        gangs_in_one_location=settings.planning.gangs_in_one_location,
        quota_messages=settings.planning.quota_messages,
        default_spreads=tuple(
            DefaultSpread(
                topology_key=given.topology_key,
                max_skew=given.max_skew,
                hard=given.when_unsatisfiable == "DoNotSchedule",
            )
            for given in settings.planning.default_spreads
        ),
        fractions=settings.planning.fractions,
        namespaces={
            name: NamespaceLimit(gpus=given.gpus, price_per_hour=given.price_per_hour)
            for name, given in settings.namespaces.items()
        },
        billing=Billing(
            increment=settings.billing.increment_s,
            refund_unused=settings.billing.refund_unused,
            reserve_hours=settings.billing.reserve_hours,
            drain_idle=settings.billing.on_exhausted == "drain_idle",
        ),
        headroom=tuple(
            Headroom(
                pool=given.pool,
                gpus=given.gpus,
                schedule=None
                if given.schedule is None
                else tuple(parse_window(text) for text in given.schedule),
                max_price_per_hour=given.max_price_per_hour,
            )
            for given in settings.headroom
        ),
        prices={
            ANY if name == ANY else gpu_slug(name): PriceRule(
                on_demand=given.price_per_hour, spot=given.spot_price_per_hour, discount=given.share
            )
            for name, given in settings.prices.items()
        },
        gpu_labels={
            gpu_slug(name): {
                PREFIX + key: value for key, value in given.model_dump(exclude_none=True).items()
            }
            for name, given in settings.gpu_labels.items()
        },
        switches=tuple(
            _switch(machine, settings.webhooks.get(machine.webhook or "") or WebhookSetting())
            for machine in settings.machines
        ),
        own_first=settings.scale_up.own_machines == "first",
        script_quota=settings.verda.script_quota,
        kubelet_reserves_memory=_reserves_memory(settings),
    )


def _pool(pool: PoolSetting, join: JoinEntry | None) -> Pool:
    own_script = join is not None and join.startup_script_id is None
    return Pool(
        name=pool.name,
        instance_types=pool.instance_types,
        gpu_models=pool.gpu_models,
        min_gpu_memory_gb=pool.min_gpu_memory_gb,
        max_gpus=pool.max_gpus,
        locations=pool.locations,
        market=pool.market,
        min=pool.min,
        max=pool.max,
        max_gpus_total=pool.max_gpus_total,
        max_price_per_hour=pool.max_price_per_hour,
        images=pool.image,
        disk_gb=pool.disk_gb,
        ssh_key_ids=pool.ssh_key_ids,
        labels={key: value for key, value in pool.labels.items() if key not in FACTS},
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in pool.taints),
        resources={name: scheduler_units(name, amount) for name, amount in pool.resources.items()},
        join=pool.join or "",
        arm64=pool.arm64,
        startup_taint=pool.startup_taint,
        own_script=own_script,
        script_after_create=own_script and join is not None and join.delete_script == "after_create",
        feature_discovery=pool.feature_discovery,
        expire_after=pool.expire_after.total_seconds() if pool.expire_after else None,
        resource_claims=pool.resource_claims,
        pause=pool.pause,
        strategy=pool.strategy,
    )


def _switch(machine: SwitchedMachine, webhook: WebhookSetting) -> Switch:
    return Switch(
        name=machine.name,
        gpus=machine.gpu_count,
        model=machine.gpu_model or "",
        location=machine.location or "",
        labels=machine.labels,
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in machine.taints),
        resources={name: scheduler_units(name, amount) for name, amount in machine.resources.items()},
        price=machine.price_per_hour,
        keep_on=machine.keep_on,
        delete_node=machine.delete_node_when_off,
        min_on=machine.min_on.total_seconds(),
        min_off=machine.min_off.total_seconds(),
        per_day=machine.switches_per_day,
        on_within=machine.on_within.total_seconds(),
        off_within=machine.off_within.total_seconds(),
        left_alone=machine.left_alone_for.total_seconds(),
        pause=machine.pause,
        asked=machine.status_endpoint is not None,
        tries=webhook.tries,
        retry_first=webhook.pause.total_seconds(),
        retry_most=max(webhook.pause, webhook.longest_pause).total_seconds(),
    )


def _deadlines(settings: Settings) -> Deadlines:
    given = settings.deadlines
    return Deadlines(
        launch=given.launch.total_seconds(),
        join=given.join.total_seconds(),
        ready=given.ready.total_seconds(),
        gpu=given.gpu.total_seconds(),
        gpu_settle=given.gpu_settle.total_seconds(),
        gpu_lost=given.gpu_lost.total_seconds(),
        stopped=given.stopped.total_seconds(),
        unknown_lists=given.unknown_create.lists,
        unknown_over=given.unknown_create.over.total_seconds(),
        backoff_first=given.backoff.first.total_seconds(),
        backoff_most=given.backoff.most.total_seconds(),
        backoff_unusable=given.backoff.unusable.total_seconds(),
        eviction_grace=given.eviction_grace.total_seconds(),
        drain_pause=given.drain_pause.total_seconds(),
        terminating_slack=given.terminating_slack.total_seconds(),
        job_wait=given.job_wait.total_seconds(),
        tombstone=given.tombstone.total_seconds(),
    )


def _reserves_memory(settings: Settings) -> bool:
    """Plain kubelets keep memory back and k3s' do not; where it is not known, the smaller node is assumed."""
    used = [settings.join.get(pool.join or "") for pool in settings.pools]
    return not used or any(entry is None or entry.template != "k3s" for entry in used)
