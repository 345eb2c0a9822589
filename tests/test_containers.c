// Containers: what is written is read, on any number of workers; forms that others write; a sentence for everything that can be wrong with one.
#include "containers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "data/records.h"
#include "data_team.h"

static char root[] = "/tmp/lockstep-containers-XXXXXX";

static int set_up(void **state) { return mkdtemp(root) ? 0 : -1; }

static int tear_down(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static const char *at(const char *name) {
    static char text[2][256];
    static int turn;
    turn = 1 - turn;
    snprintf(text[turn], sizeof text[turn], "%s/%s", root, name);
    return text[turn];
}

static void save(const char *name, const void *bytes, size_t size) {
    image_file f = {NULL, 0, 0};
    image_add(&f, bytes, size);
    assert_true(image_save(f, at(name)));
}

// --- reading ---------------------------------------------------------------------------------------------------------

static void is_sample(const ls_source *s, int64_t i, int number, int class) {
    void *scratch;
    ls_sample sample;
    image_file expected = container_image(number);
    assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
    if (ls_source_read(s, i, scratch, &sample) != LS_OK) fail_msg("%s", ls_error_message());
    const ls_picture *p = sample.field[0];
    assert_int_equal(p->size, expected.size);
    assert_memory_equal(p->bytes, expected.bytes, expected.size);
    assert_int_equal(*(const int32_t *)sample.field[1], class);
    ls_memory_free(scratch);
    free(expected.bytes);
}

static void written_is_read(void **state) {
    for (int format = 0; format < CONTAINERS; format++) {
        uint64_t fingerprint = 0;
        image_file f = container_make(format);
        char spec[700];
        save("a-000.x", f.bytes, f.size);
        save("a-001.x", f.bytes, f.size);
        save("v.x", f.bytes, f.size);
        free(f.bytes);
        for (int workers = 1; workers <= WORKERS_MAX; workers++) {
            team t = TEAM;
            worker w[WORKERS_MAX];
            snprintf(spec, sizeof spec, "%s:%s,test=%s", container_formats[format],
                     workers == 1 ? at("a-*.x") : at("a-{000..001}.x"), at("v.x"));
            team_open(&t, w, workers, spec);
            assert_string_equal(w[0].message, "");
            const ls_dataset *d = w[workers - 1].dataset;
            assert_true(d->train->count == 2 * CONTAINER_SAMPLES && d->test->count == CONTAINER_SAMPLES);
            assert_true(ls_dataset_classes(d) == 3 && !ls_dataset_class(d, 0));
            for (int i = 0; i < CONTAINER_SAMPLES; i++) {
                is_sample(d->train, i, i, i % 3);
                is_sample(d->train, CONTAINER_SAMPLES + i, i, i % 3);
                is_sample(d->test, i, i, i % 3);
            }
            assert_int_equal(d->train->picture_bytes, 6 * 6 * 3);
            if (!fingerprint) fingerprint = d->fingerprint;
            assert_true(fingerprint == d->fingerprint);
            team_close(&t, w);
        }
        team t = TEAM;
        worker w[WORKERS_MAX];
        snprintf(spec, sizeof spec, "%s:%s,validation-split=0.4,channels=1", container_formats[format], at("v.x"));
        team_open(&t, w, 1, spec);
        assert_string_equal(w[0].message, "");
        assert_true(w[0].dataset->train->count == 3 && w[0].dataset->test->count == 2);
        is_sample(w[0].dataset->test, 0, 2, 2);
        team_close(&t, w);
    }
}

static void refused(const char *format, const char *options, ls_status status, const char *words) {
    char spec[400];
    team t = TEAM;
    worker w[WORKERS_MAX];
    snprintf(spec, sizeof spec, "%s:%s%s", format, at("x"), options);
    team_open(&t, w, 2, spec);
    if (w[0].status != status || !strstr(w[0].message, words) || !strstr(w[0].message, root))
        fail_msg("%s instead of \"%s\": %s", ls_status_name(w[0].status), words, w[0].message);
    team_close(&t, w);
}

// Cut off anywhere: refused, with the place, or (behind a sample) shorter; never more than there is.
static void cut_off(void **state) {
    for (int format = 0; format < CONTAINERS; format++) {
        image_file f = container_make(format);
        char spec[400];
        int opened = 0;
        int padded = format == 0 || format == CONTAINER_LMDB;  // blocks, pages
        for (size_t n = 0; n < f.size; n += padded ? 64 : 7) {
            team t = TEAM;
            worker w[WORKERS_MAX];
            save("x", f.bytes, n);
            snprintf(spec, sizeof spec, "%s:%s", container_formats[format], at("x"));
            team_open(&t, w, 1, spec);
            if (w[0].status == LS_OK) {
                assert_true(padded ? w[0].dataset->train->count == CONTAINER_SAMPLES && n % 512 == 0
                                   : w[0].dataset->train->count < CONTAINER_SAMPLES);
                opened++;
            } else if (!strstr(w[0].message, "is damaged at byte") && !strstr(w[0].message, "has no")) {
                fail_msg("%d bytes of %s: %s", (int)n, container_formats[format], w[0].message);
            }
            team_close(&t, w);
        }
        assert_true(opened < CONTAINER_SAMPLES + 1);
        free(f.bytes);
    }
}

static void damaged(void **state) {
    static const char *const first[] = {"it is no tar archive", "it is no TFRecord file, by its first checksum",
                                        "it is no RecordIO file, by its first bytes"};
    for (int format = 0; format < CONTAINER_STREAMS; format++) {
        image_file f = container_make(format);
        save("x", "hello, hello, hello, hello, hello", 33);
        refused(container_formats[format], "", LS_STATUS_BAD_DATA, first[format]);
        f.bytes[0] ^= 1;
        save("x", f.bytes, f.size);
        refused(container_formats[format], "", LS_STATUS_BAD_DATA, first[format]);
        f.bytes[0] ^= 1;
        save("x", f.bytes, f.size);
        refused(container_formats[format], ",first-class=1", LS_STATUS_BAD_DATA, "has class 0, and the first is 1");
        refused(container_formats[format], ",test=x,validation-split=0.5", LS_STATUS_INVALID_ARGUMENT, "leave one out");
        refused(container_formats[format], ",channels=2", LS_STATUS_INVALID_ARGUMENT, "channels is 1, grey, or 3");
        refused(container_formats[format], "-nothing-*", LS_STATUS_NOT_FOUND, "no file matches");
        refused(container_formats[format], "-nothing", LS_STATUS_NOT_FOUND, "cannot read");
        free(f.bytes);
    }
    // A pipe that nobody writes to is not waited for.
    assert_true(unlink(at("x")) == 0 && mkfifo(at("x"), 0600) == 0);
    refused("tar", "", LS_STATUS_IO, "it is no file");
    refused("recordio", "", LS_STATUS_IO, "it is no file");
    assert_int_equal(unlink(at("x")), 0);
    save("x", "\x1f\x8b\x08\0 more than twelve bytes", 24);
    refused("tfrecord", "", LS_STATUS_UNSUPPORTED, "is compressed");
    char zeros[1024] = "\x1f\x8b";
    save("x", zeros, sizeof zeros);
    refused("tar", "", LS_STATUS_UNSUPPORTED, "is compressed");
}

// --- TFRecord --------------------------------------------------------------------------------------------------------

static void examples(void **state) {
    assert_int_equal(ls_crc32c("123456789", 9), 0xe3069283);  // RFC 3720's own
    unsigned char ones[32];
    memset(ones, 255, sizeof ones);
    assert_int_equal(ls_crc32c(ones, 32), 0x62a8ab43);
    assert_int_equal(ls_crc32c_more(ls_crc32c("1234", 4), "56789", 5), 0xe3069283);
    // The label in front, not packed (08 05); an unknown field and a float feature beside; the image second of the usual names.
    static const char good[] =
        "\x0a\x37"
        "\x0a\x0d\x0a\x05label\x12\x04\x1a\x02\x08\x05"
        "\x0a\x0f\x0a\x05width\x12\x06\x12\x04\x0a\x02zz"
        "\x18\x07"
        "\x0a\x13\x0a\x05image\x12\x0a\x0a\x08\x0a\x06"
        "PIXELS";
    image_file f = {NULL, 0, 0};
    container_record(&f, good, sizeof good - 1);
    save("x", f.bytes, f.size);
    ls_data_host *host;
    ls_dataset *d;
    void *scratch;
    ls_sample sample;
    char spec[400];
    snprintf(spec, sizeof spec, "tfrecord:%s", at("x"));
    assert_int_equal(ls_data_host_create_self(&host), LS_OK);
    if (ls_data_open(host, spec, &d) != LS_OK) fail_msg("%s", ls_error_message());
    assert_int_equal(ls_memory_alloc(d->train->scratch_bytes, &scratch), LS_OK);
    assert_int_equal(ls_source_read(d->train, 0, scratch, &sample), LS_OK);
    assert_int_equal(*(const int32_t *)sample.field[1], 5);
    assert_memory_equal(((const ls_picture *)sample.field[0])->bytes, "PIXELS", 6);
    ls_data_close(&d);
    refused("tfrecord", ",image=jpeg", LS_STATUS_BAD_DATA, "has no image \"jpeg\": image=NAME names the feature");
    refused("tfrecord", ",label=klass", LS_STATUS_BAD_DATA, "has no class \"klass\": label=NAME names the feature");
    // Changed bytes are found when a sample is read.
    f.bytes[f.size - 6] ^= 1;
    save("x", f.bytes, f.size);
    assert_true(ls_data_open(host, spec, &d) != LS_OK && strstr(ls_error_message(), "another checksum"));
    free(f.bytes);
    static const char *const broken[] = {"\x0a\177abc", "\x0a\x02\x0a\x09", "\x0f\x01",
                                         "\x0a\x0b\x0a\x09\x0a\x01q\x12\x04\x1a\x02\x08\xff"};
    for (size_t i = 0; i < 4; i++) {
        f = (image_file){NULL, 0, 0};
        container_record(&f, broken[i], strlen(broken[i]));
        save("x", f.bytes, f.size);
        free(f.bytes);
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, 1, spec);
        if (w[0].status != LS_STATUS_BAD_DATA) fail_msg("message %d: %s", (int)i, w[0].message);
        team_close(&t, w);
    }
    ls_memory_free(scratch);
    ls_data_host_destroy_self(&host);
}

