"""The parts of an assembly file around the code: .amdhsa_kernel blocks, metadata, target, declared functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import AssemblyError

Directives = dict[str, str]


@dataclass
class Blocks:
    """Directives by kernel, and the metadata document."""

    directives: dict[str, Directives] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def entries(self) -> dict[str, dict[str, Any]]:
        """Kernel -> its entry of `amdhsa.kernels`."""
        return {str(entry.get(".name")): entry for entry in self.metadata["amdhsa.kernels"]}


def require(condition: object, name: str, missing: str) -> None:
    """Raise the AssemblyError of a file that lacks something every whole one has."""
    if not condition:
        raise AssemblyError(
            f"{name} is truncated or no AMD assembly: missing {missing}; give the compiler's whole output"
        )


def collect_blocks(lines: list[str], name: str) -> Blocks:
    """Read every .amdhsa_kernel block and the metadata; AssemblyError when one does not end."""
    blocks = Blocks()
    directives: Directives | None = None
    metadata: list[str] | None = None
    for line in lines:
        word = line.strip()
        if metadata is not None and word != ".end_amdgpu_metadata":
            metadata.append(line)
        elif word.startswith(".amdhsa_kernel "):
            directives = blocks.directives.setdefault(word.split()[1], {})
        elif word == ".end_amdhsa_kernel":
            directives = None
        elif directives is not None and word.startswith(".amdhsa_"):
            key, _, value = word.partition(" ")
            directives[key.removeprefix(".amdhsa_")] = re.split(r";|//", value)[0].strip()
        elif word == ".amdgpu_metadata":
            metadata = []
        elif metadata is not None:
            blocks.metadata = _load_metadata("\n".join(metadata), name)
            metadata = None
    require(directives is None, name, "the end of an .amdhsa_kernel block")
    require(metadata is None and blocks.metadata, name, "the metadata (from .amdgpu_metadata to .end_amdgpu_metadata)")
    return blocks


def triple_of(text: str, blocks: Blocks) -> str:
    """The target as the compiler spells it, empty when the file names none."""
    match = re.search(r'^\s*\.amdgcn_target\s+"([^"]+)"', text, re.MULTILINE)
    return match[1] if match else str(blocks.metadata.get("amdhsa.target") or "")


def declared_functions(text: str) -> set[str]:
    """Names that `.type NAME,@function` declares."""
    return set(re.findall(r"^\s*\.type\s+([\w.$]+)\s*,?\s*[@#%]function", text, re.MULTILINE))


def _load_metadata(text: str, name: str) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except yaml.YAMLError as error:
        raise AssemblyError(f"{name}: its metadata is not YAML ({str(error).splitlines()[0]})") from None
    kernels = document.get("amdhsa.kernels") if isinstance(document, dict) else None
    if not isinstance(kernels, list) or not all(isinstance(kernel, dict) for kernel in kernels):
        raise AssemblyError(f"{name}: its metadata has no list amdhsa.kernels; give the compiler's whole output")
    return dict(document)
