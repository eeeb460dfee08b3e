"""Proposes how a co-run table of other people is read: its shape, and which column is what, from names and cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from analysis.ingest.formats.own.columns import CORUN_COLUMNS, plain
from analysis.ingest.formats.own.shapes import BETWEEN, NOBODY, Recipe
from analysis.ingest.text.decimals import Decimals, decide
from analysis.ingest.text.delimited import Sheet

_ALONE = frozenset({"alone", "solo", "isolated", "isolation", "exclusive", "baseline", "base", "standalone", "single",
                    "dedicated", "ref", "reference", "unshared"})  # fmt: skip
_CORUN = frozenset({"together", "coloc", "colocated", "colocation", "collocated", "corun", "corunning", "shared",
                    "sharing", "concurrent", "paired", "packed", "contended", "during", "mixed", "both",
                    "coexec", "interfered", "mps"})  # fmt: skip
_TIME = frozenset({"time", "latency", "duration", "runtime", "elapsed", "jct", "makespan", "completion", "wall"})
_RATE = frozenset({"throughput", "tput", "thr", "thpt", "tps", "qps", "fps", "ips", "speed", "rate", "goodput",
                   "samples", "images", "tokens", "iterations"})  # fmt: skip
_SLOWDOWN = frozenset({"slowdown", "slowdowns", "stretch", "slowed"})
_NORMAL = frozenset({"norm", "normalized", "normalised", "relative", "rel", "retained"})
_PERCENT = frozenset({"pct", "percent", "percentage", "perc"})
_NAME = frozenset({"job", "workload", "app", "application", "task", "program", "benchmark", "network", "net", "process",
                   "tenant", "client", "victim", "foreground", "fg", "target", "wl", "kernel"})  # fmt: skip
_PARTNER = frozenset(
    {
        "partner",
        "corunner",
        "neighbor",
        "neighbour",
        "other",
        "against",
        "with",
        "beside",
        "background",
        "bg",
        "competitor",
        "aggressor",
        "peer",
        "companion",
        "interferer",
        "mate",
    }
)
_RUN = frozenset({"run", "experiment", "exp", "mix", "combo", "combination", "set", "group", "pair", "trial", "test",
                  "case", "colocation", "bundle"})  # fmt: skip
_LISTS = frozenset({"pair", "jobs", "mix", "workloads", "combo", "combination", "colocation", "models", "apps",
                    "pairing", "tasks", "set"})  # fmt: skip
_MECHANISM = frozenset({"mechanism", "mode", "policy", "method", "scheme", "sharing"})
_COPIES = frozenset({"copies", "procs", "processes", "instances", "clients", "replicas", "workers", "tenants"})
_TOTAL = frozenset({"aggregate", "aggregated", "total", "combined", "overall", "sum"})
_UNITS = {"ns": "ns", "us": "us", "ms": "ms", "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
          "min": "min", "minutes": "min", "h": "h", "hours": "h"}  # fmt: skip
_COUNTED = frozenset({"it", "iter", "iters", "img", "imgs", "image", "images", "sample", "samples", "step", "steps",
                      "tok", "token", "tokens", "req", "reqs", "requests", "ops", "batch", "batches", "queries",
                      "frames", "iterations"})  # fmt: skip
#: Words for the members of a set, each kind with its order.
_MEMBERS: tuple[tuple[str, ...], ...] = (
    tuple("123456789"), tuple("012345678"), tuple("abcdefgh"), ("first", "second", "third", "fourth"),
    ("one", "two", "three", "four"), ("left", "right"), ("hp", "lp"), ("high", "low"), ("primary", "secondary"),
    ("victim", "aggressor"), ("fg", "bg"), ("foreground", "background"), ("i", "j"), ("x", "y"), ("p", "q"),
    ("online", "offline"), ("lc", "be"),
)  # fmt: skip
_MEASURED = ("slowdown", "corun_share", "slowdown_percent", "corun_throughput", "corun_time", "corun_value",
             "time_value", "throughput_value")  # fmt: skip
_DECIDED = {"time_value": "corun_time", "throughput_value": "corun_throughput"}


def words(name: str) -> list[str]:
    """Take a column's name apart: lower case, at blanks and punctuation, capitals, and between letters and digits."""
    spread = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.replace("%", " percent "))
    joined = re.sub(r"\b(co|stand|run)[\s_\-]+(run|loc|alone|exec|time)", r"\1\2", spread.replace("_", " ").casefold())
    return re.findall(r"[^\W\d_]+|\d+", joined)


