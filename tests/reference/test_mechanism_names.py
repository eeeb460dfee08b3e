"""The name of a mechanism stands in one file; everything else uses the constant."""

import ast
from pathlib import Path

from analysis.reference.mechanism_names import MECHANISMS, MPS, MPS_PRIORITY

ROOT = Path(__file__).parents[2]


def test_the_name_of_mps_stands_once():
    found = [
        file.relative_to(ROOT).as_posix()
        for folder in ("analysis", "pages")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in (MPS, MPS_PRIORITY)
    ]
    assert found == ["analysis/reference/mechanism_names.py"] * 2
    assert len(set(MECHANISMS)) == len(MECHANISMS)
