"""What is remembered is asked for once, told apart by identity, and never more of it than was agreed."""

from __future__ import annotations

from controller.domain.remembering import remembered


def test_the_same_object_is_asked_about_once_and_an_equal_one_anew() -> None:
    asked: list[list[int]] = []

    def total(of: list[int]) -> int:
        asked.append(of)
        return sum(of)

    ask = remembered(total)
    one, other = [1, 2], [1, 2]
    assert [ask(one), ask(one), ask(other), ask(one)] == [3, 3, 3, 3]
    assert len(asked) == 2


def test_only_the_latest_are_held() -> None:
    asked: list[int] = []

    def first(of: list[int]) -> int:
        asked.append(of[0])
        return of[0]

    ask = remembered(first, most=3)
    rows = [[number] for number in range(10)]
    for row in rows:
        ask(row)
    assert [ask(row) for row in reversed(rows)] == list(range(9, -1, -1))
    assert asked[10:] == list(range(6, -1, -1))


def test_no_answer_of_one_object_is_given_for_another_in_its_place() -> None:
    ask = remembered(lambda of: list(of), most=2)
    for number in range(2000):  # objects that end leave their places in memory to the next
        assert ask([number]) == [number]
