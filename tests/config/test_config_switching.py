"""Switched machines in the settings: what four keys mean, and what is wrong, said with its place."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from yarl import URL

from controller.config.errors import ConfigError
from controller.config.load import Loaded, load, load_dict, show

FOUR = '{name: w1, gpu_count: 4, scale_up_endpoint: "http://power/on/1", scale_down_endpoint: "http://power/off/1"}'
MACHINE = '{"name": "w1", "gpu_count": 4, "scale_up_endpoint": "http://p/on", "scale_down_endpoint": "http://p/off"}'


def loaded(text: str) -> Loaded:
    return load("config.yaml", {}, text=text, service_account="/nonexistent")


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        loaded(text)
    return str(error.value)


def test_four_keys_are_a_machine_and_nothing_is_warned_of() -> None:
    found = loaded(f"machines: [{FOUR}]")
    (machine,) = found.settings.machines
    assert found.warnings == []
    assert (machine.gpu_count, machine.price_per_hour, machine.webhook) == (4, Decimal(0), None)
    assert (machine.delete_node_when_off, machine.keep_on) == (False, False)
    assert machine.on_within == timedelta(minutes=15)
    assert found.settings.scale_up.own_machines == "first"


def test_the_only_webhook_is_taken() -> None:
    text = f"machines: [{FOUR}]\nwebhooks: {{power: {{method: PUT}}}}"
    assert loaded(text).settings.machines[0].webhook == "power"


def test_without_more_the_call_is_a_post_of_an_empty_object() -> None:
    webhook = loaded("webhooks: {power: {}}").settings.webhooks["power"]
    assert (webhook.method, webhook.body, webhook.content_type) == ("POST", "{}", "application/json")
    assert webhook.success == ("200-299",)


def test_words_that_yaml_takes_for_booleans_are_words_here() -> None:
    status = (
        loaded("webhooks: {p: {status: {means_on: [on, up], means_off: [off, 0]}}}")
        .settings.webhooks["p"]
        .status
    )
    assert status.means_on == ("true", "on", "yes", "up")
    assert status.means_off == ("false", "off", "no", "0")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("machines: [{name: w1}]", "machines[0].gpu_count: expected a value, because it is required"),
        (f"machines: [{FOUR}, {FOUR}]", "machines[1].name = w1: expected a name of its own; machines[0] (config.yaml:1) has it already"),
        (
            f"machines: [{FOUR}]\npools: [{{name: w1, gpu_models: [X], max: 1, join: m}}]\njoin: {{m: {{startup_script_id: s}}}}",
            "machines[0].name = w1: expected a name of its own; pools[0] (config.yaml:2) has it already",
        ),
        (f"machines: [{FOUR[:-1]}, webhook: powr}}]\nwebhooks: {{power: {{}}}}", "did you mean power?"),
        (f"machines: [{FOUR}]\nwebhooks: {{a: {{}}, b: {{}}}}", "machines[0].webhook: expected the name of an entry under webhooks: a, b"),
        (FOUR.replace("off/1", "on/1").join(["machines: [", "]"]), "expected another endpoint than scale_up_endpoint"),
        (
            f'machines: [{FOUR.replace("off/1", "on/1")[:-1]}, status_endpoint: "http://power/is"}}]',
            "one that only changes over would switch a machine off that is on",
        ),
        (FOUR.replace("power/on", "power:99999/on").join(["machines: [", "]"]), "a URL whose port is a number from 1 to 65535"),
        (FOUR.replace("power/on", "power:x/on").join(["machines: [", "]"]), "a URL whose port is a number from 1 to 65535"),
        (f"machines: [{FOUR.replace('gpu_count: 4', 'gpu_count: 0')}]", "machines[0].gpu_count = 0: expected a whole number from 1"),
        ("webhooks: {p: {auth: {bearer: hunter2}}}", "webhooks.p.auth.bearer = ***: expected {secret: {name, key}} or {file: /path}"),
        ("webhooks: {p: {auth: {bearer: {file: /a, secret: {name: a, key: b}}}}}", "expected either {secret: {name, key}} or {file: /path}"),
        ("webhooks: {p: {auth: {hmac: {key: hunter2}}}}", "webhooks.p.auth.hmac.key = ***"),
        ("webhooks: {p: {auth: hunter2}}", "webhooks.p.auth = ***"),
        ("webhooks: {p: {auth: {bearer: {file: /a}, basic: {username: a, password: {file: /b}}}}}", "expected nothing beside bearer"),
        ("webhooks: {p: {tls: {key: {file: /a}}}}", "webhooks.p.tls.certificate: expected a value, because key is given"),
        ("webhooks: {p: {headers: {Authorization: hunter2}}}", "webhooks.p.headers.Authorization = ***: expected no credentials here"),
        ("webhooks: {p: {headers: {content-type: text/plain}}}", "webhooks.p.headers.content-type = ***: expected content_type beside headers"),
        ("webhooks: {p: {headers: {idempotency-key: a}}}", "headers.idempotency-key = ***: expected another header: idempotency_header"),
        ("webhooks: {p: {idempotency_header: X-Id, headers: {x-id: a}}}", "headers.x-id = ***: expected another header: idempotency_header"),
        ("webhooks: {p: {headers: {X-Signature-256: a}, auth: {hmac: {key: {file: /a}}}}}", "expected another header: auth.hmac.header"),
        ("webhooks: {p: {headers: {X-Api: a}, auth: {header: {name: x-api, value: {file: /a}}}}}", "expected another header: auth.header.name"),
        ("webhooks: {p: {headers: {X-Rack: a, x-rack: b}}}", "headers.x-rack = ***: expected every header once"),
        ("webhooks: {p: {idempotency_header: content-type}}", "p.idempotency_header = content-type: expected another header: content_type is"),
        ("webhooks: {p: {auth: {header: {name: idempotency-key, value: {file: /a}}}}}", "auth.header.name = idempotency-key: expected another header: idempotency_header"),
        ("webhooks: {p: {auth: {hmac: {key: {file: /a}, header: idempotency-key}}}}", "auth.hmac.header = ***: expected another header: idempotency_header"),
        ("webhooks: {p: {auth: {hmac: {key: {file: /a}, timestamp_header: x-signature-256}}}}", "expected another header: auth.hmac.header is sent"),
        ("webhooks: {p: {auth: {bearer: {file: /a}, header: {name: authorization, value: {file: /a}}}}}", "expected another header: auth.bearer is sent"),
        ("webhooks: {p: {auth: {hmac: {key: {file: hunter2-hunter2}}}}}", "webhooks.p.auth.hmac.key.file = ***: expected the whole path"),
        ("webhooks: {p: {auth: {bearer: {file: power.token}}}}", "webhooks.p.auth.bearer.file = power.token: expected the whole path"),
        ("webhooks: {p: {idempotency_header: Host}}", "webhooks.p.idempotency_header = Host: expected another header: this one follows"),
        ("webhooks: {p: {auth: {header: {name: content-length, value: {file: /a}}}}}", "auth.header.name = content-length: expected another header"),
        ("webhooks: {p: {auth: {hmac: {key: {file: /a}, timestamp_header: Connection}}}}", "timestamp_header = Connection: expected another header"),
        ("webhooks: {p: {headers: {X-Key: 7}}}", "webhooks.p.headers.X-Key = ***"),
        ("webhooks: {p: {body: '${nme}'}}", "expected only the placeholders ${action}, ${gpus}, ${id}, ${machine}"),
        ("webhooks: {p: {success: [299-200]}}", "webhooks.p.success[0] = 299-200: expected a status code such as 202"),
        ("webhooks: {p: {tries: 0}}", "webhooks.p.tries = 0: expected a whole number from 1 to 100"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place_and_without_secrets(text: str, words: str) -> None:
    told = refused(text)
    assert words in told
    assert told.startswith("config.yaml:")
    assert "hunter2" not in told


def test_one_endpoint_for_both_is_fine_where_the_call_says_which() -> None:
    one = FOUR.replace("off/1", "on/1")
    text = f'machines: [{one}]\nwebhooks: {{power: {{body: \'{{"power": "${{action}}"}}\'}}}}'
    assert loaded(text).settings.webhooks["power"].body == '{"power": "${action}"}'


def test_credentials_over_http_are_warned_of() -> None:
    text = f"machines: [{FOUR}]\nwebhooks: {{power: {{auth: {{bearer: {{file: /run/token}}}}}}}}"
    assert loaded(text).warnings == [
        "config.yaml:1: machines[0].scale_up_endpoint = http://power/***: http sends the credentials in clear"
    ]


def test_what_is_shown_loads_again_as_the_same() -> None:
    text = f"""\
