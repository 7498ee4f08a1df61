"""One result = one typed record; records are stored as Parquet and never overwritten."""

from workbench.records.frame import to_frame
from workbench.records.kept import keep_records
from workbench.records.parquet import SCHEMA_VERSION, check_new_file, read_records, write_records
from workbench.records.record import (
    BACKENDS,
    EVIDENCE_KINDS,
    LANES,
    STATUSES,
    Metric,
    Record,
    is_performance,
)
from workbench.records.stored import hardware_of, stored_devices, stored_records, stored_sets, stored_study_records

__all__ = [
    "BACKENDS",
    "EVIDENCE_KINDS",
    "LANES",
    "SCHEMA_VERSION",
    "STATUSES",
    "Metric",
    "Record",
    "check_new_file",
    "hardware_of",
    "is_performance",
    "keep_records",
    "read_records",
    "stored_devices",
    "stored_records",
    "stored_sets",
    "stored_study_records",
    "to_frame",
    "write_records",
]
