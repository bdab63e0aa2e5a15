"""Verdicts and measures of many runs: an SQLite file, its trends, and a text file for dashboards."""
