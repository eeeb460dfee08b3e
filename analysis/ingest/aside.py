"""In words: rows that a format understands and sets aside, by the rule that sets them aside."""

from __future__ import annotations

#: What the rows of each rule are.
_RULES = {
    "max_rate": "peak rates of the GPU, which are no measurement of the kernel",
    "mirrored_cell": "cells that stand a second time, seen from the partner",
    "scale_above_1": "cells of jobs on several GPUs, which are no co-runs on one",
    "unconsolidated": "cells of jobs spread over several machines, which are no co-runs on one GPU",
    "memory_operation": "copies and fills of memory, which are no kernels",
    "not_a_kernel": "lines of memory operations and API calls, which are no kernels",
    "other_table": "lines of another table in the file",
    "same_kernels_again": "lines of kernels that another table of the file has too",
    "list_of_fields": "lines that list fields instead of values",
    "other_metric": "metrics of another exporter",
    "partner_rejected": "members whose partner's row was rejected",
    "no_usage": "steps for which no usage was recorded",
    "no_process": "moments at which no process ran",
    "repeated_figures": "figures that repeat those of another row",
    "text": "lines of text",
}  # fmt: skip


def what_aside(rule: str) -> str:
    """Say what the rows of a rule are, with the rule's name.

    Examples
    --------
    >>> what_aside("memory_operation")
    'copies and fills of memory, which are no kernels (rule memory_operation)'
    """
    words = _RULES.get(rule)
    return f"{words} (rule {rule})" if words else f"by rule {rule}"
