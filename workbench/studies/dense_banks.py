"""Where the lanes of the dense kernel's LDS reads meet the banks: addresses of one read, taken from the emulator."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import ParameterError
from workbench.gfx950.dataflow import reads_by_product
from workbench.gfx950.emulator.banks import LdsAccess, lds_access, phases_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.gfx950.clusters import Role
    from workbench.gfx950.emulator.state import Array
    from workbench.problem import DenseAttentionProblem
    from workbench.published import Published
    from workbench.spec import DenseGeometry
    from workbench.studies.lever_study import LeverStudy

ROLES: dict[str, Role] = {"K": "fresh", "V": "carried"}
"""Operand -> role of the product that its reads feed."""
_WIDTHS = {"b128": 16, "b64_tr_b16": 8, "b64": 8}


@dataclass(frozen=True)
class ReadPattern:
    """One LDS read of one wave, in the first iteration of the hot loop. Evidence: emulated."""

    operand: str
    instruction: str
    addresses: Array
    """Byte address in LDS that each of the 64 lanes gives."""
    width: int
    """Bytes a lane."""
    transposed: bool

    @property
    def access(self) -> LdsAccess:
        """Its cycles; modelled from the addresses."""
        return lds_access(self.addresses, self.width, transposed=self.transposed)

    def words_by_bank(self) -> Array:
        """[phases, banks]: different words that the lanes of a phase ask of each bank."""
        import numpy as np

        phases = phases_of(self.width, write=False, transposed=self.transposed)
        words = np.arange(self.width // 4)
        counts = np.zeros((len(phases.lanes), phases.banks), int)
        for place, lanes in enumerate(phases.lanes):
            touched = np.unique((self.addresses[list(lanes)] // 4)[:, None] + words)
            counts[place] = np.bincount(touched % phases.banks, minlength=phases.banks)
        return counts


def read_pattern(
    problem: DenseAttentionProblem, spec: DenseGeometry, operand: str, triton_version: str = ""
) -> ReadPattern:
    """Addresses of the first read of K or V in the hot loop of a problem's kernel, wave 0 of a workgroup that meets it.

    ParameterError where the loop holds no such read, or does not run on the problem.
    """
    import torch

    from workbench.attention.backends import EMULATED_DEVICE
    from workbench.compiler import compile_kernel
    from workbench.compiler.plans import plan_without_storage
    from workbench.compiler.variants import launch_request
    from workbench.device import load_device
    from workbench.gfx950.emulator import Debugger
    from workbench.inputs import make_dense_inputs
    from workbench.inspection import inspect_compiled

    (launch,) = plan_without_storage(problem, spec, load_device(EMULATED_DEVICE))
    kernel = compile_kernel(launch_request(launch, triton_version=triton_version))
    inputs = make_dense_inputs(problem, seed=0)
    tensors = {"p_out": torch.empty_like(inputs.q), "p_q": inputs.q, "p_k": inputs.k, "p_v": inputs.v}
    loop = inspect_compiled(kernel).hot_instructions
    places = [place for place, role in reads_by_product(loop).items() if role == ROLES[operand]]
    if not places:
        raise ParameterError(f"the hot loop holds no LDS read of {operand}")
    read = loop[min(places)]
    # A block of rows whose tiles all meet the diagonal has a masked loop alone.
    debuggers = (
        Debugger(kernel, launch.grid, launch.args | tensors, first=place) for place in range(math.prod(launch.grid))
    )
    debugger = next((each for each in debuggers if each.run_to(read.line) is not None), None)
    if debugger is None:
        raise ParameterError("the hot loop does not run on this problem; give it more keys")
    decoded = next(each for each in debugger.program.instructions if each.line == read.line)
    name = decoded.opcode.removeprefix("ds_read_")
    if name not in _WIDTHS:
        raise ParameterError(f"{decoded.opcode} is no read that this study knows: {', '.join(_WIDTHS)}")
    base = debugger.register(f"v{decoded.operands[1].index}", "i32")[0].astype("int64")
    offset = int(decoded.modifiers.get("offset", 0))
    return ReadPattern(operand, decoded.text, base + offset, _WIDTHS[name], "_tr_" in name)


def patterns(studies: Sequence[LeverStudy], operand: str) -> dict[str, ReadPattern]:
    """The pattern of each variant that ran on the emulator, of the first compiler."""
    found = {}
    for name, outcome in studies[0].outcomes.items():
        if outcome.emulated is not None:
            problem, spec = outcome.emulated.problem, outcome.variant.spec
            found[name] = read_pattern(problem, spec, operand, studies[0].triton_version)  # type: ignore[arg-type]
    return found


def published_series(rows: Sequence[Published], metric: str) -> dict[int, float]:
    """Pad in halves -> published value, of the rows whose configuration lists pads as `0 / 8 / 16 / 32 halves`."""
    for row in rows:
        listed = re.search(r"([\d /]+) halves", row.config)
        if row.metric == metric and listed:
            pads = [int(pad) for pad in listed.group(1).split("/")]
            return dict(zip(pads, map(float, row.value.split("/")), strict=True))
    return {}