// Several labels of a record: 1 and 0 for each, whole or floating, packed or not, or the numbers of those that are there.
static void lists_of_labels(void **state) {
    static const struct {
        const char *options, *feature[3];
        size_t size[3];
    } kinds[] = {
        {",labels=l", {"\x1a\5\x0a\3\1\0\1", "\x1a\6\x08\0\x08\0\x08\0", "\x1a\7\x0a\2\1\0\x0a\1\1"}, {7, 8, 9}},
        {",labels=l",
         {"\x12\x0e\x0a\x0c\0\0\x80\x3f\0\0\0\0\0\0\x80\x3f", "\x12\x0f\x0d\0\0\0\0\x0d\0\0\0\0\x0d\0\0\0\0",
          "\x12\x0e\x0a\x0c\0\0\x80\x3f\0\0\0\0\0\0\x80\x3f"},
         {16, 17, 16}},
        {",labels=l,label-count=3", {"\x1a\4\x0a\2\2\0", "", "\x1a\4\x08\0\x08\2"}, {6, 0, 6}},
        {",labels=l,label-count=3,first-class=1",
         {"\x1a\4\x0a\2\3\1", "\x1a\2\x0a\0", "\x1a\4\x08\1\x08\3"},
         {6, 4, 6}}};
    static const uint8_t expected[3][3] = {{1, 0, 1}, {0, 0, 0}, {1, 0, 1}};
    char spec[400];
    image_file f = {NULL, 0, 0};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        ls_sample sample;
        void *scratch;
        f.size = 0;
        for (int i = 0; i < 3; i++) container_example(&f, kinds[k].feature[i], kinds[k].size[i]);
        save("x", f.bytes, f.size);
        snprintf(spec, sizeof spec, "tfrecord:%s%s", at("x"), kinds[k].options);
        team_open(&t, w, 2, spec);
        if (w[0].message[0]) fail_msg("kind %d: %s", (int)k, w[0].message);
        const ls_source *s = w[1].dataset->train;
        assert_int_equal(ls_dataset_labels(w[0].dataset), 3);
        assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ls_source_read(s, i, scratch, &sample), LS_OK);
            assert_memory_equal(sample.field[1], expected[i], 3);
            assert_memory_equal(((const ls_picture *)sample.field[0])->bytes, "PIXELS", 6);
        }
        ls_memory_free(scratch);
        team_close(&t, w);
    }
    static const struct {
        const char *options, *feature, *words;
        size_t size;
    } wrong[] = {
        {",label=l", "\x1a\5\x0a\3\0\1\0", "has several values in \"l\": a class is one", 7},
        {",label=l", "\x1a\4\x08\0\x08\1", "has several values in \"l\": a class is one", 6},
        {",labels=l", "\x1a\3\x0a\1\2", "has 2 for label 0: each is 1, there, or 0, not there", 5},
        {",labels=l", "\x1a\3\x0a\1\1", "has 1 labels in \"l\": several have two or more", 5},
        {",labels=l", "\x12\6\x0a\4\0\0\xc0\x7f", "has -1e+15 for label 0", 8},
        {",labels=m", "\x1a\3\x0a\1\1", "has no labels \"m\": labels=NAME names the feature", 5},
        {",labels=l,label-count=2", "\x1a\3\x0a\1\2", "has label number 2, and there are 2, from 0 on", 5},
        {",labels=l,label-count=3", "\x12\6\x0a\4\0\0\xc0\x3f", "has label number 1.5, and there are 3, from 0 on", 8},
        {",labels=l,label=l", "", "give one of them", 0},
        {",label-count=2", "", "add labels=NAME", 0}};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        f.size = 0;
        container_example(&f, wrong[k].feature, wrong[k].size);
        save("x", f.bytes, f.size);
        refused("tfrecord", wrong[k].options, k < 8 ? LS_STATUS_BAD_DATA : LS_STATUS_INVALID_ARGUMENT, wrong[k].words);
    }
    refused("tar", ",labels=l", LS_STATUS_INVALID_ARGUMENT, "labels=NAME is for tfrecord");
    free(f.bytes);
}

