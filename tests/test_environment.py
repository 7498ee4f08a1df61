import subprocess

from workbench import __version__
from workbench.environment import environment_facts, package_version
from workbench.resources import checkout_root


def test_facts_are_text_and_name_the_software():
    facts = environment_facts()
    assert all(isinstance(value, str) for value in facts.values())
    assert facts["workbench"] == __version__
    assert facts["numpy"] == package_version("numpy") != ""
    assert facts["device"]
    assert facts["device_kind"] in ("gpu", "cpu")


def test_commit_is_that_of_the_checkout():
    root = checkout_root()
    run = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    expected = run.stdout.strip() if run.returncode == 0 and (root / ".git").exists() else ""
    assert environment_facts()["commit"] == expected


def test_a_copy_for_the_caller():
    environment_facts()["device"] = "changed"
    assert environment_facts()["device"] != "changed"


def test_missing_package_has_no_version():
    assert package_version("attention-workbench-is-not-called-this") == ""
