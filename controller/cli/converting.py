"""`config convert`: a predecessor's configuration as our YAML. It is read again before it is printed."""

from __future__ import annotations

import os

import typer

from controller.app.exits import FAILED, Ends
from controller.cli.given import Given
from controller.config.dialects.convert import as_yaml, is_the_same
from controller.config.errors import ConfigError
from controller.config.load import load


def convert(given: Given) -> None:
    loaded = given.load()
    text = as_yaml(loaded, given.flags)
    kept = {name: os.environ[name] for name in ("POD_NAMESPACE",) if name in os.environ}
    try:
        again = load("converted.yaml", kept, text=text)
    except ConfigError as error:
        raise Ends(FAILED, "the converted settings cannot be read", *str(error).splitlines()) from error
    if not is_the_same(loaded.settings, again.settings):
        raise Ends(FAILED, "the converted settings would not be the same; please report this configuration")
    typer.echo(text, nl=False)
