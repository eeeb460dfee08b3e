"""The campaign behind StallScope's own data: eight jobs profiled and measured alone, in pairs, triples and quadruples.

Needs Python 3.11, PyTorch, nvidia-ml-py and ncu on the GPU machine and nothing else; `analysis.capture.pack` makes one
file of it. What it writes, `stallscope import FOLDER` reads elsewhere.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from analysis.capture import machine, ncu, torchjobs
from analysis.capture.campaign import Outcome, Pick, run
from analysis.capture.corun import Timing
from analysis.capture.plan import Plan, all_pairs, informative
from analysis.capture.process import JobSpec, complete
from analysis.capture.rate import RateBy
from analysis.capture.readings import Reader
from analysis.errors import StallScopeError, UsageError

#: Launches to profile of each job, after those of its start.
SKIP, LAUNCHES, STEPS = 100, 60, 40

JOBS = torchjobs.JOBS
#: Time for the profile of one job.
_PROFILE_SECONDS = 600.0

Command = Callable[[str], Sequence[str]]


def job_command(name: str) -> list[str]:
    """Return the command that runs one of the jobs, from a checkout, an installation or the one packed file."""
    started = Path(sys.argv[0])
    if started.suffix == ".pyz":
        return [sys.executable, str(started.resolve()), "--run-job", name]
    return [sys.executable, "-m", "analysis.capture.owndata", "--run-job", name]


def triples_and_quadruples(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return a dozen sets of three and four in which every job stands four or five times."""
    count = len(names)
    triples = [tuple(names[(n + step) % count] for step in (0, 1, 3)) for n in range(count)]
    quadruples = [tuple(names[(2 * n + step) % count] for step in (0, 1, 2, 5)) for n in range(4)]
    return [tuple(dict.fromkeys(one)) for one in triples + quadruples]


def own_plan(command: Command = job_command, *, timing: Timing | None = None, budget: float | None = None) -> Plan:
    """Return the campaign: every job alone, all 36 pairs with twins, a dozen larger sets; two windows of each."""
    names = list(torchjobs.JOBS)
    units = RateBy("steps", unit="samples/s")
    jobs = {name: JobSpec(name, tuple(command(name)), units) for name in names}
    sets = informative(all_pairs(names)) + triples_and_quadruples(names)
    return Plan(jobs, tuple(sets), "mps", timing or Timing(seconds=1.5, warmup=1.0, start=90.0, windows=2), 1, budget)


def profile(
    folder: Path, reader: Reader, *, command: Command = job_command, gpu: str | None = None, device: int | None = None,
    program: str = "ncu", until: float | None = None, say: Callable[[str], None] = print,
) -> list[Path]:  # fmt: skip
    """Profile every job alone; those whose file is there are not profiled again.

    Parameters
    ----------
    folder : Path
        Where ``JOB.csv`` goes.
    reader : Reader
        Tells the GPU and its compute capability.
    command : callable
        Command of a job.
    gpu : str, optional
        Name of the GPU, where the driver can't be asked.
    device : int, optional
        Number of the GPU.
    program : str
        The profiler.
    until : float, optional
        Monotonic time at which to begin no more.
    say : callable
        Told what happens.

    Returns
    -------
    list of Path
        The profiles.
    """
    snapshot = reader.snapshot()
    index = machine.device_index(device)
    name = machine.gpu_name(snapshot, index, gpu)
    found = machine.device_of(snapshot, index)
    ncu.refuse_beside_mps()
    out = []
    for job in torchjobs.JOBS:
        path = folder / f"{job}.csv"  # what an import calls the workload
        if not path.exists():
            if until is not None and time.monotonic() > until:
                say(f"profile of {job}: no time left")
                continue
            began = time.monotonic()
            words = [*command(job), "--steps", str(STEPS)]
            cc = found.cc if found is not None and found.cc else "8.0"
            part = path.with_suffix(".part")
            line = ncu.command(words, cc, skip=SKIP, count=LAUNCHES, log=str(part), program=program)
            try:
                done = complete(line, seconds=_PROFILE_SECONDS)
            except subprocess.TimeoutExpired:
                say(f"profile of {job}: not made within {_PROFILE_SECONDS:.0f} s")
                continue
            if not part.exists() or done.returncode not in (0, 1) or '"ID"' not in part.read_text(errors="replace"):
                said = " ".join((done.stderr + done.stdout).split())[-300:]
                say(f"profile of {job}: not made ({said or f'the profiler ended with {done.returncode}'})")
                continue
            # The profiler's table names no GPU; a line before it may, as a program's own output.
            part.write_text(f"GPU: {name}\n{part.read_text(encoding='utf-8')}", encoding="utf-8")
            part.replace(path)
            say(f"profile of {job}: {time.monotonic() - began:.0f} s")
        out.append(path)
    return out


def campaign(
    folder: Path, *, command: Command = job_command, timing: Timing | None = None, minutes: float = 10.0,
    reader: Reader | None = None, gpu: str | None = None, device: int | None = None, program: str = "ncu",
    profiles: bool = True, say: Callable[[str], None] = print, pick: Pick | None = None,
) -> Outcome:  # fmt: skip
    """Do all of it within a time; called again with the same folder it goes on where it stopped.

    Profiles come first, as everything else rests on them; then jobs alone, pairs and larger sets.

    Raises
    ------
    StallScopeError
        If the GPU has no name, MPS does not start, or PyTorch is missing.
    """
    reader = reader or Reader()
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + minutes * 60
    if profiles:
        if shutil.which(program) is None:
            say(f"There is no {program} on the PATH: the jobs are measured without profiles.")
        else:
            profile(
                folder, reader, command=command, gpu=gpu, device=device, program=program, until=end - 60, say=say
            )  # fmt: skip
    plan = own_plan(command, timing=timing, budget=max(1.0, end - time.monotonic()))
    return run(plan, folder, reader=reader, gpu=gpu, device=device, say=say, pick=pick)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from a shell: ``python stallscope-own-data.pyz --out FOLDER``."""
    parser = argparse.ArgumentParser(prog="own-data", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("own-data"), help="folder to write to, or to go on with")
    parser.add_argument("--minutes", type=float, default=10.0, help="time for all of it")
    parser.add_argument("--device", type=int, help="number of the GPU; the first one when left out")
    parser.add_argument("--gpu", help="name of the GPU, where the driver can't be asked")
    parser.add_argument("--no-profiles", action="store_true", help="leave out ncu")
    parser.add_argument("--run-job", choices=list(torchjobs.JOBS), help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.run_job:
        torchjobs.run(given.run_job, given.steps)
        return 0
    try:
        check_torch()
        done = campaign(
            given.out, minutes=given.minutes, device=given.device, gpu=given.gpu, profiles=not given.no_profiles
        )
    except StallScopeError as error:
        sys.stderr.write(f"Error: {error.sentence}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Stopped. The same command goes on where it was.\n")
        return 130
    sys.stdout.write(
        f"{done.done} runs done, {done.left} left, {done.failed} did not run. "
        f"Bring {done.folder} to where StallScope is, and: stallscope import {done.folder}\n"
    )
    return 0


def check_torch() -> None:
    """Refuse to start where PyTorch is missing.

    Raises
    ------
    UsageError
        With the cure.
    """
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UsageError("PyTorch is not installed here", "`pip install torch`, in the Python that runs this.")


if __name__ == "__main__":
    sys.exit(main())
