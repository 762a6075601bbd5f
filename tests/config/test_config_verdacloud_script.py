"""Startup scripts of Verda's own provider: the values arrive in each of the ways that its revisions gave them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import pytest

from controller.config.dialects.assignments import is_empty, rewrite
from controller.config.dialects.gotemplate import convert, fields
from controller.domain.startup_scripts import GIVEN
from controller.join.own import given, own_script
from tests.config.foreign import in_base64, problems, read
from tests.config.test_config_dialects import ONE_VM, verdacloud
from tests.join.test_join_own import JOINING
from tests.loop.predecessors import VERDACLOUD_JOIN

INLINE = {
    "MASTER_IP": "10.0.0.10",
    "MASTER_PORT": 6443,
    "JOIN_TOKEN": "it's $HOME",
    "JOIN_HASH_FULL": "sha256:aa",
}
# As its example begins, with what a machine would do in place of the join.
EMPTIED = """\
#!/usr/bin/env bash
set -euo pipefail
### CONFIGURE THESE ###
MASTER_IP=""
export MASTER_PORT='1'   # of the API server
JOIN_TOKEN=
JOIN_HASH_FULL="" PROVIDER_ID=""
LABELS="a=b"
cat <<'END'
MASTER_IP=""
END
echo "$MASTER_IP|$MASTER_PORT|$JOIN_TOKEN|$JOIN_HASH_FULL|$PROVIDER_ID|$LABELS"
"""


def script_of(script: str, *, environ: dict[str, str] | None = None, **changes: Any) -> str:
    env = verdacloud(startupScript=in_base64(script), **changes)
    env = {name: value for name, value in env.items() if name not in VERDACLOUD_JOIN} | (environ or {})
    (entry,) = read(None, env, ONE_VM).settings.join.values()
    assert entry.script is not None
    return entry.script.get_secret_value()


def run(script: str, values: dict[str, str] | None = None) -> list[str]:
    """What it prints on a machine."""
    made = own_script(JOINING, script, values or {})
    path = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["bash", "-c", made], capture_output=True, text=True, check=True, timeout=20, env=path
    )
    return done.stdout.splitlines()


def test_the_documented_assignments_of_a_startup_script_get_their_values_under_bash() -> None:
    printed = run(script_of(EMPTIED, startupScriptEnv=INLINE))
    assert printed == [
        'MASTER_IP=""',
        f"10.0.0.10|6443|it's $HOME|sha256:aa|{JOINING.provider_id}|team=ml",
    ]


def test_a_name_in_lower_case_is_meant_in_both_cases() -> None:
    script = script_of("#!/bin/bash\nK8S=1\nk8s=2\necho $K8S $k8s\n", startupScriptEnv={"k8s": "1.32"})
    assert run(script) == ["1.32 1.32"]


def test_what_every_script_is_given_is_known_by_name() -> None:
    assert set(GIVEN) == set(given(JOINING, {}))


@pytest.mark.parametrize("name", ["PROVIDER_ID", "LABELS"])
def test_a_script_does_not_empty_what_says_who_its_machine_is(name: str) -> None:
    (printed,) = run(script_of(f'#!/bin/bash\nset -u\n{name}=""\necho "{name}=${name}"\n'))
    assert printed == f"{name}={given(JOINING, {})[name]}"


def test_a_script_does_not_empty_the_variables_of_the_controller_that_it_gets() -> None:
    script = script_of("#!/bin/sh\nJOIN_TOKEN=''\necho $JOIN_TOKEN\n", environ=VERDACLOUD_JOIN)
    assert run(script, {"JOIN_TOKEN": "t"}) == ["t"]


@pytest.mark.parametrize("name", ["LABELS", "TAINTS", "NODE_NAME", "INSTANCE_ID"])
def test_what_a_script_puts_together_or_looks_up_by_itself_begins_empty(name: str) -> None:
    script = f'#!/bin/bash\n{name}=""\nfor l in a=1 b=2; do {name}="${name} --x=$l"; done\necho "${name}"\n'
    assert run(script_of(script)) == [" --x=a=1 --x=b=2"]


@pytest.mark.parametrize("old", ["", '""'])
@pytest.mark.parametrize(
    "value", ["--a=b --c", "$(echo x >&2; id)", "`id`", "it's", 'say "x"', "a\\b", "two\nlines"]
)
def test_a_value_stays_one_in_quotes_that_began_on_an_earlier_line(value: str, old: str) -> None:
    script = f'#!/bin/bash\nbash -c \'\nA={old}\nprintf "%s\\n" "$A"\necho join # it is\n\'\n'
    printed = run(script_of(script, startupScriptEnv={"A": value}))
    assert printed == [*([""] if "'" in value else value.split("\n")), "join"]


def test_a_place_that_stays_empty_because_of_the_quotes_around_it_is_told() -> None:
    body = '#!/bin/bash\nbash -c \'\nA=""\nB=""\n\'\n'
    env = verdacloud(startupScript=in_base64(body), startupScriptEnv={"A": "it's", "B": "b"})
    told = [line for line in read(None, env, ONE_VM).warnings if "it stays empty" in line]
    assert ["startupScriptEnv.A" in line for line in told] == [True]


@pytest.mark.parametrize("value", ["$(echo x >&2; id)", "`id`", 'a"b', "plain"])
def test_a_text_in_double_quotes_of_several_lines_is_left_alone_unless_the_value_is_plain(value: str) -> None:
    script = '#!/bin/bash\necho "  # it\'s\nA=old\nPROVIDER_ID=old\n" # don\'t\nB=""\necho $B\n'
    printed = run(script_of(script, startupScriptEnv={"A": value, "B": "b"}))
    left = "plain" if value == "plain" else "old"  # as that provider writes it, it ends no quotes
    assert printed == ["  # it's", f"A={left}", "PROVIDER_ID=old", "", "b"]


def test_a_token_reaches_a_script_within_the_quotes_of_another_shell() -> None:
    script = "#!/bin/bash\nbash -c \"\nJOIN_TOKEN=changeme\nprintf '%s\\n' \\$JOIN_TOKEN\n\"\n"
    assert run(script_of(script, startupScriptEnv={"JOIN_TOKEN": "abcdef.0123456789abcdef"})) == [
        "abcdef.0123456789abcdef"
    ]


def test_quotes_in_here_documents_and_comments_open_nothing() -> None:
    script = "#!/bin/bash\ncat <<'E-O.F'\nit\"s\nA=\"\"\nE-O.F\n# don't\nA='' # don't\necho \"$(echo \"it's\") $A\"\n"
    assert run(script_of(script, startupScriptEnv={"A": "it's $HOME"})) == ['it"s', 'A=""', "it's it's $HOME"]


def test_a_script_of_another_language_gets_its_values_in_quotes() -> None:
    script = (
        "#!/usr/bin/env python3\nJOIN_TOKEN = ''\nMASTER_IP=\"\"\nMASTER_PORT = None\nPROVIDER_ID = ''\n"
        "if MASTER_PORT == '': pass\nprint(JOIN_TOKEN, MASTER_IP, MASTER_PORT, PROVIDER_ID, sep='|')\n"
    )
    inline = {"JOIN_TOKEN": 'it\'s $x "y" \\ `z`\nw', "MASTER_IP": "a$b", "MASTER_PORT": 6443}
    made = own_script(JOINING, script_of(script, startupScriptEnv=inline), {})
    done = subprocess.run(
        [sys.executable, "-c", made], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == f"{inline['JOIN_TOKEN']}|a$b|6443|{JOINING.provider_id}\n"


def test_a_value_in_one_case_replaces_none_of_the_other_and_no_path() -> None:
    inline = {"NO_PROXY": "upper", "no_proxy": "lower", "path": "/opt"}
    script = script_of(
        "#!/bin/bash\necho $NO_PROXY $no_proxy $path\ndate > /dev/null\n", startupScriptEnv=inline
    )
    assert run(script) == ["upper lower /opt"]


def test_a_name_of_other_letters_is_an_error() -> None:
    env = verdacloud(startupScript=in_base64("#!/bin/sh\n"), startupScriptEnv={"\u0131": "x"})
    assert [line for line in problems(None, env, ONE_VM) if "letters, digits and _" in line]


def test_braces_in_a_value_are_not_filled_in_from_other_values() -> None:
    script = script_of('#!/bin/bash\nA=""\necho "$A"\n', startupScriptEnv={"A": "{{ .B }}", "B": "'; id; '"})
    assert run(script) == ["{{ .B }}"]


def test_a_value_of_its_own_stays_where_the_script_makes_one() -> None:
    script = "#!/bin/bash\nPROVIDER_ID=verda://mine\nHTTP_PROXY=''\nLABELS=\"${LABELS},x=y\"\n"
    assert script_of(script) == script


def test_a_script_of_cloud_init_gets_its_values_in_place_and_no_exports() -> None:
    text = '#cloud-config\nruncmd:\n- |\n  MASTER_IP=""\n  PROVIDER_ID=""\n'
    made = own_script(JOINING, script_of(text, startupScriptEnv={"MASTER_IP": "10.0.0.10"}), {})
    assert made.startswith("#cloud-config\n")
    assert made.endswith(f'- |\n  MASTER_IP="10.0.0.10"\n  PROVIDER_ID="{JOINING.provider_id}"\n')
    assert "export" not in made


def test_a_place_that_nothing_fills_is_told() -> None:
    env = verdacloud(startupScript=in_base64(EMPTIED), startupScriptEnv=dict.fromkeys(INLINE, ""))
    without = {name: value for name, value in env.items() if name not in VERDACLOUD_JOIN}
    told = [line for line in read(None, without, ONE_VM).warnings if "could not join" in line]
    assert ["MASTER_IP" in told[0], "JOIN_TOKEN" in told[1], "JOIN_HASH_FULL" in told[2]] == [True] * 3
    assert not [line for line in read(None, env, ONE_VM).warnings if "could not join" in line]
    assert not problems(None, env, ONE_VM)


def test_an_identity_for_all_machines_is_told_to_have_no_effect() -> None:
    inline = {**INLINE, "PROVIDER_ID": "one-for-all"}
    env = verdacloud(startupScript=in_base64(EMPTIED), startupScriptEnv=inline)
    assert [line for line in read(None, env, ONE_VM).warnings if "startupScriptEnv.PROVIDER_ID" in line]
    assert "one-for-all" not in script_of(EMPTIED, startupScriptEnv=inline)


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ('A=""', "A=new"),
        ("  export A=old # why", "  export A=new # why"),
        ("readonly A=", "readonly A=new"),
        ('A="" B="" C=x', "A=new B=new C=x"),
        ("A=x; B=y && true", "A=new; B=new && true"),
        ('A="$(echo "a b" | tr ")" x)"', "A=new"),
        ("A=`a b`", "A=new"),
        ('A="" command', 'A="" command'),
        ('A="goes on', 'A="goes on'),
        ("A=goes-on\\", "A=goes-on\\"),
        ("A=(x y)", "A=(x y)"),
        ("A+=x", "A+=x"),
        ("# A=x", "# A=x"),
        ("AA=x", "AA=x"),
        ("cat <<-'END' <<MORE\nA=1\n\tEND\nA=2\nMORE\nA=3", "cat <<-'END' <<MORE\nA=1\n\tEND\nA=2\nMORE\nA=new"),
        ("cat <<< END\nA=x\nB=$((1 <<END))\nA=x", "cat <<< END\nA=new\nB=new\nA=new"),
    ],
)  # fmt: skip
def test_an_assignment_is_written_over_and_nothing_that_stands_beside_it(line: str, made: str) -> None:
    assert rewrite(line, lambda name, _: "new" if name in ("A", "B") else None) == made


def template(body: str) -> dict[str, str]:
    return verdacloud(startupScript=in_base64(f"#!/bin/sh\nset -eu\njoin {{{{.MasterIP}}}}\n{body}\n"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("join {{.Mastr}}", ["{{.Mastr}}", "one of MasterIP", "did you mean MasterIP?"]),
        ("join {{ .Whatever }}", ["{{.Whatever}}", "one of MasterIP"]),
        ('{{ .JoinToken | printf "%s" }}', ["line 4", "{{.Name}} with one of MasterIP"]),
        ("\n{{if .JoinToken}}x{{else}}{{/* a\ncomment */}}y{{end}}", ["line 5"]),
        ("{{ range .Items }}", ["line 4"]),
        ("{{-.JoinToken}}", ["line 4"]),
        ("{{ .JoinToken", ["line 4"]),
        ('{{ "secret\\q" }}', ["line 4"]),
    ],
)
def test_a_template_that_could_not_be_filled_in_is_an_error(body: str, words: list[str]) -> None:
    found = problems(None, template(body), ONE_VM)
    lines = [line for line in found if all(word in line for word in words)]
    assert lines, found
    assert all(line.startswith("VERDA_CLUSTER_CONFIG:1: startupScript") for line in found)
    assert "secret" not in str(found)


def test_a_misspelt_name_is_an_error_also_where_no_other_is_there() -> None:
    (line,) = problems(None, verdacloud(startupScript=in_base64("#!/bin/sh\njoin {{.MasterIp}}\n")), ONE_VM)
    assert line.endswith("did you mean MasterIP?")


@pytest.mark.parametrize("name", ["HostPort", "PrivatePort", "ServerIP", "Token", "JoinCommand", "IPAddress"])
def test_a_name_that_is_merely_like_one_of_ours_is_told_where_the_script_is_no_template(name: str) -> None:
    body = f"#!/bin/sh\ndocker ps --format '{{{{.{name}}}}}'\n"
    told = read(None, verdacloud(startupScript=in_base64(body)), ONE_VM).warnings
    assert [line for line in told if f"{{{{.{name}}}}} is no variable of a startup script" in line]
    assert script_of(body) == body


@pytest.mark.parametrize("name", ["masterip", "Mastr", "JoinTokn", "MasterProt", "JoinHashFul"])
def test_a_slip_in_a_name_is_an_error_where_the_script_has_no_other(name: str) -> None:
    body = f"#!/bin/sh\njoin {{{{.{name}}}}}\n"
    (line,) = problems(None, verdacloud(startupScript=in_base64(body)), ONE_VM)
    assert f"{{{{.{name}}}}}" in line


def test_a_template_may_have_trim_markers_comments_quoted_texts_and_our_own_variables() -> None:
    body = "echo '{{- .JoinToken -}}\n{{/* of the\nkind */}}  {{ \"{{\" }}.State{{`}}`}} {{ .NODE_NAME }}'"
    loaded = read(None, template(body), ONE_VM)
    assert not [line for line in loaded.warnings if "startupScript" in line]
    assert script_of("{{.MasterIP}}\n" + body, environ=VERDACLOUD_JOIN) == (
        "{{ .MASTER_IP }}\necho '{{ .JOIN_TOKEN }}  {{.State}} {{ .NODE_NAME }}'"
    )


def test_double_braces_of_a_script_that_is_no_template_are_its_own_business() -> None:
    body = "#!/bin/sh\ndocker ps --format '{{.Names}}' '{{ range .Items }}' {{ .PROVIDER_ID }} {{\n"
    env = verdacloud(startupScript=in_base64(body))
    told = [line for line in read(None, env, ONE_VM).warnings if "startupScript" in line]
    assert ["{{.Names}}" in line for line in told] == [True]
    assert script_of(body) == body


def test_trim_markers_beside_a_variable_of_ours_take_the_blanks_away() -> None:
    assert run("#!/bin/sh\necho 'a \n{{- .JOIN_TOKEN -}} \n b|{{- .OTHER -}} |'\n", {"JOIN_TOKEN": "t"}) == [
        "atb|{{- .OTHER -}} |"
    ]


def test_only_what_is_nothing_is_empty() -> None:
    assert [is_empty(value) for value in ("", '""', "''", " ", '" "', "$A")] == [True] * 3 + [False] * 3


@pytest.mark.parametrize("many", ["/* c */ ", "ls /opt/*/bin ", "{{ ", "{{", '{{ " '])
def test_braces_that_are_never_closed_are_read_in_no_time(many: str) -> None:
    body = "#!/bin/sh\nsed 's/{{ *//' x\n" + f"{many}\n" * 20_000
    began = time.monotonic()
    assert (fields(body), fields(f"{body} '}}}}'")) == ([], [])
    assert convert(body, {}) == (body, [], [2])
    assert time.monotonic() - began < 10
