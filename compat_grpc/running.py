"""The driver as the command line makes it: settings, certificates, and who may do without them.

The Python provider took its certificates from variables, and served whoever came where they were absent. Its
users' manifests say so today; so under its name, and only there, their absence is no error but a warning.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from compat_grpc.driver import ExternalDriver
from compat_grpc.transport import Files
from controller.app.exits import CONFIGURATION, Ends
from controller.config.externalgrpc import ExternalGrpc

CERT, KEY, CLIENT_CA = "TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CA_FILE"


def make(
    settings: ExternalGrpc,
    *,
    insecure: bool = False,
    listen: str = "",
    variables: Mapping[str, str] | None = None,
) -> ExternalDriver:
    """`variables`: those of the Python provider's command; None under our own name."""
    files = _files(settings, insecure, variables)
    if settings.allowed_names and (files is None or not files.client_ca):
        raise Ends(
            CONFIGURATION,
            "externalgrpc.allowed_names: expected with client certificates only (externalgrpc.tls), because nothing else "
            "proves a name",
        )
    if listen:
        settings = settings.model_copy(update={"listen": listen})
    return ExternalDriver(settings, files, clock=time.time)


def _files(settings: ExternalGrpc, insecure: bool, variables: Mapping[str, str] | None) -> Files | None:
    """None: without TLS."""
    if settings.tls is not None:
        if insecure:
            raise Ends(CONFIGURATION, "--insecure: expected without externalgrpc.tls, which is set")
        return Files(cert=settings.tls.cert, key=settings.tls.key, client_ca=settings.tls.client_ca)
    if variables is not None and (found := _of_variables(variables)) is not None:
        return found
    if insecure or settings.insecure or variables is not None:
        return None
    raise Ends(
        CONFIGURATION,
        "externalgrpc.tls: missing; expected cert, key and client_ca, or --insecure to serve whoever reaches the "
        "port",
    )


def _of_variables(variables: Mapping[str, str]) -> Files | None:
    cert, key, authority = (variables.get(name, "").strip() for name in (CERT, KEY, CLIENT_CA))
    if not (cert or key or authority):
        return None
    for name, value in ((CERT, cert), (KEY, key)):
        if not value:
            raise Ends(
                CONFIGURATION, f"{name}: missing; expected beside the other TLS_ variables, or none of them"
            )
    return Files(cert=cert, key=key, client_ca=authority)


__all__ = ["ExternalDriver", "make"]
