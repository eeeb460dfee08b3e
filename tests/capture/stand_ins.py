"""A GPU machine that is not there: a control program of MPS, jobs whose speed is known, a profiler."""

from __future__ import annotations

import sys
from pathlib import Path

#: Speaks the part of the control program's language that is used. A client is who writes its number to ``clients``.
CONTROL = r"""#!/bin/sh
dir="$CUDA_MPS_PIPE_DIRECTORY"
pid="$dir/nvidia-cuda-mps-control.pid"
if [ "$1" = "-d" ]; then
  [ -n "$FAKE_MPS_REFUSES" ] && { echo "mode is exclusive" >&2; exit 1; }
  setsid sleep 60 >/dev/null 2>&1 </dev/null &
  echo $! > "$pid"
  exit 0
fi
while read -r word server client; do
  case "$word" in
    get_server_list) [ -f "$pid" ] && echo 777 ;;
    get_client_list) for one in $(cat "$dir/clients"); do [ -d "/proc/$one" ] && echo "$one"; done ;;
    terminate_client) echo "terminate $client $(ps -o stat= -p $client)" >> "$FAKE_MPS_LOG" ;;
    quit) kill "$(cat "$pid")"; rm -f "$pid"; echo "quit" >> "$FAKE_MPS_LOG" ;;
  esac
done
exit 0
"""

#: Counts by its own timetable, so that a busy machine does not change its speed.
#: Paces itself: RATE alone, RATE / SLOWDOWN while another of its kind runs; the third argument says what goes wrong.
JOB = r"""
import os, sys, time
rate, slowdown, mode = float(sys.argv[1]), float(sys.argv[2]), (sys.argv[3:] or ["steps"])[0]
pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "")
if os.path.isdir(pipe) and mode != "stranger":
    with open(pipe + "/clients", "a") as file:
        file.write(f"{os.getpid()}\n")
room = os.environ["FAKE_ROOM"]
mine = f"{room}/{os.getpid()}"
open(mine, "w").close()
if mode == "oom":
    time.sleep(0.3); print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"); sys.exit(1)
if mode == "crash":
    time.sleep(0.5); print("an illegal memory access was encountered"); os.remove(mine); sys.exit(7)
out = os.open(os.environ["STALLSCOPE_STEPS"], os.O_WRONLY | os.O_APPEND)
work, due, together, met = 0.0, time.monotonic(), False, False
while True:
    together = sum(os.path.exists(f"/proc/{pid}") for pid in os.listdir(room)) > 1
    due += slowdown / rate if together else 1 / rate
    time.sleep(max(0.0, due - time.monotonic()))
    work += 1
    if mode == "lines":
        print(f"step {work:.0f}")
    elif mode == "regex":
        if work % 10 == 0:
            print(f"{rate / (slowdown if together else 1):.1f} samples/s")
    else:
        os.write(out, f"{due:.6f} {work} 512.0\n".encode())
    met = met or together
    if mode == "sibling" and met and not together:
        time.sleep(0.4)  # a busy machine must see who went first
        print("CUDA error: an illegal memory access was encountered"); sys.exit(9)
"""


def install(folder: Path) -> Path:
    """Write the control program and the job into a folder, for the PATH; returns the job's script."""
    control = folder / "nvidia-cuda-mps-control"
    control.write_text(CONTROL)
    control.chmod(0o755)
    job = folder / "job.py"
    job.write_text(JOB)
    return job


def command(job: Path, rate: float, slowdown: float, mode: str = "steps") -> tuple[str, ...]:
    """Return the command of a job that does `rate` steps a second alone, and so many times fewer beside others."""
    return (sys.executable, "-u", "-I", "-S", str(job), f"{rate:g}", f"{slowdown:g}", mode)
