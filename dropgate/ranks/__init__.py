"""One run over several nodes: rank 0 leads, the others start the engine's workers when told and end as it ends."""
