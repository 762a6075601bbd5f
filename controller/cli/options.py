"""Options that several commands have: the same name, form and words everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

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
Dialect = Annotated[
    str,
    typer.Option(
        "--dialect", metavar="NAME", help="auto, native, ca-verda, datacrunch, verdacloud or webhook."
    ),
]
# Whoever takes these reads what is left over with `running.foreign_flags`, which refuses what nobody knows.
FOREIGN_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}
