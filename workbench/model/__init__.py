"""Models of what a kernel asks of a device: the traffic of its L2 caches, and the roofline. Evidence kind: modelled.

Nothing here runs a kernel; only `measure_ceilings` touches a GPU.
"""

from workbench.model.cache import CacheGeometry, l2_geometry
from workbench.model.ceilings import Ceiling, Ceilings, datasheet_ceilings, measure_ceilings
from workbench.model.l2 import L2Result, TraceResult, model_l2, replay_trace
from workbench.model.l2_assumptions import L2Assumptions
from workbench.model.roofline import Point, point_from_record, share_of_roof

__all__ = [
    "CacheGeometry",
    "Ceiling",
    "Ceilings",
    "L2Assumptions",
    "L2Result",
    "Point",
    "TraceResult",
    "datasheet_ceilings",
    "l2_geometry",
    "measure_ceilings",
    "model_l2",
    "point_from_record",
    "replay_trace",
    "share_of_roof",
]
