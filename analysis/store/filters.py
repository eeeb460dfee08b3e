"""One filter for queries, pages and reports: SQL, bound values, and a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Column that each filter restricts, and the words it prints itself with.
_FIELDS = {
    "datasets": ("dataset", "data set"),
    "gpus": ("gpu", "GPU"),
    "mechanisms": ("mechanism", "mechanism"),
    "workloads": ("workload", "workload"),
    "families": ("family", "family"),
    "phases": ("phase", "phase"),
    "batch_sizes": ("batch_size", "batch size"),
    "precisions": ("precision", "precision"),
    "sources": ("source_id", "source"),
}


@dataclass(frozen=True)
class Filter:
    """A choice of rows; an empty tuple means all.

    Attributes
    ----------
    datasets, gpus, mechanisms, workloads, families, phases, precisions : tuple of str
        Values to keep.
    batch_sizes : tuple of int
        Batch sizes to keep.
    sources : tuple of int
        Source ids to keep.
    source_names : tuple of str
        What the sources are called in the sentence; restricts nothing.
    """

    datasets: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()
    source_names: tuple[str, ...] = ()

    def where(self, *columns: str) -> tuple[str, list[object]]:
        """Return a condition and its bound values.

        Parameters
        ----------
        *columns : str
            The columns that the query offers; filters on others are ignored. All, when none is named.

        Returns
        -------
        tuple of str and list
            ``("dataset IN (?) AND gpu IN (?, ?)", [...])``, or ``("true", [])``.
        """
        conditions: list[str] = []
        values: list[object] = []
        for field, (column, _) in _FIELDS.items():
            chosen = getattr(self, field)
            if chosen and (not columns or column in columns):
                conditions.append(f"{column} IN ({', '.join('?' * len(chosen))})")
                values.extend(chosen)
        return " AND ".join(conditions) or "true", values

    def sentence(self) -> str:
        """Say in words what is kept, such as ``data set kace; GPU V100``."""
        parts = [
            f"{words} {', '.join(str(value) for value in self._said(field))}"
            for field, (_, words) in _FIELDS.items()
            if getattr(self, field)
        ]
        return "; ".join(parts) if parts else "everything in the database"

    def _said(self, field: str) -> tuple[object, ...]:
        named: tuple[object, ...] = self.source_names if field == "sources" and self.source_names else ()
        return named or getattr(self, field)

    def with_(self, **changes: tuple[str, ...] | tuple[int, ...]) -> Filter:
        """Return a copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]
