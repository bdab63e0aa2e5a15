"""Judgement -> what people and programs read: terminal, Markdown, verdict.json."""
