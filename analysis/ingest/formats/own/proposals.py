"""Proposes how a co-run table of other people is read: its shape, and which column is what, from names and cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from analysis.ingest.contract import mechanisms
from analysis.ingest.formats.own.amounts import FACTORS, without_units
from analysis.ingest.formats.own.columns import CORUN_COLUMNS, plain
from analysis.ingest.formats.own.shapes import NOBODY, TOGETHER, Recipe, both_in, names_in, partners_in
from analysis.ingest.text.decimals import Decimals, decide
from analysis.ingest.text.delimited import Sheet
from analysis.reference import gpus

_ALONE = frozenset({"alone", "solo", "isolated", "isolation", "exclusive", "baseline", "base", "standalone", "single",
                    "dedicated", "ref", "reference", "unshared"})  # fmt: skip
_CORUN = frozenset({"together", "coloc", "colocated", "colocation", "collocated", "corun", "corunning", "shared",
                    "sharing", "concurrent", "paired", "packed", "contended", "during", "mixed", "both",
                    "coexec", "interfered", "mps", "beside", "neighbour", "neighbor"})  # fmt: skip
_TIME = frozenset({"time", "latency", "duration", "runtime", "elapsed", "jct", "makespan", "completion", "wall"})
_RATE = frozenset({"throughput", "tput", "thr", "thpt", "tps", "qps", "fps", "ips", "speed", "rate", "goodput",
                   "samples", "images", "tokens", "iterations"})  # fmt: skip
_SLOWDOWN = frozenset({"slowdown", "slowdowns", "stretch", "slowed"})
#: What sharing costs, as more time or as less speed; in percent unless the values are ratios.
_COST = frozenset({"degradation", "degraded", "penalty", "overhead", "interference", "increase", "inflation"})
_LOSS = frozenset({"loss", "lost", "drop", "decrease", "reduction", "reduced"})
_NORMAL = frozenset({"norm", "normalized", "normalised", "relative", "rel", "retained"})
_PERCENT = frozenset({"pct", "percent", "percentage", "perc"})
_NAME = frozenset({"job", "workload", "app", "application", "task", "program", "benchmark", "network", "net", "process",
                   "tenant", "client", "victim", "foreground", "fg", "target", "wl", "kernel", "dnn", "service",
                   "measured", "observed", "subject"})  # fmt: skip
#: Words beside a name that don't change what it is.
_KIND = frozenset({"training", "inference", "dl", "ml", "main", "my", "this", "model", "name"})
_BESIDE = frozenset({"runs", "run", "running", "ran", "placed", "located", "colocated", "collocated", "coloc", "next",
                     "to", "together", "alongside", "on", "same", "shares", "sharing", "corun", "corunning",
                     "concurrent", "paired", "co", "interfering", "is", "by"})  # fmt: skip
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
        "antagonist",
        "stressor",
        "opponent",
        "alongside",
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
                      "frames", "iterations", "iteration", "epoch", "epochs", "query"})  # fmt: skip
#: Words for the members of a set, each kind with its order.
_MEMBERS: tuple[tuple[str, ...], ...] = (
    tuple("123456789"), tuple("012345678"), tuple("abcdefgh"), ("first", "second", "third", "fourth"),
    ("one", "two", "three", "four"), ("left", "right"), ("hp", "lp"), ("high", "low"), ("primary", "secondary"),
    ("victim", "aggressor"), ("fg", "bg"), ("foreground", "background"), ("i", "j"), ("x", "y"), ("p", "q"),
    ("online", "offline"), ("lc", "be"),
)  # fmt: skip
_STATED = ("slowdown", "corun_share", "corun_share_percent", "slowdown_percent", "loss_percent")
_MEASURED = (*_STATED, "corun_throughput", "corun_time", "corun_value", "time_value", "throughput_value")
_REPEAT = frozenset({"rep", "reps", "repeat", "repetition", "replicate", "seed", "attempt", "rerun"})
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
    elif len(rest) > 1 and rest[-1] in _COUNTED and _before_per(rest) in _UNITS:
        # Time for one piece of work: "ms/step", "seconds per iteration".
        unit, measure = _UNITS[_before_per(rest)], "time"
        rest = [word for word in rest[:-1] if word != "per"][:-1]
    found = set(rest)
    if found & {"unit"}:
        return "unit", ""
    if {"p", "99"} <= found or "tail" in found:
        side = "solo" if found & _ALONE else "corun" if found & _CORUN else ""
        return (f"p99_{side}_ms" if side and unit == "ms" else None), unit
    if found & _SLOWDOWN:
        return ("slowdown_percent" if found & _PERCENT else "slowdown"), ""
    measure = measure or ("time" if found & _TIME else "throughput" if found & _RATE else "")
    if found & (_COST | _LOSS):
        if not found & _PERCENT:
            return "slowdown", ""
        return ("loss_percent" if found & _LOSS or measure == "throughput" else "slowdown_percent"), ""
    if found & _NORMAL or (found & {"performance", "perf"} and not found & _ALONE):
        share = "corun_share_percent" if found & _PERCENT else "corun_share"
        return ("slowdown" if measure == "time" else share), ""
    if found & _TOTAL and measure == "throughput":
        return "aggregate_throughput", unit
    if found & _ALONE and (measure or not found & (_NAME | _PARTNER)):
        return f"solo_{measure or 'value'}", unit
    if found & _CORUN and measure:
        return f"corun_{measure}", unit
    if measure and not found & (_PERCENT | {"start", "end", "stamp"}):
        return f"{measure}_value", unit
    return _described(found), ""


def _before_per(parts: Sequence[str]) -> str:
    """Return the word before the last, `per` left out; blank where there is none."""
    return next((word for word in reversed(parts[:-1]) if word != "per"), "")


def _described(found: set[str]) -> str | None:
    """Return the field of a column that is no measure."""
    extra = found - {"name", "id", "the", "of", "type", "n", "num", "number", "nr", "count", "in"}
    counted = found & {"n", "num", "number", "nr", "count"}
    if extra and extra <= _COPIES and (counted or extra & {"copies", "instances", "replicas", "processes"}):
        return "copies"
    beside = extra & {"colocated", "collocated", "corun", "corunning", "coloc", "concurrent", "interfering"}
    if extra & _PARTNER and extra <= _PARTNER | _NAME | _KIND | _BESIDE:
        return "partner"
    if beside and extra & (_NAME | {"model"}) and extra <= _NAME | _KIND | _BESIDE:
        return "partner"
    if extra & _NAME and extra <= _NAME | _KIND:
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
    if extra and extra <= _REPEAT:
        return "repeat"
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
    plain_sheet, units = without_units(sheet)
    recipe = _as_matrix(plain_sheet, units)
    if recipe is None:
        # A unit that the cells state is read as if the column's name stated it.
        told = {name: f"{name} {_UNIT_WORDS.get(unit, unit)}" for name, unit in units.items()}
        named = _renamed_columns(plain_sheet, told)
        recipe = _across(named) or _from_columns(named)
        recipe = _back(recipe, {new: old for old, new in told.items()}) if recipe is not None else None
    if recipe is None:
        return None
    recipe = _valued(plain_sheet, recipe)
    return _in_one_unit(sheet, recipe, units) if recipe is not None else None


_UNIT_WORDS = {"%": "percent", "x": "slowdown"}


def _from_columns(sheet: Sheet) -> Recipe | None:
    attempts = (_as_copies, _as_set, _as_list, _as_partner, _as_jobs)
    return next((recipe for attempt in attempts if (recipe := attempt(sheet)) is not None), None)


def _renamed_columns(sheet: Sheet, names: Mapping[str, str]) -> Sheet:
    header = tuple(names.get(name, name) for name in sheet.header)
    if len(set(header)) < len(header):
        return sheet
    return replace(sheet, header=header, cells=sheet.cells.set_axis(list(header), axis=1))


def _back(recipe: Recipe, names: Mapping[str, str]) -> Recipe:
    """Return a recipe with the file's own names of columns."""
    notes = list(recipe.notes)
    for new, old in names.items():
        notes = [note.replace(repr(new), repr(old)) for note in notes]
    return replace(
        recipe, columns={key: names.get(name, name) for key, name in recipe.columns.items()},
        across={names.get(name, name): told for name, told in recipe.across.items()}, notes=tuple(notes),
    )  # fmt: skip