// --- RecordIO --------------------------------------------------------------------------------------------------------

// A picture with the magic number in it, at a multiple of four and not: the first is cut and put together again.
static void magic_inside(void **state) {
    unsigned char picture[61];
    for (size_t i = 0; i < sizeof picture; i++) picture[i] = (unsigned char)i;
    memcpy(picture + 8, "\x0a\x23\xd7\xce\x0a\x23\xd7\xce", 8);
    memcpy(picture + 29, "\x0a\x23\xd7\xce", 4);
    memcpy(picture + 56, "\x0a\x23\xd7\xce", 4);
    image_file f = {NULL, 0, 0};
    FILE *file = open_memstream((char **)&f.bytes, &f.size);
    const ls_writer *w = ls_writer_find("recordio");
    for (int i = 0; i < 2; i++)
        w->add(file, &(ls_written){.number = i, .image = picture, .size = sizeof picture, .ending = "jpg", .class = 4});
    fclose(file);
    save("x", f.bytes, f.size);
    int cuts = 0;
    for (size_t i = 0; i + 4 <= f.size; i += 4) cuts += memcmp(f.bytes + i, "\x0a\x23\xd7\xce", 4) == 0;
    assert_int_equal(cuts, 2 * 4);
    ls_data_host *host;
    ls_dataset *d;
    void *scratch;
    ls_sample sample;
    char spec[400];
    snprintf(spec, sizeof spec, "recordio:%s", at("x"));
    assert_int_equal(ls_data_host_create_self(&host), LS_OK);
    if (ls_data_open(host, spec, &d) != LS_OK) fail_msg("%s", ls_error_message());
    assert_int_equal(d->train->count, 2);
    assert_int_equal(ls_memory_alloc(d->train->scratch_bytes, &scratch), LS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ls_source_read(d->train, i, scratch, &sample), LS_OK);
        const ls_picture *p = sample.field[0];
        assert_int_equal(p->size, sizeof picture);
        assert_memory_equal(p->bytes, picture, sizeof picture);
    }
    ls_data_close(&d);
    // One label in an array, as mxnet packs lists.
    unsigned char record[8 + 28 + 4] = {0x0a, 0x23, 0xd7, 0xce, 32, 0, 0, 0, 1};
    const float label = 2;
    memcpy(record + 8 + 24, &label, 4);
    memcpy(record + 36, "JPEG", 4);
    save("x", record, sizeof record);
    if (ls_data_open(host, spec, &d) != LS_OK) fail_msg("%s", ls_error_message());
    assert_int_equal(ls_source_read(d->train, 0, scratch, &sample), LS_OK);
    assert_int_equal(*(const int32_t *)sample.field[1], 2);
    assert_memory_equal(((const ls_picture *)sample.field[0])->bytes, "JPEG", 4);
    ls_data_close(&d);
    ls_memory_free(scratch);
    ls_data_host_destroy_self(&host);
    save("x", f.bytes, f.size - 1);  // of what fills up to four
    refused("recordio", "", LS_STATUS_BAD_DATA, "a record longer than the file");
    record[8] = 14;
    save("x", record, sizeof record);
    refused("recordio", "", LS_STATUS_BAD_DATA, "a record without an image");
    record[8] = 0, record[11] = 1;
    save("x", record, sizeof record);
    refused("recordio", "", LS_STATUS_BAD_DATA, "has 16777216 labels; there may be up to 10000");
    record[11] = 0;
    record[8] = 0;
    const float half = 0.5f;
    memcpy(record + 12, &half, 4);
    save("x", record, sizeof record);
    refused("recordio", "", LS_STATUS_BAD_DATA, "has the label 0.5: class numbers are whole");
    record[7] = 0x40;
    save("x", record, sizeof record);
    refused("recordio", "", LS_STATUS_BAD_DATA, "a record without its beginning");
    free(f.bytes);
}

