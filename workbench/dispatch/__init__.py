"""Which kernel serves a problem on a device, and with which geometry: pure functions that say why.

They read only what a call knows without asking the GPU: head counts, head size, dtypes, masks, the number of sequences,
the total of query tokens, the longest query and the longest context. The lengths of single sequences play no part.
"""

from workbench.dispatch.dense import DenseChoice, select_dense_spec
from workbench.dispatch.grid import block_q, grid_2d, grid_3d, grid_dense, num_query_blocks
from workbench.dispatch.path import PathChoice, admitted_lanes, select_path
from workbench.dispatch.unified import SpecChoice, select_spec
from workbench.dispatch.work_order import (
    WorkOrderChoice,
    num_persistent_programs,
    resolve_persist_decode,
    select_work_order,
)

__all__ = [
    "DenseChoice",
    "PathChoice",
    "SpecChoice",
    "WorkOrderChoice",
    "admitted_lanes",
    "block_q",
    "grid_2d",
    "grid_3d",
    "grid_dense",
    "num_persistent_programs",
    "num_query_blocks",
    "resolve_persist_decode",
    "select_dense_spec",
    "select_path",
    "select_spec",
    "select_work_order",
]
