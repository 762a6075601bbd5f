"""Scripts that were sent, so that no answer which repeats one is told. Pure.

A script of the user's own may hold credentials anywhere, and nobody can tell which of its words they are. So words
end where a line of a script begins.
"""

from __future__ import annotations

HEAD = 16  # characters by which a line is recognised; shorter lines are in many a sentence by chance
_MOST = 20_000


class Uploads:
    def __init__(self) -> None:
        self._heads: dict[str, None] = {}

    def sent(self, script: str) -> None:
        for line in script.splitlines():
            head = " ".join(line.split())[:HEAD]
            if len(head) == HEAD:
                self._heads.pop(head, None)
                self._heads[head] = None
        for old in list(self._heads)[: max(0, len(self._heads) - _MOST)]:
            del self._heads[old]

    def hide(self, words: str) -> str:
        """What is told of these words."""
        plain = " ".join(words.split())
        found = [at for head in self._heads if (at := plain.find(head)) >= 0]
        return f"{plain[: min(found)]}***" if found else words
