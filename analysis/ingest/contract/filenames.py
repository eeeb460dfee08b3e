"""What files are called: by their own name, and with the folders above it where several have the same one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath


def unique_names(paths: Sequence[PurePath]) -> list[str]:
    """Return a name for each path, different for different ones.

    A profile is called after its file: two files of one name in two folders would otherwise become one workload.

    Parameters
    ----------
    paths : sequence of PurePath
        All files of an archive, or all files that are given.

    Returns
    -------
    list of str
        The last part alone where it is the only one, else with as many folders in front of it as tell it apart.

    Examples
    --------
    >>> from pathlib import PurePosixPath
    >>> unique_names([PurePosixPath("runs/a/p.csv"), PurePosixPath("runs/b/p.csv"), PurePosixPath("runs/b/q.csv")])
    ['a-p.csv', 'b-p.csv', 'q.csv']
    """
    parts = [[part for part in path.parts if part not in ("", ".", "..", path.anchor)] or [path.name] for path in paths]
    names = [own[-1] for own in parts]
    deepest = max((len(own) for own in parts), default=0)
    for depth in range(2, deepest + 1):
        count = Counter(names)
        if len(count) == len(names):
            return names
        names = ["-".join(own[-depth:]) if count[name] > 1 else name for name, own in zip(names, parts, strict=True)]
    seen: Counter[str] = Counter()
    out = []
    for name in names:
        seen[name] += 1
        out.append(name if seen[name] == 1 else f"{PurePath(name).stem} ({seen[name]}){PurePath(name).suffix}")
    return out
