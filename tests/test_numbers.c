// Tables whose samples are numbers, and numbers that are learned: what comes of cells, on any number of workers; a sentence for each thing that can be wrong.
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

static int set_up(void **state) {
    if (!mkdtemp(root)) return -1;
    write_file("0.png", "image 0");
    write_file("1.png", "image 1");
    write_file("2.png", "image 2");
    return 0;
}

// "1,2.5=3 4,5=0": the samples' numbers, and their class or targets; of pictures "picture".
static void describe(const ls_source *s, char *text, size_t size) {
    void *scratch;
    ls_sample sample;
    size_t used = 0;
    assert_int_equal(ls_memory_alloc(s->scratch_bytes + 64, &scratch), LS_OK);
    for (int64_t i = 0; i < s->count; i++) {
        if (ls_source_read(s, i, scratch, &sample) != LS_OK) fail_msg("%s", ls_error_message());
        for (int f = 0; f < s->field_count; f++) {
            const ls_field *field = &s->field[f];
            used += (size_t)snprintf(text + used, size - used, "%s", f ? "=" : i ? " " : "");
            if (ls_field_is_picture(field)) used += (size_t)snprintf(text + used, size - used, "picture");
            for (int64_t k = 0; k < ls_shape_count(field->shape); k++) {
                double x = field->dtype == LS_DTYPE_F32  ? (double)((const float *)sample.field[f])[k]
                           : field->dtype == LS_DTYPE_U8 ? ((const uint8_t *)sample.field[f])[k]
                                                         : ((const int32_t *)sample.field[f])[k];
                used += (size_t)snprintf(text + used, size - used, "%s%g", k ? "," : "", x);
            }
        }
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
        text[0] = 0;
        for (int i = 0; ls_dataset_class(d, i); i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", ls_dataset_class(d, i));
        assert_string_equal(text, names);
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

// What is told of "t.csv".
static void notes(const char *options, const char *words) {
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 2, spec(options));
    assert_string_equal(w[0].message, "");
    const char *note = ls_dataset_note(w[0].dataset);
    if (*words ? !strstr(note, words) : *note) fail_msg("\"%s\" instead of \"%s\"", note, words);
    team_close(&t, w);
}

static void classes(void **state) {
    static const char table[] = "length;width;class\r\n5.1;3.5;setosa\n\n4.9; 3e0 ;virginica\n\"6\";-2;setosa\n";
    holds(table, ",numbers=all", "setosa virginica", "5.1,3.5=0 4.9,3=1 6,-2=0", NULL);
    holds(table, ",numbers=width", "setosa virginica", "3.5=0 3=1 -2=0", NULL);
    holds(table, ",numbers=all,validation-split=0.5", "setosa virginica", "5.1,3.5=0 4.9,3=1", "6,-2=0");
    holds(table, ",numbers=length|width,label=class", "setosa virginica", "5.1,3.5=0 4.9,3=1 6,-2=0", NULL);
    holds(table, ",numbers=width|length,label=class", "setosa virginica", "3.5,5.1=0 3,4.9=1 -2,6=0", NULL);
    write_file("v.csv", "class,note,width,length\nvirginica,x,1,2\n");
    holds(table, ",numbers=all,test=@/v.csv", "setosa virginica", "5.1,3.5=0 4.9,3=1 6,-2=0", "2,1=1");
    write_file("out", "train:1\n");
    holds(table, ",numbers=all,exclude=@/out", "setosa virginica", "5.1,3.5=0 6,-2=0", NULL);
    notes(",numbers=all,exclude=@/out", "no sample to train on has class 1 (virginica), and the network has 2");
    write_file("out", "train:0\n");
    notes(",numbers=all,exclude=@/out", "");
    // What JSON cannot hold.
    write_file("t.csv", "a,L\xE4nge,class\n1,2,x\n3,4,y\n");
    notes(",numbers=all", "the name of the column of number 1 of a sample is not UTF-8");
    write_file("t.csv", "a,L\xC3\xA4nge,class\n1,2,x\n3,4,y\n");
    notes(",numbers=all", "");
    // No classes: for what learns its input.
    holds("a,b\n1,2\n3,4\n", ",numbers=all", "", "1,2 3,4", NULL);
}

// As people hand MNIST around: a digit and its pixels.
static void pixels(void **state) {
    static const char table[] = "label,p0,p1,p2,p3\n7,0,255,3,4\n0,9,8,7.0,6\n";
    holds(table, ",pixels=2x2x1", "", "0,255,3,4=7 9,8,7,6=0", NULL);
    for (int floats = 0; floats < 2; floats++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, 1, spec(floats ? ",numbers=all,shape=1x2x2" : ",pixels=2x2"));
        const ls_field *image = &w[0].dataset->train->field[0];
        assert_int_equal(image->dtype, floats ? LS_DTYPE_F32 : LS_DTYPE_U8);
        assert_int_equal(image->shape.dim[0], floats ? 1 : 2);
        assert_int_equal(image->shape.dim[2], floats ? 2 : 1);
        assert_int_equal(ls_dataset_classes(w[0].dataset), 8);
        team_close(&t, w);
    }
}

static void targets(void **state) {
    holds("a,b,price,age\n1,2,3.5,7\n4,5,-1e3,8\n1,1,3.5,7\n", ",numbers=a|b,targets=age|price", "price age",
          "1,2=3.5,7 4,5=-1000,8 1,1=3.5,7", NULL);
    write_file("v.csv", "age,file\n4,2.png\n");
    holds("file,age\n0.png,30.5\n1.png,-2\n", ",targets=age,test=@/v.csv", "age", "picture=30.5 picture=-2",
          "picture=4");
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, spec(",targets=age"));
    assert_int_equal(ls_dataset_targets(w[0].dataset), 1);
    assert_int_equal(ls_dataset_labels(w[0].dataset), 0);
    assert_int_equal(ls_dataset_classes(w[0].dataset), 0);
    team_close(&t, w);
}

