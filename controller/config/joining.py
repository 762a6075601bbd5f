"""How a bought machine joins the cluster: a template of ours, or a script of the user's own.

Texts from here end up in a script that runs as root on the new machine, so their forms leave no room
for anything that a shell would interpret.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, SecretStr, model_validator

from controller.config.section import Section
from controller.config.urls import Url, parse_url
from controller.config.values import Secret, Text, matching, wrong

MASKED = "***"
_LONGEST_SCRIPT = 200_000


class SecretKey(Section):
    """One key of a Secret in the controller's namespace."""

    name: Annotated[
        str, matching(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", "the name of a Secret (lower case)")
    ] = Field(
        description="The Secret, in the controller's namespace, because it may read secrets nowhere else."
    )
    key: Annotated[str, matching(r"[A-Za-z0-9._-]{1,253}", "a key of a Secret")] = Field(
        description="Which of its keys holds the token."
    )


class TokenFrom(Section):
    """Where the join token comes from."""

    secret: SecretKey | None = Field(
        None, description="The Secret that holds a join token, so that no token stands in the settings."
    )
    value: Secret | None = Field(
        None,
        description="The token itself, for configurations that had it; a Secret is better, because settings get copied.",
    )

    @model_validator(mode="before")
    @classmethod
    def _only_secrets(cls, data: Any) -> Any:
        if data == "bootstrap":
            raise wrong(
                "{secret: {name, key}}: minting bootstrap tokens comes in a later version; name a secret"
            )
        if not isinstance(data, dict):
            raise wrong("{secret: {name, key}}, and never the token itself")
        if not ("secret" in data or "value" in data) and data:
            return data  # whose keys are not known, which is told
        if (data.get("secret") is None) == (data.get("value") is None):
            raise wrong("{secret: {name, key}}")
        return data


def _parse_script(value: Any) -> SecretStr:
    if isinstance(value, SecretStr):
        return value
    if not isinstance(value, str) or not value.strip():
        raise wrong("the text of a script, over several lines after `script: |`")
    if "\x00" in value or len(value.encode("utf-8", "replace")) > _LONGEST_SCRIPT:
        raise wrong("the text of a script of at most 200 kB, without NUL characters")
    return SecretStr(value)


Script = Annotated[
    SecretStr, PlainValidator(_parse_script), PlainSerializer(lambda _: MASKED, when_used="json")
]


class JoinEntry(Section):
    """One way to join: a template with what it needs, a script of the user's own, or the id of one in the account."""

    template: Literal["k3s", "kubeadm"] | None = Field(
        None,
        description="The kind of cluster; required unless startup_script_id is given, because each kind joins differently.",
    )
    server: (
        Annotated[str, PlainValidator(lambda value: parse_url(value, schemes=("https",), bare=True))] | None
    ) = Field(
        None,
        description="https://host:port that a machine in the cloud can reach; only you know which address that is.",
    )
    token_from: TokenFrom | None = Field(
        None, description="Where the join token comes from; required with a template."
    )
    version: (
        Annotated[
            str,
            matching(
                r"v?1\.[0-9]{1,3}(?:\.[0-9]{1,3})?(?:[+-][A-Za-z0-9.+-]{1,30})?",
                "a version such as v1.33.4+k3s1 or 1.33",
            ),
        ]
        | None
    ) = Field(
        None,
        description="Version to install; the cluster's own unless given, because a newer kubelet may not join.",
    )
    ca_hash: (
        Annotated[
            str,
            matching(r"(?:sha256:)?[0-9a-f]{64}", "64 hexadecimal digits, with or without sha256: in front"),
        ]
        | None
    ) = Field(
        None,
        description="Hash of the cluster's CA; taken from the cluster unless given, because that one is right.",
    )
    delete_script: Literal["after_join", "after_create"] = Field(
        "after_join",
        description="When the script made for a machine goes from the cloud account; after the join, because it is not proven that the cloud copies it. after_create shows the token for seconds only.",
    )
    startup_script_id: Text | None = Field(
        None,
        description="A script of your own in the cloud account, used as it is, for clusters that no template fits.",
    )
    script: Script | None = Field(
        None,
        description="A script of your own, uploaded for each machine and deleted after the join like one made from a template. It gets NODE_NAME, PROVIDER_ID, INSTANCE_ID, LABELS, TAINTS, GPUS and SCRIPT_NAME as variables, and where it says `{{ .NODE_NAME }}` the value itself.",
    )
    script_file: Text | None = Field(
        None,
        description="A file that holds such a script; read again for each machine, so that it may be replaced.",
    )
    script_url: Url | None = Field(
        None,
        description="Asked for each machine (POST, else GET): it answers with such a script, or with the id of one that it uploaded itself and that is then not deleted here.",
    )
    variables: tuple[
        Annotated[str, matching(r"[A-Z_][A-Z0-9_]{0,99}", "the name of a variable, such as JOIN_TOKEN")], ...
    ] = Field(
        (),
        description="Variables of the controller's own environment that a script of your own gets too; none unless named, because the others are nobody's business.",
    )
