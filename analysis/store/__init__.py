"""DuckDB: schema, migrations, the database object, loading and queries."""