// Images that are learned of images: both are in a sample, and stay together.
static void images(void **state) {
    write_file("v.csv", "clean,file\n0.png,1.png\n");
    holds("file,clean\n0.png,1.png\n2.png,0.png\n", ",target=clean,test=@/v.csv", "", "picture=picture picture=picture",
          "picture=picture");
    holds("file,clean\n0.png,1.png\n2.png,0.png\n1.png,2.png\n", ",target=clean,validation-split=0.5", "",
          "picture=picture picture=picture", "picture=picture");
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, spec(",target=clean,validation-split=0.5"));
    const ls_source *s = w[0].dataset->train;
    void *scratch;
    assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
    for (int i = 0; i < 2; i++) {
        ls_sample sample;
        assert_int_equal(ls_source_read(s, i, scratch, &sample), LS_OK);
        assert_memory_equal(((const ls_picture *)sample.field[0])->bytes, i ? "image 1" : "image 0", 7);
        assert_memory_equal(((const ls_picture *)sample.field[1])->bytes, i ? "image 2" : "image 1", 7);
    }
    assert_int_equal(ls_dataset_targets(w[0].dataset), 0);
    ls_memory_free(scratch);
    team_close(&t, w);
}

// What a sample of such a table has: number k is of the column of that name, and the class is the last one's.
static void check_line(const ls_source *s, int64_t i, void *scratch, int line, int width, int pixels) {
    ls_sample sample;
    if (ls_source_read(s, i, scratch, &sample) != LS_OK) fail_msg("%s", ls_error_message());
    for (int k = 0; k < width; k++)
        assert_true(pixels ? ((const uint8_t *)sample.field[0])[k] == (line + k) % 256
                           : ((const float *)sample.field[0])[k] == (float)((line + k) % 256) / 4);
    assert_int_equal(*(const int32_t *)sample.field[1], line % 2);
    assert_int_equal(s->ops->class(s, i), line % 2);
}

static char *add_line(char *to, int line, int width, int pixels, int backwards) {
    for (int k = 0; k < width; k++) {
        int at = backwards ? width - 1 - k : k;
        to += line < 0 ? sprintf(to, "c%d,", at)
                       : sprintf(to, k % 3 ? "%g," : "\"%g\",", pixels ? (line + at) % 256 : (line + at) % 256 / 4.0);
    }
    return to + sprintf(to, line < 0 ? "class\r\n" : line == 5 ? "%s" : "%s\r\n", line % 2 ? "y" : "x");
}

