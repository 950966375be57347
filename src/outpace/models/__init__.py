"""Find and read weights: `resolve.resolve` finds files, `weights.open_weights` reads them.

The rest stands behind these two: `catalog` (known names), `pull`, `fetch` and `hub` (bringing
files), `formats` (headers), `lineage` (digests). Import from the modules; this package loads
nothing by itself.
"""
