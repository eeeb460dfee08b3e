"""From predictions to decisions: which jobs go together on which GPU, and what that gains over a trace."""
