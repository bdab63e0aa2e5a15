"""Variant -> a ready engine, and its certain end."""
