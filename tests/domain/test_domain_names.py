"""Names that the outside world sees: every shape in which a machine of ours can be recognised."""

from __future__ import annotations

import hashlib

import pytest

from controller.domain import names

INTENT = "abcde23456"
HOST = f"home-a100-{INTENT}"


def test_the_default_cluster_id_is_eight_digits_of_a_hash_and_differs_by_namespace() -> None:
    first = names.default_cluster_id("uid-1", "gpu-autoscaler")
    assert first == hashlib.sha256(b"uid-1/gpu-autoscaler").hexdigest()[:8]
    assert (
        len(
            {
                first,
                names.default_cluster_id("uid-1", "b"),
                names.default_cluster_id("uid-2", "gpu-autoscaler"),
            }
        )
        == 3
    )


def test_a_hostname_names_cluster_pool_and_intent() -> None:
    assert names.hostname("home", "a100", INTENT) == HOST
    assert names.provider_id(HOST) == f"verda://{HOST}"


@pytest.mark.parametrize(
    ("cluster", "host", "found"),
    [
        ("home", HOST, ("a100", INTENT)),
        ("home", f"home-my-big-pool-{INTENT}", ("my-big-pool", INTENT)),
        ("home-2", f"home-2-a-{INTENT}", ("a", INTENT)),
        ("home", f"home-{'p' * 20}-{INTENT}", ("p" * 20, INTENT)),
        ("home", f"other-a100-{INTENT}", None),
        ("hom", HOST, None),
        ("home", f"home-{INTENT}", None),
        ("home", f"home--{INTENT}", None),
        ("home", "home-a100-abcde23451", None),  # 1 is no digit of base32
        ("home", "home-a100-abcde2345", None),
        ("home", "home-a100-abcde234567", None),
        ("home", f"home-a100-{INTENT.upper()}", None),
        ("home", f"home-{'p' * 21}-{INTENT}", None),
        ("home", f"home-A100-{INTENT}", None),
        ("home", f"home--a-{INTENT}", None),
        ("home", f"{HOST}\n", None),
        ("home", "", None),
    ],
)
def test_a_hostname_is_ours_only_in_exactly_our_shape(
    cluster: str, host: str, found: tuple[str, str] | None
) -> None:
    assert names.parse_hostname(cluster, host) == found


@pytest.mark.parametrize(
    ("provider_id", "found"),
    [
        (f"verda://{HOST}", HOST),
        ("verda://8f2c1d34-0000-4000-8000-000000000001", "8f2c1d34-0000-4000-8000-000000000001"),
        ("verda://8F2C1D34-0000-4000-8000-00000000000A", "8f2c1d34-0000-4000-8000-00000000000a"),
        (f"verdacloud://FIN-01/{HOST}", HOST),
        ("datacrunch://8f2c1d34-0000-4000-8000-000000000001", "8f2c1d34-0000-4000-8000-000000000001"),
        (f"datacrunch://FIN-01/{HOST}", HOST),
        (f"k3s://{HOST}", HOST),
        ("aws:///eu-north-1a/i-0123", ""),
        ("", ""),
        (HOST, ""),
        ("verda:", ""),
        ("verda://", ""),
        ("rke2://node", ""),
        (f"xverda://{HOST}", ""),
    ],
)
def test_provider_ids_of_every_known_shape_are_read(provider_id: str, found: str) -> None:
    assert names.resolve(provider_id) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"gpuas home {INTENT}", INTENT),
        (f"gpuas  home   {INTENT}", INTENT),
        (f"gpuas other {INTENT}", ""),
        (f"gpuas home {INTENT} and more", ""),
        (f"my gpuas home {INTENT}", ""),
        ("gpuas home short", ""),
        ("", ""),
    ],
)
def test_a_description_is_a_mark_only_as_a_whole(text: str, found: str) -> None:
    assert names.parse_description("home", text) == found


DESCRIPTION = f"gpuas home {INTENT}"
TAGS = [("gpuas-cluster", "home"), ("gpuas-pool", "a100"), ("gpuas-intent", INTENT)]
OTHER = "zzzzz22222"


@pytest.mark.parametrize(
    ("host", "text", "tags", "found"),
    [
        (HOST, DESCRIPTION, TAGS, INTENT),
        (HOST, DESCRIPTION, [], INTENT),
        (HOST, "", TAGS, INTENT),
        ("renamed", DESCRIPTION, TAGS, INTENT),
        (HOST, "", [], ""),
        ("renamed", DESCRIPTION, [], ""),
        ("renamed", "", TAGS, ""),
        ("", "", [], ""),
        (HOST, f"gpuas home {OTHER}", TAGS, ""),
        (f"home-a100-{OTHER}", DESCRIPTION, TAGS, ""),
        (HOST, DESCRIPTION, [("gpuas-cluster", "away"), ("gpuas-intent", INTENT)], ""),
        (HOST, DESCRIPTION, [("gpuas-cluster", "home"), ("gpuas-intent", OTHER)], ""),
        (HOST, f"gpuas away {INTENT}", [], ""),
        (HOST, "", [("gpuas-intent", INTENT)], ""),
    ],
)
def test_a_machine_is_ours_by_two_agreeing_marks(
    host: str, text: str, tags: list[tuple[str, str]], found: str
) -> None:
    assert names.owned_intent("home", host, text, tags) == found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (f"gpuas-home-{INTENT}", f"#!/bin/sh\n# gpuas home {INTENT}\necho", INTENT),
        (f"gpuas-home-{INTENT}", f"#!/bin/sh\r\n# gpuas home {INTENT}\r\necho", INTENT),
        (f"gpuas-home-{INTENT}", f"# gpuas home {INTENT}\n", ""),
        (f"gpuas-home-{INTENT}", "#!/bin/sh\necho", ""),
        (f"gpuas-home-{INTENT}", f"#!/bin/sh\n# gpuas home {OTHER}", ""),
        (f"gpuas-away-{INTENT}", f"#!/bin/sh\n# gpuas home {INTENT}", ""),
        ("my-script", f"#!/bin/sh\n# gpuas home {INTENT}", ""),
        (f"gpuas-home-{INTENT}", "", ""),
    ],
)
def test_a_script_is_ours_by_its_name_and_its_second_line(name: str, text: str, found: str) -> None:
    assert names.owned_script("home", name, text) == found


def test_marks_that_are_written_are_read_again() -> None:
    assert names.parse_description("home", names.description("home", INTENT)) == INTENT
    script = f"#!/bin/bash\n{names.script_mark('home', INTENT)}\n"
    assert names.owned_script("home", names.script_name("home", INTENT), script) == INTENT
    assert names.parse_hostname("home", names.hostname("home", "a100", INTENT)) == ("a100", INTENT)


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("A100 80GB", "a100-80gb"),
        ("Tesla V100", "tesla-v100"),
        ("RTX PRO 6000", "rtx-pro-6000"),
        ("H100  SXM5 / 80GB", "h100-sxm5-80gb"),
        (" B200 ", "b200"),
        ("", ""),
    ],
)
def test_a_model_becomes_a_label_value(model: str, slug: str) -> None:
    assert names.gpu_slug(model) == slug
