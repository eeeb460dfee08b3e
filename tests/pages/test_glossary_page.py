"""The glossary lists what stands above the columns of tables, in the words that the tables themselves use."""

from analysis.reference.columns import vocabulary
from tests.pages.conftest import Open


def test_every_header_is_explained(app: Open) -> None:
    page = app("pages/help/glossary.py", reference="Columns of tables")
    rows = page.dataframe[0].value
    said = dict(zip(rows["title"], rows["meaning"], strict=True))
    assert said == {one.header: one.help for one in vocabulary().values()}
    assert said["Worst S, x"] == "Slowdown of the job that suffers most."
