"""gfx950 machine code without a gfx950: assembly, instruction classes, loops, occupancy, issue budget."""
