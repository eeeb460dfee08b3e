"""Exports of Nsight Systems as SQLite: every launch of a kernel on its GPU, and samples of GPU metrics."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples as telemetry
from analysis.ingest.formats.shared.samples import Readings
from analysis.ingest.formats.shared.tool_profile import Account, build, dims
from analysis.reference import gpus
from analysis.store.parsed import REJECTED_COLUMNS, Parsed, no_rejects

SAMPLES, NAMES, START = "GPU_METRICS", "TARGET_INFO_GPU_METRICS", "TARGET_INFO_SESSION_START_TIME"

#: Most nanoseconds of a recording, and of the time since 1970 at which one began.
_MOST_NS = 1 << 62

#: ``SMs Active [Throughput %]``: the unit is the last word in the brackets.
_NAMED = re.compile(r"^(?P<name>.*?)\s*\[(?:.* )?(?P<unit>[^\s\]]+)\]\s*$")


@dataclass(frozen=True)
class Samples:
    """What the table of samples holds.

    Attributes
    ----------
    readings : Readings
        The samples, counter by counter and device by device.
    read : int
        Rows of the table.
    rejected : pd.DataFrame
        line (row of the table), column, reason, text.
    dated : bool
        Whether the export says when the recording began; otherwise times count from 1970.
    """

    readings: Readings
    read: int
    rejected: pd.DataFrame
    dated: bool


def read_samples(
    connection: sqlite3.Connection, tables: set[str], columns: set[str], devices: pd.DataFrame, hints: Hints
) -> Samples | None:
    """Read the samples of all GPUs.

    Parameters
    ----------
    connection : sqlite3.Connection
        The export.
    tables : set of str
        Names of its tables.
    columns : set of str
        Columns of the table of samples.
    devices : pd.DataFrame
        id and name of the GPUs.
    hints : Hints
        The user's word for workload and GPU.

    Returns
    -------
    Samples or None
        None where the table is absent, empty, or lacks a column.
    """
    if SAMPLES not in tables or not {"timestamp", "typeId", "metricId", "value"} <= columns:
        return None
    rows = pd.read_sql_query(
        f'SELECT rowid AS line, "timestamp" AS at, typeId AS type, metricId AS metric, "value" FROM {SAMPLES} '
        "ORDER BY rowid",
        connection,
    )
    if rows.empty:
        return None
    names = _names(connection, tables)
    begin = _begin(connection, tables)
    value, at = (pd.to_numeric(rows[name], errors="coerce").astype(float) for name in ("value", "at"))
    numbers, times = np.asarray(value, dtype=np.float64), np.asarray(at, dtype=np.float64)
    known = pd.MultiIndex.from_frame(rows[["type", "metric"]]).isin(list(names)) if names else np.zeros(len(rows), bool)
    why = pd.Series("", index=rows.index, dtype=object)
    why[~known] = "no table of the export names this metric"
    why[value.isna()] = "is no number"
    why[at.isna()] = "the time is missing"
    # Nanoseconds since the recording began, or since 1970: beyond a century it is neither, and would not fit.
    why[(at < 0) | (at > _MOST_NS)] = "the time can't be that of a sample"
    readings = Readings()
    of_device = {int(row["id"]): gpus.canonical(str(row["name"])) for row in devices.to_dict("records") if row["name"]}
    told = gpus.canonical(hints.gpu) if hints.gpu else None
    for kind, metric in sorted(names):
        place = np.flatnonzero((why == "") & (rows["type"] == kind) & (rows["metric"] == metric))
        if not len(place):
            continue
        name, unit = names[kind, metric]
        number = kind & 0xFF  # the lowest byte of the type is the number of the GPU
        readings.add(
            name,
            numbers[place],
            unit=unit,
            at=(times[place].astype("int64") + (begin or 0)).astype("datetime64[ns]"),
            workload=hints.workload,
            gpu=told or of_device.get(number),
            device=str(number),
        )
    return Samples(readings, len(rows), _rejected_sample(rows, why), begin is not None)


def _names(connection: sqlite3.Connection, tables: set[str]) -> dict[tuple[int, int], tuple[str, str | None]]:
    """Return name and unit by type and metric."""
    if NAMES not in tables:
        return {}
    out: dict[tuple[int, int], tuple[str, str | None]] = {}
    for kind, metric, name in connection.execute(f"SELECT typeId, metricId, metricName FROM {NAMES}"):
        if isinstance(kind, int) and isinstance(metric, int) and isinstance(name, str) and name.strip():
            found = _NAMED.match(name)
            out[kind, metric] = (found["name"], found["unit"]) if found and found["name"] else (name.strip(), None)
    return out


def _begin(connection: sqlite3.Connection, tables: set[str]) -> int | None:
    """Return when the recording began, in ns since 1970."""
    if START not in tables:
        return None
    try:
        found = connection.execute(f"SELECT utcEpochNs FROM {START} LIMIT 1").fetchone()
    except sqlite3.OperationalError:  # another schema
        return None
    return int(found[0]) if found and isinstance(found[0], int) and 0 < found[0] < 1 << 62 else None


def _rejected_sample(rows: pd.DataFrame, why: pd.Series[str]) -> pd.DataFrame:
    bad = rows[why != ""]
    if bad.empty:
        return no_rejects()
    table = [
        (int(row["line"]), SAMPLES, reason, f"type {row['type']}, metric {row['metric']}, value {row['value']}"[:500])
        for row, reason in zip(bad.to_dict("records"), why[why != ""], strict=True)
    ]
    return pd.DataFrame(table, columns=list(REJECTED_COLUMNS))


_MAGIC = b"SQLite format 3\x00"
KERNELS, STRINGS, GPU = "CUPTI_ACTIVITY_KIND_KERNEL", "StringIds", "TARGET_INFO_GPU"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
#: Beginning of the name under which a graph that was traced whole is kept.
GRAPH = "CUDA graph, traced whole:"
_EXPORT = "nsys export --type sqlite --output profile.sqlite PROFILE.nsys-rep"
#: Tables of other activities, to say what the file holds beside kernels.
_OTHER = {
    "CUPTI_ACTIVITY_KIND_MEMCPY": "copies of memory", "CUPTI_ACTIVITY_KIND_MEMSET": "fills of memory",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "calls of the runtime", "NVTX_EVENTS": "NVTX ranges",
}  # fmt: skip
_NAMES = ("demangledName", "shortName", "mangledName")
_METRICS = (
    ("registersPerThread", "launch__registers_per_thread", "register/thread"),
    ("staticSharedMemory", "launch__shared_mem_per_block_static", "byte"),
    ("dynamicSharedMemory", "launch__shared_mem_per_block_dynamic", "byte"),
)  # fmt: skip


class NsysSqlite:
    """Reads ``nsys export --type sqlite``, and the file that ``nsys stats`` leaves beside the report."""

    name = "nsys-sqlite"
    title = "Nsight Systems, SQLite export"

    def sniff(self, opened: Opened) -> bool:
        """Say whether this is a database with the tables of Nsight Systems."""
        if not opened.magic.startswith(_MAGIC):
            return False
        tables = _tables(opened.path)
        return bool({STRINGS, "META_DATA_EXPORT", "META_DATA_CAPTURE"} & tables) or any(
            name.startswith("CUPTI_ACTIVITY") for name in tables
        )

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the launches; tables that are absent had no rows.

        Raises
        ------
        InputRefusedError
            If there is no kernel in it, a column is missing, or the database is damaged.
        """
        where = Where(opened.name)
        tables = _tables(opened.path)
        try:
            with closing(_connect(opened.path)) as connection:
                _check_tables(connection, where)
                devices = _devices(connection, tables)
                columns = _columns(connection, SAMPLES) if SAMPLES in tables else set()
                samples = read_samples(connection, tables, columns, devices, hints)
                graphs = _graphs(connection, tables)
                if KERNELS not in tables and len(graphs):
                    rows = graphs
                elif KERNELS not in tables:
                    return self._samples_only(opened, hints, samples, tables)
                else:
                    rows = pd.concat([_launches(connection, where), graphs], ignore_index=True)
                beside = {what: _count(connection, table) for table, what in _OTHER.items() if table in tables}
                moved = _moved(connection, tables)
                version = _version(connection, tables)
        except (sqlite3.Error, pd.errors.DatabaseError, OverflowError, UnicodeDecodeError) as error:
            raise InputRefusedError(
                f"the database can't be read ({str(error)[:120]})", f"Export it again with `{_EXPORT}`.", where
            ) from error
        bad = _faults(rows)
        kept = rows[bad == ""].reset_index(drop=True)
        if kept.empty:
            raise InputRefusedError(
                f"none of its {len(rows):,} launches can be used, the first because {next(iter(bad), 'there is none')}",
                f"Export it again with `{_EXPORT}`.",
                where,
            )
        kernel = _kernel(kept, devices)
        ccs = {str(row["name"]): str(row["cc"]) for row in devices.to_dict("records") if row["cc"]}
        aside = [f"{count:,} {what}" for what, count in beside.items() if count]
        warnings = [f"Beside kernels the file holds {', '.join(aside)}; they are not loaded."] if aside else []
        warnings += moved
        if len(graphs):
            warnings.append(_about_graphs(kept))
        if kernel["device"].nunique() > 1 or kept["deviceId"].nunique() > 1:
            warnings.append(
                f"The kernels ran on {kept['deviceId'].nunique()} GPUs; the device is kept with each launch, and "
                "shares over the whole file pool the GPUs' times: compare within a GPU."
            )
        parsed = build(
            self.name, opened, hints, kernel, _metrics(kept), Account(len(rows), _rejected(rows, bad)),
            era=f"schema {version}" if version else None, ccs=ccs,
            report={"tables": len(tables), "beside": beside, "duration_from": "start and end of each launch",
                    "gpus": devices.to_dict("records")},
            warnings=warnings,
        )  # fmt: skip
        return parsed if samples is None else _with_samples(parsed, samples)

    def _samples_only(self, opened: Opened, hints: Hints, samples: Samples | None, tables: set[str]) -> Parsed:
        """Read an export without kernels: samples of GPU metrics are of use alone, anything else is refused."""
        if samples is None:
            held = ", ".join(sorted(what for table, what in _OTHER.items() if table in tables))
            raise InputRefusedError(
                f"there is no kernel in this export of Nsight Systems ({held or 'no activity of a GPU'})",
                "Record CUDA with `nsys profile --trace=cuda --output profile YOUR COMMAND`, check that the program "
                f"ran on the GPU, and export with `{_EXPORT}`.",
                Where(opened.name),
            )
        return telemetry.build(
            self.name, opened, hints, samples.readings, Account(samples.read, samples.rejected),
            era="GPU metrics", warnings=_undated(samples),
        )  # fmt: skip


