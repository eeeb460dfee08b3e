"""Counts the steps of a training loop for `stallscope capture`; copy this file beside a job, or import it.

    from steps import Steps            # or: from analysis.capture.steps import Steps
    steps = Steps(per_step=64)         # 64 samples a step
    for batch in loader:
        ...
        steps.done()

Outside a capture it does nothing. Inside, the file that ``STALLSCOPE_STEPS`` names gets a line for a step, at most 200
a second: time, work done so far, and the memory that PyTorch has reserved, in MiB, where PyTorch is loaded.
"""

from __future__ import annotations

import os
import sys
import time

SWITCH = "STALLSCOPE_STEPS"
_SECONDS = 0.005


class Steps:
    """A counter that a job moves.

    Parameters
    ----------
    per_step : float
        Work of a step, such as the batch size.
    """

    def __init__(self, per_step: float = 1.0) -> None:
        self.per_step = per_step
        self.total = 0.0
        self._last = 0.0
        path = os.environ.get(SWITCH)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if path else None

    def done(self, steps: float = 1.0) -> None:
        """Say that steps are done; wait for the GPU (``torch.cuda.synchronize``) before, or what counts is queuing."""
        self.total += steps * self.per_step
        if self._file is None:
            return
        now = time.monotonic()
        if now - self._last >= _SECONDS:
            self._last = now
            os.write(self._file, f"{now:.6f} {self.total:.10g} {_reserved():.1f}\n".encode())


def _reserved() -> float:
    torch = sys.modules.get("torch")
    if torch is None:
        return 0.0
    try:
        return float(torch.cuda.max_memory_reserved()) / (1 << 20)
    except Exception:  # no GPU, or CUDA not started
        return 0.0