def _across(sheet: Sheet) -> Recipe | None:
    """Propose for columns that differ by a mechanism, a GPU or a repetition alone: each of these makes rows of its own.

    The columns of one setting become one column, and what is left is read like any table.
    """
    for varies, setting_of in (("mechanism", _mechanism_in), ("gpu", _gpu_in), ("repeat", _repeat_in)):
        if any(meaning(words(name))[0] == varies for name in sheet.header):
            continue
        found = {name: split for name in sheet.header if (split := setting_of(name)) is not None}
        settings = list(dict.fromkeys(setting for setting, _ in found.values()))
        rests = list(dict.fromkeys(rest for _, rest in found.values()))
        if len(settings) < (1 if varies == "mechanism" else 2):
            continue
        first = {rest: next(name for name, split in found.items() if split[1] == rest) for rest in rests}
        left = [name for name in sheet.header if name not in found]
        cells = sheet.cells[[*left, *first.values()]].set_axis([*left, *rests], axis=1)
        if len(set(cells.columns)) < len(cells.columns):
            continue
        recipe = _from_columns(replace(sheet, header=tuple(cells.columns), cells=cells))
        if recipe is None or recipe.shape == "copies" or "run_id" in recipe.columns.values():
            continue
        fields = {name: key for key, name in recipe.columns.items()}
        across = {name: (fields[rest], setting) for name, (setting, rest) in found.items() if rest in fields}
        if not any(key.split(".")[0] in _MEASURED for key, _ in across.values()):
            continue
        columns = {key: name for key, name in recipe.columns.items() if name not in rests}
        note = f"Each of {', '.join(settings)} was read as rows of its own, as the names of columns say."
        return replace(recipe, columns=columns, across=across, varies=varies, notes=(*recipe.notes, note))
    return None


