"""The process that serves cluster-autoscaler: settings, certificates, and the same program around it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from compat_grpc.driver import ExternalDriver
from compat_grpc.transport import Files
from controller.app.exits import CONFIGURATION, Ends
from controller.app.parts import Now
from controller.app.process import load_settings, run_until_told, serve, set_up_logs
from controller.app.program import Program
from controller.config.externalgrpc import ExternalGrpc
from controller.config.load import Loaded


def files_of(given: ExternalGrpc, insecure: bool) -> Files | None:
    """None: without TLS, and only because somebody asked for that by name."""
    if given.tls is not None:
        if insecure:
            raise Ends(CONFIGURATION, "--insecure: expected without externalgrpc.tls, which is set")
        return Files(cert=given.tls.cert, key=given.tls.key, client_ca=given.tls.client_ca)
    if insecure or given.insecure:
        return None
    raise Ends(
        CONFIGURATION,
        "externalgrpc.tls: missing; expected cert, key and client_ca, or --insecure to serve whoever reaches the port",
    )


def start(loaded: Loaded, files: Files | None, *, kubeconfig: str, listen: str | None) -> None:
    driver = ExternalDriver(loaded.settings.externalgrpc, files, clock=Now().wall)

    async def run(program: Program) -> None:
        await program.run(listen)

    run_until_told(serve(loaded, kubeconfig, run, driver=driver))


def run(
    *,
    config: str | None,
    kubeconfig: str,
    listen: str,
    insecure: bool,
    log_level: str,
    log_format: str,
    environ: Mapping[str, str] = os.environ,
) -> None:
    set_up_logs(log_level, log_format)
    loaded = load_settings(config)
    start(loaded, files_of(loaded.settings.externalgrpc, insecure), kubeconfig=kubeconfig, listen=listen)