// A record of an image of four bytes with a row of labels, as im2rec --pack-label writes it.
static void add_labels(image_file *f, const float *label, uint32_t count) {
    uint32_t head[2 + 6] = {0xced7230a, 24 + 4 * count + 4, count};
    image_add(f, head, sizeof head);
    image_add(f, label, 4 * count);
    image_add(f, "JPEG", 4);
}

// Several labels for each sample: rows of 0 and 1, as many in all of them.
static void rows_of_labels(void **state) {
    static const float labels[3][3] = {{1, 0, 1}, {0, 0, 0}, {1, 0, 1}};
    image_file f = {NULL, 0, 0};
    for (int i = 0; i < 3; i++) add_labels(&f, labels[i], 3);
    save("x", f.bytes, f.size);
    char spec[400];
    snprintf(spec, sizeof spec, "recordio:%s", at("x"));
    for (int workers = 1; workers <= 2; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        ls_sample sample;
        void *scratch;
        team_open(&t, w, workers, spec);
        assert_string_equal(w[0].message, "");
        const ls_source *s = w[workers - 1].dataset->train;
        assert_true(ls_dataset_labels(w[0].dataset) == 3 && ls_dataset_classes(w[0].dataset) == 0);
        assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ls_source_read(s, i, scratch, &sample), LS_OK);
            const uint8_t *row = sample.field[1];
            for (int k = 0; k < 3; k++) assert_true(row[k] == labels[i][k]);
            assert_memory_equal(((const ls_picture *)sample.field[0])->bytes, "JPEG", 4);
        }
        ls_memory_free(scratch);
        team_close(&t, w);
    }
    add_labels(&f, labels[0], 2);
    save("x", f.bytes, f.size);
    refused("recordio", "", LS_STATUS_BAD_DATA, "has 2 labels, and those before it have 3");
    f.size -= 8 + 24 + 8 + 4;
    add_labels(&f, (const float[]){1}, 1);
    save("x", f.bytes, f.size);
    refused("recordio", "", LS_STATUS_BAD_DATA, "has 1 labels, and those before it have 3");
    f.size = 0;
    for (int i = 0; i < 2; i++) add_labels(&f, (const float[]){i == 0, i == 1}, 2);
    save("x", f.bytes, f.size);
    refused("recordio", "", LS_STATUS_BAD_DATA, "each sample has exactly one of its 2 labels, so these are classes");
    f.size = 0;
    add_labels(&f, (const float[]){1, 0.5f}, 2);
    save("x", f.bytes, f.size);
    refused("recordio", "", LS_STATUS_BAD_DATA, "and number 1 of them is 0.5: each is 1, there, or 0, not there");
    free(f.bytes);
}

