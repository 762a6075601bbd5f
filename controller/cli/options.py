"""Options that several commands have: the same name, form and words everywhere."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def option(words: str, *names: str, **more: Any) -> Any:
    """One option of a command: its words in the help, and its name where it is not the parameter's own."""
    return typer.Option(*names, help=words, **more)


def file(words: str) -> Any:
    """An option that names a file."""
    return option(words, metavar="FILE")


Config = Annotated[str | None, file("Settings file (YAML); variables win over it.")]
Kubeconfig = Annotated[str, file("Else KUBECONFIG, the service account, ~/.kube/config.")]
Json = Annotated[bool, option("JSON for scripts.", "--json")]
Dialect = Annotated[
    str, option("auto, native, ca-verda, datacrunch, verdacloud or webhook.", "--dialect", metavar="NAME")
]
# Whoever takes these reads what is left over with `given.Given`, which refuses what nobody knows.
FOREIGN_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}