def meaning(parts: Sequence[str]) -> tuple[str | None, str]:
    """Return the field that the words of a column name, and the unit that they state.

    Examples
    --------
    >>> meaning(words("alone_ms"))
    ('solo_time', 'ms')
    >>> meaning(words("Normalized throughput"))
    ('corun_share', '')
    """
    rest, unit, measure = list(parts), "", ""
    if rest and rest[-1] in _UNITS:
        before = [word for word in rest[:-1] if word != "per"]
        if before and before[-1] in _COUNTED:
            unit, measure, rest = f"{before[-1]}/{_UNITS[rest[-1]]}", "throughput", before[:-1]
        elif len(rest) > 1:
            unit, measure, rest = _UNITS[rest[-1]], "time", rest[:-1]
    found = set(rest)
    if found & {"unit"}:
        return "unit", ""
    if {"p", "99"} <= found or "tail" in found:
        side = "solo" if found & _ALONE else "corun" if found & _CORUN else ""
        return (f"p99_{side}_ms" if side and unit == "ms" else None), unit
    if found & _SLOWDOWN:
        return ("slowdown_percent" if found & _PERCENT else "slowdown"), ""
    measure = measure or ("time" if found & _TIME else "throughput" if found & _RATE else "")
    if found & _NORMAL or (found & {"performance", "perf"} and not found & _ALONE):
        return ("slowdown" if measure == "time" else "corun_share"), ""
    if found & {"overhead"} and found & _PERCENT:
        return "slowdown_percent", ""
    if found & _TOTAL and measure == "throughput":
        return "aggregate_throughput", unit
    if found & _ALONE and (measure or not found & (_NAME | _PARTNER)):
        return f"solo_{measure or 'value'}", unit
    if found & _CORUN and measure:
        return f"corun_{measure}", unit
    if measure and not found & (_PERCENT | {"start", "end", "stamp"}):
        return f"{measure}_value", unit
    return _described(found), ""


def _described(found: set[str]) -> str | None:
    """Return the field of a column that is no measure."""
    extra = found - {"name", "id", "the", "of", "type", "n", "num", "number", "nr", "count"}
    counted = found & {"n", "num", "number", "nr", "count"}
    if extra and extra <= _COPIES and (counted or extra & {"copies", "instances", "replicas", "processes"}):
        return "copies"
    if extra & _PARTNER and extra <= _PARTNER | _NAME | {"model", "coloc", "colocated", "corun"}:
        return "partner"
    if extra and extra <= _NAME:
        return "workload"
    if extra == {"model"}:
        return "model"
    if extra and extra <= {"gpu", "device", "card", "accelerator", "hardware", "hw"} and not counted:
        return "gpu"
    if extra & _MECHANISM and extra <= _MECHANISM | {"gpu"}:
        return "mechanism"
    if extra <= {"batch", "batchsize", "bs", "size"} and extra & {"batch", "batchsize", "bs"} and not counted:
        return "batch_size"
    if extra and extra <= {"dataset", "data"}:
        return "dataset"
    if extra and extra <= {"precision", "amp", "dtype"}:
        return "precision"
    if extra and extra <= _RUN:
        return "run_id"
    if extra and extra <= _CORUN:
        return "corun_value"
    own = plain("_".join(sorted(found)))
    return own if own in {"phase", "outcome", "slot", "note", "priority"} else None


def propose(sheet: Sheet) -> Recipe | None:
    """Propose how a table of co-runs is read.

    Parameters
    ----------
    sheet : Sheet
        The table, as text cells.

    Returns
    -------
    Recipe or None
        None where it is no table of co-runs, or nothing tells what its numbers are.
    """
    for attempt in (_as_matrix, _as_copies, _as_set, _as_list, _as_partner, _as_jobs):
        recipe = attempt(sheet)
        if recipe is not None:
            return _valued(sheet, recipe)
    return None


