"""The startup script of Verda's own provider, which gave it its values in three ways, one after the other.

First `startupScriptEnv` was written into the assignments that stand in the script, then the script was a template with
`{{.MasterIP}}` and the like, then the same values were exported above it. All three work here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from controller.config.dialects.assignments import is_empty, rewrite, times_assigned
from controller.config.dialects.draft import Draft, Given
from controller.config.dialects.gotemplate import convert, fields
from controller.config.dialects.scripts import decoded, look_through
from controller.config.dialects.slips import slips
from controller.config.paths import suggestion
from controller.domain.startup_scripts import CLOUD_CONFIG, GIVEN, fill_in, is_shell

JOIN = "startup-script"
VARIABLES = {
    "MasterIP": "MASTER_IP",
    "MasterPort": "MASTER_PORT",
    "JoinToken": "JOIN_TOKEN",
    "JoinHashFull": "JOIN_HASH_FULL",
}
# That a script is a template; of any other the double braces are its own business.
_TEMPLATE = re.compile(rf"\{{\{{[^}}]{{0,200}}\.(?:{'|'.join(VARIABLES)})\b")
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@-]+")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_OF_THE_MACHINE = ("PATH", "HOME")  # which no value of another case is meant for
_ALWAYS = ("PROVIDER_ID", "LABELS")  # which that revision wrote over whatever stood there


def script(draft: Draft, top: Given, environ: Mapping[str, str]) -> None:
    where, theirs = top.where("startupScript"), "startupScript"
    inline = top.part("startupScriptEnv") if top.has("startupScriptEnv") else None
    if not top.has("startupScript"):
        draft.wrong(theirs, None, "a script in base64, because it is required", top.where())
        return
    text = decoded(top.get("startupScript"))
    if text is None:
        draft.wrong(theirs, "***", "a script in base64", where)
        return
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    look_through(draft, text, where, theirs, environ)
    fixed = _fixed(draft, inline)
    wanted = [name for name in VARIABLES.values() if environ.get(name, "").strip() and name not in fixed]
    asked = {VARIABLES.get(name, name) for name in fields(text)} & set(VARIABLES.values())
    for name in sorted(asked - {*fixed, *wanted}):
        draft.wrong("", None, "a value, because the startup script asks for it", name)
    text = _rendered(draft, text, where, {*GIVEN, *fixed, *VARIABLES.values()})
    empty: set[str] = set()
    left: set[str] = set()
    text = _filled(text, fixed, wanted, empty, left, rewrites=inline is not None)
    for name in sorted(left & set(fixed)):
        told = f'is not written into a {name}="" within quotes of several lines, which it would end: it stays empty'
        draft.warn(top.where("startupScriptEnv"), f"startupScriptEnv.{name}", told)
    for name in (key.upper() for key in (inline.data if inline is not None else ())):
        if name in empty and name in VARIABLES.values() and inline is not None:
            draft.warn(
                inline.where(),
                inline.theirs(name),
                "is empty, and so is what the script assigns to it: its machines would be paid for and could not join",
            )
    note = "was in base64; uploaded for each machine, marked as ours and deleted after the join"
    draft.put(("join", JOIN, "script"), text, where, theirs, note)
    if wanted:
        note = "variables of the controller that the script gets"
        draft.put(("join", JOIN, "variables"), wanted, where, theirs, note)


def _rendered(draft: Draft, text: str, where: str, ours: set[str]) -> str:
    """The template with our names; what its provider could not have filled in is told before a machine is bought."""
    names = VARIABLES | {name: name for name in ours}
    is_template = _TEMPLATE.search(text) is not None
    made, unknown, others = convert(text, names)
    for name in sorted(set(unknown) if is_template else set(fields(text)) - set(names)):
        hint = suggestion(name, VARIABLES)
        if is_template or _is_meant(name):
            expected = f"one of {', '.join(VARIABLES)} in double braces{hint}"
            draft.wrong("startupScript", f"{{{{.{name}}}}}", expected, where)
        else:
            draft.warn(
                where,
                "startupScript",
                f"{{{{.{name}}}}} is no variable of a startup script and stays as it is{hint}",
            )
    for line in sorted(set(others)) if is_template else ():
        expected = (
            f"{{{{.Name}}}} with one of {', '.join(VARIABLES)}, a comment or a quoted text in double braces, and nothing "
            f"else; line {line} of the script has something else"
        )
        draft.wrong("startupScript", None, expected, where)
    return made if is_template else text


def _is_meant(name: str) -> bool:
    """One of ours but for its case or a letter or two; other programs have {{.HostPort}} and {{.Token}}."""
    return slips(name.lower(), "master") < 2 or any(
        slips(name.lower(), ours.lower()) < 3 for ours in VARIABLES
    )


def _fixed(draft: Draft, inline: Given | None) -> dict[str, str]:
    """What is written into the script. Whatever were left out would be missed on a machine that is paid for.

    One revision made the names upper case and the one before it did not, so both are meant.
    """
    found: dict[str, str] = {}
    for key, value in inline.data.items() if inline is not None else ():
        if inline is None or value in (None, ""):
            continue
        if key.upper() in _ALWAYS:
            draft.warn(inline.where(key), inline.theirs(key), "has no effect: every machine has its own")
            continue
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str):
            draft.wrong(inline.theirs(key), "***", "a text", inline.where(key))
        elif not key.isascii() or not _VARIABLE.fullmatch(key.upper()):
            draft.wrong(
                inline.theirs(key),
                "***",
                "the name of a variable of letters, digits and _",
                inline.where(key),
            )
        found[key] = str(text)
    upper = {key.upper(): text for key, text in found.items() if key.upper() not in _OF_THE_MACHINE}
    return upper | found


def _filled(
    text: str, fixed: Mapping[str, str], wanted: list[str], empty: set[str], left: set[str], *, rewrites: bool
) -> str:
    """The script with its values; `empty` is told the names that are left without one, `left` those within quotes.

    A script of the shell has ours among its variables, and is kept from emptying them. Others have none.
    """
    shell = is_shell(text)
    of_shell = shell or text.startswith(CLOUD_CONFIG)  # which has commands of the shell in it
    ours = {"PROVIDER_ID", *wanted}
    if times_assigned(text, "LABELS") < 2:  # else it is put together there
        ours.add("LABELS")

    def value_of(name: str, old: str) -> str | None:
        if name in fixed:
            return _quoted(old, fixed[name], of_shell)
        if name in ours and (is_empty(old) or (rewrites and name in _ALWAYS)):
            sign = "'" if old[:1] == "'" and not shell else '"'
            return f'"${{{name}-}}"' if shell else f"{sign}{{{{ .{name} }}}}{sign}"
        if is_empty(old):
            empty.add(name)
        return None

    text = rewrite(fill_in(text, fixed), value_of, shell=shell, left=left)
    exports = [f"export {key}={shlex.quote(value)}" for key, value in sorted(fixed.items())] if shell else []
    head, _, rest = text.partition("\n")
    begins = head.startswith("#!")
    return "\n".join([*([head] if begins else []), *exports, rest if begins else text])


def _quoted(old: str, value: str, of_shell: bool) -> str:
    """In the quotes that stood there, which may be within others; in none where there were none, and none are needed."""
    if of_shell and old[:1] not in ("'", '"') and _PLAIN.fullmatch(value):
        return value
    if old[:1] == "'" and "'" not in value and (of_shell or not {"\\", "\n"} & set(value)):
        return f"'{value}'"
    escaped = re.sub(r'[\\"$`]' if of_shell else r'[\\"]', r"\\\g<0>", value)
    return f'"{escaped}"' if of_shell else f'"{escaped}"'.replace("\n", "\\n")
