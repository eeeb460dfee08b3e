"""Makes one file of the part that measures, to be copied to a GPU machine that has Python and nothing of ours."""

from __future__ import annotations

import io
import zipapp
import zipfile
from importlib.resources import files
from pathlib import Path

#: The package's own name: that of the checkout, or the one that the wheel gives it.
_NAME = __name__.partition(".")[0]

#: What goes into the file: the measuring part, the errors that it raises, and the names of mechanisms.
_PACKAGES = {f"{_NAME}/capture": f"{_NAME}.capture"}
_SINGLE = {
    f"{_NAME}/errors.py": (_NAME, "errors.py"),
    f"{_NAME}/reference/__init__.py": (f"{_NAME}.reference", "__init__.py"),
    f"{_NAME}/reference/mechanism_names.py": (f"{_NAME}.reference", "mechanism_names.py"),
}
_MAIN = f"import sys\nfrom {_NAME}.capture.owndata import main\nsys.exit(main())\n"


def pack(path: Path) -> int:
    """Write the own-data campaign as one file that Python runs: ``python FILE --out FOLDER``.

    Parameters
    ----------
    path : Path
        Where to; ``.pyz`` by custom.

    Returns
    -------
    int
        Its size in bytes.
    """
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        _put(archive, "__main__.py", _MAIN)
        _put(archive, f"{_NAME}/__init__.py", '"""The measuring part of StallScope."""\n')
        for name, (package, file) in _SINGLE.items():
            _put(archive, name, files(package).joinpath(file).read_text(encoding="utf-8"))
        for folder, package in _PACKAGES.items():
            for entry in sorted(files(package).iterdir(), key=lambda one: one.name):
                if entry.name.endswith(".py"):
                    _put(archive, f"{folder}/{entry.name}", entry.read_text(encoding="utf-8"))
    held.seek(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    zipapp.create_archive(held, path, interpreter="/usr/bin/env python3")
    path.chmod(0o755)
    return path.stat().st_size


def _put(archive: zipfile.ZipFile, name: str, text: str) -> None:
    # A fixed date: the same sources make the same bytes.
    archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