machines: [{FOUR[:-1]}, labels: {{node-role.kubernetes.io/gpu: "true"}}, resources: {{cpu: 32}}, price_per_hour: 0.3}}]
webhooks:
  power:
    headers: {{X-Rack: "7"}}
    auth: {{hmac: {{key: {{secret: {{name: power, key: hmac}}}}}}}}
    tls: {{ca: {{file: /etc/ca.pem}}}}
"""
    first = loaded(text).settings
    assert load_dict(show(first)).settings.model_dump(exclude={"verda"}) == first.model_dump(
        exclude={"verda"}
    )


@pytest.mark.parametrize(
    "entry",
    [
        {"headers": {"X-Rack": "7", "X-Pass": "hunter2"}},
        {"headers": {"X-Rack": "7", "X-Auth": "hunter2"}},
        {"headers": {"X-Rack": "7", "X-Api-Key": "hunter2"}},
        {"headers": {"X-Rack": "7"}, "body": '{"key": "hunter2", "outlet": 1}'},
        {"headers": {"X-Rack": "7"}, "body": "user=pdu&pass=hunter2"},
    ],
)
def test_a_credential_in_a_header_or_a_body_is_shown_to_nobody(entry: dict[str, Any]) -> None:
    """They belong under auth, and some people write them there all the same."""
    machine = {"name": "w1", "gpu_count": 1, "scale_up_endpoint": "https://pdu/on",
               "scale_down_endpoint": "https://pdu/off"}  # fmt: skip
    shown = show(load_dict({"machines": [machine], "webhooks": {"pdu": entry}}).settings)
    assert "hunter2" not in json.dumps(shown)
    assert shown["webhooks"]["pdu"]["headers"]["X-Rack"] == "7"


def test_two_machines_are_not_switched_off_by_one_endpoint_that_cannot_tell_them_apart() -> None:
    other = FOUR.replace("name: w1", "name: w2").replace("on/1", "on/2")
    with pytest.raises(ConfigError) as found:
        loaded(f"machines: [{FOUR}, {other}]")
    assert str(found.value) == (
        "config.yaml:1: machines[1].scale_down_endpoint = http://power/***: expected another endpoint than that of "
        "machines[0] (config.yaml:1), or a webhook whose body or headers have ${machine}"
    )
    body = 'webhooks: {power: {body: \'{"machine": "${machine}"}\'}}'
    assert len(loaded(f"machines: [{FOUR}, {other}]\n{body}").settings.machines) == 2


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("http://power/on?outlet={1}&t='a'|b", "http://power/on?outlet=%7B1%7D&t=%27a%27%7Cb"),
        ("http://power/rack ä/$1", "http://power/rack%20%C3%A4/%241"),
        ("http://höst.example:8080/on", "http://höst.example:8080/on"),
        ("http://[::1]:80/on|1", "http://[::1]:80/on%7C1"),
        ("http://Power/on%7B1%7D", "http://Power/on%7B1%7D"),
    ],
)
def test_an_endpoint_that_works_elsewhere_works_here(given: str, taken: str) -> None:
    """As the other controller's client takes it; ours writes letters of a host in the way of the DNS."""
    (machine,) = load_dict({"machines": [json.loads(MACHINE) | {"status_endpoint": given}]}).settings.machines
    assert machine.status_endpoint == taken
    assert URL(taken).raw_host in ("power", "Power", "xn--hst-sna.example", "::1")
    again = load_dict({"machines": [json.loads(MACHINE) | {"status_endpoint": taken}]}).settings.machines
    assert again == (machine,)


