"""HiGHS, as far as the benchmarks need it: minimise a cost over rows that must reach a bound.

It comes with the `dev` extra only; without it there is nothing to compare with, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

HINT = "highspy is not installed (it is in the extra `dev`), so nothing is known about the best there is"


def installed() -> bool:
    return find_spec("highspy") is not None


@dataclass(slots=True)
class Solution:
    value: float  # infinite if none was found
    bound: float
    optimal: bool  # or nothing is to be found
    columns: list[float]
    duals: list[float]  # of the rows; of a linear programme only


@dataclass(slots=True)
class Programme:
    """Minimise `costs`, columns from zero upwards, each row from its lower bound to its upper one."""

    costs: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    lower_rows: list[float] = field(default_factory=list)
    upper_rows: list[float] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _rows: list[int] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)

    def row(self, lower: float, upper: float = float("inf")) -> int:
        self.lower_rows.append(lower)
        self.upper_rows.append(upper)
        return len(self.lower_rows) - 1

    def column(self, cost: float, cells: Sequence[tuple[int, float]], upper: float = float("inf")) -> int:
        self.costs.append(cost)
        self.upper.append(upper)
        self._starts.append(len(self._rows))
        self._rows += [row for row, _ in cells]
        self._values += [value for _, value in cells]
        return len(self.costs) - 1

    def solve(
        self, *, whole: bool = False, seconds: float | None = None, below: float | None = None
    ) -> Solution:
        """`whole`: every column a whole number; solutions that are not `below` this are not looked for."""
        import highspy
        import numpy

        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.costs), len(self.lower_rows)
        lp.col_cost_ = numpy.array(self.costs, dtype=float)
        lp.col_lower_ = numpy.zeros(len(self.costs))
        lp.col_upper_ = numpy.array(self.upper, dtype=float)
        lp.row_lower_ = numpy.array(self.lower_rows, dtype=float)
        lp.row_upper_ = numpy.array(self.upper_rows, dtype=float)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = numpy.array([*self._starts, len(self._rows)], dtype=numpy.int32)
        lp.a_matrix_.index_ = numpy.array(self._rows, dtype=numpy.int32)
        lp.a_matrix_.value_ = numpy.array(self._values, dtype=float)
        if whole:
            lp.integrality_ = [highspy.HighsVarType.kInteger] * len(self.costs)
        highs = _quiet()
        if seconds is not None:
            highs.setOptionValue("time_limit", max(0.1, seconds))
        if whole:
            highs.setOptionValue("mip_rel_gap", 1e-7)
        if below is not None:
            highs.setOptionValue("objective_bound", below)
        highs.passModel(lp)
        highs.run()
        info, found = highs.getInfo(), highs.getSolution()
        status = highspy.HighsModelStatus
        optimal = highs.getModelStatus() == status.kOptimal
        if highs.getModelStatus() in (status.kInfeasible, status.kObjectiveBound):
            return Solution(float("inf"), float("inf"), True, [], [])
        solved = info.primal_solution_status == int(highspy.kSolutionStatusFeasible)
        value = info.objective_function_value if solved else float("inf")
        bound = info.mip_dual_bound if whole else value
        return Solution(value, bound, optimal, list(found.col_value), list(found.row_dual))


class Growing:
    """A linear programme that columns are added to and bounds changed in, solved from where it was left."""

    def __init__(self, lower_rows: Sequence[float]) -> None:
        import highspy
        import numpy

        self._numpy = numpy
        self._highs = _quiet()
        for lower in lower_rows:
            self._highs.addRow(lower, highspy.kHighsInf, 0, self._indices(()), self._floats(()))
        self._count = 0

    def column(self, cost: float, rows: Sequence[int]) -> None:
        """With a one in each of these rows."""
        self._highs.addCol(
            cost, 0.0, float("inf"), len(rows), self._indices(rows), self._floats([1.0] * len(rows))
        )
        self._count += 1

    def between(self, row: int, lower: float, upper: float) -> None:
        self._highs.changeRowBounds(row, lower, upper)

    def at_most(self, uppers: Sequence[float]) -> None:
        """Of all columns."""
        self._highs.changeColsBounds(
            self._count,
            self._indices(range(self._count)),
            self._floats([0.0] * self._count),
            self._floats(uppers),
        )

    def solve(self) -> Solution:
        self._highs.run()
        found = self._highs.getSolution()
        value = self._highs.getInfo().objective_function_value
        return Solution(value, value, True, list(found.col_value), list(found.row_dual))

    def _indices(self, values: Sequence[int]) -> Any:
        return self._numpy.array(list(values), dtype=self._numpy.int32)

    def _floats(self, values: Sequence[float]) -> Any:
        return self._numpy.array(list(values), dtype=float)


def _quiet() -> Any:
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    return highs
