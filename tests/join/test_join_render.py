"""Rendering: what a template may say, and that a value stays a value."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.join.render import TemplateError, render

HEAD = "#!/usr/bin/env bash\n"


def test_values_arrive_quoted_and_comments_stand_alone() -> None:
    text = render(HEAD + "{{ .MARK }}\nreadonly A={{ .A }}\n", {"A": "it's $(x)"}, {"MARK": "# m"})
    assert text == HEAD + "# m\nreadonly A='it'\"'\"'s $(x)'\n"


@pytest.mark.parametrize(
    ("body", "values", "said"),
    [
        ("readonly A={{ .B }}", {}, "unknown variable B"),
        ("readonly A={{ .A }}", {"A": None}, "A has no value"),
        ("echo hello", {"A": "x"}, "no line uses A"),
        ('echo "{{ .A }}"', {"A": "x"}, "line 2"),
        ("readonly A={{ .A }} # more", {"A": "x"}, "line 2"),
        ("readonly A={{.A}}", {"A": "x"}, "line 2"),
        ("echo {{", {}, "line 2"),
        ("echo }}", {}, "line 2"),
        ("{{ .A }}", {"A": "# x"}, "A is a value"),
        ("readonly A={{ .A }}", {"A": "a\nb"}, "A holds a line break"),
        ("readonly A={{ .A }}", {"A": "a\0b"}, "A holds a line break"),
        ("readonly A={{ .A }}", {"A": "a\u2028b"}, "A holds a line break"),
    ],
)
def test_a_template_that_does_not_fit_is_refused_by_name(
    body: str, values: dict[str, str | None], said: str
) -> None:
    with pytest.raises(TemplateError, match=said):
        render(HEAD + body + "\n", values, {})


@pytest.mark.parametrize("comment", ["rm -rf /", "#no blank", "# a\nrm -rf /", ""])
def test_a_comment_can_be_nothing_but_a_comment(comment: str) -> None:
    with pytest.raises(TemplateError, match="MARK"):
        render(HEAD + "{{ .MARK }}\n", {}, {"MARK": comment})


def test_an_assigned_comment_and_a_missing_shebang_are_refused() -> None:
    with pytest.raises(TemplateError, match="stands alone"):
        render(HEAD + "readonly MARK={{ .MARK }}\n", {}, {"MARK": "# m"})
    with pytest.raises(TemplateError, match="first line"):
        render("echo hello\n", {}, {})


def test_an_error_never_tells_the_value() -> None:
    with pytest.raises(TemplateError) as caught:
        render(HEAD + "readonly TOKEN={{ .TOKEN }}\n", {"TOKEN": "s3cret\n"}, {})
    assert "s3cret" not in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["C", "Z"])
        | st.sampled_from(" '\"$`\\;&|<>(){}!*?#~"),
        max_size=40,
    )
)
def test_a_value_never_becomes_code(value: str) -> None:
    text = render(HEAD + 'readonly A={{ .A }}\nprintf %s "$A"\n', {"A": value}, {})
    done = subprocess.run(["bash"], input=text.encode(), capture_output=True, timeout=20, check=True)
    assert (done.stdout.decode(), done.stderr) == (value, b"")
