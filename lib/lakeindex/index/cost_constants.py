"""Constants of the cost model. Written by ``python -m benchmarks.calibrate --write``; do not edit."""

from __future__ import annotations

from typing import Final

from lakeindex.index.cost import CostConstants

MEASURED_ON: Final = (
    "2 cores (AMD EPYC), 24 GiB, Linux 6.18.44-fc-v657, Python 3.11.7, 2 tasks at once, local disk, 143 runs"
)
MEAN_ERROR: Final = 0.3992
"""Mean of |estimate - actual| / actual over the runs that the constants were fitted to."""

CONSTANTS: Final = CostConstants(
    stage=0.01025,
    file_in_scope=5.048e-05,
    footer=0.001205,
    request=5.293e-06,
    key_located=1.775e-07,
    entry_read=2.601e-07,
    filter=0.0002716,
    filter_byte=1.057e-08,
    pair_probed=4.414e-07,
    file_opened=0.005044,
    row_matched=2.075e-07,
    pair_verified=4.039e-07,
    byte_rewritten=2.044e-07,
    requests_a_file=4.5,
    key_share=0.2907,
)
