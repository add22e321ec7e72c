"""One instance of a litmus form in a simulated world: all of its runs, or random ones. No case is here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti_hal.conformance_tests.cases.l4_memory.forms import SEEDS, THREADS, registers, roles, within, word_bytes
from tutti_hal.conformance_tests.cases.l4_memory.shapes import Outcome, key

if TYPE_CHECKING:
    from tutti_hal.conformance_tests.run import Run


class SmallInstance:
    """One instance in a simulated world, each role one lane."""

    #: Bytes of x, y, z and of the notes, each a line of its own.
    _LINE, _LINES = 128, 5

    def __init__(self, run: Run, form: str) -> None:
        self._run, self.form = run, form
        # The world is the process's: whoever comes next must not find the bounds of a search in it.
        run.closing.callback(run.subject.reset_world)
        self._memory = run.buffer(self._LINE * self._LINES, "mapped")
        self._view = self._memory.numpy(np.uint8)
        self._words = self._memory.numpy(np.uint32)
        self._kernel = run.kernel(THREADS, f"litmus_{form}")
        at = [self._memory[n * self._LINE : (n + 1) * self._LINE] for n in range(self._LINES)]
        # z follows y by one instance: a stride of one line in words of the form's own width.
        stride = self._LINE // word_bytes(form)
        self._args = (at[0], at[1], at[3], at[4], at[4], 0, 1, 1, stride, 1, 1, 0, 0, 0)
        self._grid, self._block = (1, roles(form)) if within(form) else (roles(form), 1)

    def _outcome(self, words: Any) -> str:
        return key(tuple(int(one) for one in words[: registers(self.form)]))

    def explore(self) -> dict[str, Any]:
        """Every run with at most two pre-emptions and any reads of older values: how many ended in which outcome."""
        simulation = self._run.profile.backend.simulation()
        assert simulation is not None, "there is a world"
        base, size = int(self._memory.host_address), self._LINE * self._LINES
        notes = self._LINE * 3
        scene = simulation.Scene(regions=((base, bytes(size)),), results=((base + notes, 4 * registers(self.form)),))
        options = simulation.SimOptions(preemptions=3, idle_pauses=2, staleness_reads=1, max_steps=20_000)
        found = self._run.world.explore(self._kernel, self._grid, self._block, self._args, scene, options, 200_000)
        histogram: Counter[str] = Counter()
        for ending in found.endings:
            name = (
                self._outcome(np.frombuffer(ending.result, np.uint32)) if ending.outcome == "done" else ending.outcome
            )
            histogram[name] += ending.runs
        return {
            "form": self.form,
            "histogram": dict(histogram),
            "instances": found.runs,
            "cuts": found.cuts,
            "states": found.states,
            "complete": found.complete,
        }

    def by_seeds(self, wanted: Iterable[Outcome], *, each: bool) -> dict[str, Any]:
        """Random schedules, until each of the wanted outcomes was seen, or any of them; or so many."""
        missing = {key(one) for one in wanted}
        enough = 0 if each or not missing else len(missing) - 1
        # Where nothing is wanted, a few are looked at all the same.
        least, most = (0, SEEDS) if missing else (SEEDS // 40, SEEDS // 40)
        histogram: Counter[str] = Counter()
        first: dict[str, int] = {}
        for index in range(most):
            self._view[:] = 0
            self._run.subject.reset_world(policy="random", seed=(self._run.seed + index) % 2**63 or 1)
            self._run.launch(self._kernel, self._grid, self._block, *self._args)
            outcome = self._outcome(self._words[self._LINE * 3 // 4 :])
            histogram[outcome] += 1
            first.setdefault(outcome, index + 1)
            missing.discard(outcome)
            if len(missing) <= enough and index + 1 >= least:
                break
        return {"form": self.form, "histogram": dict(histogram), "instances": sum(histogram.values()), "first": first}
