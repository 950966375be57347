"""One self-contained page: `render(report, rows)`. No script, no request, no font but the reader's.

svg.py        scales, axes and marks          plots.py      figures made of them
intervals.py  intervals inside tables         words.py      numbers as they are read
render.py   fills `report.html`, in `style.css`
"""
