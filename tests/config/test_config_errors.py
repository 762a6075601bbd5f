"""Bad input, row by row: what the message says is its place, key, value and what was expected."""

from __future__ import annotations

import traceback

import pytest

from controller.config.errors import ConfigError
from controller.config.load import load, load_dict
from controller.domain.windows import EXPECTED as HOURS

GOOD = """\
pools:
  - name: a100
    instance_types: [1A100.22V]
    max: 4
    join: k3s
join:
  k3s: {template: k3s, server: "https://10.0.0.1:6443", token_from: {secret: {name: join, key: token}}}
"""


def lines(text: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load("config.yaml", environ or {}, text=text, service_account="/nonexistent")
    return str(caught.value).splitlines()


def pool(extra: str) -> str:
    return GOOD.replace("    max: 4\n", f"    max: 4\n    {extra}\n")


def test_the_good_one_is_good() -> None:
    assert load("config.yaml", {}, text=GOOD, service_account="/nonexistent").warnings == []


AT = "config.yaml:5: "
WHOLE = "expected a whole number, 0 or more"
QUOTE = "expected text; YAML reads on, off, yes and no as true or false, so write it in quotes"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("min: 5", AT + "pools[0].min = 5: expected at most max (4)"),
        ("min: -1", AT + f"pools[0].min = -1: {WHOLE}"),
        ("min: true", AT + f"pools[0].min = true: {WHOLE}"),
        ("min: on", AT + f"pools[0].min = on: {WHOLE}"),
        ("min: 1.5", AT + f"pools[0].min = 1.5: {WHOLE}"),
        ("min: 010", AT + f"pools[0].min = 010: {WHOLE}"),
        ("min: 1:30", AT + f"pools[0].min = 1:30: {WHOLE}"),
        ("min: .nan", AT + f"pools[0].min = .nan: {WHOLE}"),
        ("disk_gb: 10", AT + "pools[0].disk_gb = 10: expected a whole number from 50 to 10000"),
        ("gpu_models: [on]", AT + f"pools[0].gpu_models[0] = on: {QUOTE}"),
        ("locations: [NO]", AT + f"pools[0].locations[0] = NO: {QUOTE}"),
        ("locations: FIN-01", AT + "pools[0].locations = FIN-01: expected a list"),
        (
            "market: spot",
            AT
            + "pools[0].market = spot: expected one of spot_only, prefer_spot, prefer_on_demand, on_demand_only",
        ),
        ("maxx: 3", AT + "pools[0].maxx: expected one of the known keys; did you mean max?"),
        ("nothing_like_it:", None),
        (
            "contract: LONG_TERM",
            AT
            + "pools[0].contract: expected no such key: machines are bought pay-as-you-go only, "
            + "LONG_TERM contracts are refused",
        ),
        (
            "max_price_per_hour: -1",
            AT
            + "pools[0].max_price_per_hour = -1: expected an amount of money per hour or month, 0 or more, such as 2.50",
        ),
        (
            "labels: {gpu-autoscaler/pool: x}",
            AT
            + 'pools[0].labels["gpu-autoscaler/pool"] = x: expected a label without the prefix gpu-autoscaler/, '
            + "which is reserved for the autoscaler's own",
        ),
        (
            "labels: {team: 1}",
            AT
            + "pools[0].labels.team = 1: expected text; labels are texts, so write numbers, true, false, on and off in quotes",
        ),
        (
            "labels: {team: -x}",
            AT
            + "pools[0].labels.team = -x: expected at most 63 letters, digits, -, _ and ., with a letter or digit at both ends",
        ),
        ("labels: [a]", AT + "pools[0].labels = […]: expected a map of labels, such as {team: ml}"),
        (
            "taints: [{key: a, effect: NoRun}]",
            AT + "pools[0].taints[0].effect = NoRun: expected one of NoSchedule, PreferNoSchedule, NoExecute",
        ),
        ("taints: [{key: a}]", AT + "pools[0].taints[0].effect: expected a value, because it is required"),
        (
            "taints: [{key: gpu-autoscaler/idle, effect: NoSchedule}]",
            AT
            + "pools[0].taints[0].key = gpu-autoscaler/idle: expected another taint: this one is reserved for the autoscaler",
        ),
        (
            'taints: ["a=b:NoSchedule", {key: a, value: c, effect: NoSchedule}]',
            AT + "pools[0].taints[1]: expected a key and effect once per pool; taints[0] has them already",
        ),
        (
            "resources: {nvidia.com/gpu: 0.5}",
            AT
            + 'pools[0].resources["nvidia.com/gpu"] = 0.5: '
            + "expected a whole number: Kubernetes counts this resource in whole units",
        ),
        (
            "resources: {cpu: many}",
            AT + "pools[0].resources.cpu = many: expected a quantity such as 2, 500m or 1.5Gi",
        ),
        (
            "expire_after: 59m",
            AT
            + "pools[0].expire_after = 59m: expected a duration of at least 1h, such as 30d: "
            + "machines that expire sooner would be replaced for ever",
        ),
        (
            "pause: yes",
            AT + "pools[0].pause = yes: expected one of scale-up, scale-down, all",
        ),
    ],
)
def test_a_bad_pool_is_refused_in_words(extra: str, message: str | None) -> None:
    found = lines(pool(extra))
    assert len(found) == 1
    if message is None:
        assert found[0].startswith(
            AT + "pools[0].nothing_like_it: expected one of the known keys (arm64, disk_gb"
        )
    else:
        assert found == [message]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            GOOD.replace("name: a100", "name: a-name-that-is-too-long"),
            "config.yaml:2: pools[0].name = a-name-that-is-too-long: expected 1 to 20 of a-z, 0-9 and -, "
            "with no - at either end (in quotes if it is a number)",
        ),
        (
            GOOD.replace("    max: 4\n", ""),
            "config.yaml:2: pools[0].max: expected a value, because it is required",
        ),
        (
            GOOD.replace("    instance_types: [1A100.22V]\n", ""),
            "config.yaml:2: pools[0]: expected what it may buy: instance_types, gpu_models or min_gpu_memory_gb",
        ),
        (
            GOOD.replace("join: k3s", "join: k3"),
            "config.yaml:5: pools[0].join = k3: expected the name of an entry under join (k3s); did you mean k3s?",
        ),
        (
            GOOD.replace("template: k3s", "template: rke2"),
            "config.yaml:7: join.k3s.template = rke2: expected one of k3s, kubeadm",
        ),
        (
            GOOD.replace("https://10.0.0.1:6443", "http://10.0.0.1:6443"),
            "config.yaml:7: join.k3s.server = http://10.0.0.1:6443: expected a URL that begins with https://",
        ),
        (
            GOOD.replace("https://10.0.0.1:6443", "https://10.0.0.1:6443/$(reboot)"),
            "config.yaml:7: join.k3s.server = https://10.0.0.1:6443/$(reboot): "
            "expected https://host:port and nothing after it",
        ),
        (
            GOOD.replace("{secret: {name: join, key: token}}", "bootstrap"),
            "config.yaml:7: join.k3s.token_from = bootstrap: expected {secret: {name, key}}: "
            "minting bootstrap tokens comes in a later version; name a secret",
        ),
        (
            GOOD.replace("template: k3s, ", "template: k3s, version: 1.33; reboot, "),
            "config.yaml:7: join.k3s.version = 1.33; reboot: expected a version such as v1.33.4+k3s1 or 1.33",
        ),
        (
            GOOD + "  mine: {startup_script_id: abc, delete_script: after_create}\n",
            "config.yaml:8: join.mine.delete_script = after_create: expected after_join, because a script of "
            "your own (startup_script_id) is never deleted",
        ),
        (
            GOOD + "  mine: {startup_script_id: abc, server: https://x}\n",
            "config.yaml:8: join.mine.server: expected no such key beside startup_script_id: "
            "that script is used as it is",
        ),
        (
            GOOD + "cluster_id: -home\n",
            "config.yaml:8: cluster_id = -home: expected 1 to 20 of a-z, 0-9 and -, "
            "with no - at either end (in quotes if it is a number)",
        ),
        (
            GOOD + "cluster_id: 123\n",
            "config.yaml:8: cluster_id = 123: expected text; write the number in quotes",
        ),
        (GOOD + "limits:\n  gpus: -1\n", f"config.yaml:9: limits.gpus = -1: {WHOLE}"),
        (
            GOOD + "scale_down: {cooldown: 10 minutes}\n",
            "config.yaml:8: scale_down.cooldown = 10 minutes: "
            "expected a duration such as 90s, 10m, 1h30m or 100ms (a plain number is seconds)",
        ),
        (
            GOOD + "lease: {renew: 20s}\n",
            "config.yaml:8: lease.renew = 20s: expected less than spend_within (10s)",
        ),
        (
            GOOD + "lease: {duration: 8s}\n",
            "config.yaml:8: lease.duration = 8s: expected more than spend_within (10s)",
        ),
        (
            GOOD + "deadlines: {backoff: {most: 1m}}\n",
            "config.yaml:8: deadlines.backoff.most = 1m: expected at least first (3m)",
        ),
        (
            GOOD + "deadlines: {unknown_create: {lists: 1}}\n",
            "config.yaml:8: deadlines.unknown_create.lists = 1: expected a whole number, 2 or more",
        ),
        (
            GOOD + "disruption: {budget: 120%}\n",
            'config.yaml:8: disruption.budget = 120%: expected a share such as "20%" or a whole number of machines',
        ),
        (
            GOOD + "disruption: {budgets: {idle: -1}}\n",
            'config.yaml:8: disruption.budgets.idle = -1: expected a share such as "20%" or a whole number of machines',
        ),
        (
            GOOD + "disruption: {budgets: {moved: 1}}\n",
            "config.yaml:8: disruption.budgets.moved: expected one of the known keys (consolidation, drifted, expired, idle)",
        ),
        (
            GOOD + "disruption: {windows: [night]}\n",
            f"config.yaml:8: disruption.windows[0] = night: expected {HOURS}: it is not of that form",
        ),
        (
            GOOD + "disruption: {not_during: [Sun 00:00-24:00 Finland]}\n",
            f"config.yaml:8: disruption.not_during[0] = Sun 00:00-24:00 Finland: expected {HOURS}: Finland is no time zone",
        ),
        (
            GOOD + "scale_down: {order: smallest}\n",
            "config.yaml:8: scale_down.order = smallest: expected one of largest, dearest",
        ),
        (
            GOOD + "scale_down: {consolidate: true}\n",
            "config.yaml:8: scale_down.consolidate = true: expected one of off, cheaper",
        ),
        (
            GOOD + "headroom: [{pool: a10, gpus: 1}]\n",
            "config.yaml:8: headroom[0].pool = a10: expected the name of a pool; did you mean a100?",
        ),
        (
            GOOD + "scale_up: {strategy: priority, priorities: [a100, A10]}\n",
            "config.yaml:8: scale_up.priorities[1] = A10: expected the name of a pool or of a machine to switch; did you mean a100?",
        ),
        (GOOD + "limit: {}\n", "config.yaml:8: limit: expected one of the known keys; did you mean limits?"),
        (GOOD + "limits: []\n", "config.yaml:8: limits = []: expected a map of keys and values"),
    ],
)
def test_what_is_wrong_elsewhere_is_refused_in_words(text: str, message: str) -> None:
    assert lines(text) == [message]


