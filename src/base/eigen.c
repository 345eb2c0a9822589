#include "base/eigen.h"

#include <math.h>
#include <string.h>

enum { SWEEPS = 60 };  // it converges quadratically: about ten are needed

// Rows and columns p and q are turned so that a(p, q) vanishes.
static void rotate(int n, double *a, double *vectors, int p, int q) {
    double off = a[p * n + q];
    if (off == 0) return;
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * off);
    double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    for (int k = 0; k < n; k++) {
        double x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (int k = 0; k < n; k++) {
        double x = a[p * n + k], y = a[q * n + k];
        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
    }
    a[p * n + q] = a[q * n + p] = 0;
    for (int k = 0; k < n; k++) {
        double x = vectors[p * n + k], y = vectors[q * n + k];
        vectors[p * n + k] = c * x - s * y;
        vectors[q * n + k] = s * x + c * y;
    }
}

// Sums of squares: of all elements, of those beside the diagonal.
static void squares(int n, const double *a, double *all, double *off) {
    *all = *off = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            *all += a[i * n + k] * a[i * n + k];
            if (i != k) *off += a[i * n + k] * a[i * n + k];
        }
}

static void swap_rows(int n, double *values, double *vectors, int i, int k) {
    double value = values[i];
    values[i] = values[k];
    values[k] = value;
    for (int j = 0; j < n; j++) {
        double x = vectors[i * n + j];
        vectors[i * n + j] = vectors[k * n + j];
        vectors[k * n + j] = x;
    }
}

static void make_positive(int n, double *vector) {
    int largest = 0;
    for (int j = 1; j < n; j++)
        if (fabs(vector[j]) > fabs(vector[largest])) largest = j;
    if (vector[largest] >= 0) return;
    for (int j = 0; j < n; j++) vector[j] = -vector[j];
}

void ls_eigen_symmetric(int n, double *a, double *values, double *vectors) {
    memset(vectors, 0, (size_t)n * (size_t)n * sizeof *vectors);
    for (int i = 0; i < n; i++) vectors[i * n + i] = 1;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double all, off;
        squares(n, a, &all, &off);
        if (!(off > 1e-32 * all)) break;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) rotate(n, a, vectors, p, q);
    }
    for (int i = 0; i < n; i++) values[i] = a[i * n + i];
    for (int i = 0; i < n; i++) {
        int largest = i;
        for (int k = i + 1; k < n; k++)
            if (values[k] > values[largest]) largest = k;
        if (largest != i) swap_rows(n, values, vectors, i, largest);
        make_positive(n, vectors + (long)i * n);
    }
}
