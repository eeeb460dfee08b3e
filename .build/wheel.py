"""Builds the wheel: the package under the name that users import, so that no package of theirs stands in its way.

A checkout calls its engine ``analysis``, a name that a user's own code has as likely as not. The wheel ships the same
modules as ``stallscope``, every import and every dotted path in them renamed. An editable installation imports the
checkout and gets the name ``stallscope`` for it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: A dotted path of the package, or an import of it, wherever it stands in a module: code, texts, docstrings.
_PATH = re.compile(r"(?<![\w./-])analysis(?=\.[a-zA-Z_])|(?<=\bfrom )analysis(?= import\b)|(?<=\bimport )analysis\b")

#: The name in an editable installation: the package of the checkout, under its other name.
_ALIAS = '''"""The package of the checkout, under the name that the wheel gives it."""

import sys

import analysis

sys.modules[__name__] = analysis
'''


class RenamingHook(BuildHookInterface):  # type: ignore[type-arg]
    """Ships the package ``analysis`` as ``stallscope``."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files of the wheel and say where they go."""
        root, work = Path(self.root), Path(self.directory) / ".stallscope"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        if version == "editable":
            (work / "stallscope.py").write_text(_ALIAS, encoding="utf-8")
            build_data["force_include_editable"] = {str(work / "stallscope.py"): "stallscope.py"}
            return
        package = work / "stallscope"
        _copy(root / "analysis", package)
        (package / "py.typed").touch()
        for name in ("app.py", "pages", "data", ".streamlit/config.toml"):
            _copy(root / name, package / "_bundle" / name)
        build_data["force_include"][str(package)] = "stallscope"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Take away what was written for the wheel."""
        shutil.rmtree(Path(self.directory) / ".stallscope", ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, modules with the package's other name in them."""
    if source.is_dir():
        for one in sorted(source.iterdir()):
            if one.name != "__pycache__":
                _copy(one, target / one.name)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".py":
        target.write_text(_PATH.sub("stallscope", source.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        shutil.copyfile(source, target)
