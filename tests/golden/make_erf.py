#!/usr/bin/env python3
"""Prints the coefficients of ls__erf in src/device/math.h.

Needs numpy. With t = 2 / (2 + z), log(erfc(z)) + z^2 - log(t) for 0 <= z <= 9 is fitted by a polynomial in t, moved to [-1, 1], at
Chebyshev's nodes; the last line is the largest difference to the C library's erfc.
"""
import math

import numpy as np

DEGREE, FROM, TO = 18, 2 / 11, 1.0

x = np.cos(np.pi * (np.arange(200) + 0.5) / 200)
t = FROM + (TO - FROM) * (x + 1) / 2
y = np.array([math.log(math.erfc(2 / v - 2)) + (2 / v - 2) ** 2 - math.log(v) for v in t])
coefficients = np.polynomial.chebyshev.cheb2poly(np.polynomial.chebyshev.chebfit(x, y, DEGREE))
for c in coefficients[::-1]:
    print(repr(float(c)))

z = np.linspace(0, 9, 20001)
t = 2 / (2 + z)
p = np.polynomial.polynomial.polyval(2 * (t - FROM) / (TO - FROM) - 1, coefficients)
print(np.max(np.abs(t * np.exp(p - z * z) - np.array([math.erfc(v) for v in z]))))
