"""Files that tell a scheduler a plan: what each target can say, and the rule where it can't."""

from __future__ import annotations

from analysis.plan.exports.targets import TARGETS, Target, export, parse_gpu_list, read_gpu_list, target, write
from analysis.plan.exports.writing import Made, Settings

__all__ = ["TARGETS", "Made", "Settings", "Target", "export", "parse_gpu_list", "read_gpu_list", "target", "write"]
