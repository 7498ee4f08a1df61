"""The table from opcode to the function that builds its executor."""

from __future__ import annotations

from collections.abc import Callable

from workbench.errors import EmulationError
from workbench.gfx950.emulator.builder import Builder, Run

OpcodeBuilder = Callable[[Builder], Run]
OPCODES: dict[str, OpcodeBuilder] = {}


def op(*names: str) -> Callable[[OpcodeBuilder], OpcodeBuilder]:
    """Register the builder of some opcodes."""

    def register(function: OpcodeBuilder) -> OpcodeBuilder:
        for name in names:
            if name in OPCODES:
                raise ValueError(f"opcode {name} is registered twice")
            OPCODES[name] = function
        return function

    return register


def build(builder: Builder) -> Run:
    """The executor of one instruction; EmulationError names an opcode that is not modelled."""
    ins = builder.ins
    function = OPCODES.get(ins.opcode) or OPCODES.get(f"{ins.opcode}_{ins.encoding}")
    if function is None:
        raise EmulationError(
            f"{ins.where()}: opcode {ins.opcode} is not modelled; the emulator knows {len(OPCODES)} opcodes of gfx950"
        )
    return function(builder)
