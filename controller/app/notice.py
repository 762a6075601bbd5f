"""The status ConfigMap: what is written there for everybody, and what people write beside it.

A write names the version that is known from the one before, so it needs no reading first, and it fails
when somebody annotated the object meanwhile: then that is read at once. While nothing is written the
annotations are looked at now and then; they are the only thing that is polled in the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from controller.cluster.protocol import ClusterError, Writer
from controller.domain import names

LOOK_EVERY = 15.0  # seconds

Notes = Callable[[], Awaitable[Mapping[str, str]]]


class Notice:
    def __init__(
        self, writer: Writer, monotonic: Callable[[], float], deployment_notes: Notes | None = None
    ) -> None:
        self._writer = writer
        self._monotonic = monotonic
        self._deployment_notes = deployment_notes
        self._looked = float("-inf")
        self.retire = ""  # the wish that everything goes, as it stood there when the wishes were read
        self._version: str | None = None
        self._text: str | None = None  # as it stands there

    @property
    def due(self) -> bool:
        """Whether the wishes should be read again."""
        return not 0 <= self._monotonic() - self._looked < LOOK_EVERY

    async def wishes(self) -> list[str]:
        """The pause annotations as they stand now, on the ConfigMap and on our Deployment."""
        stored = await self._writer.read_config_map(names.STATUS_CONFIGMAP)
        self._version = stored.version if stored else None
        self._text = stored.data.get(names.STATUS_KEY) if stored else None
        wishes = [stored.annotations.get(names.PAUSE, "") if stored else ""]
        self.retire = stored.annotations.get(names.RETIRE, "") if stored else ""
        if self._deployment_notes is not None:
            wishes.append((await self._deployment_notes()).get(names.PAUSE, ""))
        self._looked = self._monotonic()
        return wishes

    async def show(self, text: str) -> bool:
        """Write the status if it is new. False: somebody else wrote on the object, whose wishes come first."""
        if text == self._text:
            return True
        try:
            self._version = await self._writer.write_config_map(
                names.STATUS_CONFIGMAP, {names.STATUS_KEY: text}, self._version
            )
        except ClusterError as error:
            self._looked = float("-inf")  # whatever stands there now is not known
            if error.kind == "conflict":
                return False
            raise
        self._text = text
        return True