// Long lines are not kept in memory: they are read again when they are wanted, those of a test set in their own order; in a cache, and never of a file that has changed.
static void long_lines(void **state) {
    static char text[60000];
    for (int pixels = 0; pixels < 2; pixels++) {
        int width = pixels ? 260 : 65;
        char options[100], *to = text, path[100];
        team t = TEAM;
        worker w[WORKERS_MAX];
        void *scratch, *memory;
        to = add_line(to, -1, width, pixels, 1);
        for (int line = 2; line < 4; line++) to = add_line(to, line, width, pixels, 1);
        write_file("v.csv", text);
        to = text + sprintf(text, "\xef\xbb\xbf");
        for (int line = -1; line < 6; line++) to = add_line(to, line, width, pixels, 0);
        write_file("t.csv", text);
        snprintf(options, sizeof options, pixels ? ",pixels=%dx1,test=@/v.csv" : ",numbers=all,test=@/v.csv", width);
        team_open(&t, w, 2, spec(options));
        assert_string_equal(w[0].message, "");
        ls_source *s = w[1].dataset->train, *test = w[1].dataset->test;
        assert_true(s->bytes > 0 && test->bytes == 0 && s->count == 6 && test->count == 2 &&
                    s->ops->stored(s) > 6 * 2 * width);
        assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
        int64_t size = s->ops->cache_size(s, 1 << 20);
        assert_int_equal(ls_memory_alloc(size, &memory), LS_OK);
        s->ops->cache_attach(s, 1 << 20, memory, 1);
        for (int i = 0; i < 6; i++) check_line(s, i, scratch, i, width, pixels);
        for (int i = 0; i < 2; i++) check_line(test, i, scratch, 2 + i, width, pixels);
        snprintf(path, sizeof path, "%s/t.csv", root);
        assert_int_equal(truncate(path, 100), 0);
        for (int i = 0; i < 6; i++) check_line(s, i, scratch, i, width, pixels);
        ls_sample sample;
        const ls_source *other = w[0].dataset->train;
        assert_int_equal(ls_source_read(other, 0, scratch, &sample), LS_STATUS_IO);
        assert_non_null(strstr(ls_error_message(), "was changed since this run began"));
        ls_memory_free(memory);
        ls_memory_free(scratch);
        team_close(&t, w);
    }
}

static void wrong_tables(void **state) {
    const ls_status bad = LS_STATUS_BAD_DATA, asked = LS_STATUS_INVALID_ARGUMENT;
    refused("a,label\n1,x\ntwo,x\n", ",numbers=all", bad, "line 3 of ");
    refused("a,label\n1,x\ntwo,x\n", ",numbers=all", bad,
            "has \"two\" in the column a: give each sample a finite number");
    refused("a,label\n,x\n", ",numbers=all", bad, "has \"\" in the column a");
    refused("a,label\nnan,x\n", ",numbers=all", bad, "has \"nan\" in the column a");
    refused("a,label\n1e99,x\n", ",numbers=all", bad, "has \"1e99\" in the column a");
    refused("a,label\n1 2,x\n", ",numbers=all", bad, "has \"1 2\" in the column a");
    refused("a,label\n256,x\n", ",pixels=1x1", bad, "a pixel is a whole number from 0 to 255");
    refused("a,label\n2.5,x\n", ",pixels=1x1", bad, "a pixel is a whole number from 0 to 255");
    refused("a,y\n1,\n", ",numbers=a,targets=y", bad, "has \"\" in the column y");
    refused("a,label\n1\n", ",numbers=all", bad, "has 1 columns, and the first line 2");
    refused("a,label\n1,\n", ",numbers=all", bad, "has an empty path or class");
    refused("a,b,label\n1,2,x\nn,3,4,y\n", ",numbers=all", bad, "line 3 of ");
    refused("\"a\",\"label\"\n\"1\",2,\"x\"\n", ",numbers=all", bad, "has 3 columns, and the first line 2");
    refused("a,label\r1,x\r", ",numbers=all", bad, "line 1 of");
    refused("a,label,Class\n1,x,y\n", ",numbers=a", bad, "names the columns \"label\" and \"Class\"");
    refused("a,label,label\n1,x,y\n", ",numbers=a,label=label", bad, "and either could be meant");
    refused("a,label\n", ",numbers=all", bad, "has no samples: its first line names the columns");
    refused("", ",numbers=all", bad, "has no samples");
    refused("a,label\n1,x\n", ",numbers=b", bad, "names no column \"b\"");
    refused("a,label\n1,x\n", ",numbers=a,label=kind", bad, "names no column \"kind\"");
    refused("a,label\n1,x\n", ",numbers=a,targets=y", bad, "names no column \"y\"");
    refused("label\nx\n", ",numbers=all", bad, "names no column \"all\"");
    refused("a,a,label\n1,2,x\n", ",numbers=all", bad, "names a column twice");
    write_file("v.csv", "label,b\nx,1\n");
    refused("a,label\n1,x\n", ",numbers=all,test=@/v.csv", bad, "names no column \"a\"");
    write_file("v.csv", "label,a\nz,1\n");
    refused("a,label\n1,x\n", ",numbers=all,test=@/v.csv", bad, "has a class that the training set does not have");
    refused("a,label\n1,x\n", ",numbers=all,test=@/nowhere.csv", LS_STATUS_NOT_FOUND, "nowhere.csv");
    refused("a,label\n1,x\n", ",numbers=all,test=@/v.csv,validation-split=0.5", asked, "leave one out");
    write_file("v.csv", "a\n1\n");
    refused("a,label\n1,x\n", ",numbers=all,test=@/v.csv", bad, "names no column of classes, and that of the table");
    write_file("v.csv", "a,label\n1,x\n");
    refused("a\n1\n", ",numbers=all,test=@/v.csv", bad, "and that of the table to train on does not: give both one");
    refused("a,label\n1,x\n", ",numbers=all,shape=2x2x1", asked, "has 1 columns of numbers, and 2x2x1 is no shape");
    refused("a,label\n1,x\n", ",numbers=all,shape=1", asked, "is no shape of so many");
    refused("a,label\n1,x\n", ",pixels=9999999x9999999x9999999", asked, "is no shape of so many");
    refused("a,label\n1,x\n", ",pixels=1x1,shape=1x1", asked, "leave shape out");
    refused("a,label\n1,x\n", ",numbers=all,root=@", asked, "the other options are for tables of images");
    refused("a,label\n1,x\n", ",numbers=all,label=label,targets=a", asked, "give one of them");
    write_file("out", "0.png\n");
    refused("a,label\n1,x\n", ",numbers=all,exclude=@/out", bad, "have numbers alone");
    // Of images.
    refused("file,age\n0.png,old\n", ",targets=age", bad, "line 2 of ");
    refused("file,age\n0.png,old\n", ",targets=age", bad, "has \"old\" for the target age");
    refused("file,clean\n0.png,9.png\n", ",target=clean", LS_STATUS_NOT_FOUND, "line 2 of ");
    refused("file,clean\n0.png,1.png\n", ",target=other", bad, "names no column \"other\"");
    refused("file,clean\n0.png\n", ",target=clean", bad, "has 1 columns, and the first line 2");
    refused("file,clean\n0.png,\n", ",target=clean", bad, "has an empty path");
    refused("file,clean\n0.png,1.png\n", ",target=clean,label=clean", asked, "give one of them");
    refused("file,age\n0.png,3\n", ",targets=size", bad, "names no column \"size\"");
    refused("file,age\n0.png,3\n", ",targets=file", bad, "has the paths in the column file, which is no target");
    refused("file,age\n0.png,3\n", ",targets=age,labels=age", asked, "give one of them");
    refused("file\n0.png\n", ",targets=all", bad, "has the paths in the column file, which is no target");
    refused("file,age\n0.png\n", ",targets=age", bad, "has 1 columns, and the first line 2");
}

