"""`python -m controller.config.docs` writes docs/configuration.md from the model's own descriptions."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from controller.config.paths import fields, shape, shape_at
from controller.config.settings import Settings
from controller.config.values import Path as Key

TARGET = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"

_HEAD = """\
# Configuration

<!-- Written by `python -m controller.config.docs`; change the descriptions in controller/config instead. -->

```yaml
pools:
  - name: a100
    gpu_models: [A100 80GB]
    max: 4
join:
  k3s:
    template: k3s
    server: https://203.0.113.10:6443
    token_from: {secret: {name: join-token, key: token}}
```

That is a whole file: everything else has a default, and the table below says why it is what it is.
A pool must say what it may buy (`instance_types`, `gpu_models` or `min_gpu_memory_gb`) and how many
machines at most (`max`). Check it before use with `verda-gpu-autoscaler config check`.

## Where values come from

Command line over environment over file over defaults. Maps are merged key by key; a list replaces the
list below it. `key:` with nothing after it, and an empty variable, mean "not set".

| in the file | in a variable |
|---|---|
| `limits: {gpus: 8}` | `GPU_AUTOSCALER_LIMITS__GPUS=8` |
| `planning: {ignore_namespaces: [a, b]}` | `GPU_AUTOSCALER_PLANNING__IGNORE_NAMESPACES=a,b` |
| `pools: [{name: a100, …}]` | `GPU_AUTOSCALER_POOLS='[{"name": "a100", …}]'` |
| the first pool's `labels: {team: ml}` | `GPU_AUTOSCALER_POOLS__0__LABELS=team=ml` |
| the first pool's `taints` | `GPU_AUTOSCALER_POOLS__0__TAINTS=nvidia.com/gpu=present:NoSchedule` |

Any list or map may be JSON in a variable. A `GPU_AUTOSCALER_…` variable that is no setting is an error;
those that Kubernetes adds for a Service of a similar name are ignored.

Credentials come from `VERDA_CLIENT_ID`, `VERDA_CLIENT_SECRET` and, for another address,
`VERDA_BASE_URL`. The older names `DATACRUNCH_CLIENT_ID`, `DATACRUNCH_CLIENT_SECRET` and
`DATACRUNCH_BASE_URL` are read too, and give way. Each may end in `_FILE` and then names a file that holds
the value. Such a file is read again when it changes, as a mounted Secret does: no restart is needed after
credentials were replaced. They have to be of the same project, because its machines are followed on. While
credentials with another client id or address show none of the machines that there were, nothing is ordered and
nothing is removed, and the report `project` in the status says so. That ends when one of them is seen, or when none
of their Nodes was Ready for half an hour. So whoever moves to another project on purpose, and leaves machines running
in the old one, gets no new ones until those are gone; and where a new client of the same project comes while nothing
is left but an order or a removal under way, that has to be over first, or the half hour.

## What an error looks like

```
config.yaml:12: pools[0].min = 5: expected at most max (4)
GPU_AUTOSCALER_LIMITS__GPUS: limits.gpus = many: expected a whole number, 0 or more
```

All errors are shown at once, each with its place, key, value and what was expected. Durations are
`10m`, `90s`, `1h30m`, `100ms`, or a plain number of seconds. YAML reads `on`, `off`, `yes` and `no` as
true and false: write texts like these, and numbers that are texts, in quotes.

## Every key

`*` is an entry of a list, `<name>` a name of your choice.
"""


def render() -> str:
    lines = [_HEAD]
    group = ""
    for path, field in fields(Settings):
        if path[0] != group:
            group = str(path[0])
            lines += [
                *([""] if len(lines) > 1 else []),
                f"### {group}",
                "",
                "| key | default | what, and why |",
                "|---|---|---|",
            ]
        lines.append(f"| `{_shown(path)}` | {_default(path, field)} | {field.description} |")
    return "\n".join([lines[0].rstrip("\n"), *lines[1:]]) + "\n"


def _shown(path: Key) -> str:
    return ".".join(str(part) for part in path).replace(".*", "[*]")


def _default(path: Key, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if shape(field.annotation).kind == "model":
        return "" if field.default is not None else "none"
    model: type[BaseModel] = _owner(path)
    value = field.get_default(call_default_factory=False)
    if value is None or value is PydanticUndefined:
        return "none"
    shown = model.model_construct(**{str(path[-1]): value}).model_dump(mode="json", include={str(path[-1])})[
        str(path[-1])
    ]
    text = shown if isinstance(shown, str) else json.dumps(shown)
    return f"`{text}`" if text else "none"


def _owner(path: Key) -> type[BaseModel]:
    owner = shape_at(Settings, tuple(0 if part == "*" else part for part in path[:-1]))
    return owner.model if owner and owner.model else Settings


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(render(), encoding="utf-8")
