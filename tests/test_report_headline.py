import pytest
from notebook_files import write_notebook

from workbench.errors import ReportError
from workbench.report import headline, read_headlines, run_report

SAY = """
import numpy
from workbench.report import headline
headline("It is <twice> as fast.", evidence="modelled", value=numpy.float32(2), unit="x")
"""


def test_a_headline_stands_in_the_executed_notebook_and_in_the_page(tmp_path):
    notebook = write_notebook(tmp_path / "says.ipynb", SAY)
    result = run_report(str(notebook), {}, tmp_path / "out", progress=False)
    (said,) = read_headlines(result.notebook)
    assert (said.sentence, said.evidence, said.value, said.unit) == ("It is <twice> as fast.", "modelled", 2.0, "x")
    assert "It is &lt;twice&gt; as fast." in result.html.read_text()


def test_outside_jupyter_it_is_printed(capsys):
    headline("Half of\n  the bytes.", evidence="static")
    assert capsys.readouterr().out == "Half of the bytes. [static]\n"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"evidence": "modeled"}, "did you mean 'modelled'"),
        ({"evidence": "static", "value": 1.0}, "value and unit come together"),
        ({"evidence": "static", "value": float("nan"), "unit": "x"}, "finite number"),
    ],
)
def test_a_headline_that_says_too_little_is_refused(given, complaint):
    with pytest.raises(ReportError, match=complaint):
        headline("A sentence.", **given)
    with pytest.raises(ReportError, match="one sentence"):
        headline(" ", evidence="static")
