"""The configuration half of `kubernetes_asyncio`, without its models.

`import kubernetes_asyncio.config` first runs the package's own `__init__`, which imports every generated
API and model: 37 MiB of memory for classes that this program never uses. So light stand-ins take the
place of the two package modules while the configuration modules are loaded, and leave `sys.modules`
again afterwards: a later ordinary import gets the whole, real package. Where the layout of the library
is not the one known here, the ordinary import is used, and only memory is lost.

The library logs what it then raises, or what is told better here: its own lines are not shown.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import threading
from types import ModuleType
from typing import Any, NamedTuple

NAME = "kubernetes_asyncio"
log = logging.getLogger(__name__)


class Library(NamedTuple):
    """The classes that are used, and whether they came without the models."""

    Configuration: Any
    KubeConfigMerger: Any
    KubeConfigLoader: Any
    InClusterConfigLoader: Any
    light: bool


_lock = threading.Lock()
_loaded: list[Library] = []


def library() -> Library:
    """The library's configuration classes, imported once, as lightly as possible."""
    with _lock:
        if not _loaded:
            logging.getLogger(NAME).setLevel(logging.CRITICAL + 1)
            _loaded.append(_import())
        return _loaded[0]


def _import() -> Library:
    if NAME not in sys.modules:  # else the whole package is in memory anyway
        try:
            return _import_lightly()
        except (ImportError, AttributeError, TypeError) as error:
            log.warning("importing %s with all its models: its layout has changed (%s)", NAME, error)
    configuration = importlib.import_module(f"{NAME}.client.configuration")
    return _library(configuration, light=False)


def _import_lightly() -> Library:
    spec = importlib.util.find_spec(NAME)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{NAME} is not installed as a package")
    root = spec.submodule_search_locations[0]
    try:
        _stand_in(NAME, root)
        client = _stand_in(f"{NAME}.client", f"{root}/client")
        _stand_in(f"{NAME}.config", f"{root}/config")
        configuration = importlib.import_module(f"{NAME}.client.configuration")
        # `kube_config` names both at import time; ApiClient is only made by functions not used here.
        client.__dict__.update(Configuration=configuration.Configuration, ApiClient=object)
        return _library(configuration, light=True)
    finally:
        # Everything goes, the real configuration modules too: a half-known package would break the
        # next ordinary import. The classes live on through the references in `Library`.
        for name in [name for name in sys.modules if name == NAME or name.startswith(NAME + ".")]:
            del sys.modules[name]


def _stand_in(name: str, path: str) -> ModuleType:
    module = ModuleType(name)
    module.__path__ = [path]
    sys.modules[name] = module
    return module


def _library(configuration: ModuleType, *, light: bool) -> Library:
    kube_config = importlib.import_module(f"{NAME}.config.kube_config")
    in_cluster = importlib.import_module(f"{NAME}.config.incluster_config")
    return Library(
        configuration.Configuration,
        kube_config.KubeConfigMerger,
        kube_config.KubeConfigLoader,
        in_cluster.InClusterConfigLoader,
        light,
    )
