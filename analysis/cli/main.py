"""The application object; commands live in the modules beside this one and import their engines when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from analysis.cli import (
    backup,
    campaign,
    check,
    compare,
    datasets,
    doctor,
    evaluate,
    import_files,
    kernels,
    mappings,
    matrix,
    mcp,
    models,
    next_runs,
    partners,
    plan,
    predict,
    replay,
    report,
    reproduce,
    serve,
    simulate,
    sources,
    stalls,
)
from analysis.cli.running import StallScopeGroup

app = typer.Typer(
    name="stallscope",
    cls=StallScopeGroup,
    help="Which training jobs can share a GPU, and what will each of them pay for it?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    # Plain help: drawing it with rich costs a quarter of a second at every call.
    rich_markup_mode=None,
)

_MODULES = (
    import_files, datasets, sources, check, mappings, stalls, matrix, compare, kernels, evaluate, models,
    predict, next_runs, plan, replay, reproduce, partners, simulate, campaign, report, doctor, serve, mcp, backup,
)  # fmt: skip
for _module in _MODULES:
    _module.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"stallscope {version('stallscope')}")
        raise typer.Exit


@app.callback()
def main(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens to standard error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Configure what all commands share."""
    from analysis.logs import configure_logs

    configure_logs(verbose=verbose)