def test_every_problem_is_told_at_once_from_top_to_bottom() -> None:
    text = """\
pools:
  - {name: a, gpu_models: [X], max: 1, min: 3, colour: red}
  - {name: a, gpu_models: [X], max: many}
join: {mine: {startup_script_id: s}}
"""
    assert lines(text, {"GPU_AUTOSCALER_LIMITS__GPUS": "x"}) == [
        f"GPU_AUTOSCALER_LIMITS__GPUS: limits.gpus = x: {WHOLE}",
        "config.yaml:2: pools[0].min = 3: expected at most max (1)",
        "config.yaml:2: pools[0].colour: expected one of the known keys (arm64, disk_gb, expire_after, feature_discovery, gpu_models, image, "
        "instance_types, join, labels, locations, market, max, max_gpus, max_gpus_total, max_price_per_hour, min, "
        "min_gpu_memory_gb, name, pause, resource_claims, resources, ssh_key_ids, startup_taint, strategy, taints)",
        "config.yaml:3: pools[1].name = a: expected a name of its own; pools[0] (config.yaml:2) has it already",
        f"config.yaml:3: pools[1].max = many: {WHOLE}",
    ]


def test_a_pool_without_a_way_to_join_is_refused_where_money_is_spent() -> None:
    text = GOOD[: GOOD.index("    join:")]
    assert lines(text) == [
        "config.yaml:2: pools[0].join: expected an entry under join, because its machines could not join the cluster"
    ]
    data = {"pools": [{"name": "a100", "instance_types": ["1A100.22V"], "max": 4}]}
    assert load_dict(data).settings.pools[0].join is None


