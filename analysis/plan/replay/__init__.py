"""Replays of a cluster: jobs arrive, a policy places them, and measured slowdowns say how fast they get on."""
