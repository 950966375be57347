"""Code that nobody has read, run where it can break nothing.

    run.py      `run(code, tests, limits) -> Ran`: starts a process, bounds it, reads its verdict
    cell.py     what that process does: it builds the cell, then becomes what runs the code
    walls.py    the cell's walls on Linux: namespaces, an empty file system, no way back
    inmate.py   what runs the code and then the tests, and says how they ended

A cell has its own interpreter (`-I -S`), no environment, no network, no view of other processes,
a file system that holds the interpreter and an empty /tmp, and limits of CPU time, wall time,
memory, processes, file sizes and output. It protects the machine from the code. It cannot protect
a verdict from code written to cheat the tests it runs beside; for models that do so, use checks
of answers instead.
"""
