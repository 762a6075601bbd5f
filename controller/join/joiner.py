"""The script of a machine's first boot: settings, token and identity put together.

The token is read from its Secret when it is needed and remembered for a minute, so that a burst of
machines costs one read and a rotated token is soon the one in use. It appears in the script only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib import resources

from controller.join import variables
from controller.join.entry import K3S, Entry, fault
from controller.join.own import own_script, uploaded_id
from controller.join.protocol import JoinError, Joining, Prepared
from controller.join.render import TemplateError, render

__all__ = ["Entry", "ScriptJoiner", "Surroundings"]

TOKEN_LIFE = 60.0
_INCLUDE = "# include common.sh\n"


class Surroundings:
    """What scripts of the user's own come from; without any there are none."""

    async def file(self, path: str) -> str:
        raise JoinError(f"{path} cannot be read here")

    async def fetch(self, url: str) -> str:
        raise JoinError("a script server cannot be asked here")

    def know(self, wanted: Sequence[str]) -> None:
        """Nothing of these variables that may be a secret is told from now on."""

    def variables(self, wanted: Sequence[str]) -> Mapping[str, str]:
        return {}


class ScriptJoiner:
    def __init__(
        self,
        entries: Mapping[str, Entry],
        read_secret: Callable[[str, str], Awaitable[str]],
        clock: Callable[[], float],
        around: Surroundings | None = None,
    ) -> None:
        self._entries = entries
        self._read_secret = read_secret
        self._clock = clock
        self._around = around or Surroundings()
        self._tokens: dict[tuple[str, str], tuple[float, str]] = {}

    def change(self, entries: Mapping[str, Entry]) -> None:
        """Other settings are in force."""
        self._entries = entries

    async def prepare(self, joining: Joining) -> Prepared:
        entry = self._entries.get(joining.entry)
        if entry is None:
            raise JoinError(f"there is no entry {joining.entry!r} under join")
        if problem := fault(entry):
            raise JoinError(f"join.{joining.entry}: {problem}")
        if entry.startup_script_id:
            return Prepared(script_id=entry.startup_script_id)
        if entry.own:
            return await self._own(joining, entry)
        return Prepared(script=script(joining, entry, await self._token(entry)))

    async def _own(self, joining: Joining, entry: Entry) -> Prepared:
        text = entry.script
        if entry.script_file:
            text = await self._around.file(entry.script_file)
        elif entry.script_url:
            text = await self._around.fetch(entry.script_url)
            if found := uploaded_id(text):
                return Prepared(script_id=found)
        return Prepared(script=own_script(joining, text, self._around.variables(entry.variables)))

    async def _token(self, entry: Entry) -> str:
        if entry.token:
            return entry.token
        where = (entry.secret_name, entry.secret_key)
        now = self._clock()
        read_at, token = self._tokens.get(where, (float("-inf"), ""))
        if not token or now - read_at >= TOKEN_LIFE:
            token = await _read(self._read_secret, *where)
            self._tokens[where] = (now, token)
        return token


def script(joining: Joining, entry: Entry, token: str) -> str:
    """Pure. Raises JoinError, whose message never holds the token."""
    variables.check_taints(joining.taints)
    values = (variables.k3s if entry.template == K3S else variables.kubeadm)(joining, entry, token)
    try:
        return render(template(entry.template), values, variables.comments(joining))
    except TemplateError as error:
        raise JoinError(f"the {entry.template} script cannot be rendered: {error}") from error


@cache
def template(name: str) -> str:
    folder = resources.files("controller.join") / "templates"
    text = (folder / f"{name}.sh").read_text(encoding="utf-8")
    return text.replace(_INCLUDE, (folder / "common.sh").read_text(encoding="utf-8"))


async def _read(read_secret: Callable[[str, str], Awaitable[str]], name: str, key: str) -> str:
    try:
        # Secrets made from files mostly end with a line break that is no part of the token.
        token = (await read_secret(name, key)).strip()
    except KeyError:
        raise JoinError(f"Secret {name} has no key {key}") from None
    except Exception as error:
        raise JoinError(_told(name, key, getattr(error, "kind", ""), error)) from error
    if not token:
        raise JoinError(f"key {key} of Secret {name} is empty")
    return token


def _told(name: str, key: str, kind: str, error: Exception) -> str:
    """One line per way in which a read fails; the causes are told apart by the cluster's own word for them."""
    match kind:
        case "not_found":
            return f"there is no Secret {name} with a key {key} in the controller's namespace"
        case "forbidden" | "unauthorised":
            return f"the controller may not read Secret {name}; allow `get` on it by name"
        case _:
            return f"Secret {name} could not be read: {' '.join(str(error).split()) or type(error).__name__}"
