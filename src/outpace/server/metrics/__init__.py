"""Counters and histograms: fed by the engine's events and by finished answers, read by scrapers."""
