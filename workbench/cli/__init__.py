"""The command `workbench`."""

from workbench.cli.app import main

__all__ = ["main"]
