// For tests of csv: a folder with tables and the files that they name, and what is wrong with tables. Included once, behind cmocka.h.
#ifndef LS_TESTS_TABLES_H
#define LS_TESTS_TABLES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data_team.h"

static char root[] = "/tmp/lockstep-tables-XXXXXX";

static inline int tear_down(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static inline void write_file(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "wb");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

// "csv:ROOT/t.csv" and options, in which @ stands for the folder.
static inline const char *spec(const char *options) {
    static char text[1024];
    size_t used = (size_t)snprintf(text, sizeof text, "csv:%s/t.csv", root);
    for (const char *p = options; *p; p++)
        used += (size_t)snprintf(text + used, sizeof text - used, *p == '@' ? "%s" : "%.1s", *p == '@' ? root : p);
    return text;
}

// The table, as t.csv, is refused on two workers, with these words among others.
static inline void refused(const char *table, const char *options, ls_status status, const char *words) {
    team t = TEAM;
    worker w[WORKERS_MAX];
    write_file("t.csv", table);
    team_open(&t, w, 2, spec(options));
    if (w[0].status != status || !strstr(w[0].message, words))
        fail_msg("%s instead of \"%s\": %s", ls_status_name(w[0].status), words, w[0].message);
    team_close(&t, w);
}

#endif
