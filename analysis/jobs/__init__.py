"""Long work: one worker, a progress record, cancel."""
