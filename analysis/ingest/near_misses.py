"""Texts that profilers print beside those that can be read: what each is, and which command gives the right one."""

from __future__ import annotations

import csv
import re

_RAW = "`ncu --import REPORT.ncu-rep --csv --page raw --print-units base > profile.csv`"
_SUMMARY_TEXT = re.compile(r"^\s*Time ?\(%\)\s{2,}.*\bInstances\b.*\bName\s*$|^\s*Start \(ns\)\s{2,}.*\bName\s*$", re.M)
_LONGEST = 1 << 16
_NUMBER = re.compile(r"^[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?$")


def near_miss(head: str) -> tuple[str, str] | None:
    """Recognise a text that is close to one that can be read.

    Parameters
    ----------
    head : str
        The first part of the text.

    Returns
    -------
    tuple of str or None
        What it is and the cure.
    """
    if _SUMMARY_TEXT.search(head):
        return (
            "this is the text that `nsys stats` prints for people",
            "Print it as a table with `nsys stats --report cuda_gpu_kern_sum --format csv PROFILE.nsys-rep`.",
        )
    for line in head.splitlines()[:50]:
        if len(line) > _LONGEST or not ("Source" in line or "Average" in line):
            continue
        names = {name.strip() for name in next(csv.reader([line]), [])}
        if {"Address", "Source"} <= names and any("Sampling" in name or name.startswith("stall_") for name in names):
            return (
                "this is the source page of Nsight Compute: samples by instruction, without the launch they are of",
                f"Export the page of launches with {_RAW}, which has the stall reasons of each one.",
            )
        if {"Metric Name", "Average"} <= names and "Kernel Name" not in names:
            return (
                "this is a summary of Nsight Compute over all kernels at once",
                f"Print it with `--print-summary per-kernel`, or all launches with {_RAW}.",
            )
    return None


def lacks_names(cells: list[str]) -> bool:
    """Say whether the first line of a table holds values rather than the names of columns."""
    numbers = sum(bool(_NUMBER.match(cell.strip())) for cell in cells)
    return numbers >= 2 and numbers * 4 >= len(cells)