def test_a_snapshot_says_so() -> None:
    with pytest.raises(ConfigError) as caught:
        load_dict({"limits": {"gpus": -2}})
    assert str(caught.value) == f"snapshot: limits.gpus = -2: {WHOLE}"


SECRET = "hunter2-is-no-password"


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        (f"verda: {{client_secret: [{SECRET}]}}", {}),
        (f"verda: {{client_secret: {{a: {SECRET}}}}}", {}),
        (f"verda: {{client_secrt: {SECRET}}}", {}),
        (f"verda: {SECRET}", {}),
        (f"join: {SECRET}", {}),
        (f"join: {{a: {SECRET}}}", {}),
        (f"join: {{a: {{template: k3s, server: https://x, token_from: {SECRET}}}}}", {}),
        (f"join: {{a: {{template: k3s, server: https://x, token_from: {{token: {SECRET}}}}}}}", {}),
        (
            f"join: {{a: {{template: k3s, server: 'https://u:{SECRET}@x', token_from: {{secret: {{name: a, key: b}}}}}}}}",
            {},
        ),
        (f"join: {{a: {{template: k3s, server: 'https://x?token={SECRET}'}}}}", {}),
        (f"verda: {{base_url: 'https://u:{SECRET}@x'}}", {}),
        *(
            (f"verda: {{base_url: '{begin}u:{SECRET}{mark}x@y'}}", {})
            for begin in ("https://", "https:/", "")
            for mark in "/#?"
        ),
        (f"verda: {{client_secret: *{SECRET}}}", {}),
        (f"verda: {{client_secret: !{SECRET} }}", {}),
        (f'verda: {{client_secret: "{SECRET}\\q"}}', {}),
        (f"verda: {{client_secret: {SECRET}\n", {}),
        ("a: 1", {"VERDA_CLIENT_SECRET": f"{SECRET}\nline"}),
        ("a: 1", {"GPU_AUTOSCALER_VERDA_CLIENT_SECRET": SECRET}),
        ("a: 1", {"GPU_AUTOSCALER_VERDA": SECRET}),
        ("a: 1", {"GPU_AUTOSCALER_VERDA": '{"client_secret": "' + SECRET}),
    ],
)
def test_a_secret_is_never_in_a_message(text: str, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load("config.yaml", environ, text=text, service_account="/nonexistent")
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in repr(caught.value.problems)
