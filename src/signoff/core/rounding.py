"""Computed numbers are rounded once, before they are compared or stored.

BLAS kernels and summation orders differ in the last digits between machines; six significant digits do not.
"""

import math


def six(number: float) -> float:
    """`number` to six significant digits; infinities and NaN raise ValueError, for absence is `None`, never NaN."""
    if not math.isfinite(number):
        raise ValueError(f"not a measured number: {number}")
    if number == 0:
        return 0.0
    return float(f"{number:.6g}")
