"""What users type to run, plan, check and tidy up, and the help that they read.

Each command imports what it needs when it runs, so that `run` stays small.
"""

from __future__ import annotations

from typing import Annotated

import typer

from controller.app.exits import CONFIGURATION, Ends
from controller.cli.options import FOREIGN_FLAGS, Config, Dialect, Json, Kubeconfig, file, option
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
        bool, option("Print the version.", "--version", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


@app.command(context_settings=FOREIGN_FLAGS)
def run(
    context: typer.Context,
    config: Config = None,
    dialect: Dialect = "auto",
    kubeconfig: Kubeconfig = "",
    listen: Annotated[str, option("Metrics, health and status.", metavar="ADDR")] = ":8080",
    dry_run: Annotated[bool, option("Decide and say so; change nothing anywhere.")] = False,
    once: Annotated[bool, option("Decide once, carry it out, end.")] = False,
    driver: Annotated[
        str, option("Who decides on sizes: planner, or externalgrpc (cluster-autoscaler).")
    ] = "planner",
    insecure: Annotated[
        bool, option("Serve cluster-autoscaler without TLS, to whoever reaches the port.", "--insecure")
    ] = False,
    log_level: Annotated[str, option("debug, info, warning or error.")] = "info",
    log_format: Annotated[str, option("text or json.")] = "text",
) -> None:
    """Run the controller. With --cloud-provider, cluster-autoscaler's own flags are read too."""
    from controller.cli.drivers import PLANNER, Wish
    from controller.cli.given import Given
    from controller.cli.running import run_controller

    if insecure and driver == PLANNER:
        raise Ends(CONFIGURATION, "--insecure: expected with --driver externalgrpc only")
    run_controller(
        Given(config, dialect, context.args, kubeconfig),
        driver=driver,
        wish=Wish(insecure=insecure),
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
    snapshot: Annotated[str | None, file("Plan from a saved snapshot instead.")] = None,
    save: Annotated[str | None, file("Write the snapshot that was planned on.")] = None,
    as_json: Json = False,
) -> None:
    """What would be done now, and why. Changes nothing."""
    from controller.cli.given import Given
    from controller.cli.planning import show_plan

    given = Given(config, dialect, context.args, kubeconfig)
    show_plan(given, snapshot=snapshot, save=save, as_json=as_json)


@app.command()
def sweep(
    config: Config = None,
    kubeconfig: Kubeconfig = "",
    cluster_id: Annotated[
        str, option("Whose leftovers; else every cluster's are listed.", "--cluster-id", metavar="ID")
    ] = "",
    apply: Annotated[bool, option("Remove them, and prove that they are gone.", "--apply")] = False,
    yes: Annotated[
        bool, option("Also where a named cluster cannot be asked; never asks back.", "--yes")
    ] = False,
    wait: Annotated[float, option("How long the removal may take.", min=0, metavar="SECONDS")] = 900,
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
def retire(
    config: Config = None,
    kubeconfig: Kubeconfig = "",
    everything: Annotated[
        bool, option("Every machine of this cluster; nothing is bought until --undo.", "--all")
    ] = False,
    wait: Annotated[bool, option("Until nothing is left.", "--wait")] = False,
    timeout: Annotated[float, option("How long to wait.", min=0, metavar="SECONDS")] = 3600,
    after_work: Annotated[
        bool, option("Evict no pod that uses GPUs: each machine goes when it is idle.", "--after-work")
    ] = False,
    force: Annotated[
        bool, option("Evict also pods that have no controller, which are lost.", "--force")
    ] = False,
    undo: Annotated[bool, option("No longer: machines are bought again.", "--undo")] = False,
    as_json: Json = False,
) -> None:
    """Drain and delete everything that was bought for this cluster, by the controller that runs there."""
    from controller.cli.retiring import Wish
    from controller.cli.retiring import run as retire_all

    wish = Wish(all=everything, after_work=after_work, force=force, undo=undo, wait=wait, patience=timeout)
    retire_all(config=config, kubeconfig=kubeconfig, wish=wish, as_json=as_json)


@app.command(context_settings=FOREIGN_FLAGS)
def adopt(
    context: typer.Context,
    project: Annotated[str, option("ca-verda, datacrunch or verdacloud.", "--from", metavar="PROJECT")],
    config: Config = None,
    dialect: Dialect = "auto",
    kubeconfig: Kubeconfig = "",
    apply: Annotated[bool, option("Take them over; else only say which.", "--apply")] = False,
    as_json: Json = False,
) -> None:
    """Take over a predecessor's running machines, those whose Node is registered in this cluster."""
    from controller.cli.adopting import run as adopt_machines
    from controller.cli.given import Given

    given = Given(config, dialect, context.args, kubeconfig)
    adopt_machines(given, project=project, apply=apply, as_json=as_json)


@app.command()
def demo(
    as_json: Json = False,
    seed: Annotated[int, option("Of the sandboxes' random times.")] = 0,
) -> None:
    """The main job, live, on the embedded cloud and cluster."""
    from controller.cli.sandboxes import run_demo

    run_demo(as_json=as_json, seed=seed)


@app.command()
def simulate(
    hours: Annotated[float, option("Of pods and faults; afterwards all ends.", min=0.01)] = 24,
    seed: Annotated[int, option("All chance comes from it: the same seed, the same course.")] = 0,
    seeds: Annotated[int, option("So many, beginning with --seed.", min=1)] = 1,
    faults: Annotated[str, option("What goes wrong.", metavar="none|calm|harsh|FILE")] = "none",
    workload: Annotated[
        str, option("The pods, drawn or from a file.", metavar="standard|big|FILE.csv")
    ] = "standard",
    compress: Annotated[float, option("How much faster the pods of a file come and end.", min=0.001)] = 1,
    config: Annotated[str | None, file("Your own settings; else all x86 types on demand.")] = None,
    jobs: Annotated[int, option("Processes that share the seeds; 0: one for each core.", min=0)] = 0,
    timeline: Annotated[str | None, file("Write samples and events, a line of JSON each.")] = None,
    html: Annotated[str | None, file("Write a page: machines, waiting pods, money.")] = None,
    shrink: Annotated[str | None, file("Reduce a failing seed, and write a test of what is left.")] = None,
    baselines: Annotated[
        bool, option("Beside it: a plain controller, and one machine always on.", "--baselines")
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
    cloud: Annotated[bool, option("Ask the cloud too: types, locations, images.", "--cloud")] = False,
    cluster: Annotated[bool, option("Ask the cluster too: rights, taints.", "--cluster")] = False,
    rights: Annotated[
        bool, option("Print the RBAC objects that are needed, and nothing else.", "--rights")
    ] = False,
    service_account: Annotated[
        str, option("Whom the rights are for; else the dialect's own.", "--service-account", metavar="NAME")
    ] = "",
    as_json: Json = False,
) -> None:
    """Say everything that is wrong with the settings, in one go, and which rights they need."""
    from controller.cli.configuring import check
    from controller.cli.given import Given

    check(
        Given(config, dialect, context.args, kubeconfig),
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
        str, option("ca-verda, datacrunch, verdacloud, webhook, or auto.", "--from", metavar="DIALECT")
    ] = "auto",
) -> None:
    """A predecessor's configuration as our YAML, with comments on what changed its meaning."""
    from controller.cli.converting import convert
    from controller.cli.given import Given

    convert(Given(config, dialect, context.args, option="--from"))


@config_app.command("show", context_settings=FOREIGN_FLAGS)
def config_show(
    context: typer.Context, config: Config = None, dialect: Dialect = "auto", as_json: Json = False
) -> None:
    """Every setting as it is in force; secrets are masked."""
    from controller.cli.configuring import show
    from controller.cli.given import Given

    show(Given(config, dialect, context.args), as_json=as_json)
