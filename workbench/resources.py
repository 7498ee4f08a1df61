"""Where the data files and notebooks lie: at the top of a checkout, inside the package once installed from a wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _root(installed: str, in_checkout: str) -> Path:
    carried = _PACKAGE / installed
    return carried if carried.is_dir() else _PACKAGE.parent / in_checkout


def data_path(*parts: str) -> Path:
    """The path of a file or folder below data/, given by its parts. It need not exist."""
    return _root("_data", "data").joinpath(*parts)


def notebooks_path(*parts: str) -> Path:
    """The path of a file or folder below notebooks/, given by its parts. It need not exist."""
    return _root("_notebooks", "notebooks").joinpath(*parts)


def checkout_root() -> Path | None:
    """Top of the source tree when the package runs from one, else None."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "kernels").is_dir() else None
