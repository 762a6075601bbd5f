"""`python -m controller.config.dialects.docs` writes docs/variables.md: every variable of a group, from the model itself."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from controller.config.dialects.groups import suffix
from controller.config.paths import fields, shape
from controller.config.pools import PoolSetting
from controller.config.switching import SwitchedMachine

TARGET = Path(__file__).resolve().parents[3] / "docs" / "variables.md"
_HEAD = """\
# Groups in the environment

<!-- Written by `python -m controller.config.dialects.docs`; change the descriptions in controller/config instead. -->

```bash
# A machine that is switched on and off through two endpoints, as the small webhook controller reads it:
GPU_NODE_1_NAME=gpu-worker-1
GPU_NODE_1_GPU_COUNT=4
GPU_NODE_1_SCALE_UP_ENDPOINT=http://power-api/gpu-worker-1/start
GPU_NODE_1_SCALE_DOWN_ENDPOINT=http://power-api/gpu-worker-1/stop

# A pool at the cloud, in the same style; how its machines join comes from the file, or from a variable too:
A100_NAME=a100
A100_INSTANCE_TYPES=1A100.22V,2A100.44V
A100_LOCATIONS=FIN-01,FIN-03
A100_MAX=4
A100_LABELS=team=ml
A100_TAINTS=nvidia.com/gpu=present:NoSchedule
GPU_AUTOSCALER_JOIN='{"k3s": {"template": "k3s", "server": "https://203.0.113.10:6443", "token_from": {"secret": {"name": "join-token", "key": "token"}}}}'
```

The prefix is free, and there may be any number of them; both kinds mix, and are added to what a file says. A prefix is a
group if `P_GPU_COUNT` (a machine that is switched) or `P_INSTANCE_TYPES` (a pool) exists; both is an error. Half a
group is an error that names the variables which are missing. A variable that merely ends in `_GPU_COUNT`, with
nothing else of its prefix, is a warning; so are `P_NAME` and `P_MAX` of no group. An empty variable counts as not set, but an
empty `P_GPU_COUNT` or `P_INSTANCE_TYPES` beside others of its group is half a group.
Any other variable with the prefix of a pool is a warning, and an error where it was meant to limit what is bought: `P_LOCATION`,
`P_REGION`, `P_SPOT`, `P_MAX_PRICE`, or `P_MAX_PRICE_PER_HUOR`, with a slip in it. Beside `P_LOCATIONS` another program's `P_REGION` or
`P_ZONE` (`eu-west-1`) is a warning. Variables that Kubernetes makes for a Service (`P_MARKET_PORT`) are neither.

Lists have commas between their entries, labels are `k=v,…`, taints `k[=v]:Effect,…`, and any list or map may be JSON. Keys
within a key have two underscores before them, and lists of maps come as JSON of the whole.
"""


def render() -> str:
    lines = [_HEAD]
    for title, model, telling in (
        ("A machine that is switched", SwitchedMachine, "GPU_COUNT"),
        ("A pool at the cloud", PoolSetting, "INSTANCE_TYPES"),
    ):
        lines += [f"## {title}", "", "| variable | setting | needed | what, and why |", "|---|---|---|---|"]
        lines += [_row(path, field, telling, model) for path, field in fields(model) if _has_one(path)]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _has_one(path: tuple[str | int, ...]) -> bool:
    return not {"*", "<name>"} & set(path)


def _row(path: tuple[str | int, ...], field: FieldInfo, telling: str, model: type[BaseModel]) -> str:
    name = suffix(path)
    needed = "makes the group" if name == telling else "yes" if field.is_required() else ""
    kind = shape(field.annotation).kind
    form = {"list": " (a list)", "map": " (a map)"}.get(kind, "")
    return f"| `P_{name}` | `{'.'.join(str(part) for part in path)}`{form} | {needed} | {field.description} |"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
