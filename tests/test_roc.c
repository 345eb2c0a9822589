// ROC curves, precision and recall against scikit-learn's numbers, and what is printed of them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden_check.h"
#include "report/roc.h"

enum { SAMPLES = 500, LABELS = 7 };

// As make_auc.py draws them.
static void draw_case(int c, double *rows) {
    for (int64_t i = 0; i < SAMPLES * LABELS; i++) {
        int64_t n = i / LABELS, l = i % LABELS;
        uint32_t word = draw((uint32_t)(300 + c), 0, i) >> 8;
        if (c == 1) word = word >> 20 << 20;
        double *score = &rows[n * 2 * LABELS + l], *there = score + LABELS;
        *score = (float)(2 * (word * 0x1p-24) - 1);
        *there = (draw((uint32_t)(310 + c), 0, i) >> 24) < 20 * ((uint32_t)l + 1);
        if (c == 2 && l == 0) *score = 0.25;
        if (c == 2 && (l == 1 || l == 2)) *there = l == 1;
    }
}

static double at(const json_t *golden, const char *key, int label) {
    return json_number_value(json_array_get(member(golden, key), (size_t)label));
}

static void golden_numbers(void **state) {
    static double rows[SAMPLES * 2 * LABELS];
    json_t *golden = golden_load("auc");
    for (int c = 0; c < 3; c++) {
        const json_t *expected = json_array_get(member(golden, "cases"), (size_t)c);
        ls_roc list[LABELS];
        draw_case(c, rows);
        for (int l = 0; l < LABELS; l++) {
            OK(ls_roc_find(rows, SAMPLES, LABELS, l, NULL, &list[l]));
            const json_t *area = json_array_get(member(expected, "areas"), (size_t)l);
            assert_true(json_is_null(area) == isnan(list[l].area));
            if (!json_is_null(area)) check_error("an area", fabs(list[l].area - json_number_value(area)), 1e-12);
            if (c != 1) continue;
            check_error("a precision", fabs(ls_roc_precision(&list[l]) - at(expected, "precision", l)), 1e-12);
            check_error("a recall", fabs(ls_roc_recall(&list[l]) - at(expected, "recall", l)), 1e-12);
            const json_t *curve = json_array_get(member(expected, "curves"), (size_t)l);
            for (int k = 0; k <= LS_ROC_STEPS; k++)
                check_error("a curve", fabs(list[l].curve[k] - element(curve, (size_t)k)), 1e-9);
        }
        check_error("the mean", fabs(ls_roc_mean_area(list, LABELS) - number(expected, "mean")), 1e-12);
    }
    json_decref(golden);
}

// What all writers make of a list, as one text.
static char *write_all(const ls_roc *list, int labels) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    ls_roc_print(out, list, labels);
    ls_roc_csv(out, list, labels);
    ls_roc_curves_csv(out, list, labels);
    ls_roc_svg(out, list, labels, "a <title>");
    assert_int_equal(fclose(out), 0);
    return text;
}

static void written(void **state) {
    // Scores, then what is there: of the first label both orders are right, of the second all samples have it.
    static const double rows[] = {2, 1, 1, 1, 1, -1, 0, 1, -1, 3, 1, 1};
    ls_roc list[40];
    OK(ls_roc_find(rows, 3, 2, 0, "Edema, \"left\" & <right>", &list[0]));
    OK(ls_roc_find(rows, 3, 2, 1, NULL, &list[1]));
    assert_true(list[0].area == 0.5 && list[0].said == 2 && list[0].right == 1 && list[0].there == 2);
    assert_true(isnan(list[1].area) && ls_roc_recall(&list[1]) == 2 / 3.0);
    char *text = write_all(list, 2);
    assert_non_null(strstr(text, "0.5000      50.00 %      50.00 %\n"));
    assert_non_null(
        strstr(text, "0,\"Edema, \"\"left\"\" & <right>\",2,2,1,0.5,0.5,0.5\n1,\"1\",3,2,2,,1,0.6666666666666666\n"));
    assert_non_null(strstr(text, "\n0.02,0.5,\n"));
    assert_non_null(strstr(text, "Edema, &quot;left&quot; &amp; &lt;right&gt;: 0.500"));
    assert_non_null(strstr(text, "a &lt;title&gt;"));
    assert_non_null(strstr(text, "1: none to tell apart"));
    free(text);
    // Of many labels those with the smallest areas are printed.
    for (int i = 2; i < 40; i++) list[i] = list[0], list[i].area = i == 30 ? 0.25 : 0.5 + i / 100.0;
    text = write_all(list, 40);
    assert_non_null(strstr(text, "Worst labels"));
    assert_non_null(strstr(text, "0.2500"));
    assert_null(strstr(text, "0.8900      50.00 %"));
    assert_non_null(strstr(text, "and 12 more"));
    free(text);
}

// A score that is no number leaves its label without an area; no samples at all leave all of them without.
static void no_numbers(void **state) {
    double rows[] = {2, 1, NAN, 0, -1, 1};
    ls_roc r;
    OK(ls_roc_find(rows, 3, 1, 0, NULL, &r));
    assert_true(isnan(r.area) && isnan(r.curve[7]) && r.there == 2 && r.said == 1);
    OK(ls_roc_find(rows, 0, 1, 0, NULL, &r));
    assert_true(isnan(r.area) && isnan(ls_roc_recall(&r)) && isnan(ls_roc_precision(&r)) &&
                isnan(ls_roc_mean_area(&r, 1)));
}

// Of 32 letters of two bytes there is room for 31 and a half.
static void long_names(void **state) {
    double rows[] = {2, 1};
    char name[65] = "";
    ls_roc r;
    for (int i = 0; i < 32; i++) strcat(name, "\xc3\xa9");
    OK(ls_roc_find(rows, 1, 1, 0, name, &r));
    name[62] = 0;
    assert_string_equal(r.name, name);
    char *text = write_all(&r, 1);
    json_t *whole = json_string(text);
    assert_non_null(whole);  // which it is not of half a letter
    json_decref(whole);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_numbers),
        cmocka_unit_test(written),
        cmocka_unit_test(no_numbers),
        cmocka_unit_test(long_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
