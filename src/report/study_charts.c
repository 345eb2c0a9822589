// The charts of a study: for each a data file and a gnuplot script that draws it, which people may change for a paper of
// their own. Colours are Okabe and Ito's, which colour-blind readers tell apart; patterns and markers tell the same in grey.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/study_chart.h"

// --- files and gnuplot -----------------------------------------------------------------------------------------------

static void (*const draw[])(chart *) = {
    ls__draw_epoch_time, ls__draw_throughput, ls__draw_speedup,  ls__draw_efficiency,
    ls__draw_phases,     ls__draw_until,      ls__draw_accuracy, ls__draw_accuracy_batch,
    ls__draw_learning,   ls__draw_loss,       ls__draw_roc};
const ls_chart ls__charts[] = {
    {"epoch-time", "Time per epoch", "Time per epoch"},
    {"throughput", "Images per second", "Throughput: training images per second"},
    {"speedup", "Speedup", "Speedup, and what it would be if twice the workers took half the time"},
    {"efficiency", "Parallel efficiency", "Parallel efficiency: speedup over the ideal speedup"},
    {"phases", "Where the time of a step goes",
     "Where the time of one step goes, as the mean over replicas; between hosts, waiting for a message counts as "
     "exchange, and phases under 1 % are merged"},
    {"until", "Training time to the accuracy asked for", "Training time until the test accuracy that was asked for"},
    {"accuracy", "Test accuracy", "Accuracy on the test set after training"},
    {"accuracy-batch", "Test accuracy by batch", "Accuracy on the test set after training, by global batch"},
    {"learning", "Accuracy after each epoch",
     "Accuracy after each epoch: on the test set in full, on the training set while it learned in dashes"},
    {"loss", "Loss after each epoch",
     "Loss after each epoch: on the test set in full, on the training set while it learned in dashes"},
    {"roc", "ROC curves of the labels",
     "ROC curves on the test set: of each label, with the area under it, or of several runs the mean over labels"},
    {.name = NULL},
};

// The plot command is in the part before this, in a variable: all pictures come from it. slides.gp sets SLIDES and a terminal of
// its own.
static void end_script(chart *c, const char *title) {
    int height = 320 + (c->names > 2 ? 18 * (c->names - 2) : 0);  // names need room
    fprintf(c->script,
            "if (SLIDES) {\n"
            "    set title '%s'\n"
            "    eval PLOT\n"
            "} else {\n"
            "    set terminal svg noenhanced size 460,%d dynamic background rgb 'white' font 'sans-serif,15'\n"
            "    set output '%s.svg'\n"
            "    eval PLOT\n"
            "    if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {\n"
            "        set terminal pngcairo noenhanced size 1380,%d fontscale 2.6 linewidth 2.7 pointscale 2.7 font "
            "'sans,13'\n"
            "    } else {\n"
            "        set terminal png noenhanced size 1380,%d\n"
            "    }\n"
            "    set output '%s.png'\n"
            "    eval PLOT\n"
            "    set output\n"
            "}\n",
            title, height, c->name, 3 * height, 3 * height, c->name);
}

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static ls_status cannot(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a folder that can be written to with --out", path,
                   strerror(errno));
}

static ls_status open_file(const char *folder, const char *name, const char *suffix, FILE **out) {
    char path[4096];
    snprintf(path, sizeof path, "%s/charts/%s.%s", folder, name, suffix);
    *out = fopen(path, "wx");  // whatever stood there was removed: a link to somewhere else is not followed
    return *out ? LS_OK : cannot(path);
}

static ls_status close_file(const char *folder, const char *name, FILE **file) {
    int bad = ferror(*file);
    bad |= fclose(*file) != 0;
    *file = NULL;
    return bad ? LS_FAIL(LS_STATUS_IO, "cannot write the files of %s/charts/%s: %s", folder, name, strerror(errno))
               : LS_OK;
}

