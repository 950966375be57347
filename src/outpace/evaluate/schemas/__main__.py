"""Writes the published schemas: `python -m outpace.evaluate.schemas`."""

from outpace.evaluate.schemas import FOLDER, published

for name, content in published().items():
    (FOLDER / name).write_text(content, encoding="utf-8")
