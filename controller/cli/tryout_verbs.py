"""What users type to try and to measure, without a cluster or an account: the two worlds, and the benchmarks.

Each command imports what it needs when it runs, as all do.
"""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.options import Json

sandbox_app = typer.Typer(
    name="sandbox", help="The two worlds that stand in for the real ones.", no_args_is_help=True
)
bench_app = typer.Typer(name="bench", help="Measure, on this machine.", no_args_is_help=True)


@sandbox_app.command("cloud")
def sandbox_cloud(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 0,
    speed: Annotated[float, typer.Option(min=0.001, help="Divides machine and disk times.")] = 40,
    settings: Annotated[str | None, typer.Option(metavar="FILE", help="Knobs, as YAML or JSON.")] = None,
    seed: int = 0,
    credentials: Annotated[str | None, typer.Option(metavar="ID:SECRET", help="Accept only these.")] = None,
    scenario: Annotated[
        str | None, typer.Option(metavar="FILE", help="Faults and events with their times, as YAML or JSON.")
    ] = None,
    openapi: Annotated[bool, typer.Option("--openapi", help="Print what is served, and end.")] = False,
) -> None:
    """Verda's API, as its contract tells it; the first line of output is its URL."""
    from controller.cli.sandboxes import run_sandbox
    from controller.sandbox.cloud.command import run as serve

    if openapi:
        import json

        from controller.sandbox.cloud.openapi import description

        typer.echo(json.dumps(description(), indent=2))
        return
    run_sandbox(
        lambda: serve(
            port=port,
            speed=speed,
            settings_file=settings,
            scenario_file=scenario,
            seed=seed,
            credentials=credentials,
        )
    )


@sandbox_app.command("cluster")
def sandbox_cluster(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 0,
    cloud: Annotated[
        str | None, typer.Option(metavar="URL", help="Boot a node for each machine that runs there.")
    ] = None,
    kubeconfig: Annotated[str | None, typer.Option(metavar="FILE", help="Write a kubeconfig.")] = None,
    join_defaults: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Identity by hostname prefix, for scripts that do not tell it."),
    ] = None,
    speed: Annotated[float, typer.Option(min=0.001, help="Divides boot, GPU and pod times.")] = 40,
    settings: Annotated[str | None, typer.Option(metavar="FILE", help="Knobs, as YAML or JSON.")] = None,
    seed: int = 0,
) -> None:
    """A small Kubernetes; the first line of output is its URL."""
    from controller.cli.sandboxes import run_sandbox
    from controller.sandbox.cluster.command import run as serve

    run_sandbox(
        lambda: serve(
            port=port,
            cloud=cloud,
            kubeconfig=kubeconfig,
            join_defaults=join_defaults,
            speed=speed,
            settings_file=settings,
            seed=seed,
        )
    )


@bench_app.command("latency")
def bench_latency(as_json: Json = False, pods: Annotated[int, typer.Option(min=1)] = 50) -> None:
    """From the watch line that makes a pod Unschedulable to the create request on the wire."""
    from controller.cli.benchmarks import latency

    latency(as_json=as_json, pods=pods)


@bench_app.command("decode")
def bench_decode(as_json: Json = False) -> None:
    """Decoding pods, side by side with the generated client models."""
    from controller.cli.benchmarks import decode

    decode(as_json=as_json)


@bench_app.command("memory")
def bench_memory(
    as_json: Json = False,
    nodes: Annotated[int, typer.Option(min=1)] = 1000,
    pods: Annotated[int, typer.Option(min=1)] = 30000,
) -> None:
    """Resident memory of the controller, idle and with a large cluster."""
    from controller.cli.benchmarks import memory

    memory(as_json=as_json, nodes=nodes, pods=pods)


@bench_app.command("cloud")
def bench_cloud(
    as_json: Json = False,
    seconds: Annotated[float, typer.Option(min=1, help="Of each of the two crowds.")] = 60,
    clients: Annotated[int, typer.Option(min=1)] = 200,
    instances: Annotated[int, typer.Option(min=1)] = 2000,
) -> None:
    """The sandbox cloud: how long its large lists take, and whether a crowd of clients meets an error."""
    from controller.cli.benchmarks import cloud

    cloud(as_json=as_json, seconds=seconds, clients=clients, instances=instances)


@bench_app.command("adapter")
def bench_adapter(as_json: Json = False, orders: Annotated[int, typer.Option(min=1, max=60)] = 40) -> None:
    """Orders in parallel against a cloud that takes 100 ms for each answer, and the connections they need."""
    from controller.cli.benchmarks import adapter

    adapter(as_json=as_json, orders=orders)


@bench_app.command("grpc")
def bench_grpc(
    as_json: Json = False,
    machines: Annotated[int, typer.Option(min=10)] = 1000,
    groups: Annotated[int, typer.Option(min=1)] = 100,
    calls: Annotated[int, typer.Option(min=100, help="Of each kind.")] = 2000,
) -> None:
    """The calls of cluster-autoscaler, from another process, beside a handler that does nothing."""
    from controller.cli.benchmarks import served

    served(as_json=as_json, machines=machines, groups=groups, calls=calls)


@bench_app.command("planner")
def bench_planner(
    workload: Annotated[str, typer.Option(help="karpenter or gpu.")] = "karpenter",
    pods: Annotated[int, typer.Option(min=1, help="That wait.")] = 1000,
    offers: Annotated[
        int | None,
        typer.Option(min=1, help="karpenter: types, else 400, each in five offers; gpu: offers, else 100."),
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="cheapest for karpenter and smallest for gpu, unless given.")
    ] = "",
    as_json: Json = False,
) -> None:
    """The planner, on Karpenter's benchmark workload or on GPU pods beside 1,000 nodes; and the price's floor."""
    from controller.cli.benchmarks import planner

    planner(as_json=as_json, workload=workload, pods=pods, offers=offers, strategy=strategy)


@bench_app.command("optimum")
def bench_optimum(
    instances: Annotated[int, typer.Option(min=1, help="Seeded 1, 2, 3, …")] = 500,
    seconds: Annotated[float, typer.Option(min=0.1, help="At most, for each.")] = 20,
    processes: Annotated[int, typer.Option(min=1, help="That share the work.")] = 2,
    as_json: Json = False,
) -> None:
    """What `cheapest` and `smallest` pay beyond the exact optimum, on small random GPU workloads."""
    from controller.cli.benchmarks import optimum

    optimum(as_json=as_json, instances=instances, seconds=seconds, processes=processes)