@pytest.mark.parametrize(
    "url", ["http://ä..b/on", f"http://{'ä' * 64}/on", "power/on", "http:///on", "http://pö:0/on"]
)
def test_what_is_no_address_is_refused_also_with_other_letters(url: str) -> None:
    with pytest.raises(ConfigError, match=r"machines\[0\].status_endpoint .*expected a URL"):
        load_dict({"machines": [json.loads(MACHINE) | {"status_endpoint": url}]})


def test_endpoints_are_the_same_where_they_are_called_the_same() -> None:
    one = json.loads(MACHINE) | {"scale_up_endpoint": "http://p/a b"}
    with pytest.raises(ConfigError, match="another endpoint than scale_up_endpoint"):
        load_dict({"machines": [one | {"scale_down_endpoint": "http://p/a%20b"}]})
    two = one | {"name": "w2", "scale_up_endpoint": "http://p/2", "scale_down_endpoint": "http://p/a%20c"}
    with pytest.raises(ConfigError, match=r"another endpoint than that of machines\[0\]"):
        load_dict({"machines": [one | {"scale_down_endpoint": "http://p/a c"}, two]})


@pytest.mark.parametrize("key", ["scale_up_endpoint", "scale_down_endpoint", "status_endpoint"])
@pytest.mark.parametrize("name", ["machine", "action", "gpus", "id"])
def test_a_placeholder_in_an_endpoint_is_an_error_because_it_would_be_sent_as_it_is(
    key: str, name: str
) -> None:
    with pytest.raises(
        ConfigError, match=rf"{key} .*an address without \$\{{{name}\}}.*body and the headers"
    ):
        load_dict({"machines": [json.loads(MACHINE) | {key: f"http://p/${{{name}}}/on"}]})
    load_dict({"machines": [json.loads(MACHINE) | {key: "http://p/${other}/x"}]})