def _with_samples(parsed: Parsed, samples: Samples) -> Parsed:
    """Put samples beside the launches of the same recording."""
    table = samples.readings.table()
    rejected = [frame for frame in (parsed.rejected, samples.rejected) if len(frame)]
    told = f"{table.num_rows:,} samples of GPU metrics were loaded as telemetry."
    return replace(
        parsed,
        rows_read=parsed.rows_read + samples.read,
        rejected=pd.concat(rejected, ignore_index=True) if rejected else parsed.rejected,
        # Launches and samples are numbered anew in each table, so lines don't count the rejected rows.
        faulty_rows=len(parsed.rejected) + len(samples.rejected),
        frames={**parsed.frames, "telemetry": table},
        report={**parsed.report, "samples": table.num_rows, "counters": sorted(set(table.column("name").to_pylist()))},
        warnings=(*parsed.warnings, told, *_undated(samples)),
    )


def _undated(samples: Samples) -> list[str]:
    if samples.dated:
        return []
    return ["The export does not say when the recording began: times of its samples count from 1970."]


def _connect(path: Path) -> sqlite3.Connection:
    """Open read-only; `immutable` keeps SQLite from looking for a journal beside the file."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    connection.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
    # A database is a program as much as a file: it may compute what it does not hold. Nothing but reading is allowed,
    # no function of it is trusted, no cell may be larger than a name ever is, and what goes on too long ends.
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "query_only = ON"):
        connection.execute(f"PRAGMA {pragma}")
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)
    connection.set_authorizer(_only_reading)
    end = time.thread_time() + SECONDS + path.stat().st_size / BYTES_A_SECOND
    connection.set_progress_handler(lambda: time.thread_time() > end, 10_000)
    return connection


#: Seconds that reading may take, and bytes for which it may take one more.
SECONDS, BYTES_A_SECOND = 10.0, 1 << 19

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 16 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION})
_FUNCTIONS = frozenset({"coalesce", "count", "sum"})
_PRAGMAS = frozenset({"table_info", "table_xinfo", "table_list"})


def _only_reading(action: int, first: str | None, second: str | None, _database: str | None, inner: str | None) -> int:
    """Let SQLite read tables, and nothing else; what a view or a trigger would do is not asked for at all."""
    if inner is not None or action not in {*_READING, sqlite3.SQLITE_PRAGMA}:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and second not in _FUNCTIONS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and first not in _PRAGMAS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _tables(path: Path) -> set[str]:
    try:
        with closing(_connect(path)) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return set()
    return {str(row[0]) for row in found}


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")')}


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])


def _check_tables(connection: sqlite3.Connection, where: Where) -> None:
    """Refuse an export in which one of the tables is none, or computes a column: that could go on for ever."""
    ours = {KERNELS, STRINGS, GPU, GRAPHS, SAMPLES, NAMES, START, "META_DATA_EXPORT", *_OTHER}
    # By what SQLite made of each, and not by what its catalogue claims.
    kinds = {str(row[1]): str(row[2]) for row in connection.execute("PRAGMA table_list") if str(row[1]) in ours}
    for name, kind in sorted(kinds.items()):
        if kind != "table":
            raise InputRefusedError(
                f"{name} is a {kind if kind == 'view' else f'{kind} table'} and no table, which no export of Nsight "
                "Systems has",
                f"Export it again with `{_EXPORT}`.", where,
            )  # fmt: skip
        if any(row[6] for row in connection.execute(f'PRAGMA table_xinfo("{name}")')):
            raise InputRefusedError(
                f"{name} computes one of its columns, which no export of Nsight Systems does",
                f"Export it again with `{_EXPORT}`.", where,
            )  # fmt: skip


def _graphs(connection: sqlite3.Connection, tables: set[str]) -> pd.DataFrame:
    """Return launches of CUDA graphs that were traced whole, as rows of kernels named after their graph."""
    there = _columns(connection, GRAPHS) if GRAPHS in tables else set()
    if not {"start", "end"} <= there:
        return pd.DataFrame()
    number = "graphId" if "graphId" in there else "0"
    extra = "".join(f', "{name}"' for name in ("deviceId", "correlationId", "globalPid") if name in there)
    rows = pd.read_sql_query(
        f'SELECT rowid AS line, "start", "end", {number} AS graph{extra} FROM {GRAPHS} ORDER BY rowid', connection
    )
    rows["name"] = [f"{GRAPH} {graph}" for graph in rows.pop("graph")]
    if "deviceId" not in rows:
        rows["deviceId"] = 0
    return rows


def _moved(connection: sqlite3.Connection, tables: set[str]) -> list[str]:
    """Say how long copies and fills of memory took: time of the GPU's copy engines, and no kernel's."""
    out = []
    for table, what in tuple(_OTHER.items())[:2]:
        if table in tables and {"start", "end"} <= _columns(connection, table):
            extra = ', sum("bytes")' if "bytes" in _columns(connection, table) else ", NULL"
            count, time, size = connection.execute(
                f'SELECT count(*), sum("end" - "start"){extra} FROM {table} WHERE "end" > "start"'
            ).fetchone()
            if count:
                of = f" for {int(size) / 1e6:,.4g} MB" if size else ""
                named = what if count > 1 else what.replace("copies", "copy").replace("fills", "fill")
                out.append(f"{count:,} {named} took {float(time) / 1e6:,.4g} ms{of}, which is no time of kernels.")
    return out


def _about_graphs(kept: pd.DataFrame) -> str:
    time = (kept["end"] - kept["start"]).astype(float)
    inside = float(time[kept["name"].astype(str).str.startswith(f"{GRAPH} ")].sum())
    return (
        f"{inside / 1e6:,.4g} of {float(time.sum()) / 1e6:,.4g} ms of GPU time "
        f"({100 * inside / float(time.sum()):.2f} %) ran inside CUDA graphs that were traced whole: their kernels "
        "are not in the file. Record with `nsys profile --cuda-graph-trace=node` to have them."
    )


def _launches(connection: sqlite3.Connection, where: Where) -> pd.DataFrame:
    there = _columns(connection, KERNELS)
    naming = [name for name in _NAMES if name in there]
    missing = {"start", "end"} - there
    if missing or not naming:
        lacking = ", ".join(sorted(missing)) or "demangledName"
        raise InputRefusedError(
            f"the table of kernels lacks the column {lacking}", f"Export it again with `{_EXPORT}`.", where
        )
    wanted = [
        name for name in ("deviceId", "correlationId", "globalPid", "gridX", "gridY", "gridZ", "blockX", "blockY",
                          "blockZ", *(metric for metric, _, _ in _METRICS)) if name in there
    ]  # fmt: skip
    picked = "".join(f', k."{name}"' for name in wanted)
    # Names are numbers into the table of strings; very old exports write the text itself.
    strings = bool(_columns(connection, STRINGS))
    joins = "".join(f" LEFT JOIN {STRINGS} s{i} ON s{i}.id = k.{name}" for i, name in enumerate(naming) if strings)
    texts = [f"s{i}.value" for i in range(len(naming))] if strings else [f"k.{name}" for name in naming]
    named = texts[0] if len(texts) == 1 else f"coalesce({', '.join(texts)})"
    frame = pd.read_sql_query(
        f'SELECT k.rowid AS line, k."start", k."end", {named} AS name{picked} FROM {KERNELS} k{joins} ORDER BY k.rowid',
        connection,
    )
    if "deviceId" not in frame:
        frame["deviceId"] = 0
    return frame


def _devices(connection: sqlite3.Connection, tables: set[str]) -> pd.DataFrame:
    """Return id, name and compute capability of the GPUs."""
    if GPU not in tables:
        return pd.DataFrame({"id": [], "name": [], "cc": []}).astype({"name": object, "cc": object})
    there = _columns(connection, GPU)
    number = "cuDevice" if "cuDevice" in there else "id" if "id" in there else "rowid - 1"
    cc = "computeMajor || '.' || computeMinor" if {"computeMajor", "computeMinor"} <= there else "NULL"
    found = pd.read_sql_query(f"SELECT {number} AS id, name, {cc} AS cc FROM {GPU} ORDER BY 1", connection)
    if found["id"].isna().any():
        found["id"] = range(len(found))
    return found.astype({"name": object, "cc": object})


def _version(connection: sqlite3.Connection, tables: set[str]) -> str | None:
    if "META_DATA_EXPORT" not in tables:
        return None
    found = dict(connection.execute("SELECT name, value FROM META_DATA_EXPORT").fetchall())
    value = found.get("EXPORT_SCHEMA_VERSION")
    return None if value is None else str(value)


def _faults(rows: pd.DataFrame) -> pd.Series[str]:
    start, end = (pd.to_numeric(rows[name], errors="coerce") for name in ("start", "end"))
    name = rows["name"].astype(object)
    bad = pd.Series("", index=rows.index, dtype=object)
    bad[~(end > start)] = "its end is not after its start"
    bad[start.isna() | end.isna()] = "its start or end is missing"
    bad[name.isna() | (name == "")] = "the kernel has no name"
    return bad


def _rejected(rows: pd.DataFrame, bad: pd.Series[str]) -> pd.DataFrame:
    wrong = rows[bad != ""]
    table = [
        (int(row["line"]), None, reason, f"start {row['start']}, end {row['end']}, name {row['name']}"[:500])
        for row, reason in zip(wrong.to_dict("records"), bad[bad != ""], strict=True)
    ]
    return pd.DataFrame(table, columns=list(REJECTED_COLUMNS))


def _kernel(kept: pd.DataFrame, devices: pd.DataFrame) -> pd.DataFrame:
    names = {int(row["id"]): f"{row['name']} ({int(row['id'])})" for row in devices.to_dict("records") if row["name"]}
    count = len(kept)
    grid = {"gridX", "gridY", "gridZ"} <= set(kept.columns)
    block = {"blockX", "blockY", "blockZ"} <= set(kept.columns)
    device = pd.to_numeric(kept["deviceId"], errors="coerce").fillna(-1).astype("int64")
    return pd.DataFrame(
        {
            "process_id": _text(kept, "globalPid"),
            "launch_id": _text(kept, "correlationId") if "correlationId" in kept else kept["line"].astype(str),
            "name": kept["name"].astype(object),
            "grid": dims(kept, ("gridX", "gridY", "gridZ")) if grid else [None] * count,
            "block": dims(kept, ("blockX", "blockY", "blockZ")) if block else [None] * count,
            "device": [names.get(number) for number in device],
            "invocations": 1,
            "duration_ns": (kept["end"] - kept["start"]).astype(float),
            "line": kept["line"],
        }
    )


def _text(kept: pd.DataFrame, column: str) -> list[str | None]:
    if column not in kept:
        return [None] * len(kept)
    return [None if value is None or value != value else str(int(value)) for value in kept[column]]


def _metrics(kept: pd.DataFrame) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"launch": np.arange(len(kept)), "line": kept["line"], "section": "launch", "metric": metric,
                      "unit": unit, "value": pd.to_numeric(kept[column], errors="coerce")}).dropna(subset=["value"])
        for column, metric, unit in _METRICS if column in kept
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
