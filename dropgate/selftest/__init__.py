"""The gate, tested: engines and runs that are broken on purpose, clean runs that must pass, kills at any moment."""
