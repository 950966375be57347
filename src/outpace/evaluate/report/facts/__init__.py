"""Sections of the report, each a pure function of a study that was read."""
