"""The quantities of a solo profile: names, units, and how published features are mapped to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from analysis.predict.frame.schema import What

Scale = Literal["fraction", "magnitude", "share", "setting"]

_PERCENT: Mapping[str, float] = {"": 0.01, "%": 0.01, "percent": 0.01, "fraction": 1.0, "share": 1.0, "1": 1.0}
_NONE: Mapping[str, float] = {"": 1.0}
_MICROSECONDS: Mapping[str, float] = {"": 1.0, "us": 1.0, "µs": 1.0, "ns": 1e-3, "ms": 1e3, "s": 1e6}
_MEBIBYTES: Mapping[str, float] = {
    "": 1.0, "mib": 1.0, "mb": 1.0, "gib": 1024.0, "gb": 1024.0, "byte": 2.0**-20, "b": 2.0**-20,
}  # fmt: skip


@dataclass(frozen=True)
class Quantity:
    """Something that is known of a workload running alone.

    Attributes
    ----------
    name : str
        Short name; columns of the frame are derived from it.
    meaning : str
        What it is, for people.
    unit : str
        Base unit of a profile's value.
    what : str
        Kind of evidence.
    scale : {"fraction", "magnitude", "share", "setting"}
        A *fraction* is a demand on a resource, 0 to 1: it adds up and can overload. A *magnitude* is positive and spans
        decades, its logarithm is used. A *share* is a part of the warp cycles. A *setting* is a configuration.
    aliases : tuple of str
        Names in published data, compared without case, spaces and punctuation.
    units : mapping
        Factor from a unit of the source to the base unit.
    """

    name: str
    meaning: str
    unit: str
    what: What
    scale: Scale
    aliases: tuple[str, ...] = ()
    units: Mapping[str, float] = field(default_factory=lambda: _NONE)


def _fraction(name: str, meaning: str, what: What, *aliases: str) -> Quantity:
    return Quantity(name, meaning, "fraction of peak", what, "fraction", aliases, _PERCENT)


def _length(name: str, meaning: str, *aliases: str) -> Quantity:
    return Quantity(name, meaning, "µs", "duty cycle", "magnitude", aliases, _MICROSECONDS)


#: Stall groups in the order of the taxonomy: key of the column, group as the reference names it.
STALL_GROUPS: Mapping[str, str] = {
    "memory_wait": "global/local memory wait",
    "memory_pipe": "memory pipe",
    "shared_memory_and_mio": "shared memory and MIO",
    "compute_pipe": "compute pipe",
    "synchronisation": "synchronisation",
    "front_end": "front end",
    "fixed_latency": "fixed latency",
    "issue": "issue",
    "other": "other",
}

#: Reasons that all recent GPUs report, so that profiles of several generations line up.
STALL_REASONS: tuple[str, ...] = (
    "long_scoreboard", "lg_throttle", "tex_throttle", "drain", "short_scoreboard", "mio_throttle",
    "math_pipe_throttle", "dispatch_stall", "barrier", "membar", "sleeping", "branch_resolving", "no_instruction",
    "imc_miss", "wait", "selected", "not_selected", "misc",
)  # fmt: skip

QUANTITIES: tuple[Quantity, ...] = (
    _fraction("sm_util", "share of time with a kernel on the GPU (nvidia-smi or SM active)", "duty cycle",
              "sm%", "gpu_util", "sm_util", "gpu utilization", "gpu_utilisation", "duty_cycle"),
    _fraction("mem_util", "share of time the memory was read or written (nvidia-smi)", "duty cycle",
              "mem%", "gmem_util", "mem_util", "memory utilization", "memory_utilisation"),
    _fraction("compute_throughput", "SM throughput while kernels run", "counters",
              "Compute (SM) Throughput", "sm_throughput", "compute_throughput",
              "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    _fraction("dram_throughput", "DRAM throughput while kernels run", "counters",
              "DRAM Throughput", "dram_util", "dram_throughput",
              "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
              "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    _fraction("memory_throughput", "busiest part of the memory path while kernels run", "counters",
              "Memory Throughput", "memory_throughput",
              "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"),
    _fraction("l2_throughput", "L2 cache throughput while kernels run", "counters",
              "L2 Cache Throughput", "l2_throughput", "l2_util",
              "lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    _fraction("l1_throughput", "L1/TEX throughput while kernels run", "counters",
              "L1/TEX Cache Throughput", "l1_throughput", "l1tex__throughput.avg.pct_of_peak_sustained_active"),
    _fraction("tensor_throughput", "tensor pipe activity while kernels run", "counters",
              "tensor_throughput", "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
              "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
    _fraction("occupancy", "achieved occupancy", "counters", "Achieved Occupancy", "occupancy",
              "sm__warps_active.avg.pct_of_peak_sustained_active"),
    _fraction("issue_active", "share of cycles in which a scheduler issues", "counters",
              "issue_active", "Issue Slots Busy", "One or More Eligible",
              "smsp__issue_active.avg.pct_of_peak_sustained_active"),
    _fraction("l1_hit_rate", "L1/TEX hit rate", "counters", "L1/TEX Hit Rate", "l1_hit_rate",
              "l1tex__t_sector_hit_rate.pct"),
    _fraction("l2_hit_rate", "L2 hit rate", "counters", "L2 Hit Rate", "l2_hit_rate",
              "lts__t_sector_hit_rate.pct"),
    _length("step_length", "time for one unit of work alone (one sample, step or request)"),
    _length("kernel_length", "mean length of a kernel", "ave_Kernel_Length", "avg_kernel_length", "kernel_length",
            "kernel_length_us", "kernel_us"),
    _length("short_kernel_length", "mean length of its short kernels", "Short_Kernel", "short_kernel_length"),
    _length("long_kernel_length", "mean length of its long kernels", "Long_Kernel", "long_kernel_length"),
    Quantity("long_short_ratio", "long kernels for each short one", "ratio", "duty cycle", "magnitude",
             ("long/short_Ratio", "long_short_ratio")),
    Quantity("kernels_per_step", "kernels launched for one unit of work", "launches", "duty cycle", "magnitude",
             ("kernels_per_step", "kernels_per_iteration")),
    Quantity("pcie_read", "PCIe read bandwidth", "published unit", "duty cycle", "magnitude",
             ("PCIe read bandwidth", "pcie_read", "pcie_read_bandwidth")),
    Quantity("pcie_write", "PCIe write bandwidth", "published unit", "duty cycle", "magnitude",
             ("PCIe write bandwidth", "pcie_write", "pcie_write_bandwidth")),
    Quantity("peak_memory", "peak GPU memory", "MiB", "duty cycle", "magnitude",
             ("gmem", "peak_memory", "memcap", "peak_memory_mib"), _MEBIBYTES),
    Quantity("threads", "threads of a launch, weighted by duration", "threads", "counters", "magnitude",
             ("Threads", "threads")),
    Quantity("kernel_threads", "mean threads of a kernel", "threads", "counters", "magnitude",
             ("avg_Thread", "kernel_threads")),
    Quantity("registers", "registers of a launch, weighted by duration", "registers", "counters", "magnitude",
             ("Registers", "registers")),
    Quantity("shared_memory", "static shared memory of a block", "byte", "counters", "magnitude",
             ("Static Shared Memory", "shared_memory", "shared_memory_bytes")),
    Quantity("eligible_warps", "eligible warps for each scheduler", "warps", "counters", "magnitude",
             ("Eligible Warps Per Scheduler", "eligible_warps",
              "smsp__warps_eligible.avg.per_cycle_active")),
    Quantity("warp_cycles_per_issue", "warp cycles for each issued instruction", "cycles", "stalls", "magnitude",
             ("Warp Cycles Per Issued Instruction", "warp_cycles_per_issue")),
    Quantity("speedup_slow", "solo speed here over that on the slowest other GPU", "ratio", "duty cycle", "magnitude"),
    Quantity("speedup_fast", "solo speed here over that on the fastest other GPU", "ratio", "duty cycle", "magnitude"),
    Quantity("batch_size", "batch size", "samples", "configuration", "magnitude"),
    Quantity("relative_batch", "batch size over the mean of its model's solo profiles", "ln(ratio)", "configuration",
             "setting"),
    Quantity("relative_step", "step length over the mean of its model's solo profiles", "ln(ratio)", "duty cycle",
             "setting"),
    Quantity("batch_elasticity", "growth of its model's step length with the batch size, d ln step / d ln batch", "1",
             "duty cycle", "setting"),
    Quantity("half_precision", "1 for mixed or half precision, 0 for full", "flag", "configuration", "setting"),
    Quantity("training", "1 for training, 0 for inference", "flag", "configuration", "setting"),
    *(Quantity(f"stall_{key}", f"warp cycles lost to {group}", "fraction of warp cycles", "stalls", "share")
      for key, group in STALL_GROUPS.items()),
    *(Quantity(f"reason_{name}", f"warp cycles in stall reason {name}", "fraction of warp cycles", "stalls", "share")
      for name in STALL_REASONS),
)  # fmt: skip

BY_NAME: Mapping[str, Quantity] = {quantity.name: quantity for quantity in QUANTITIES}


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9%]", "", text.lower())


_ALIASES: Mapping[str, Quantity] = {
    _plain(alias): quantity for quantity in QUANTITIES for alias in (quantity.name, *quantity.aliases)
}


def resolve(name: str) -> Quantity | None:
    """Find the quantity that a published feature's name stands for, or None."""
    return _ALIASES.get(_plain(name))


def factor(quantity: Quantity, unit: str | None) -> float:
    """Return what a published value is multiplied with to reach the quantity's base unit.

    An unknown unit counts as the source's usual one; a profile that mixes units is the importer's to refuse.
    """
    table = quantity.units
    return table.get((unit or "").strip().lower(), table[""])


def words(name: str) -> str:
    """Say a quantity's name in words, such as ``kernel length``; the name itself when it is unknown."""
    return name.removeprefix("stall_").removeprefix("reason_").replace("_", " ")
