"""The runs of a worker whose start was not reported yet."""

from mita.events.signals import StartedRun

from .execution import Execution


class StartedRuns:
    """`runs` have started. `undecided` have a slot and wait for a thread or a process; there it is
    decided whether they may still start."""

    def __init__(self) -> None:
        self.runs: list[Execution] = []
        self.undecided: list[Execution] = []

    def take(self) -> list[StartedRun]:
        """Returns the runs to report: they started since the last call and still run, or were told
        to stop. Most have ended by now: their start is reported together with their end, which
        costs half as much."""
        if self.undecided:
            self._decide()
        runs = [run for run in self.runs if not run.settled or run.stop is not None]
        self.runs.clear()
        begun = [StartedRun(run.claim, run.start.waited) for run in runs if run.start is not None]
        for run in runs:
            run.start = None
        return begun

    def _decide(self) -> None:
        waiting = []
        for run in self.undecided:
            if run.begun:
                self.runs.append(run)
            elif not run.settled:
                waiting.append(run)
        self.undecided = waiting
