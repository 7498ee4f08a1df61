"""Notebooks run into reports: strict parameters, executed notebook, one HTML file, records, manifest.

Nothing is imported from Jupyter or papermill before a report is run.
"""

from workbench.report.find import find_notebook, known_notebooks
from workbench.report.headlines import Headline, headline, read_headlines
from workbench.report.parameters import Parameter, bind_parameters, notebook_parameters
from workbench.report.progress import notebook_progress
from workbench.report.run import run_report
from workbench.report.study import ReportResult
from workbench.report.suite import SuiteResult, run_all

__all__ = [
    "Headline",
    "Parameter",
    "ReportResult",
    "SuiteResult",
    "bind_parameters",
    "find_notebook",
    "headline",
    "known_notebooks",
    "notebook_parameters",
    "notebook_progress",
    "read_headlines",
    "run_all",
    "run_report",
]
