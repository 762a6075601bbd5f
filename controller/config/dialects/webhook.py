"""The Helm values of the small webhook controller. Its variables are read for every dialect (`groups`)."""

from __future__ import annotations

from controller.config.dialects.draft import Draft, Given
from controller.config.sources import Tree
from controller.config.values import Path

_KEYS = {
    "name": "name",
    "gpuCount": "gpu_count",
    "scaleUpEndpoint": "scale_up_endpoint",
    "scaleDownEndpoint": "scale_down_endpoint",
}


def translate(draft: Draft, tree: Tree) -> None:
    top = Given(draft, tree.data, tree.places)
    rows = top.get("nodeGroups")
    if not isinstance(rows, list):
        draft.problems.append(
            top.places.problem(
                ("nodeGroups",), rows, "a list of {name, gpuCount, scaleUpEndpoint, scaleDownEndpoint}"
            )
        )
        return
    for n, row in enumerate(rows):
        at: Path = ("machines", n)
        if not isinstance(row, dict):
            draft.problems.append(
                top.places.problem(("nodeGroups", n), row, f"a map with {', '.join(_KEYS)}")
            )
            continue
        given = Given(draft, row, top.places, ("nodeGroups", n))
        draft.spelled[f"machines[{n}]"] = given.theirs()
        draft.tree.places.where[at] = given.where()
        for theirs, ours in _KEYS.items():
            draft.spelled[f"machines[{n}].{ours}"] = given.theirs(theirs)
            given.move(theirs, (*at, ours))
        if draft.tree.get(at) is None:
            draft.tree.put((*at, "name"), None, given.where())
        given.leftover(_KEYS)
    for key in top.data:
        if key not in ("nodeGroups", "image", "imagePullSecrets", "resources", "replicaCount"):
            draft.warn(top.where(key), key, "is for the chart and has no effect here")
