// Eigenvalues of symmetric matrices: what they are by definition, matrices whose values are known, and the same bits again.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/eigen.h"
#include "base/philox.h"
#include "ok.h"

static double number(uint32_t seed, int i) {
    return 2 * (double)ls_uniform(ls_philox(seed, (uint32_t)i, 0, 0, 0).v[0]) - 1;
}

// Symmetric; of `rank` outer products, or full.
static void fill(int n, int rank, double *a) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++) {
            double sum = 0;
            for (int r = 0; r < rank; r++) sum += number(7, r * n + i) * number(7, r * n + k);
            a[i * n + k] = a[k * n + i] = rank ? sum : number(3, i * n + k);
        }
}

static double dot(int n, const double *a, const double *b) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void check(int n, int rank) {
    double *a = malloc((size_t)n * (size_t)n * 4 * sizeof *a), *used = a + n * n, *vectors = used + n * n,
           *values = vectors + n * n;
    fill(n, rank, a);
    memcpy(used, a, (size_t)n * (size_t)n * sizeof *a);
    ls_eigen_symmetric(n, used, values, vectors);
    for (int i = 0; i < n; i++) {
        const double *v = vectors + (ptrdiff_t)i * n;
        int largest = 0;
        if (i > 0) assert_true(values[i] <= values[i - 1]);
        for (int k = 0; k < n; k++) {
            assert_true(fabs(dot(n, a + (ptrdiff_t)k * n, v) - values[i] * v[k]) < 1e-12 * n);
            assert_true(fabs(dot(n, v, vectors + (ptrdiff_t)k * n) - (i == k)) < 1e-12 * n);
            if (fabs(v[k]) > fabs(v[largest])) largest = k;
        }
        assert_true(v[largest] > 0);
        if (rank && i >= rank) assert_true(fabs(values[i]) < 1e-12 * n);
    }
    free(a);
}

static void values_and_vectors(void **state) {
    for (int n = 1; n <= 13; n++) check(n, 0);
    check(48, 0);
    check(27, 5);
    check(12, 1);
}

static void known_values(void **state) {
    double a[] = {2, 1, 1, 2}, values[2], vectors[4], zero[9] = {0}, three[3], identity[9];
    ls_eigen_symmetric(2, a, values, vectors);
    assert_true(fabs(values[0] - 3) < 1e-15 && fabs(values[1] - 1) < 1e-15);
    assert_true(fabs(vectors[0] - sqrt(0.5)) < 1e-15 && fabs(vectors[1] - sqrt(0.5)) < 1e-15);
    ls_eigen_symmetric(3, zero, three, identity);
    for (int i = 0; i < 9; i++) assert_true(identity[i] == (i % 4 == 0) && three[i / 3] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_vectors),
        cmocka_unit_test(known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
