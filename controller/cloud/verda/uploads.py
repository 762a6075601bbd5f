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
        # All heads have one length, so it takes no longer for more of them: words may be a whole script.
        beginnings = (at for at in range(len(plain) - HEAD + 1) if plain[at : at + HEAD] in self._heads)
        found = next(beginnings, None)
        return f"{plain[:found]}***" if found is not None else words
