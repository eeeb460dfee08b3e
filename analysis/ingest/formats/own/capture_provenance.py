"""What a capture wrote about itself: machine, clocks, proof of MPS, every run; kept beside the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Hints, Opened
from analysis.store.parsed import Parsed

_MARK = '"format": "stallscope-capture"'
_SHOWN = ("driver", "cuda", "gpu", "compute_capability", "sm_clock_mhz", "power_limit_w", "ecc", "mig", "captured_at")
_KNOWN_VERSION = 1


class CaptureProvenance:
    """Reads ``provenance-N.json`` of `stallscope capture`; it brings no figures, which the tables beside it hold."""

    name = "capture-provenance"
    title = "Provenance of a StallScope capture"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the text begins as a capture's provenance."""
        return _MARK in opened.head[:400]

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read it; a row of the account is a run.

        Raises
        ------
        InputRefusedError
            If it is damaged, or of a later version.
        """
        try:
            document = json.loads((opened.text or opened.path).read_text(encoding="utf-8-sig"))
            version, known, runs = document["version"], dict(document["provenance"]), list(document["runs"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputRefusedError(
                f"the provenance is damaged ({error})", "Take the file that the capture wrote.", Where(opened.name)
            ) from error
        if version != _KNOWN_VERSION:
            raise InputRefusedError(
                f"the provenance is of version {version}, written by a later StallScope", "Update StallScope.",
                Where(opened.name),
            )  # fmt: skip
        return Parsed(
            format=self.name,
            rows_read=len(runs),
            frames={},
            report={
                "encoding": opened.encoding,
                "gpus": [str(document.get("gpu") or known.get("gpu") or "unknown")],
                "provenance": known,
                "runs": runs,
                "slowdowns": document.get("slowdowns", []),
            },
            warnings=tuple(_told(known, runs)),
        )


def _told(known: Mapping[str, Any], runs: list[Any]) -> list[str]:
    words = [f"{name.replace('_', ' ')} {_word(known[name])}" for name in _SHOWN if known.get(name) is not None]
    told = [f"Measured on: {', '.join(words)}."] if words else ["The driver told nothing about the machine."]
    proven = [run for run in runs if isinstance(run, dict) and run.get("mps")]
    if proven:
        told.append(f"In {len(proven)} runs the clients of MPS are listed.")
    return told


def _word(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
