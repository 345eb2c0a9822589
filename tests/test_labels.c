// Tables of images with several labels at once: which label gets which number, which rows come of them, on any number of workers; a sentence for each
// thing that can be wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tables.h"

// Files of a few bytes: none is decoded here.
static int set_up(void **state) {
    char path[128];
    if (!mkdtemp(root)) return -1;
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "%s/%d.png", root, i);
        FILE *f = fopen(path, "wb");
        if (!f || fprintf(f, "image %d", i) < 0 || fclose(f) != 0) return -1;
    }
    return 0;
}

// "0=101 3=000": the files in order with their rows.
static void describe(const ls_source *s, char *text, size_t size) {
    void *scratch;
    ls_sample sample;
    size_t used = 0;
    assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
    for (int64_t i = 0; i < s->count; i++) {
        if (ls_source_read(s, i, scratch, &sample) != LS_OK) fail_msg("%s", ls_error_message());
        const ls_picture *p = sample.field[0];
        const uint8_t *row = sample.field[1];
        used += (size_t)snprintf(text + used, size - used, "%s%c=", i ? " " : "", ((const char *)p->bytes)[6]);
        for (int64_t k = 0; k < s->field[1].shape.dim[0]; k++)
            used += (size_t)snprintf(text + used, size - used, "%d", row[k]);
    }
    ls_memory_free(scratch);
}

static void holds(const char *table, const char *options, const char *names, const char *train, const char *test) {
    char text[512];
    uint64_t fingerprint = 0;
    write_file("t.csv", table);
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, workers, spec(options));
        assert_string_equal(w[0].message, "");
        const ls_dataset *d = w[workers - 1].dataset;
        size_t used = 0;
        for (int i = 0; ls_dataset_class(d, i); i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", ls_dataset_class(d, i));
        assert_string_equal(text, names);
        assert_int_equal(ls_dataset_classes(d), 0);
        assert_int_equal(ls_dataset_labels(d), d->train->field[1].shape.dim[0]);
        describe(d->train, text, sizeof text);
        assert_string_equal(text, train);
        assert_true(!test == !d->test);
        if (test) describe(d->test, text, sizeof text);
        if (test) assert_string_equal(text, test);
        if (!fingerprint) fingerprint = d->fingerprint;
        assert_true(fingerprint == d->fingerprint);
        team_close(&t, w);
    }
}

// As the NIH's table has it, with columns in between; quotes, and ends of lines of another system.
static void lists(void **state) {
    static const char table[] =
        "Image Index,Finding Labels,Follow-up #\r\n0.png,Mass|Edema,0\r\n1.png,No Finding,1\r\n"
        "\"2.png\",\"Edema\",2\r\n3.png,Hernia|Edema|Mass,0\r\n4.png,Mass|Edema,0\r\n";
    holds(table, "", "Edema Hernia Mass", "0=101 1=000 2=100 3=111 4=101", NULL);
    holds(table, ",validation-split=0.4", "Edema Hernia Mass", "0=101 1=000 3=111", "2=100 4=101");
    write_file("names.txt", "Mass\n\n  Edema\t\r\nHernia\n");
    holds(table, ",names=@/names.txt", "Mass Edema Hernia", "0=110 1=000 2=010 3=111 4=110", NULL);
    holds("file;what\n0.png;a|b\n1.png;nichts\n2.png;\n", ",labels=what,none=nichts", "a b", "0=11 1=00 2=00", NULL);
    holds("file,labels\n0.png,a | b\n1.png,No Finding \n2.png, b\t\n", "", "a b", "0=11 1=00 2=01", NULL);
    write_file("v.csv", "labels,file\nb,5.png\nno finding,6.png\n");
    holds("file,labels\n0.png,a|b\n1.png,a\n", ",test=@/v.csv", "a b", "0=11 1=10", "5=01 6=00");
}

static void columns(void **state) {
    static const char table[] = "path,b,note,a\n0.png,1,x,0\n1.png,0.0,y,1.0\n2.png,,z,1\n";
    holds(table, ",columns=a|b", "b a", "0=10 1=01 2=01", NULL);
    write_file("v.csv", "a,b,path\n1,0,5.png\n");
    holds(table, ",columns=a|b,test=@/v.csv", "b a", "0=10 1=01 2=01", "5=01");
    holds("path,b,a\n0.png,1,0\n1.png,0,1\n", ",columns=all,test=@/v.csv", "b a", "0=10 1=01", "5=01");
    write_file("names.txt", "a\nb\n");
    holds(table, ",columns=a|b,names=@/names.txt", "a b", "0=01 1=10 2=10", NULL);
}

// More combinations than the first table of rows has room for: each stands once.
static void combinations(void **state) {
    static char table[40000], expected[40000], text[40000];
    size_t used = (size_t)snprintf(table, sizeof table, "file,c0,c1,c2,c3,c4,c5,c6,c7,c8\n"), want = 0;
    char path[128];
    for (int i = 0; i < 600; i++) {
        int row = i % 512;
        snprintf(path, sizeof path, "%s/many-%d", root, i);
        FILE *f = fopen(path, "wb");
        assert_true(f && fputs("image x", f) >= 0 && fclose(f) == 0);
        used += (size_t)snprintf(table + used, sizeof table - used, "many-%d", i);
        want += (size_t)snprintf(expected + want, sizeof expected - want, "%sx=", i ? " " : "");
        for (int k = 0; k < 9; k++) {
            used += (size_t)snprintf(table + used, sizeof table - used, ",%d", row >> k & 1);
            want += (size_t)snprintf(expected + want, sizeof expected - want, "%d", row >> k & 1);
        }
        used += (size_t)snprintf(table + used, sizeof table - used, "\n");
    }
    write_file("t.csv", table);
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 2, spec(",columns=all"));
    assert_string_equal(w[0].message, "");
    describe(w[1].dataset->train, text, sizeof text);
    assert_string_equal(text, expected);
    team_close(&t, w);
}

