"""Runs the command line as ``python -m analysis.cli``."""

from analysis.cli.main import app

app(prog_name="stallscope")
