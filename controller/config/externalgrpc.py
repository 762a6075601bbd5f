"""How cluster-autoscaler reaches this program, where it decides instead of the planner."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller.config.section import Section, lasting
from controller.config.values import Flag, SomeTime, Text, matching


class Tls(Section):
    """Files in PEM. They are read again for each new connection, so a rotation needs no restart."""

    cert: Text = Field(
        description="The server's certificate with its chain; required, because without it nothing is proven. It must name the host that cluster-autoscaler connects to."
    )
    key: Text = Field(description="The key of that certificate; required with it.")
    client_ca: Text = Field(
        description="Who signs clients' certificates; required, because whoever connects can buy machines. Better an authority for this alone than the cluster's."
    )


class ExternalGrpc(Section):
    listen: Annotated[str, matching(r"\S*:[0-9]{1,5}", "ADDRESS:PORT or :PORT")] = Field(
        ":8086",
        description="Where cluster-autoscaler connects to; every address of the pod, because it runs in another one.",
    )
    tls: Tls | None = Field(
        None,
        description="Certificates for mutual TLS; needed unless `insecure` says otherwise, because there is no other proof of who calls.",
    )
    insecure: Flag = Field(
        False,
        description="Serve without TLS, to whoever reaches the port; false, because that is anybody in the cluster.",
    )
    allowed_names: tuple[Text, ...] = Field(
        (),
        description="Names of clients (subject alternative names), one of which a certificate must carry; none, because an authority of its own needs no list.",
    )
    options: Flag = Field(
        False,
        description="Whether node groups have options of their own (cooldown, and the time that a start may take); false, because releases from 1.35 on take any such answer to mean that nodes have no time to start.",
    )
    failed_for: SomeTime = lasting(
        900,
        "How long a machine that could not be created is shown until cluster-autoscaler collects it; 15 min, in case it is being restarted.",
    )
    refuse_after_restart: Flag = Field(
        True,
        description="Whether groups refuse to grow, but for what waiting pods need beside them, while machines boot that were asked for by an earlier life of cluster-autoscaler; true, because releases from 1.36 on forget them and would buy the same again.",
    )
    health: Flag = Field(
        False, description="Serve gRPC's health service too; false, because nobody asks for it by itself."
    )
    reflection: Flag = Field(
        False, description="Tell tools what can be called; false, because that is for trying things out."
    )
