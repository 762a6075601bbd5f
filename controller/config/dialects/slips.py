"""How far a word is from the one that was meant. What is merely alike (`paths.suggestion`) may be anything."""

from __future__ import annotations


def slips(theirs: str, ours: str) -> int:
    """Letters that are changed, dropped, too many or in the wrong order."""
    before: list[int] = []
    above: list[int] = []
    row = list(range(len(ours) + 1))
    for n, sign in enumerate(theirs, 1):
        before, above, row = above, row, [n]
        for k, other in enumerate(ours, 1):
            least = min(row[k - 1] + 1, above[k] + 1, above[k - 1] + (sign != other))
            if n > 1 and k > 1 and (sign, other) == (ours[k - 2], theirs[n - 2]):
                least = min(least, before[k - 2] + 1)
            row.append(least)
    return row[-1]