def _fields(header: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return field -> column for the columns whose names are plain, and the units that they state."""
    own = {column.name for column in CORUN_COLUMNS}
    columns: dict[str, str] = {}
    units: dict[str, str] = {}
    for name in header:
        key, unit = (plain(name), "") if plain(name) in own - {"run_id"} else meaning(words(name))
        if key and key not in columns:
            columns[key] = name
            units.update({key: unit} if unit else {})
    return columns, units


def _unit(columns: Mapping[str, str], units: Mapping[str, str]) -> dict[str, str]:
    found = {unit for key, unit in units.items() if key.split(".")[0] in (*_MEASURED, "solo_time", "solo_throughput")}
    return {"unit": found.pop()} if len(found) == 1 and "unit" not in columns else {}


def _values(sheet: Sheet, column: str, decimals: Decimals) -> list[float]:
    read = (decimals.number(text) for text in sheet.cells[column] if text)
    return [value for value in read if value is not None]


def _decimals(sheet: Sheet, columns: Iterable[str]) -> Decimals:
    return decide({text: None for name in columns for text in sheet.cells[name]}, sheet.delimiter)


def _as_matrix(sheet: Sheet) -> Recipe | None:
    first, *others = sheet.header
    if len(others) < 2:
        return None
    jobs = {text for text in sheet.cells[first] if text}
    beside: dict[str, str] = {}
    rest: list[str] = []
    for name in others:
        bare = re.sub(r"^(?:with|beside|vs|next to|\+|and)[\s_\-]*", "", name, flags=re.IGNORECASE)
        if name in jobs or bare in jobs:
            beside[name] = name if name in jobs else bare
        else:
            rest.append(name)
    if len(beside) < 2 or len(beside) < 0.6 * len(jobs):
        return None
    columns, units = _fields(rest)
    kept = {key: name for key, name in columns.items() if key in ("gpu", "mechanism", "unit")}
    kept["workload"] = first
    corner, unit = meaning(words(first))
    decimals = _decimals(sheet, beside)
    values = sorted(value for name in beside for value in _values(sheet, name, decimals))
    if not values:
        return None
    notes = ["The rows were taken as the slowed jobs, the columns as the ones beside them."]
    nobody = next((name for name in rest if name and name.casefold() in NOBODY), None)
    if nobody is not None:
        columns.setdefault("solo_value", nobody)
    alone = next((key for key in columns if key.startswith("solo_")), None)
    if alone is not None:
        kind = alone.removeprefix("solo_")
        if kind == "value":
            mean = sorted(_values(sheet, columns[alone], decimals))
            kind = "time" if mean and values[len(values) // 2] >= mean[len(mean) // 2] else "throughput"
            notes.append(f"Values alone and beside were taken as {kind}, as they stand to each other.")
        kept[f"solo_{kind}"] = columns[alone]
        unit = units.get(alone, "")
        constants = {"unit": unit} if unit else {}
        return Recipe("matrix", kept, constants, beside, f"corun_{kind}", tuple(notes))
    if corner in ("slowdown", "slowdown_percent", "corun_share"):
        measure = corner
    elif values[0] > 0 and values[-1] <= 1.05:
        measure = "corun_share"
        notes.append("No value is above 1: they were taken as shares of the speed alone.")
    elif values[0] >= 0.5 and values[-1] <= 50:
        measure = "slowdown"
        notes.append("The values were taken as slowdowns.")
    else:
        return None
    return Recipe("matrix", kept, {}, beside, measure, tuple(notes))


def _as_copies(sheet: Sheet) -> Recipe | None:
    columns, units = _fields(sheet.header)
    total = next((columns[key] for key in ("aggregate_throughput", "throughput_value") if key in columns), None)
    if "copies" not in columns or total is None or "partner" in columns:
        return None
    kept: dict[str, str] = {
        key: columns[key] for key in ("workload", "model", "batch_size", "gpu", "mechanism", "copies") if key in columns
    }
    kept["aggregate_throughput"] = total
    notes = []
    if "aggregate_throughput" not in columns:
        notes.append(f"{total!r} was taken as the throughput of all copies together.")
    constants = {} if "workload" in kept or "model" in kept else {"workload": "copy"}
    unit = next((units[key] for key in ("aggregate_throughput", "throughput_value") if key in units), "")
    return Recipe("copies", kept, {**constants, **({"unit": unit} if unit else {})}, notes=tuple(notes))


def _as_set(sheet: Sheet) -> Recipe | None:
    for kind in _MEMBERS:
        columns: dict[str, str] = {}
        units: dict[str, str] = {}
        left: list[str] = []
        for name in sheet.header:
            parts = words(name)
            found = [word for word in parts if word in kind]
            key: str | None = None
            if len(found) == 1:
                rest = [word for word in parts if word != found[0]]
                rest = [word for word in rest if not (len(word) == 1 and word in "wjmpt")] or rest
                key, unit = meaning(rest) if rest else ("workload", "")
                if key == "partner" and found[0] in ("aggressor", "bg", "background"):
                    key = "workload"
                if key:
                    at = f"{key}.{kind.index(found[0]) + 1}"
                    if at not in columns:
                        columns[at] = name
                        units.update({at: unit} if unit else {})
                        continue
            left.append(name)
        names = {key.split(".")[1] for key in columns if key.split(".")[0] in ("workload", "model")}
        listed = [name for name in left if _LISTS & set(words(name)) and _is_list(sheet, name)]
        measured = [key for key in columns if key.split(".")[0] in _MEASURED]
        sides = {key.split(".")[1] for key in measured}
        if len(names) < 2 and not (listed and len(sides) >= 2):
            continue
        if len(sides) < 2:
            continue
        if len(names) >= 2:
            columns = {key: name for key, name in columns.items() if key.split(".")[1] in names}
        shared, more = _fields(left)
        for key in ("gpu", "mechanism", "run_id", "unit", "outcome"):
            if key in shared and shared[key] not in listed:
                columns[key] = shared[key]
        if len(names) < 2:
            columns["jobs"] = listed[0]
        return Recipe("set", columns, _unit(columns, {**units, **more}))
    return None


def _is_list(sheet: Sheet, name: str) -> bool:
    cells = [text for text in sheet.cells[name] if text]
    return bool(cells) and all(len([part for part in BETWEEN.split(text) if part]) >= 2 for text in cells)


def _as_list(sheet: Sheet) -> Recipe | None:
    """All jobs of a run in one cell, and their values in another."""
    names = [name for name in sheet.header if _LISTS & set(words(name)) and _is_list(sheet, name)]
    if not names:
        return None
    columns, units = _fields([name for name in sheet.header if name != names[0]])
    if "workload" in columns or "model" in columns:
        return None
    kept = {key: name for key, name in columns.items() if key in (*_MEASURED, "solo_time", "solo_throughput",
            "solo_value", "gpu", "mechanism", "run_id", "unit")}  # fmt: skip
    measured = [key for key in kept if key in _MEASURED]
    if not measured or not any(re.search(r"[;|+/,\s]", text) for key in measured for text in sheet.cells[kept[key]]):
        return None
    return Recipe("set", {**kept, "jobs": names[0]}, _unit(kept, units))


def _as_partner(sheet: Sheet) -> Recipe | None:
    columns, units = _fields(sheet.header)
    notes: list[str] = []
    if "partner" not in columns:
        for kind in _MEMBERS:
            sides = [next((name for name in sheet.header if _names_job(name, word)), None) for word in kind[:3]]
            if sides[0] and sides[1] and not (len(sides) > 2 and sides[2]):
                columns = {key: name for key, name in columns.items() if name not in sides}
                columns["workload"], columns["partner"] = sides[0], sides[1]
                notes.append(f"The value was taken as that of {sides[0]!r} beside {sides[1]!r}.")
                break
    measured = [key for key in columns if key in _MEASURED]
    solo = [key for key in columns if key.startswith("solo_")]
    constants: dict[str, str] = {}
    if "partner" not in columns:
        # A value alone and one beside somebody, who isn't named.
        if not solo or not measured or "run_id" in columns:
            return None
        notes.append("The table doesn't name the jobs beside: each is loaded as an unnamed partner without a value.")
        if not {"workload", "model"} & set(columns):
            free = [name for name in sheet.header if name not in columns.values()]
            if not free:
                return None
            columns["workload"] = free[0]
            notes.append(f"{free[0]!r} was taken as the name of the job.")
    if not measured or not {"workload", "model"} & set(columns):
        return None
    kept = {key: name for key, name in columns.items() if key not in ("run_id", "copies", "aggregate_throughput")}
    return Recipe("partner", kept, {**constants, **_unit(kept, units)}, notes=tuple(notes))


def _names_job(name: str, word: str) -> bool:
    parts = words(name)
    return parts.count(word) == 1 and set(parts) - {word} <= _NAME | {"model", "name"} and len(parts) > 1


def _as_jobs(sheet: Sheet) -> Recipe | None:
    columns, units = _fields(sheet.header)
    measured = [key for key in columns if key in _MEASURED]
    if "run_id" not in columns or not {"workload", "model"} & set(columns) or not measured:
        return None
    sizes = sheet.cells.groupby([columns[key] for key in ("run_id", "gpu", "mechanism") if key in columns]).size()
    if sizes.max() < 2 or sizes.max() > 8:
        return None
    kept = {key: name for key, name in columns.items() if key not in ("partner", "copies", "aggregate_throughput")}
    return Recipe("job", kept, _unit(kept, units))


def _valued(sheet: Sheet, recipe: Recipe) -> Recipe | None:
    """Decide what values are whose names don't say it; None where nothing does."""
    columns = dict(recipe.columns)
    notes = list(recipe.notes)
    solo = [key for key in columns if key.split(".")[0].startswith("solo_")]
    base = {key.split(".")[0] for key in columns}
    kinds = {name.split("_")[-1] for name in base if name in ("solo_time", "solo_throughput", "corun_time",
             "corun_throughput")} | {name.split("_")[0] for name in base & set(_DECIDED)}  # fmt: skip
    if base & {"solo_value", "corun_value"}:
        kind = kinds.pop() if len(kinds) == 1 else _kind(sheet, columns)
        if kind is None:
            return None
        if not kinds:
            notes.append(f"The values alone and beside were taken as {kind}, as they stand to each other.")
        columns = {_renamed(key, "_value", f"_{kind}"): name for key, name in columns.items()}
    plain_values = [key for key in columns if key.split(".")[0] in _DECIDED]
    better = {"slowdown", "corun_share", "slowdown_percent", "corun_time", "corun_throughput"}
    if plain_values and {key.split(".")[0] for key in columns} & better:
        columns = {key: name for key, name in columns.items() if key not in plain_values}
    elif plain_values:
        numbers = [columns[key] for key in plain_values]
        decimals = _decimals(sheet, numbers)
        values = [value for name in numbers for value in _values(sheet, name, decimals)]
        rows_alone = "partner" in columns and any(text.casefold() in NOBODY for text in sheet.cells[columns["partner"]])
        is_share = not solo and not rows_alone and values and min(values) >= 0 and max(values) <= 1.05
        for key in plain_values:
            name, dot, number = key.partition(".")
            share = is_share and name == "throughput_value"
            columns[f"{'corun_share' if share else _DECIDED[name]}{dot}{number}"] = columns.pop(key)
        if is_share and any(key.startswith("corun_share") for key in columns):
            notes.append("No speed is above 1: they were taken as shares of the speed alone.")
    return replace(recipe, columns=columns, notes=tuple(notes))


def _renamed(key: str, old: str, new: str) -> str:
    name, dot, number = key.partition(".")
    return f"{name.removesuffix(old)}{new}{dot}{number}" if name in ("solo_value", "corun_value") else key


def _kind(sheet: Sheet, columns: Mapping[str, str]) -> str | None:
    """Tell times from throughputs by what sharing does to them: times grow, throughputs fall."""
    grow = fall = 0
    decimals = _decimals(sheet, [name for key, name in columns.items() if "_value" in key])
    for key, name in columns.items():
        other = columns.get(key.replace("corun_value", "solo_value"))
        if not key.startswith("corun_value") or other is None:
            continue
        for here, there in zip(sheet.cells[name], sheet.cells[other], strict=True):
            one, two = decimals.number(here) if here else None, decimals.number(there) if there else None
            if one and two:
                grow += one > two
                fall += one < two
    if grow > 4 * fall:
        return "time"
    return "throughput" if fall > 4 * grow else None
