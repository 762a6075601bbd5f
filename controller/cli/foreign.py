"""The commands of predecessors, for manifests in which only the image was replaced.

`verda-cloud-provider` is the Python provider's, `cluster-autoscaler` that of the Go providers. Ports stay
theirs, because the manifests' probes ask there; on them metrics, health and status are served.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.app.exits import CONFIGURATION, Ends
from controller.cli import drivers
from controller.cli.main import end_with

_LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error", "CRITICAL": "error"}
_CONFIGS = ("config.yaml", "/config/config.yaml")  # the last is where its image looked
_CLUSTER_AUTOSCALER_PORT = ":8085"
_HELP = """\
cluster-autoscaler --cloud-provider=datacrunch --nodes=<min>:<max>:<instance type>:<region>:<group> …
cluster-autoscaler --cloud-provider=verdacloud --nodes=<min>:<max>:<instance type>:<group>[:<hostname prefix>] …

This is verda-gpu-autoscaler under the name of the Go providers' command: it reads their variables and flags, and needs
no cluster-autoscaler. Flags with an effect: {flags}. Every other one is named in a warning. Its own: --dry-run (decide
and say so, change nothing), --once, --config FILE. All that it can do: verda-gpu-autoscaler --help"""


def verda_cloud_provider() -> None:
    end_with(provider())


def provider() -> typer.Typer:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(_provider)
    return app


def _provider(
    config: Annotated[
        str | None,
        typer.Option("--config", "-c", metavar="FILE", help="Else config.yaml here, or /config/config.yaml."),
    ] = None,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535)] = 8086,
    log_level: Annotated[str, typer.Option("--log-level", "-l")] = "INFO",
    driver: Annotated[
        str,
        typer.Option(
            help="planner: no cluster-autoscaler is needed. externalgrpc serves one. auto: whichever is there."
        ),
    ] = drivers.AUTO,
    listen: Annotated[
        str,
        typer.Option(
            metavar="ADDR", help="Metrics, health and status, where --port is cluster-autoscaler's."
        ),
    ] = ":8080",
    kubeconfig: str = "",
    dry_run: Annotated[bool, typer.Option(help="Decide and say so; change nothing anywhere.")] = False,
    once: Annotated[bool, typer.Option(help="Decide once, carry it out, end.")] = False,
) -> None:
    """The Python provider's command line; its config.yaml drives this controller."""
    from controller.cli.given import Given
    from controller.cli.running import an_address, run_controller

    level = _LEVELS.get(log_level.upper())
    if level is None:
        raise Ends(CONFIGURATION, f"--log-level {log_level!r}: expected one of {', '.join(_LEVELS)}")
    if driver == drivers.AUTO and (dry_run or once):
        driver = drivers.PLANNER  # nobody can be served by a look, or once
    an_address(listen)
    served = drivers.resolve(driver) == drivers.EXTERNALGRPC
    found = next((path for path in _CONFIGS if Path(path).is_file()), _CONFIGS[-1])
    run_controller(
        Given(found if config is None else config, kubeconfig=kubeconfig),
        # The port is cluster-autoscaler's where one is served; else the manifests' probes ask there.
        listen=listen if served else f":{port}",
        wish=drivers.Wish(listen=f":{port}", variables=os.environ),
        dry_run=dry_run,
        once=once,
        log_level=level,
        log_format="text",
        driver=driver,
    )


def cluster_autoscaler() -> None:
    end_with(_autoscaler)


def _autoscaler() -> None:
    from controller.cli.given import Given
    from controller.cli.running import run_controller
    from controller.config.dialects.flags import KNOWN

    words = sys.argv[1:]
    if {"-h", "-help", "--help"} & set(words):
        typer.echo(_HELP.format(flags=", ".join(f"--{name}" for name in KNOWN)))
        return
    ours = {"--dry-run": False, "--once": False}
    config: str | None = None
    left: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word in ours:
            ours[word] = True
        elif word.startswith(("--config=", "-config=")):
            config = word.partition("=")[2]
        elif word in ("--config", "-config") and waiting:
            config = waiting.pop(0)
        else:
            left.append(word)
    if not any("cloud-provider" in word.replace("_", "-") for word in left):
        raise Ends(
            CONFIGURATION,
            "--cloud-provider: expected datacrunch or verdacloud; this image holds verda-gpu-autoscaler, which reads "
            "those providers' flags (verda-gpu-autoscaler --help)",
        )
    run_controller(
        Given(config, words=left),
        listen=_CLUSTER_AUTOSCALER_PORT,
        dry_run=ours["--dry-run"],
        once=ours["--once"],
        log_level="info",
        log_format="text",
    )
