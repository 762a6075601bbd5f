"""What users type to run, plan, check and tidy up, and the help that they read.

Each command imports what it needs when it runs, so that `run` stays small.
"""

from __future__ import annotations

from typing import Annotated

import typer

from controller.app.exits import CONFIGURATION, Ends
from controller.cli.options import FOREIGN_FLAGS, Config, Dialect, Json, Kubeconfig
from controller.cli.tryout_verbs import bench_app, sandbox_app

app = typer.Typer(
    name="verda-gpu-autoscaler",
    help="GPU nodes that appear when a Kubernetes pod needs them and are gone when nothing does.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 failed, 2 configuration, 3 unreachable or no rights.",
)
config_app = typer.Typer(name="config", help="Check and show the settings.", no_args_is_help=True)
app.add_typer(config_app)
app.add_typer(sandbox_app)
app.add_typer(bench_app)


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


@app.command(context_settings=FOREIGN_FLAGS)
def run(
    context: typer.Context,
    config: Config = None,
    dialect: Dialect = "auto",
    kubeconfig: Kubeconfig = "",
    listen: Annotated[str, typer.Option(metavar="ADDR", help="Metrics, health and status.")] = ":8080",
    dry_run: Annotated[bool, typer.Option(help="Decide and say so; change nothing anywhere.")] = False,
    once: Annotated[bool, typer.Option(help="Decide once, carry it out, end.")] = False,
    driver: Annotated[
        str, typer.Option(help="Who decides on sizes: planner, or externalgrpc (cluster-autoscaler).")
    ] = "planner",
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Serve cluster-autoscaler without TLS, to whoever reaches the port."),
    ] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Run the controller. With --cloud-provider, cluster-autoscaler's own flags are read too."""
    from controller.cli.drivers import PLANNER, Wish
    from controller.cli.running import run_controller

    if insecure and driver == PLANNER:
        raise Ends(CONFIGURATION, "--insecure: expected with --driver externalgrpc only")
    run_controller(
        driver=driver,
        wish=Wish(insecure=insecure),
        dialect=dialect,
        words=context.args,
        config=config,
        kubeconfig=kubeconfig,
        listen=listen,
        dry_run=dry_run,
        once=once,
        log_level=log_level,
        log_format=log_format,
    )


@app.command(context_settings=FOREIGN_FLAGS)
def plan(
    context: typer.Context,
    config: Config = None,
    dialect: Dialect = "auto",
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

    show_plan(
        config=config,
        dialect=dialect,
        words=context.args,
        kubeconfig=kubeconfig,
        snapshot=snapshot,
        save=save,
        as_json=as_json,
    )


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


@app.command(context_settings=FOREIGN_FLAGS)
def adopt(
    context: typer.Context,
    project: Annotated[
        str, typer.Option("--from", metavar="PROJECT", help="ca-verda, datacrunch or verdacloud.")
    ],
    config: Config = None,
    dialect: Dialect = "auto",
    kubeconfig: Kubeconfig = "",
    apply: Annotated[bool, typer.Option("--apply", help="Take them over; else only say which.")] = False,
    as_json: Json = False,
) -> None:
    """Take over a predecessor's running machines, those whose Node is registered in this cluster."""
    from controller.cli.adopting import run as adopt_machines

    adopt_machines(
        project=project,
        config=config,
        dialect=dialect,
        words=context.args,
        kubeconfig=kubeconfig,
        apply=apply,
        as_json=as_json,
    )


@app.command()
def demo(
    as_json: Json = False,
    seed: Annotated[int, typer.Option(help="Of the sandboxes' random times.")] = 0,
) -> None:
    """The main job, live, on the embedded cloud and cluster."""
    from controller.cli.sandboxes import run_demo

    run_demo(as_json=as_json, seed=seed)


@app.command()
def simulate(
    hours: Annotated[float, typer.Option(min=0.01, help="Of pods and faults; afterwards all ends.")] = 24,
    seed: Annotated[int, typer.Option(help="All chance comes from it: the same seed, the same course.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="So many, beginning with --seed.")] = 1,
    faults: Annotated[str, typer.Option(metavar="none|calm|harsh|FILE", help="What goes wrong.")] = "none",
    workload: Annotated[
        str, typer.Option(metavar="standard|big|FILE.csv", help="The pods, drawn or from a file.")
    ] = "standard",
    compress: Annotated[
        float, typer.Option(min=0.001, help="How much faster the pods of a file come and end.")
    ] = 1,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="Your own settings; else all x86 types on demand.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=0, help="Processes that share the seeds; 0: one for each core.")
    ] = 0,
    timeline: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write samples and events, a line of JSON each.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page: machines, waiting pods, money.")
    ] = None,
    shrink: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Reduce a failing seed, and write a test of what is left."),
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Beside it: a plain controller, and one machine always on.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Days of pods and faults without waiting: the real controller on both worlds in memory, checked at every step."""
    from controller.cli.simulating import simulate as run_simulation
    from controller.sandbox.simulator.command import Asked

    asked = Asked(
        hours=hours,
        faults=faults,
        workload=workload,
        compress=compress,
        config=config,
        timeline=timeline,
        html=html,
        baselines=baselines,
    )
    run_simulation(asked=asked, seed=seed, seeds=seeds, jobs=jobs, as_json=as_json, shrink=shrink)


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version."""
    import json
    import platform
    from importlib.metadata import version as installed

    found = {"version": installed("verda-gpu-autoscaler"), "python": platform.python_version()}
    typer.echo(json.dumps(found) if as_json else f"verda-gpu-autoscaler {found['version']}")


@config_app.command("check", context_settings=FOREIGN_FLAGS)
def config_check(
    context: typer.Context,
    config: Config = None,
    dialect: Dialect = "auto",
    kubeconfig: Kubeconfig = "",
    cloud: Annotated[
        bool, typer.Option("--cloud", help="Ask the cloud too: types, locations, images.")
    ] = False,
    cluster: Annotated[bool, typer.Option("--cluster", help="Ask the cluster too: rights, taints.")] = False,
    rights: Annotated[
        bool, typer.Option("--rights", help="Print the RBAC objects that are needed, and nothing else.")
    ] = False,
    service_account: Annotated[
        str,
        typer.Option(
            "--service-account", metavar="NAME", help="Whom the rights are for; else the dialect's own."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Say everything that is wrong with the settings, in one go, and which rights they need."""
    from controller.cli.configuring import check

    check(
        config=config,
        dialect=dialect,
        words=context.args,
        kubeconfig=kubeconfig,
        cloud=cloud,
        cluster=cluster,
        rights_only=rights,
        service_account=service_account,
        as_json=as_json,
    )


@config_app.command("convert", context_settings=FOREIGN_FLAGS)
def config_convert(
    context: typer.Context,
    config: Config = None,
    dialect: Annotated[
        str,
        typer.Option("--from", metavar="DIALECT", help="ca-verda, datacrunch, verdacloud, webhook, or auto."),
    ] = "auto",
) -> None:
    """A predecessor's configuration as our YAML, with comments on what changed its meaning."""
    from controller.cli.converting import convert

    convert(config=config, dialect=dialect, words=context.args)


@config_app.command("show", context_settings=FOREIGN_FLAGS)
def config_show(
    context: typer.Context, config: Config = None, dialect: Dialect = "auto", as_json: Json = False
) -> None:
    """Every setting as it is in force; secrets are masked."""
    from controller.cli.configuring import show

    show(config=config, dialect=dialect, words=context.args, as_json=as_json)