// What an earlier report left would not fit the new numbers.
static void remove_old(const char *folder, const char *name) {
    static const char *const suffix[] = {"gp", "dat", "svg", "png", "pdf"};
    for (int i = 0; i < 5; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/charts/%s.%s", folder, name, suffix[i]);
        unlink(path);
    }
}

// A chart without a single point is left out, as accuracy is where nothing was evaluated. *written tells.
static ls_status write_files(chart *c, int which, const char *folder, int *written) {
    c->name = ls__charts[which].name;
    c->points = c->names = 0;
    remove_old(folder, c->name);
    LS_TRY(open_file(folder, c->name, "gp", &c->script));
    ls_status status = open_file(folder, c->name, "dat", &c->data);
    if (status != LS_OK) {
        fclose(c->script);
        return status;
    }
    draw[which](c);
    end_script(c, ls__charts[which].title);
    status = close_file(folder, c->name, &c->script);
    ls_status data = close_file(folder, c->name, &c->data);
    if (status == LS_OK) status = data;
    *written = status == LS_OK && c->points > 0;
    if (!*written) remove_old(folder, c->name);
    return status;
}

static ls_status all_files(chart *c, const char *folder, int *written) {
    const ls_study *study = c->study;
    LS_TRY(ls_calloc(study->row_count, sizeof c->count[0], &c->count));
    for (int i = 0; i < study->row_count; i++)
        if (c->series->of[i] >= 0) c->count[c->counts++] = study->rows[i].workers;
    qsort(c->count, (size_t)c->counts, sizeof c->count[0], ascending);
    int unique = 0;
    for (int i = 0; i < c->counts; i++)
        if (i == 0 || c->count[i] != c->count[i - 1]) c->count[unique++] = c->count[i];
    c->counts = unique;
    for (int i = 0; ls__charts[i].name; i++) {
        if (unique == 0)
            remove_old(folder, ls__charts[i].name);
        else
            LS_TRY(write_files(c, i, folder, &written[i]));
    }
    return LS_OK;
}

// All charts that are there, a page of slides.pdf for each.
static ls_status write_slides(const char *folder, const int *written) {
    FILE *script;
    remove_old(folder, "slides");
    LS_TRY(open_file(folder, "slides", "gp", &script));
    fputs(
        "# 'gnuplot slides.gp' in this folder draws slides.pdf, a page for each chart.\n"
        "SLIDES = 1\n"
        "set terminal pdfcairo noenhanced size 10in,5.625in fontscale 1.2 linewidth 2 pointscale 1.4 font 'sans,14'\n"
        "set output 'slides.pdf'\n",
        script);
    for (int i = 0; ls__charts[i].name; i++)
        if (written[i]) fprintf(script, "reset\nload '%s.gp'\n", ls__charts[i].name);
    fputs("set output\n", script);
    LS_TRY(close_file(folder, "slides", &script));
    char path[4096];
    snprintf(path, sizeof path, "%s/charts", folder);
    return ls__gnuplot(path, "slides");
}

ls_status ls_study_write_charts(const ls_study *study, const char *folder, int slides) {
    char path[4096];
    int written[sizeof ls__charts / sizeof ls__charts[0]] = {0}, any = 0;
    snprintf(path, sizeof path, "%s/charts", folder);
    struct stat there;
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return cannot(path);
    if (lstat(path, &there) != 0 || !S_ISDIR(there.st_mode)) {
        errno = ENOTDIR;
        return cannot(path);
    }
    ls_series series;
    chart c = {.study = study, .series = &series};
    ls_status status = ls__series_create(study, &series);
    if (status == LS_OK) status = all_files(&c, folder, written);
    free(c.count);
    ls__series_destroy(&series);
    for (int i = 0; status == LS_OK && ls__charts[i].name; i++) {
        any |= written[i];
        if (written[i]) status = ls__gnuplot(path, ls__charts[i].name);
    }
    if (status == LS_OK && slides && any) status = write_slides(folder, written);
    return status;
}
