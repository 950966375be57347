"""The report: what a study's folder says, for people and for programs.

    from outpace.evaluate.report import write, show

    write(folder) -> Report      report.json, report.html, speculation_profile.json,
                                 test-result.intoto.json; written anew from the same files each time
    show(report, console)        the verdict and its criteria as a table (rich)

Pure but for those files: no clock, no network, no chance. A folder of an earlier version is
reported again as long as its ledger and records can be read.

    study.py      reads a folder                 shape.py · figures.py   the report as values
    facts/        its sections, one by one       build.py                all of them
    page/         the page                       console.py              the table
    profile.py    how the guesses fared          attest.py               in-toto test result
"""

from outpace.evaluate.report.console import show
from outpace.evaluate.report.write import write

__all__ = ["show", "write"]
