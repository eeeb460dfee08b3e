"""The profiler's exact line for a job on a GPU: stall family, counters, and few enough launches to be done today."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from analysis.capture import mps
from analysis.errors import UsageError

#: Stall reasons with the first and last compute capability that counts them.
REASONS: tuple[tuple[str, float, float], ...] = (
    ("long_scoreboard", 7.0, 99.0), ("lg_throttle", 7.0, 99.0), ("tex_throttle", 7.0, 99.0), ("drain", 7.0, 99.0),
    ("short_scoreboard", 7.0, 99.0), ("mio_throttle", 7.0, 99.0), ("math_pipe_throttle", 7.0, 99.0),
    ("dispatch_stall", 7.0, 99.0), ("barrier", 7.0, 99.0), ("membar", 7.0, 99.0), ("sleeping", 7.0, 99.0),
    ("gmma", 9.0, 9.0), ("wait", 7.0, 99.0), ("branch_resolving", 7.5, 99.0), ("no_instruction", 7.0, 99.0),
    ("imc_miss", 7.0, 9.0), ("selected", 7.0, 99.0), ("not_selected", 7.0, 99.0), ("misc", 7.0, 99.0),
)  # fmt: skip

#: What the reasons add up to, time, and the counters that predictors read.
COUNTERS = (
    "smsp__average_warps_active_per_issue_active.ratio",
    "smsp__issue_active.avg.per_cycle_active",
    "smsp__inst_executed.sum",
    "gpu__time_duration.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1tex__t_sector_hit_rate.pct",
    "lts__t_sector_hit_rate.pct",
    "dram__bytes.sum",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block",
    "launch__waves_per_multiprocessor",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__thread_count",
)


#: Profilers of this maker, by the names of their programs.
PROFILERS = ("ncu", "nv-nsight-cu-cli", "nsys", "nvprof")

#: From here on no compute capability is in sight.
_BEYOND = 20.0
_WORDS = re.compile(r"[^\s;&|()'\"]+")


def profilers_in(command: Sequence[str]) -> list[str]:
    """Return the profilers that a command starts: its program, what that is told to start, or a line for a shell."""
    words = list(command[:3])
    for text in command:
        # What a shell is given as one word is a line of its own.
        if any(character.isspace() for character in text):
            words += _WORDS.findall(text)
    return [name for word in words if (name := Path(word).name) in PROFILERS]


def metrics(cc: str) -> list[str]:
    """Return the metrics to ask for on a compute capability such as ``8.0``.

    Raises
    ------
    UsageError
        If Nsight Compute knows no such GPU.
    """
    try:
        number = float(cc)
    except ValueError as error:
        raise UsageError(f"{cc!r} is no compute capability", "Write it as 8.0.") from error
    if number >= _BEYOND:
        raise UsageError(f"there is no GPU of compute capability {cc}", "Write that of your GPU, such as 8.0.")
    if number < 7.0:
        raise UsageError(
            f"Nsight Compute counts stalls from compute capability 7.0 (Volta) on, this GPU has {cc}",
            "Use nvprof there: `nvprof --csv --metrics all --log-file profile.csv COMMAND`.",
        )
    stalls = [
        f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        for reason, first, last in REASONS
        if first <= number < last + 1
    ]
    return stalls + list(COUNTERS)


def command(
    job: Sequence[str], cc: str, *, skip: int = 50, count: int = 200, log: str = "profile.csv", program: str = "ncu"
) -> list[str]:
    """Return the profiler's command for a job.

    Parameters
    ----------
    job : sequence of str
        Program and arguments.
    cc : str
        Compute capability of the GPU.
    skip, count : int
        Launches to pass over first, which are those of the start, and launches to profile: each is replayed some ten
        times, so thousands of them take hours and say the same as the kernels of a few steps.
    log : str
        CSV file to write.
    program : str
        The profiler.

    Returns
    -------
    list of str
        Program and arguments.

    Raises
    ------
    UsageError
        If the GPU is too old, or the job runs under a profiler already.
    """
    found = profilers_in(job)
    if found:
        raise UsageError(f"the job runs under {found[0]} already", "Give the job's own command, without a profiler.")
    return [
        program, "--target-processes", "all", "--launch-skip", str(skip), "--launch-count", str(count),
        "--replay-mode", "kernel", "--clock-control", "base", "--csv", "--page", "raw", "--print-units", "base",
        "--metrics", ",".join(metrics(cc)), "--log-file", log, *job,
    ]  # fmt: skip


def refuse_beside_mps(folder: Path | None = None) -> None:
    """Refuse to profile where the job would be a client of MPS.

    Raises
    ------
    UsageError
        If a daemon runs where the job would look for one.
    """
    pid = mps.running_at(folder)
    if pid is not None:
        raise UsageError(
            f"an MPS daemon runs here (process {pid}), and a profile taken under MPS counts all its clients together",
            f"Stop it (`echo quit | {mps.CONTROL}`), or run the profiler with {mps.PIPE} set to an empty folder.",
        )


def shown(words: Sequence[str]) -> str:
    """Return a command as it is typed on a shell."""
    return shlex.join(words)
