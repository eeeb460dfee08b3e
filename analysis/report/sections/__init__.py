"""The sections of reports, each from what the engine found to blocks of the document."""
