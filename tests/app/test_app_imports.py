"""What an import must not need, and must not bring along."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_GRPC = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("grpc", "google"):
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Refused())
import importlib, pkgutil
import controller
for module in pkgutil.walk_packages(controller.__path__, "controller."):
    importlib.import_module(module.name)
print("imported")
"""

LEAN = """
import sys
import controller.app.program
heavy = ("kubernetes_asyncio.client.models", "verda", "typer", "rich", "grpc", "controller.sandbox")
print([name for name in heavy if name in sys.modules])
"""

SANDBOXES = """
import sys
import controller.cli.sandboxes, controller.sandbox.cloud.command, controller.sandbox.cluster.command
print([name for name in ("controller.app.program", "controller.config.settings") if name in sys.modules])
"""


def _python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_module_of_the_controller_imports_without_grpc() -> None:
    assert _python(WITHOUT_GRPC) == "imported"


def test_the_program_does_not_import_what_costs_memory_for_nothing() -> None:
    assert _python(LEAN) == "[]"


def test_a_sandbox_starts_without_loading_the_controller() -> None:
    assert _python(SANDBOXES) == "[]"
