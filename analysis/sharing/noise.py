"""Scatter of measurements, the same on every machine and in every order: each value has a random stream of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Metric = tuple[str, str, float]

#: Launch settings, counts of instructions, and the clock, which the profiler locks, don't scatter.
_EXACT = ("launch__", "smsp__inst_executed.sum", "smsp__cycles_elapsed.avg.per_second")


@dataclass(frozen=True)
class Noise:
    """Scatter of a simulated campaign.

    Attributes
    ----------
    seed : int
        Of everything.
    run : float
        Relative spread of a measured co-run value.
    solo : float
        Relative spread of a solo baseline. A baseline is measured once for each campaign, so its error is in every
        slowdown of the workload there.
    profile : float
        Relative spread of a counter from one replay pass to the next.
    length : float
        Relative spread of a kernel's duration from launch to launch.
    """

    seed: int
    run: float = 0.015
    solo: float = 0.01
    counters: float = 0.01
    length: float = 0.02

    def factor(self, spread: float, *what: object) -> float:
        """Return a factor near 1 that belongs to what is named, and to nothing else.

        Parameters
        ----------
        spread : float
            Relative standard deviation.
        *what : object
            Names the value: campaign, workload, run ...
        """
        if spread <= 0:
            return 1.0
        digest = hashlib.sha256("\x1f".join(map(str, (self.seed, *what))).encode()).digest()
        # Beyond three deviations a measurement would be repeated.
        normal = float(np.clip(np.random.default_rng(int.from_bytes(digest[:8], "little")).standard_normal(), -3, 3))
        return float(np.exp(spread * normal))

    def baseline(self, campaign: str, workload: str) -> float:
        """Return the factor of a workload's solo time in a campaign."""
        return self.factor(self.solo, "solo", campaign, workload)

    def member(self, campaign: str, run: str, slot: int) -> float:
        """Return the factor of a member's time in a run."""
        return self.factor(self.run, "run", campaign, run, slot)

    def profile(
        self, campaign: str, workload: str, kernel: int, launch: int, metrics: Sequence[Metric]
    ) -> tuple[Metric, ...]:
        """Return the metrics of one launch with scatter; percentages stay within 100."""
        found: list[Metric] = []
        for name, unit, value in metrics:
            spread = self.length if name.startswith("gpu__time_duration") else self.counters
            if name.startswith(_EXACT) or ("_selected_per_issue" in name and "not_selected" not in name):
                found.append((name, unit, value))
                continue
            scattered = value * self.factor(spread, "profile", campaign, workload, kernel, launch, name)
            bounded = name.endswith(".pct") or ".pct_of_peak" in name
            found.append((name, unit, min(scattered, 100.0) if bounded else scattered))
        return tuple(found)