// Of few numbers the fingerprint is theirs, not that of the file that they are written in.
// A line has a limit, and a hole of a terabyte is no text.
static void no_lines(void **state) {
    size_t size = (size_t)17 << 20;
    char *line = malloc(size + 1), path[128];
    memset(line, 'a', size);
    line[size] = 0;
    refused(line, ",numbers=all", LS_STATUS_BAD_DATA, "has more than 16 MB: it is no text in lines");
    free(line);
    snprintf(path, sizeof path, "%s/hole.csv", root);
    write_file("hole.csv", "a,label\n");
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    refused("a,label\n1,x\n", ",numbers=all,test=@/hole.csv", LS_STATUS_BAD_DATA, "line 2 of");
    refused("a,label\n1,x\n", ",numbers=all,test=@/hole.csv", LS_STATUS_BAD_DATA, "has a zero byte");
}

static void one_fingerprint(void **state) {
    static const char *const tables[] = {"a,b,class\n1.5,2,0\n3,4,1\n", "a,b,class\n1.50,2.0,0\n3,4,1\n",
                                         "a,b,class\n1.5,2,0\n3,5,1\n"};
    uint64_t seen[3];
    for (int k = 0; k < 3; k++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        write_file("t.csv", tables[k]);
        team_open(&t, w, 1, spec(",numbers=a|b,label=class"));
        assert_string_equal(w[0].message, "");
        seen[k] = w[0].dataset->fingerprint;
        team_close(&t, w);
    }
    assert_true(seen[0] == seen[1] && seen[0] != seen[2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_fingerprint), cmocka_unit_test(classes),    cmocka_unit_test(pixels),
        cmocka_unit_test(targets),         cmocka_unit_test(images),     cmocka_unit_test(wrong_tables),
        cmocka_unit_test(no_lines),        cmocka_unit_test(long_lines),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
