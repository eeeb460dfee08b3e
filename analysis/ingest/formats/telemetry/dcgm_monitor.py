"""Logs of `dcgmi dmon`: activity of GPUs and their MIG instances as parts of one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.formats.telemetry import dcgm_fields
from analysis.ingest.formats.telemetry.monitor_tables import cells_of, looks_like_row, sound, tables
from analysis.store.parsed import Parsed

_ROW = re.compile(r"^(?P<entity>(?:GPU(?:-I|-CI)?|Switch|CPU|Core|Link)\s+[\d/:]+)\s+(?P<cells>\S.*)$", re.IGNORECASE)
_ENTITY = "Entity"


def _is_header(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[0] == _ENTITY


class DcgmMonitor:
    """Reads the old and the new layout."""

    name = "dcgmi-dmon"
    title = "DCGM, dcgmi dmon"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a line with ``#`` begins with the entity and goes on with fields."""
        lines = (line.strip() for line in opened.head.splitlines()[:200])
        return any(line.startswith("#") and _is_header(cells_of(line.lstrip("#"))) for line in lines)

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the samples; N/A and DCGM's blank numbers become missing values with their reason.

        Raises
        ------
        InputRefusedError
            If there is no row, or none can be used.
        """
        found, seen = tables(opened, _is_header, is_row=_is_row, cut=_cut)
        readings = samples.Readings()
        gpu = samples.gpu_for([None], opened, hints)[None]
        above: set[str] = set()
        for whole in found:
            fields = [name for name in whole.names if name != _ENTITY]
            table, values = sound(whole, seen, fields)
            entities = table.column(_ENTITY) or []
            device = [text if text.upper().startswith("GPU ") else None for text in entities]
            for name in fields:
                counter, unit = dcgm_fields.SHORT.get(name, (name, dcgm_fields.unit_of(name)))
                numbers, blank = dcgm_fields.blanked(values[name].values)
                why = values[name].why if values[name].missing.any() else None
                if blank is not None:
                    why = [one or two for one, two in zip(blank, values[name].why, strict=True)]
                if unit == "ratio" and np.nanmax(numbers, initial=0.0) > 1.005:
                    above.add(name)
                readings.add(
                    counter, numbers, unit=unit, gpu=gpu, workload=hints.workload, device=device,
                    entity=[None if own else text for own, text in zip(device, entities, strict=True)], reason=why,
                )  # fmt: skip
        warnings = ["There is no time in the log of dcgmi dmon; the samples are in no order."]
        if above:
            warnings.append(
                f"{', '.join(sorted(above))} exceeds 1, as happens under MIG; the values are kept as they are."
            )
        return samples.build(
            self.name, opened, hints, readings, Account(seen.read, seen.frame()),
            report={"lines_skipped": seen.other}, warnings=warnings,
        )  # fmt: skip


def _is_row(line: str) -> bool:
    return _ROW.match(line) is not None or looks_like_row(line)


def _cut(line: str, width: int) -> list[str]:
    found = _ROW.match(line)
    return [] if found is None else [" ".join(found["entity"].split()), *cells_of(found["cells"])]