// --- tar -------------------------------------------------------------------------------------------------------------

static void shell(const char *command) {
    char line[1024];
    snprintf(line, sizeof line, "cd '%s' && %s", root, command);
    assert_int_equal(system(line), 0);
}

// Archives of other programs: long names, folders, pax headers, other members in between.
static void tar_programs(void **state) {
    static const char *const forms[] = {"--format=gnu", "--format=pax", "--format=ustar"};
    char deep[300] = "", command[900], spec[400];
    for (int i = 0; i < 9; i++) strcat(deep, "a-folder-with-a-name/");
    snprintf(command, sizeof command, "rm -rf in && mkdir -p 'in/%s'", deep);
    shell(command);
    for (int i = 0; i < 3; i++) {
        char name[700], class[8];
        image_file image = container_image(i);
        snprintf(name, sizeof name, "in/%ss%d.seg.png", deep, i);
        snprintf(class, sizeof class, "%d\n", 2 - i);
        save(name, "not the image", 13);
        snprintf(name, sizeof name, "in/%ss%d.PNG", deep, i);
        save(name, image.bytes, image.size);
        snprintf(name, sizeof name, "in/%ss%d.cls", deep, i);
        save(name, class, strlen(class));
        free(image.bytes);
    }
    for (int form = 0; form < 3; form++) {
        snprintf(command, sizeof command, "rm -f x && tar --sort=name %s -cf x in", forms[form]);
        shell(command);
        ls_data_host *host;
        ls_dataset *d;
        assert_int_equal(ls_data_host_create_self(&host), LS_OK);
        snprintf(spec, sizeof spec, "tar:%s", at("x"));
        if (ls_data_open(host, spec, &d) != LS_OK) fail_msg("%s: %s", forms[form], ls_error_message());
        assert_int_equal(d->train->count, 3);
        for (int i = 0; i < 3; i++) is_sample(d->train, i, i, 2 - i);
        ls_data_close(&d);
        ls_data_host_destroy_self(&host);
    }
    shell("rm -rf in/* x && echo 1 >in/a.cls && echo x >in/b.jpg && tar --sort=name -cf x in");
    refused("tar", "", LS_STATUS_BAD_DATA, "the sample in/a at byte");
    shell("echo x >in/a.jpg && echo dog >in/b.cls && tar --sort=name -cf x in");
    refused("tar", "", LS_STATUS_BAD_DATA, "in/b.cls at byte 3072 is no class number in text");
    shell("echo 1 >in/b.cls && echo x >in/b.jpg && echo x >in/b.png && tar --sort=name -cf x in");
    refused("tar", "", LS_STATUS_BAD_DATA, "the sample in/b has a second image, in/b.png at byte");
    shell("rm in/b.png && ln in/a.jpg in/c.jpg && ln in/a.cls in/c.cls && tar --sort=name -cf x in");
    refused("tar", "", LS_STATUS_UNSUPPORTED, "in/c.cls at byte 5120 is a link, or sparse");
    shell("tar --sort=name -cf y in/b.cls in/b.jpg && cat y y >x");
    refused("tar", "", LS_STATUS_BAD_DATA, "it goes on behind its end, as two archives in one");
    shell("head -c 2048 y >x");
    refused("tar", "", LS_STATUS_BAD_DATA, "it ends without the empty blocks that are an archive's end");
    shell("head -c 1700 y >x");
    refused("tar", "", LS_STATUS_BAD_DATA, "a file longer than the archive");
    shell("rm -rf in/* y && echo x >in/a.txt && tar --sort=name -cf x in");
    refused("tar", "", LS_STATUS_BAD_DATA, "has no samples");
}