static void wrong_tables(void **state) {
    const ls_status bad = LS_STATUS_BAD_DATA, asked = LS_STATUS_INVALID_ARGUMENT;
    write_file("names.txt", "a\nb\n");
    refused("file,labels\n0.png,a\n1.png,b|x\n", ",names=@/names.txt", bad, "line 3 of ");
    refused("file,labels\n0.png,a\n1.png,b|x\n", ",names=@/names.txt", bad, "has the label x, which ");
    refused("file,labels\n0.png,a\n", ",names=@/names.txt", bad, "has the label b, so nothing could be learned of it");
    refused("file,labels\n0.png,a\n1.png,b\n", ",validation-split=0.5", bad,
            "after validation-split: no sample to train on in ");
    refused("file,labels\n0.png,a\n1.png,b\n", ",validation-split=0.5", bad,
            "has the label b, so nothing could be learned of it");
    refused("file,a,b\n0.png,1,0\n", ",columns=all", bad, "has the label b, so nothing could be learned of it");
    refused("file,labels\n0.png,No Finding\n1.png,\n", "", bad, "has a label: there is nothing to tell apart");
    refused("file,labels\n0.png,a\n1.png,a|No Finding\n", "", bad, "line 3 of ");
    refused("file,labels\n0.png,a\n1.png,a|No Finding\n", "", bad, "which says that there are none");
    refused("file,labels\n0.png,a|\n", "", bad, "has an empty label between two |");
    refused("file,labels\n0.png,a|b|a\n", "", bad, "has the label a twice");
    refused("file,labels\n0.png,a\n1.png,b\n0.png,b\n", "", bad, "has two lines in ");
    write_file("v.csv", "file,labels\n0.png,a\n");
    refused("file,labels\n0.png,a\n1.png,b\n", ",test=@/v.csv", bad, "to test with: leave it out of one");
    write_file("v.csv", "file,labels\n5.png,c\n");
    refused("file,labels\n0.png,a\n1.png,b\n", ",test=@/v.csv", bad,
            "has the label c, which the training set does not have");
    write_file("v.csv", "file,label\n5.png,a\n");
    refused("file,labels\n0.png,a\n1.png,b\n", ",test=@/v.csv", bad, "names no column \"labels\"");
    refused("file,labels\n0.png,\"a\n", "", bad, "ends in quotes that were not closed");
    refused("file,labels\n0.png\n", "", bad, "has 1 columns, and the first line 2");
    refused("file,labels\n9.png,a\n", "", LS_STATUS_NOT_FOUND, "line 2 of ");
    refused("file,labels\n,a\n", "", bad, "has an empty path");
    refused("file,labels\n0.png,a\n", ",names=/nowhere/x", LS_STATUS_NOT_FOUND,
            "cannot read /nowhere/x, the list of labels");
    write_file("names.txt", "a\nb\na\n");
    refused("file,labels\n0.png,a\n", ",names=@/names.txt", bad, "has the label a again");
    write_file("names.txt", "\n");
    refused("file,labels\n0.png,a\n", ",names=@/names.txt", bad, "has no labels");
    refused("file,label\n0.png,a\n", ",names=@/names.txt,label=label", bad, "has no labels: it has one on each line");
    write_file("names.txt", "a\n");
    refused("file,label\n0.png,a\n", ",names=@/names.txt", asked, "are for several labels");
    refused("file,label\n0.png,a\n", ",labels=label,label=label", asked, "give one of them");
    refused("file,label\n0.png,a\n", ",labels=kind", bad, "names no column \"kind\"");
    refused("file,a\n0.png,1\n", ",columns=a|b", bad, "names no column \"b\"");
    refused("what,a\n0.png,1\n", ",columns=a", bad, "names no column \"file\"");
    refused("file,a,a\n0.png,1,0\n", ",columns=a", bad, "names a column twice");
    refused("file,a,\n0.png,1,0\n", ",columns=all", bad, "has a column of labels without a name");
    refused("file,a\n0.png,2\n", ",columns=a", bad, "has \"2\" for the label a: it is there, 1, or not, 0");
    refused("file,a\n0.png\n", ",columns=a", bad, "has 1 columns, and the first line 2");
    write_file("v.csv", "file,a,c\n5.png,1,0\n");
    refused("file,a\n0.png,1\n", ",columns=all,test=@/v.csv", bad, "the column c of ");
    write_file("v.csv", "file,b\n5.png,1\n");
    refused("file,a,b\n0.png,1,1\n", ",columns=all,test=@/v.csv", bad, "names no column \"a\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(columns),
        cmocka_unit_test(combinations),
        cmocka_unit_test(wrong_tables),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
