"""The command line. Each command imports what it needs when it runs, so that `run` stays small.

Exit codes: 0 done, 1 failed, 2 configuration, 3 unreachable or no rights.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from controller.app.exits import CONFIGURATION, DONE, FAILED, Ends

app = typer.Typer(
    name="verda-gpu-autoscaler",
    help="GPU nodes that appear when a Kubernetes pod needs them and are gone when nothing does.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 failed, 2 configuration, 3 unreachable or no rights.",
)
config_app = typer.Typer(name="config", help="Check and show the settings.", no_args_is_help=True)
sandbox_app = typer.Typer(
    name="sandbox", help="The two worlds that stand in for the real ones.", no_args_is_help=True
)
bench_app = typer.Typer(name="bench", help="Measure, on this machine.", no_args_is_help=True)
app.add_typer(config_app)
app.add_typer(sandbox_app)
app.add_typer(bench_app)

Config = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="Settings file (YAML); variables win over it.")
]
Kubeconfig = Annotated[
    str,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="Else KUBECONFIG, the service account, ~/.kube/config."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON for scripts.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    config: Config = None,
    kubeconfig: Kubeconfig = "",
    listen: Annotated[str, typer.Option(metavar="ADDR", help="Metrics, health and status.")] = ":8080",
    dry_run: Annotated[bool, typer.Option(help="Decide and say so; change nothing anywhere.")] = False,
    once: Annotated[bool, typer.Option(help="Decide once, carry it out, end.")] = False,
    driver: Annotated[str, typer.Option(help="Who decides: planner.")] = "planner",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Run the controller."""
    from controller.cli.running import run_controller

    if driver != "planner":
        raise Ends(
            CONFIGURATION, f"--driver {driver!r}: expected planner; externalgrpc comes with a later version"
        )
    run_controller(
        config=config,
        kubeconfig=kubeconfig,
        listen=listen,
        dry_run=dry_run,
        once=once,
        log_level=log_level,
        log_format=log_format,
    )


@app.command()
def plan(
    config: Config = None,
    kubeconfig: Kubeconfig = "",
    snapshot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Plan from a saved snapshot instead.")
    ] = None,
    save: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the snapshot that was planned on.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What would be done now, and why. Changes nothing."""
    from controller.cli.planning import show_plan

    show_plan(config=config, kubeconfig=kubeconfig, snapshot=snapshot, save=save, as_json=as_json)


@app.command()
def sweep(
    config: Config = None,
    kubeconfig: Kubeconfig = "",
    cluster_id: Annotated[
        str,
        typer.Option("--cluster-id", metavar="ID", help="Whose leftovers; else every cluster's are listed."),
    ] = "",
    apply: Annotated[
        bool, typer.Option("--apply", help="Remove them, and prove that they are gone.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also where a named cluster cannot be asked; never asks back.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long the removal may take.")
    ] = 900,
    as_json: Json = False,
) -> None:
    """What a cluster left behind in the cloud account. Needs cloud credentials only; removes nothing by itself."""
    from controller.cli.sweeping import run as sweep_account

    sweep_account(
        config=config,
        kubeconfig=kubeconfig,
        cluster_id=cluster_id,
        apply=apply,
        yes=yes,
        patience=wait,
        as_json=as_json,
    )


@app.command()
def demo(
    as_json: Json = False,
    seed: Annotated[int, typer.Option(help="Of the sandboxes' random times.")] = 0,
) -> None:
    """The main job, live, on the embedded cloud and cluster."""
    from controller.cli.running import run_demo

    run_demo(as_json=as_json, seed=seed)


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version."""
    import json
    import platform
    from importlib.metadata import version as installed

    found = {"version": installed("verda-gpu-autoscaler"), "python": platform.python_version()}
    typer.echo(json.dumps(found) if as_json else f"verda-gpu-autoscaler {found['version']}")


@config_app.command("check")
def config_check(
    config: Config = None,
    kubeconfig: Kubeconfig = "",
    cloud: Annotated[
        bool, typer.Option("--cloud", help="Ask the cloud too: types, locations, images.")
    ] = False,
    cluster: Annotated[bool, typer.Option("--cluster", help="Ask the cluster too: rights, taints.")] = False,
    as_json: Json = False,
) -> None:
    """Say everything that is wrong with the settings, in one go."""
    from controller.cli.configuring import check

    check(config=config, kubeconfig=kubeconfig, cloud=cloud, cluster=cluster, as_json=as_json)


@config_app.command("show")
def config_show(config: Config = None, as_json: Json = False) -> None:
    """Every setting as it is in force; secrets are masked."""
    from controller.cli.configuring import show

    show(config=config, as_json=as_json)


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
    from controller.cli.running import run_sandbox
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
    from controller.cli.running import run_sandbox
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


def main() -> None:
    """The entry point of the process."""
    _leave(outcome())


def outcome() -> int:
    """Carry out the command line: every expected trouble is one clear line and a documented exit code."""
    code = DONE
    try:
        app()
    except Ends as end:
        for line in end.lines:
            typer.echo(line, err=True)
        code = end.code
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else FAILED if end.code else DONE
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = FAILED
    except Exception:  # noqa: BLE001  (whatever it is, the process must end)
        traceback.print_exc()
        code = FAILED
    return code


def _leave(code: int) -> NoReturn:
    """End without waiting for threads that may be stuck in a time-out; nothing depends on them any more."""
    atexit._run_exitfuncs()  # the log is flushed, temporary files with keys are removed
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or FAILED
    os._exit(code)


if __name__ == "__main__":
    main()