// --- LMDB ------------------------------------------------------------------------------------------------------------

static void put64(image_file *f, size_t where, uint64_t value) {
    for (int i = 0; i < 8; i++) f->bytes[where + (size_t)i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get64(const image_file *f, size_t where) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | f->bytes[where + (size_t)i];
    return value;
}

// A tree of several levels, values in pages of their own, pixels in the order that Caffe has them.
static void databases(void **state) {
    enum { COUNT = 3000 };
    ls_data_host *host;
    ls_dataset *d;
    void *scratch;
    ls_sample sample;
    char spec[400];
    image_file f = container_lmdb(COUNT, 1);
    save("x", f.bytes, f.size);
    snprintf(spec, sizeof spec, "lmdb:%s", at("x"));
    assert_int_equal(ls_data_host_create_self(&host), LS_OK);
    for (int rgb = 0; rgb < 2; rgb++) {
        static const uint8_t pixels[][3] = {{1, 2, 3}, {3, 2, 1}};
        if (ls_data_open(host, spec, &d) != LS_OK) fail_msg("%s", ls_error_message());
        assert_true(d->train->count == COUNT && ls_dataset_classes(d) == 3);
        assert_int_equal(ls_memory_alloc(d->train->scratch_bytes, &scratch), LS_OK);
        for (int64_t i = 0; i < COUNT; i += 2) is_sample(d->train, i, (int)(i % 6), (int)(i % 3));
        for (int64_t i = 1; i < COUNT; i += 2) {
            ls_image image;
            assert_int_equal(ls_source_read(d->train, i, scratch, &sample), LS_OK);
            assert_int_equal(*(const int32_t *)sample.field[1], i % 3);
            assert_int_equal(ls_image_file_load(sample.field[0], 0, &image), LS_OK);
            assert_true(image.height == 2 && image.width == 3 && image.channels == 3);
            assert_memory_equal(image.pixels, pixels[rgb], 3);
            ls_image_free(&image);
        }
        ls_memory_free(scratch);
        ls_data_close(&d);
        snprintf(spec, sizeof spec, "lmdb:%s,channel-order=rgb", at("x"));
    }
    refused("lmdb", ",channel-order=gbr", LS_STATUS_INVALID_ARGUMENT, "'gbr' is not one of bgr, rgb");
    refused("recordio", ",channel-order=rgb", LS_STATUS_INVALID_ARGUMENT, "leave channel-order out");
    // The later of the two descriptions counts.
    size_t page = 4096, later = get64(&f, 144) > get64(&f, page + 144) ? 0 : page, main_tree = later + 128;
    uint64_t was = get64(&f, main_tree);
    put64(&f, main_tree, f.size / page);
    save("x", f.bytes, f.size);
    refused("lmdb", "", LS_STATUS_BAD_DATA, "lead back, or beyond the file's end");
    put64(&f, main_tree, 1);
    save("x", f.bytes, f.size);
    refused("lmdb", "", LS_STATUS_BAD_DATA, "lead back, or beyond the file's end");
    put64(&f, main_tree, UINT64_MAX);
    save("x", f.bytes, f.size);
    refused("lmdb", "", LS_STATUS_BAD_DATA, "has no samples");
    put64(&f, main_tree, was);
    // Its root's first child becomes itself.
    size_t node = (size_t)was * page, first = f.bytes[node + 16] + 256u * f.bytes[node + 17];
    assert_int_equal(f.bytes[node + 10], 1);  // a branch
    unsigned char child = f.bytes[node + first];
    f.bytes[node + first] = (unsigned char)was;
    f.bytes[node + first + 1] = (unsigned char)(was >> 8);
    save("x", f.bytes, f.size);
    refused("lmdb", "", LS_STATUS_BAD_DATA, "lead back, or beyond the file's end");
    f.bytes[node + first] = child;
    f.bytes[16] ^= 1;
    save("x", f.bytes, f.size);
    refused("lmdb", "", LS_STATUS_BAD_DATA, "it is no database of LMDB's");
    save("x", "hello", 5);
    refused("lmdb", "", LS_STATUS_BAD_DATA, "it ends before what is said to be here");
    shell("rm -rf x && mkdir x");
    refused("lmdb", "", LS_STATUS_NOT_FOUND, "x/data.mdb");
    shell("rm -rf x");
    free(f.bytes);
    ls_data_host_destroy_self(&host);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_is_read), cmocka_unit_test(cut_off),         cmocka_unit_test(damaged),
        cmocka_unit_test(examples),        cmocka_unit_test(lists_of_labels), cmocka_unit_test(magic_inside),
        cmocka_unit_test(rows_of_labels),  cmocka_unit_test(tar_programs),    cmocka_unit_test(databases),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
