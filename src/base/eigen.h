// Eigenvalues of a symmetric matrix.
#ifndef LS_BASE_EIGEN_H
#define LS_BASE_EIGEN_H

// Of `a` (n, n), symmetric, which is used up: values (n), from the largest to the smallest, and vectors (n, n), row i of length 1 belonging to
// value i, its largest element (of equals the first) positive. By Jacobi's rotations, whose order is fixed, in plain arithmetic: the
// same bits on every machine. Work grows with n^3; for hundreds of rows, not for thousands.
// Source: Golub and Van Loan, "Matrix computations", 4th edition, section 8.5.
void ls_eigen_symmetric(int n, double *a, double *values, double *vectors);

#endif
