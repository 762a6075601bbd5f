"""A TCP proxy on loopback between a controller and one of its worlds: what networks do to connections.

It cuts them, holds their bytes back without a word (as a firewall does that forgot them), or lets them
arrive late, each way alone if need be. Bytes pass as they are, so TLS stays between the two ends.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal

Way = Literal["up", "down"]  # to the server, from the server
LONGEST = 120.0  # seconds that anything is held back


class Line:
    """One connection, both ways; a way that is not open holds its bytes back."""

    def __init__(self, near: socket.socket, far: socket.socket, open_ways: dict[Way, bool]) -> None:
        self._ends = (near, far)
        self.ways: dict[Way, threading.Event] = {"up": threading.Event(), "down": threading.Event()}
        for way, is_open in open_ways.items():
            if is_open:
                self.ways[way].set()

    def cut(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for way in self.ways.values():
            way.set()


class Proxy:
    """Listens on a port of its own and passes on to another one."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lines: list[Line] = []
        self._open: dict[Way, bool] = {"up": True, "down": True}
        self._ended = False
        self.delay = 0.0  # seconds that every piece of data is late
        self.away = False  # new connections are cut at once
        self.holds: Callable[[bytes], bool] = lambda _: False  # which pieces for the server wait ...
        self.held = threading.Event()  # ... whether one does ...
        self.release = threading.Event()  # ... and until when

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._listener.close()
        self.release.set()
        self.cut()

    # -- what may happen ------------------------------------------------------------------------------

    def cut(self) -> int:
        """End every connection; how many there were."""
        lines, self.lines = self.lines, []
        for line in lines:
            line.cut()
        return len(lines)

    def stall(self, *ways: Way, later_ones_too: bool) -> None:
        """Hold everything back that goes these ways on the connections that there are."""
        for line in self.lines:
            for way in ways:
                line.ways[way].clear()
        for way in ways:
            self._open[way] = not later_ones_too

    def go_on(self) -> None:
        self._open = {"up": True, "down": True}
        for line in self.lines:
            for way in line.ways.values():
                way.set()

    # -- passing on -----------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._ended:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self.away:
                    raise ConnectionError
                far = socket.create_connection(("127.0.0.1", self._target), timeout=10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            line = Line(near, far, self._open)
            self.lines.append(line)
            for source, sink, way in ((near, far, "up"), (far, near, "down")):
                threading.Thread(target=self._pass, args=(line, source, sink, way), daemon=True).start()

    def _pass(self, line: Line, source: socket.socket, sink: socket.socket, way: Way) -> None:
        for data in _pieces(source):
            if way == "up" and self.holds(data):
                self.held.set()
                self.release.wait(LONGEST)
            if self.delay:
                time.sleep(self.delay)
            line.ways[way].wait(LONGEST)
            try:
                sink.sendall(data)
            except OSError:
                break
        line.cut()
        source.close()
        with contextlib.suppress(ValueError):
            self.lines.remove(line)


def _pieces(source: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = source.recv(65536)
        except OSError:
            return
        if not data:
            return
        yield data
