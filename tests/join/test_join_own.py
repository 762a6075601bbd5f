"""Startup scripts of the user's own: marked, told who they make, and otherwise left as they are."""

from __future__ import annotations

import json
import subprocess

import pytest

from controller.domain import names
from controller.domain.kube import Taint
from controller.join.joiner import Entry, ScriptJoiner, Surroundings
from controller.join.own import own_script, uploaded_id
from controller.join.protocol import JoinError, Joining

JOINING = Joining(
    cluster_id="home", intent="aaaaaaaaaa", name="home-a100-aaaaaaaaaa", provider_id="verda://home-a100-aaaaaaaaaa",
    labels={"team": "ml", "node-role.kubernetes.io/gpu": "true"}, taints=(Taint(key="gpu-node"),), gpus=1, entry="own",
)  # fmt: skip


def test_the_marks_stand_after_the_first_line_and_the_rest_is_untouched() -> None:
    body = "set -eu\necho '{{ range .Items }}' \"$HOSTNAME\"\n"
    lines = own_script(JOINING, f"#!/bin/bash\n{body}", {}).splitlines()
    assert lines[0] == "#!/bin/bash"
    assert names.owned_script("home", "gpuas-home-aaaaaaaaaa", "\n".join(lines)) == "aaaaaaaaaa"
    told = json.loads(lines[2].removeprefix("# gpuas-join "))
    assert told["node"] == JOINING.name
    assert "node-role.kubernetes.io/gpu" not in told["labels"]
    assert "\n".join(lines).endswith(body.rstrip("\n"))


def test_a_script_is_given_variables_as_exports_and_in_double_braces() -> None:
    text = '#!/bin/bash\necho "$NODE_NAME|$INSTANCE_ID|$JOIN_TOKEN|{{ .NODE_NAME }}|{{.JOIN_TOKEN}}|{{ .OTHER }}"\n'
    made = own_script(JOINING, text, {"JOIN_TOKEN": "it's"})
    out = subprocess.run(
        ["bash", "-c", made], capture_output=True, text=True, check=True, timeout=20
    ).stdout.strip()
    assert out == f"{JOINING.name}|{JOINING.name}|it's|{JOINING.name}|it's|{{{{ .OTHER }}}}"


def test_the_variables_of_the_settings_do_not_replace_ours() -> None:
    assert "export NODE_NAME=home-a100" in own_script(JOINING, "#!/bin/sh\n", {"NODE_NAME": "x"})


@pytest.mark.parametrize("text", ["#cloud-config\nruncmd: [true]\n", "#!/usr/bin/env python3\nprint(1)\n"])
def test_what_is_no_shell_script_gets_marks_and_no_exports(text: str) -> None:
    made = own_script(JOINING, text, {})
    assert made.splitlines()[0] == text.splitlines()[0]
    assert "export" not in made


def test_a_script_without_a_first_line_of_its_own_gets_one() -> None:
    assert own_script(JOINING, "echo hi\n", {}).startswith("#!/bin/bash\n# gpuas home aaaaaaaaaa\n")


@pytest.mark.parametrize("text", ["", " \n", "a\x00b", "x" * 300_000])
def test_what_is_no_script_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(JoinError, match="startup script"):
        own_script(JOINING, text, {})


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("8472bacf-875d-4e86-ad31-4a5d2dcd5f4d", "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"),
        ('"8472BACF-875d-4e86-ad31-4a5d2dcd5f4d"\n', "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"),
        ('{"id": "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"}', "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"),
        ("#!/bin/bash\ntrue\n", ""),
        ("{", ""),
    ],
)
def test_a_script_server_may_answer_with_the_id_of_what_it_uploaded(answer: str, found: str) -> None:
    assert uploaded_id(answer) == found


class Around(Surroundings):
    async def file(self, path: str) -> str:
        return f"#!/bin/sh\n# from {path}\n"

    async def fetch(self, url: str) -> str:
        return "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"


async def no_secret(name: str, key: str) -> str:
    raise AssertionError(f"{name} {key} is read")


async def test_scripts_come_from_the_settings_a_file_or_a_server() -> None:
    entries = {
        "text": Entry(script="#!/bin/sh\ntrue\n"),
        "file": Entry(script_file="/scripts/join.sh"),
        "url": Entry(script_url="http://scripts/x"),
    }
    joiner = ScriptJoiner(entries, no_secret, lambda: 0.0, Around())

    async def prepared(entry: str) -> tuple[str, str]:
        made = await joiner.prepare(
            Joining(**{f: getattr(JOINING, f) for f in JOINING.__struct_fields__} | {"entry": entry})
        )
        return made.script, made.script_id

    assert (await prepared("text"))[0].endswith("true\n")
    assert "# from /scripts/join.sh" in (await prepared("file"))[0]
    assert await prepared("url") == ("", "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d")
