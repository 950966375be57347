"""`python -m outpace.cli`: the command line without the installed script."""

from outpace.cli.main import main

main()
