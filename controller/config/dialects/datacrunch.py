"""The Go provider inside cluster-autoscaler: `node_configs` by group, and `--nodes` with bounds, type and region.

A script comes from the group, else from a variable, a file or a server. Its operator was responsible for labels,
taints and the provider ID; labels and taints that the script leaves out are set here, and INSTANCE_ID, which the
provider's own preamble looked up with the account's credentials, is handed to the script without them.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.config.dialects.common import DYNAMIC, about_cpu, about_min, without_times
from controller.config.dialects.draft import Draft, Given, name_pool
from controller.config.dialects.nodes import Nodes, parse_all
from controller.config.dialects.scripts import decoded, look_through
from controller.config.errors import ConfigError
from controller.config.reading import read_text
from controller.config.sources import Tree
from controller.config.values import Path

SCRIPT, SCRIPT_FILE, SCRIPT_URL = (
    "DATACRUNCH_STARTUP_SCRIPT",
    "DATACRUNCH_STARTUP_SCRIPT_FILE",
    "DATACRUNCH_STARTUP_SCRIPT_FETCH_URL",
)
# An empty text is to its parser what a missing key is.
_OPTIONS = {name: name for name in ("prefer_spot", "prefer_on_demand", "spot_only", "on_demand_only")} | {
    "": "on_demand_only"
}
_PRICINGS = {"fixed": "", "dynamic": DYNAMIC, "": ""}
_CONFIG = (
    "image_type", "ssh_key_ids", "instance_option", "disk_size_gb", "override_num_gpus", "pricing_option",
    "startup_script_base64", "taints", "labels",
)  # fmt: skip
_ENTRY, _OWN = "startup-script", "startup-script_own"  # no pool's name has a _


def translate(draft: Draft, tree: Tree, nodes: tuple[str, ...], environ: Mapping[str, str]) -> None:
    top = Given(draft, tree.data, tree.places)
    configs = top.part("node_configs", "a map of node configurations by group")
    if configs is None and not draft.problems:
        draft.wrong("node_configs", None, "a map of node configurations by group", top.where())
    top.leftover(("node_configs",))
    shared = _shared_script(draft, environ)
    used: set[str] = set()
    for n, flag in enumerate(parse_all(draft, nodes, region=True)):
        used.add(flag.group)
        if configs is None:
            continue
        given = configs.entry(flag.group)
        if given is not None:
            _pool(draft, n, flag, given, shared, environ)
        elif flag.group not in configs.data:
            known = ", ".join(configs.data) or "none"
            draft.wrong("--nodes", flag.text, f"a group that node_configs has ({known})", "command line")
    if configs is not None:
        for group in configs.data:
            if group not in used and nodes:
                draft.warn(
                    configs.where(group),
                    configs.theirs(group),
                    "no --nodes names it, so nothing is bought for it",
                )


def bounds(draft: Draft, n: int, flag: Nodes) -> None:
    """What a pool has from its flag."""
    at: Path = ("pools", n)
    name_pool(draft, flag.group, at, "--nodes", "--nodes")
    draft.spelled[f"pools[{n}]"] = f"--nodes={flag.text}"
    draft.put((*at, "min"), int(flag.least), "command line", f"--nodes={flag.text}: min")
    about_min(draft, flag.least, "command line", f"--nodes={flag.text}")
    draft.put((*at, "max"), int(flag.most), "command line", f"--nodes={flag.text}: max")
    draft.put((*at, "instance_types"), [flag.kind], "command line", f"--nodes={flag.text}: instance type")
    draft.spelled[f"pools[{n}].instance_types[0]"] = f"--nodes={flag.text}: instance type"
    if flag.region:
        draft.put((*at, "locations"), [flag.region], "command line", f"--nodes={flag.text}: region")
        draft.spelled[f"pools[{n}].locations[0]"] = f"--nodes={flag.text}: region"


def _pool(draft: Draft, n: int, flag: Nodes, given: Given, shared: str, environ: Mapping[str, str]) -> None:
    at: Path = ("pools", n)
    bounds(draft, n, flag)
    given.move("image_type", (*at, "image"))
    if not given.has("image_type"):
        draft.wrong(given.theirs("image_type"), None, "a value, because it is required", given.where())
    given.move("ssh_key_ids", (*at, "ssh_key_ids"))
    market = given.choice("instance_option", _OPTIONS, "on_demand_only")
    draft.put((*at, "market"), market, given.where("instance_option"), given.theirs("instance_option"))
    if (
        given.get("disk_size_gb") is False or given.get("disk_size_gb") != 0
    ):  # 0 is a missing key to its parser
        given.move("disk_size_gb", (*at, "disk_gb"))
    if given.get("override_num_gpus") == 0:
        where, theirs = given.where("override_num_gpus"), given.theirs("override_num_gpus")
        draft.warn(where, theirs, "0 overrides nothing; the type's own GPUs count")
    elif given.has("override_num_gpus"):
        count = given.get("override_num_gpus")
        where, theirs = given.where("override_num_gpus"), given.theirs("override_num_gpus")
        note = "was override_num_gpus: the total that a node offers, not a factor"
        draft.put((*at, "resources"), {"nvidia.com/gpu": count}, where, theirs, note)
        draft.spelled[f'pools[{n}].resources["nvidia.com/gpu"]'] = theirs
    if given.choice("pricing_option", _PRICINGS, "") == DYNAMIC:
        draft.warn(given.where("pricing_option"), given.theirs("pricing_option"), DYNAMIC)
    given.move("labels", (*at, "labels"), note="set by the autoscaler where the script did not set them")
    if given.has("taints"):
        note = "set by the autoscaler where the script did not set them"
        taints = without_times(given.get("taints"))
        draft.put((*at, "taints"), taints, given.where("taints"), given.theirs("taints"), note)
    _join(draft, at, given, shared, environ)
    about_cpu(draft, given, flag.kind, given.get("labels"))
    given.leftover(_CONFIG)


def _join(draft: Draft, at: Path, given: Given, shared: str, environ: Mapping[str, str]) -> None:
    key = "startup_script_base64"
    if given.get(key):
        where, theirs = given.where(key), given.theirs(key)
        script = decoded(given.get(key))
        if script is None:
            draft.wrong(theirs, "***", "a script in base64", where)
            return
        look_through(draft, script, where, theirs, environ)
        name = str(draft.tree.get((*at, "name")))
        if name == _ENTRY:
            name = _OWN  # that of all others must stay theirs
        note = "was in base64; uploaded for each machine, marked as ours and deleted after the join"
        draft.put(("join", name, "script"), script, where, theirs, note)
        draft.put((*at, "join"), name, where, theirs)
    elif shared:
        draft.put((*at, "join"), shared, given.where(), given.theirs(key))
    else:
        expected = f"a script in base64, or one of {SCRIPT}, {SCRIPT_FILE} and {SCRIPT_URL}, because its machines could not join"
        draft.wrong(given.theirs(key), None, expected, given.where())


def _shared_script(draft: Draft, environ: Mapping[str, str]) -> str:
    """The way to join of groups that have no script of their own, or ""."""
    text, file, url = (environ.get(name, "").strip() for name in (SCRIPT, SCRIPT_FILE, SCRIPT_URL))
    given = [name for name in (SCRIPT, SCRIPT_FILE, SCRIPT_URL) if environ.get(name, "").strip()]
    for name in given[1:]:
        draft.warn(name, "", f"has no effect beside {given[0]}")
    deleted = environ.get("DATACRUNCH_DELETE_SCRIPTS_AFTER_BOOT", "").strip()
    if text:
        script = decoded(text) or ""
        script = script if script.startswith("#") else environ[SCRIPT]  # and no script is base64 by chance
        look_through(draft, script, SCRIPT, "", environ)
        draft.put(("join", _ENTRY, "script"), script, SCRIPT, SCRIPT)
    elif file:
        note = "read again for each machine"
        try:
            look_through(draft, read_text(file, SCRIPT_FILE), SCRIPT_FILE, "", environ)
        except ConfigError as error:  # it may stand where the controller will run
            draft.warn(SCRIPT_FILE, "", f"without it no machine can join: {error.problems[0].expected}")
        draft.put(("join", _ENTRY, "script_file"), file, SCRIPT_FILE, SCRIPT_FILE, note)
    elif url:
        note = "asked for each machine: it answers with a script, or with the id of one that it uploaded"
        draft.put(("join", _ENTRY, "script_url"), url, SCRIPT_URL, SCRIPT_URL, note)
        draft.warn(
            SCRIPT_URL,
            "",
            "a script server has the account's credentials, and its scripts carry them to every machine: a template "
            "(join.<name>.template) or join.<name>.script needs no such server (docs/from-datacrunch.md)",
        )
    if deleted and deleted.lower() not in ("true", "1"):
        draft.warn(
            "DATACRUNCH_DELETE_SCRIPTS_AFTER_BOOT",
            "",
            "has no effect: scripts are always deleted after the join",
        )
    return _ENTRY if text or file or url else ""
