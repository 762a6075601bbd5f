"""Where a command's settings come from: our own options, or a predecessor's configuration with flags of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from controller.app.exits import CONFIGURATION, Ends
from controller.config.dialects.choosing import AUTO, CONFIGURATIONS
from controller.config.dialects.flags import Flags, parse_flags
from controller.config.errors import ConfigError
from controller.config.load import Loaded, load


class Given:
    """What a command line says of them. Whatever is wrong ends the command (Ends), a line each."""

    def __init__(
        self,
        config: str | None = None,
        dialect: str = AUTO,
        words: Sequence[str] = (),
        kubeconfig: str = "",
        *,
        option: str = "--dialect",
    ) -> None:
        """`words`: those that are none of our options. `option`: how the dialect's own is called here."""
        self.config = config
        self.dialect = dialect
        self.flags = _flags(words)
        self.kubeconfig = kubeconfig or self.flags.kubeconfig
        self._option = option

    def load(self, environ: Mapping[str, str] | None = None) -> Loaded:
        """Read now; the same again at each change while the program runs."""
        given = os.environ if environ is None else environ
        try:
            return load(self.config, given, dialect=self.dialect, flags=self.flags)
        except ConfigError as error:
            lines = str(error).splitlines()
            raise Ends(CONFIGURATION, *(line.replace("--dialect", self._option) for line in lines)) from error


def without_configurations() -> dict[str, str]:
    """The environment for commands that need no pools: nobody repeats a predecessor's flags for these."""
    return {name: value for name, value in os.environ.items() if name not in CONFIGURATIONS}


def _flags(words: Sequence[str]) -> Flags:
    """cluster-autoscaler's flags, where they are given; a word that is neither ours nor theirs ends the program."""
    flags = parse_flags(words)
    if words and not flags.given:
        raise Ends(
            CONFIGURATION,
            f"{words[0]}: no such option; --help lists them (cluster-autoscaler's own come with --cloud-provider or --nodes)",
        )
    return flags
