"""How a report prints its figures: as everything else does, see `analysis.numbers`."""

from analysis.numbers import NO_VALUE, UNITS, Kind, format_value, shorten, significant, slowdown, visible

__all__ = ["NO_VALUE", "UNITS", "Kind", "format_value", "shorten", "significant", "slowdown", "visible"]
