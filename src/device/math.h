// exp and what is made of it from plain arithmetic, so that bits do not depend on the C library, and without branches, so that compilers
// make vectors of loops over them. Good to a relative 1e-13 (erf: to 1e-13 of 1).
#ifndef LS_DEVICE_MATH_H
#define LS_DEVICE_MATH_H

#include <stdint.h>
#include <string.h>

#define LS__MATH static inline __attribute__((always_inline))

// 2^k e^r with |r| <= ln2 / 2, and a Taylor polynomial. Beyond -708 and 709 the value there.
LS__MATH double ls__exp(double x) {
    x = x < -708 ? -708 : x;
    x = x > 709 ? 709 : x;
    double shifted = x * 1.4426950408889634 + 0x1.8p52;  // its last bits are k
    double k = shifted - 0x1.8p52;
    double r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
    double p = 1 / 39916800.0;
    p = p * r + 1 / 3628800.0;
    p = p * r + 1 / 362880.0;
    p = p * r + 1 / 40320.0;
    p = p * r + 1 / 5040.0;
    p = p * r + 1 / 720.0;
    p = p * r + 1 / 120.0;
    p = p * r + 1 / 24.0;
    p = p * r + 1 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

LS__MATH double ls__sigmoid(double x) { return 1 / (1 + ls__exp(-x)); }

LS__MATH double ls__tanh(double x) {
    double far = x < 0 ? -x : x, e = ls__exp(-2 * far), t = (1 - e) / (1 + e);
    t = x < 0 ? -t : t;
    return far < 1e-4 ? x - x * x * x / 3 : t;  // where 1 - e has lost its digits
}

// erfc(z) of z >= 0 is t exp(P - z^2) with t = 2 / (2 + z) and P a polynomial in t, fitted for z <= 9; above that it is 0 to erf.
// Form: Press et al., "Numerical Recipes", 3rd ed., 6.2.2. Coefficients: tests/golden/make_erf.py.
LS__MATH double ls__erf(double x) {
    double z = x < 0 ? -x : x;
    z = z > 9 ? 9 : z;
    double t = 2 / (2 + z), u = t * (22.0 / 9) - 13.0 / 9;  // from -1 to 1
    double p = 9.240260103773896e-09;
    p = p * u - 4.934088313415688e-08;
    p = p * u - 9.818392757994261e-09;
    p = p * u + 4.4827888717103493e-07;
    p = p * u - 6.244572129382342e-07;
    p = p * u - 1.7554454675993616e-06;
    p = p * u + 6.2334409527971705e-06;
    p = p * u + 3.452079411459913e-07;
    p = p * u - 3.535099429122547e-05;
    p = p * u + 4.83388751084449e-05;
    p = p * u + 0.00013804871370621136;
    p = p * u - 0.0004601392663441689;
    p = p * u - 0.00031701287308819384;
    p = p * u + 0.0033554218310577824;
    p = p * u - 0.0006572508750192696;
    p = p * u - 0.02795306012216612;
    p = p * u + 0.013626166487826934;
    p = p * u + 0.5604713436271757;
    p = p * u - 0.5482211025100656;
    double erf = 1 - t * ls__exp(p - z * z);
    return x < 0 ? -erf : erf;
}

// The share of a standard normal below x, and its density.
LS__MATH double ls__normal_below(double x) { return 0.5 * (1 + ls__erf(x * 0.70710678118654752)); }
LS__MATH double ls__normal_density(double x) { return 0.39894228040143268 * ls__exp(-0.5 * x * x); }

#undef LS__MATH
#endif
