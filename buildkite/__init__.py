"""The pipeline around dropgate: what starts it, what it runs and what it tells GitHub."""
