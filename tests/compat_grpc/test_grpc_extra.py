"""Without the extra nothing of grpc is needed, and whoever asks for it is told what to install."""

from __future__ import annotations

import subprocess
import sys

_BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("grpc", "google", "grpc_health", "grpc_reflection"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def without_grpc(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _BLOCK + code], capture_output=True, text=True, timeout=120, check=False
    )


def test_every_module_of_the_controller_is_imported_without_grpc() -> None:
    done = without_grpc(
        "import importlib, pkgutil, controller\n"
        "for found in pkgutil.walk_packages(controller.__path__, 'controller.'):\n"
        "    if not found.name.startswith(('controller.sandbox.bench', 'controller.cli.main')):\n"
        "        importlib.import_module(found.name)\n"
        "assert 'grpc' not in sys.modules\n"
    )
    assert done.returncode == 0, done.stderr


def test_the_drivers_error_names_the_extra() -> None:
    done = without_grpc(
        "sys.argv = ['verda-gpu-autoscaler', 'run', '--driver', 'externalgrpc', '--insecure']\n"
        "from controller.cli.main import main\nmain()\n"
    )
    assert done.returncode == 2
    assert "pip install 'verda-gpu-autoscaler[grpc]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_providers_name_then_means_the_planner() -> None:
    done = without_grpc("from controller.cli.drivers import resolve\nprint(resolve('auto'))\n")
    assert (done.returncode, done.stdout.strip()) == (0, "planner")
