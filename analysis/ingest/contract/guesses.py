"""What a profile file does not say, taken from its name, its words and its compute capability, and always said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.names import WorkloadParts, parse_workload
from analysis.reference import gpus

UNKNOWN = "unknown"

_SUFFIX = re.compile(
    r"(?:\.(?:csv|tsv|txt|json|parquet|pq|log|out|prom|sqlite|ncu-rep|nsys-rep|gz|zip|tar|tgz|tbz2?|txz|tzst|bz2|xz|"
    r"lzma|zstd?|lz4))+$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class GpuGuess:
    """Which GPUs the launches of a file ran on.

    Attributes
    ----------
    by_cc : dict of str to str
        GPU for each compute capability of the file; ``""`` stands for launches without one.
    candidates : tuple of str
        GPUs that fit, the most likely first; for the upload form.
    guessed : bool
        Whether neither the user nor the file names the GPU.
    warnings : tuple of str
        What was assumed.
    """

    by_cc: dict[str, str]
    candidates: tuple[str, ...] = ()
    guessed: bool = False
    warnings: tuple[str, ...] = field(default=())


def stem(name: str) -> str:
    """Return a file's name without folders and suffixes."""
    last = re.split(r"[/\\]", name)[-1]
    return _SUFFIX.sub("", last) or last


def workload_of(name: str, hints: Hints) -> tuple[str, tuple[str, ...]]:
    """Return the workload that a profile is of, and what was assumed.

    Parameters
    ----------
    name : str
        The file's name.
    hints : Hints
        The user's word, if any.
    """
    if hints.workload:
        return hints.workload, ()
    own = stem(name)
    shorter, _ = suggested_workload(name)
    browser = f" (the browser leaves the GPU out and suggests {shorter!r})" if shorter != own else ""
    return own, (f"No workload was given, so it is called {own!r} after the file{browser}; `--workload` names it.",)


def suggested_workload(name: str) -> tuple[str, WorkloadParts]:
    """Return a workload's name to suggest in the form: the file's name without the GPU in it, and what it says."""
    own = stem(name)
    found = gpus.locate(own)
    if found is not None:
        _, start, end = found
        rest = f"{own[:start].rstrip('_-. ')}{own[end:]}".strip("_-. ")
        own = rest or own
    return own, parse_workload(own)


def workload_frame(name: str) -> pd.DataFrame:
    """Return the frame of one workload with what its name says."""
    known = parse_workload(name).known()
    return pd.DataFrame([{"name": name, **known}])


#: A GPU's name as drivers print it, for those that the table doesn't know.
_PRINTED = re.compile(
    r"\b(?:NVIDIA[ \t]+)?(?:(?:GeForce|Quadro|Tesla|TITAN)[ \t]+(?:(?:RTX|GTX|GT|MX)[ \t]*)?[A-Z]{0,2}\d{2,4}\w*"
    r"|(?:RTX|GTX)[ \t]+(?:PRO[ \t]+)?[A-Z]?\d{3,4}\w*"
    r"|(?<=NVIDIA )(?:GH|GB|[ABHL])\d{1,3}\w*)"
    r"(?:[ \t]+(?:Ti|SUPER|Super|D|Ada|Generation|Blackwell|Laptop|Max-Q|Mobile|GPU|Workstation|Edition))*"
)


def gpu_of(
    ccs: Iterable[str], name: str, hints: Hints, said: Sequence[str] = (), stated: Sequence[str] = ()
) -> GpuGuess:
    """Decide which GPU a profile is of.

    Parameters
    ----------
    ccs : iterable of str
        Compute capabilities in the file, ``""`` where a launch has none.
    name : str
        The file's name.
    hints : Hints
        The user's word, if any.
    said : sequence of str
        Lines around the table, in which programs often print the GPU's name.
    stated : sequence of str
        Names of GPUs in cells made for them; one that the table of GPUs doesn't know keeps its name.

    Returns
    -------
    GpuGuess
        In this order: the user's word, a name in the lines, a name in the file's name, the GPU family of the compute
        capability where it has one alone, ``unknown``.
    """
    wanted = list(dict.fromkeys(ccs)) or [""]
    candidates = list(dict.fromkeys(gpu for cc in wanted if cc for gpu in gpus.from_cc(cc)))
    if hints.gpu:
        return GpuGuess(dict.fromkeys(wanted, gpus.canonical(hints.gpu)), tuple(candidates))
    if len(stated) == 1:
        own = gpus.canonical(stated[0])
        notes = () if gpus.known(own) else (f"{own} is not in the table of GPUs: its figures are unknown.",)
        return GpuGuess(dict.fromkeys(wanted, own), (own,), False, notes)
    if stated:
        return GpuGuess(dict.fromkeys(wanted, UNKNOWN), tuple(map(gpus.canonical, stated)), False, ())
    named = _named(said)
    source = "the program's own output"
    if named is None:
        located = gpus.locate(stem(name))
        named, source = (located[0], "the file's name") if located else (None, "")
    warnings: list[str] = []
    if named is not None:
        odd = [cc for cc in wanted if cc and named not in gpus.from_cc(cc) and gpus.known(named)]
        if not odd:
            first = [named, *(gpu for gpu in candidates if gpu != named)]
            note = f"The GPU was taken from {source}: {named}; `--gpu` names it."
            return GpuGuess(dict.fromkeys(wanted, named), tuple(first), False, (note,))
        warnings.append(f"{source.capitalize()} names {named}, but the kernels ran on compute capability {odd[0]}.")
    by_cc: dict[str, str] = {}
    for cc in wanted:
        fitting = gpus.from_cc(cc) if cc else []
        families = list(dict.fromkeys(gpus.family_of(gpu) for gpu in fitting))
        by_cc[cc] = fitting[0] if len(families) == 1 else UNKNOWN
        if len(families) > 1:  # a guess among different GPUs would put numbers under a wrong name
            warnings.append(
                f"Compute capability {cc} fits {_list(families)}, so it is stored as {UNKNOWN!r}; `--gpu` names it."
            )
        elif len(fitting) > 1:
            warnings.append(f"Compute capability {cc} is that of the {fitting[0]}; `--gpu` names the variant.")
        elif not fitting:
            what = f"No known GPU has compute capability {cc}" if cc else "The file does not say which GPU it is of"
            warnings.append(f"{what}, so it is stored as {UNKNOWN!r}; `--gpu` names it.")
    return GpuGuess(by_cc, tuple(candidates), True, tuple(warnings))


def _named(said: Sequence[str]) -> str | None:
    """Find a GPU's name in lines of text; None when they name none or several."""
    found = {located[0] for line in said if (located := gpus.locate(line)) is not None}
    found |= {gpus.canonical(match.group()) for line in said for match in _PRINTED.finditer(line)}
    return found.pop() if len(found) == 1 else None


def _list(names: Sequence[str]) -> str:
    shown = list(names[:4])
    rest = len(names) - len(shown)
    if rest:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