def _mechanism_in(name: str) -> tuple[str, str] | None:
    """Return the mechanism that a column's name holds, and the name without it."""
    found = re.search(r"(?i)(?<![a-z])(?:nvidia[\s_\-]*)?(?:cuda[\s_\-]*)?"
                      r"(time[\s_\-]?(?:slic(?:ing|ed|e)|shar(?:ing|ed))|mps|mig|streams?|green[\s_\-]?contexts?)"
                      r"(?![a-z])", name)  # fmt: skip
    if found is None:
        return None
    return mechanisms.canonical(found[1]), _rest(name, found.start(), found.end())


def _gpu_in(name: str) -> tuple[str, str] | None:
    """Return the GPU that a column's name holds, and the name without it."""
    found = gpus.locate(name.replace("_", " "))
    return None if found is None else (found[0], _rest(name, found[1], found[2]))


def _repeat_in(name: str) -> tuple[str, str] | None:
    """Return the repetition that a column's name numbers, and the name without it."""
    found = re.search(
        r"(?i)(?<![a-z])(?:run|trial|rep|repeat|repetition|measurement|attempt|seed)[\s_\-]*#?(\d+)", name
    )
    return None if found is None else (f"repetition {found[1]}", _rest(name, found.start(), found.end()))


def _rest(name: str, start: int, end: int) -> str:
    """Return what is left of a column's name; where that says no measure, it is one of the co-run."""
    left = re.sub(r"[\s_\-:/,]+$|^[\s_\-:/,]+", "", f"{name[:start]} {name[end:]}".replace("()", "").replace("[]", ""))
    stated = set(words(left)) & (_ALONE | _CORUN | _SLOWDOWN | _COST | _LOSS | _NORMAL)
    return left if stated else f"together {left}".strip()


def _in_one_unit(sheet: Sheet, recipe: Recipe, units: Mapping[str, str]) -> Recipe:
    """Bring times that are stated in several units to seconds; without this their ratios would be wrong."""
    times: dict[str, str] = {}
    named = [*recipe.columns.items(), *((key, name) for name, (key, _) in recipe.across.items())]
    for key, name in named:
        if key.split(".")[0] in ("solo_time", "corun_time"):
            unit = units.get(name) or meaning(words(name))[1]
            if unit:
                times[name] = unit
    if len({FACTORS[unit] for unit in times.values() if unit in FACTORS}) < 2 or set(times.values()) - set(FACTORS):
        return recipe
    note = "The times stand in several units; all were brought to seconds."
    return replace(
        recipe, factors={name: FACTORS[unit] for name, unit in times.items()},
        constants={**recipe.constants, "unit": "s"}, notes=(*recipe.notes, note),
    )  # fmt: skip


