"""Constants of the cost model. Written by ``python -m benchmarks.calibrate --write``; do not edit."""

from __future__ import annotations

from typing import Final

from lakeindex.index.cost import CostConstants

MEASURED_ON: Final = (
    "2 cores (AMD EPYC), 24 GiB, Linux 6.18.44-fc-v657, Python 3.11.7, load 5.4 at the start, "
    "2 tasks at once, local disk, 143 runs"
)
MEAN_ERROR: Final = 0.2747
"""Mean of |estimate - actual| / actual over the runs that the constants were fitted to."""

CONSTANTS: Final = CostConstants(
    stage=0.01048,
    file_in_scope=1.854e-05,
    footer=0.001104,
    request=5.685e-06,
    key_located=1.84e-07,
    entry_read=1.252e-07,
    filter=0.0001592,
    filter_byte=9.012e-09,
    pair_probed=3.995e-07,
    file_opened=0.004124,
    row_matched=1.34e-07,
    pair_verified=6.807e-07,
    byte_rewritten=1.071e-07,
    requests_a_file=4.5,
    key_share=0.2959,
)
