"""`python -m workbench` is the command `workbench`."""

from workbench.cli import main

main()