def _fields(header: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return field -> column for the columns whose names are plain, and the units that they state."""
    own = {column.name for column in CORUN_COLUMNS}
    columns: dict[str, str] = {}
    units: dict[str, str] = {}
    for name in header:
        key, unit = (plain(name), "") if plain(name) in own - {"run_id"} else meaning(words(name))
        key = "repeat" if key == "run_id" and "run_id" in columns else key
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
    cells = (part for name in columns for text in sheet.cells[name] for part in both_in(text) or (text,))
    return decide(dict.fromkeys(cells), sheet.delimiter)


def _by_cells(sheet: Sheet, columns: dict[str, str]) -> None:
    """Add the columns that their cells give away: one of alone and together, and one of the jobs beside."""
    for name in sheet.header:
        cells = {text.casefold() for text in sheet.cells[name] if text}
        alone = cells & NOBODY
        if alone and cells - alone and cells - alone <= TOGETHER:
            columns.pop(next((key for key, taken in columns.items() if taken == name), ""), None)
            columns["alone"] = name
            break
    job = columns.get("workload") or columns.get("model")
    if job is None or "partner" in columns:
        return
    known = {text for text in sheet.cells[job] if text}
    for name in sheet.header:
        if name in columns.values():
            continue
        cells = {text for text in sheet.cells[name] if text.casefold() not in NOBODY}
        if cells and all(part in known for text in cells for part in partners_in(text, known)):
            columns["partner"] = name
            return


def _as_matrix(sheet: Sheet, cell_units: Mapping[str, str]) -> Recipe | None:
    """Find the column of names whose jobs are columns too; it needn't be the first, as a GPU may stand before it."""
    if len(sheet.header) < 3:
        return None
    found = (_matrix_by(sheet, first, cell_units) for first in sheet.header)
    return next((recipe for recipe in found if recipe is not None), None)


def _matrix_by(sheet: Sheet, first: str, cell_units: Mapping[str, str]) -> Recipe | None:
    others = [name for name in sheet.header if name != first]
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
    notes = ["The rows were taken as the slowed jobs, the columns as the ones beside them."]
    both = [sides for name in beside for text in sheet.cells[name] if (sides := both_in(text)) is not None]
    if len(both) > len(values):
        values = sorted(value for sides in both for text in sides if (value := decimals.number(text)) is not None)
        notes = ["Of two numbers in a cell the first was taken as that of the row's job beside the column's."]
    if not values:
        return None
    stated = {cell_units.get(name, "") for name in beside}
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
        return Recipe("matrix", kept, constants, beside, f"corun_{kind}", notes=tuple(notes))
    if stated == {"%"} and corner not in ("corun_share_percent", "loss_percent"):
        measure = "slowdown_percent"
        notes.append("The percentages were taken as time added to that alone.")
    elif corner in _STATED:
        measure = corner
    elif values[0] > 0 and values[-1] <= 1.05:
        measure = "corun_share"
        notes.append("No value is above 1: they were taken as shares of the speed alone.")
    elif values[0] >= 0.5 and values[-1] <= 50:
        measure = "slowdown"
        notes.append("The values were taken as slowdowns.")
    else:
        return None
    return Recipe("matrix", kept, {}, beside, measure, notes=tuple(notes))


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
    return bool(cells) and all(len(names_in(text)) >= 2 for text in cells)


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
    _by_cells(sheet, columns)
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
    _by_cells(sheet, columns)
    measured = [key for key in columns if key in _MEASURED]
    if "run_id" not in columns or not {"workload", "model"} & set(columns) or not measured:
        return None
    cells = sheet.cells
    for key in ("alone", "mechanism"):
        if key in columns:
            cells = cells[~cells[columns[key]].str.casefold().isin(NOBODY - {""})]
    sizes = cells.groupby([columns[key] for key in ("run_id", "gpu", "mechanism", "repeat") if key in columns]).size()
    if sizes.empty or sizes.max() < 2 or sizes.max() > 8:
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
    better = {*_STATED, "corun_time", "corun_throughput"}
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