def test_a_name_and_password_in_an_endpoint_are_pointed_to_their_place_and_not_shown() -> None:
    told = refused(f"machines: [{FOUR.replace('power/on', 'admin:hunter2@power/on')}]")
    assert "webhooks.<name>.auth.basic" in told
    assert "hunter2" not in told


def test_a_count_in_a_variable_may_begin_with_a_zero_as_the_other_controller_reads_it() -> None:
    environ = {
        "A_NAME": "w1",
        "A_GPU_COUNT": "04",
        "A_SCALE_UP_ENDPOINT": "http://p/on",
        "A_SCALE_DOWN_ENDPOINT": "http://p/off",
    }
    found = load(None, environ, service_account="/nonexistent").settings.machines
    assert [machine.gpu_count for machine in found] == [4]
    for wrong in ("0", "00", "0x4", "4.0", "010000"):
        with pytest.raises(ConfigError, match="A_GPU_COUNT"):
            load(None, environ | {"A_GPU_COUNT": wrong}, service_account="/nonexistent")
    assert "machines[0].gpu_count = 010" in refused(
        f"machines: [{FOUR.replace('gpu_count: 4', 'gpu_count: 010')}]"
    )


KEY = "abcdef.0123456789abcdef"
ONE = {
    "A_NAME": "a",
    "A_GPU_COUNT": "1",
    "A_SCALE_UP_ENDPOINT": "http://p/on",
    "A_SCALE_DOWN_ENDPOINT": "http://p/off",
}


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        (None, ONE | {"A_SCALE_UP_ENDPOINT": f"htp://p/hook/{KEY}"}),
        (None, ONE | {"A_SCALE_UP_ENDPOINT": f"p/hook/{KEY}"}),
        (None, ONE | {"A_SCALE_UP_ENDPOINT": f"http://p/{KEY}", "A_SCALE_DOWN_ENDPOINT": f"http://p/{KEY}"}),
        (f'webhooks: {{a: {{body: \'{{"password": "{KEY}", ${{x}}}}\'}}}}', {}),
        (f"node_groups:\n  g: {{instance_type: a, image: b, max_size: 1}}\nkubernetes: {KEY}", {}),
        ("node_groups: {}", {"VERDA_CLIENT_SECRET_FILE": KEY}),
        ("node_groups: {}", {"VERDA_CLIENT_SECRET_FILE": f'{{"secret": "{KEY}"}}'}),
        (None, {"DATACRUNCH_CLUSTER_CONFIG_FILE": f'{{"token": "{KEY}"}}'}),
    ],
)
def test_an_error_shows_nothing_that_may_be_a_credential(text: str | None, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as found:
        load("config.yaml" if text is not None else None, environ, text=text)
    assert KEY not in str(found.value)


def test_what_follows_the_question_mark_of_an_endpoint_is_shown_to_nobody() -> None:
    """Power endpoints take their keys there."""
    machine = {"name": "w1", "gpu_count": 1, "scale_up_endpoint": "http://pdu/on?key=hunter2",
               "scale_down_endpoint": "https://pdu/off/1?outlet=1&key=hunter2"}  # fmt: skip
    loaded = load_dict({"machines": [machine]})
    shown = show(loaded.settings)
    assert shown["machines"][0]["scale_up_endpoint"] == "http://pdu/on?***"
    assert "hunter2" not in json.dumps(shown)
    assert loaded.settings.machines[0].scale_up_endpoint == "http://pdu/on?key=hunter2"
    behind = machine | {"scale_up_endpoint": "http://pdu/on#hunter2"}
    assert "hunter2" not in json.dumps(show(load_dict({"machines": [behind]}).settings))
    for wrong in ("pdu/off?key=hunter2", "pdu/off#hunter2"):
        with pytest.raises(ConfigError) as found:
            load_dict({"machines": [machine | {"scale_down_endpoint": wrong}]})
        assert "hunter2" not in str(found.value)
