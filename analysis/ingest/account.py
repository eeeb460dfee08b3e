"""The report of a file for a person: what it is, how it was read, what was not taken, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.ingest.contract.aside import what_aside
from analysis.ingest.registry import FORMATS

#: Entries of a report that `account` puts in words; the others are details.
TOLD = frozenset(
    {
        "encoding", "separators", "decimal_mark", "decimal_reason", "thousands_mark", "separator", "lines_skipped",
        "lines_skipped_first", "header_line", "not_available", "partly_missing", "misspelt", "stall_reasons",
        "stall_family", "stall_families", "accounted", "missing_for_stalls", "command", "workload", "workload_from",
        "gpu", "gpu_candidates", "gpu_guessed", "devices", "warnings", "era", "columns_not_read", "columns_taken_as",
        "duration_from", "top_reasons_from_rules", "flagged", "measured_during_corun", "outcomes", "did_not_run",
        "measured_on",
    }
)  # fmt: skip

#: What of a capture's machine is told, and how it is called.
_MACHINE = {
    "driver": "driver", "cuda": "CUDA", "ecc": "ECC", "mig": "MIG", "mps_clients": "clients of MPS",
    "sm_clock_mhz": "SM clock in MHz", "captured_at": "at",
}  # fmt: skip

_FAMILIES = {
    "per_issue_active": "warps per issued instruction", "warp_latency": "warp cycles per instruction",
    "per_warp_active": "percent of active warps", "nvprof": "classes of nvprof", "samples": "sampled warps",
}  # fmt: skip


def account(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the report as lines of a label and a text, in the order in which a file is read.

    Parameters
    ----------
    report : mapping
        The fields of `analysis.ingest.contract.reports.ImportReport`; era may stand in ``report["report"]``.

    Returns
    -------
    list of tuple of str and str
        Only what is known of this file.
    """
    details: Mapping[str, Any] = report.get("report") or {}
    return [(label, text) for label, text in _lines(report, details) if text]


def _lines(report: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    titles = {form.name: form.title for form in FORMATS}
    name = str(report.get("format") or "")
    era = details.get("era") or report.get("era")
    title = titles.get(name, "")
    yield "Format", f"{title or name}{f' ({name})' if title else ''}{f', {era}' if era else ''}"
    encoding = str(details.get("encoding") or "")
    yield "Encoding", "" if encoding == "binary" else encoding
    yield "Separators", _separators(details)
    yield "Lines skipped", _skipped(details)
    yield "Rows", _rows(report)
    for rule, count in (report.get("set_aside") or {}).items():
        yield "Set aside", f"{int(count):,} {'row' if count == 1 else 'rows'}: {what_aside(str(rule))}"
    yield "Columns not read", _listed(details.get("columns_not_read"))
    taken = details.get("columns_taken_as")
    yield "Columns taken as", "; ".join(f"{own} = {ours}" for own, ours in taken.items()) if taken else ""
    yield "GPU", _listed(report.get("gpus") or details.get("gpus")) or "not known"
    yield "Measured on", _measured_on(details)
    yield "Workload", _workload(details)
    yield "Durations", f"from {details['duration_from']}" if details.get("duration_from") else ""
    yield from _stalls(report, details)
    yield "Without a value", _unavailable(details)
    yield "Partly without a value", _partly(details)
    yield "Missing for a stall analysis", " ".join(details.get("missing_for_stalls") or ())
    yield "Get it with", f"`{details['command']}`" if details.get("command") else ""


def _partly(details: Mapping[str, Any]) -> str:
    """Name the metrics that have a value in some rows only, those that lack most of them first."""
    found = sorted(details.get("partly_missing") or (), key=lambda item: -item["rows"])
    named = [f"{item['metric']} in {item['rows']:,} of {item['of']:,} rows" for item in found[:6]]
    return ", ".join(named) + (f" and {len(found) - 6} more" if len(found) > 6 else "")


def _measured_on(details: Mapping[str, Any]) -> str:
    """Say what a capture ran on: driver, CUDA, modes, clock, clients of MPS."""
    found = details.get("measured_on") or {
        name: [value] for name, value in (details.get("provenance") or {}).items() if isinstance(value, str | float)
    }
    kept = (name for name in _MACHINE if found.get(name))
    return ", ".join(f"{_MACHINE[name]} {' and '.join(str(value) for value in found[name][:3])}" for name in kept)


def _separators(details: Mapping[str, Any]) -> str:
    found = details.get("separators")
    if isinstance(found, str):
        return found
    if isinstance(found, Mapping):
        guessed = " This was decided for the whole file, not proved." if found.get("guessed") else ""
        return f"{found.get('why') or ''}{guessed}"
    if details.get("decimal_mark"):
        why = f": {details['decimal_reason']}" if details.get("decimal_reason") else ""
        mark = {",": "the comma", ".": "the point"}.get(str(details["decimal_mark"]), repr(details["decimal_mark"]))
        return f"{mark} was read as decimal mark{why}"
    return f"columns are separated by {details['separator']!r}" if details.get("separator") else ""


def _skipped(details: Mapping[str, Any]) -> str:
    count = int(details.get("lines_skipped") or 0)
    if not count:
        return ""
    first = [str(line).strip() for line in details.get("lines_skipped_first") or ()]
    shown = "; ".join(line[:60] for line in first[:3])
    return f"{count:,}, as {'it is' if count == 1 else 'they are'} no data{f': {shown}' if shown else ''}"


def _rows(report: Mapping[str, Any]) -> str:
    read, loaded, rejected = (int(report.get(name) or 0) for name in ("rows_read", "rows_loaded", "rows_rejected"))
    aside = sum(int(count) for count in (report.get("set_aside") or {}).values())
    parts = [f"{loaded - aside:,} loaded"]
    parts += [f"{aside:,} set aside by rule"] if aside else []
    parts += [f"{rejected:,} rejected"] if rejected else []
    return f"{read:,} read = {' + '.join(parts)}"


def _workload(details: Mapping[str, Any]) -> str:
    name = details.get("workload")
    if not isinstance(name, str) or not name:
        return ""
    return f"{name}{f', named {origin}' if (origin := details.get('workload_from')) else ''}"


def _stalls(report: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    reasons = report.get("stall_reasons") or details.get("stall_reasons") or []
    if reasons:
        families = details.get("stall_families") or [details.get("stall_family")]
        names = [_FAMILIES.get(str(name), str(name)) for name in families if name]
        yield "Stall reasons", f"{len(reasons)}, in {' and '.join(names)}" if names else str(len(reasons))
    if details.get("top_reasons_from_rules"):
        yield "Top reasons, by the tool's rules", _listed(details["top_reasons_from_rules"])
    share = details.get("accounted")
    if isinstance(share, Mapping):
        yield (
            "Accounted share",
            f"median {share['median']:.3g} % of the warp cycles, {share['lowest']:.3g} to {share['highest']:.3g} % "
            f"over {share['launches']:,} {'launch' if share['launches'] == 1 else 'launches'}",
        )


def _unavailable(details: Mapping[str, Any]) -> str:
    found = details.get("not_available") or []
    parts = []
    for item in list(found)[:20]:
        if isinstance(item, Mapping):
            better = f" (the valid name is {item['nearest']})" if item.get("nearest") else ""
            parts.append(f"{item['metric']}{better}")
        else:
            parts.append(f"{item} ({found[item]})" if isinstance(found, Mapping) else str(item))
    rest = len(found) - len(parts)
    return "; ".join(parts) + (f"; and {rest} more" if rest > 0 else "")


def _listed(names: Sequence[object] | None) -> str:
    return ", ".join(str(name) for name in names or ())
