// A study as tables for people: results.md for reports, text for the terminal.
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/output.h"
#include "base/text.h"
#include "report/study_impl.h"

#define AT(field) offsetof(ls_study_row, field)

enum { MAX_COLUMNS = 20, CELL = 96 };

typedef struct table {
    const char *title;
    int columns, rows;
    char head[MAX_COLUMNS][CELL];
    int words[MAX_COLUMNS];           // the column has words, which stand on the left
    int keys;                         // the first so many columns say which row it is
    char (*cell)[MAX_COLUMNS][CELL];  // (rows)
} table;

// A column of the rows' `text`, in the table only where it tells rows apart (or `always`).
static void word_column(table *t, const ls_study *s, const char *head, size_t offset, int always) {
    int differs = always;
    for (int i = 1; i < s->row_count; i++)
        differs |= strcmp((const char *)&s->rows[i] + offset, (const char *)&s->rows[0] + offset) != 0;
    if (!differs) return;
    int c = t->columns++;
    t->words[c] = 1;
    snprintf(t->head[c], CELL, "%s", head);
    for (int i = 0; i < t->rows; i++) snprintf(t->cell[i][c], CELL, "%s", (const char *)&s->rows[i] + offset);
}

static void whole_column(table *t, const ls_study *s, const char *head, size_t offset) {
    int c = t->columns++;
    snprintf(t->head[c], CELL, "%s", head);
    for (int i = 0; i < t->rows; i++)
        snprintf(t->cell[i][c], CELL, "%d", *(const int *)((const char *)&s->rows[i] + offset));
}

// The same where it tells rows apart; rows that have not run do not know it.
static void differing_column(table *t, const ls_study *s, const char *head, size_t offset) {
    int first = 0, differs = 0;
    for (int i = 0; i < s->row_count; i++) {
        int value = *(const int *)((const char *)&s->rows[i] + offset);
        if (!s->rows[i].repeats) continue;
        differs |= first && value != first;
        first = value;
    }
    if (differs) whole_column(t, s, head, offset);
}

// Weak scaling has another one in each row, which says nothing.
static void batch_column(table *t, const ls_study *s) {
    int64_t first = 0;
    int differs = 0, c = t->columns;
    for (int i = 0; i < s->row_count; i++) {
        if (!s->rows[i].repeats) continue;
        differs |= first && s->rows[i].global_batch != first;
        first = s->rows[i].global_batch;
    }
    if (!differs) return;
    t->columns++;
    snprintf(t->head[c], CELL, "Global batch");
    for (int i = 0; i < t->rows; i++) snprintf(t->cell[i][c], CELL, "%lld", (long long)s->rows[i].global_batch);
}

// `scale` times the field with so many decimals, seconds below one with three, few images with one; a dash where nothing was measured.
static void real_column(table *t, const ls_study *s, const char *head, size_t offset, double scale, int decimals) {
    int c = t->columns++;
    snprintf(t->head[c], CELL, "%s", head);
    for (int i = 0; i < t->rows; i++) {
        double x = *(const double *)((const char *)&s->rows[i] + offset);
        if (strstr(head, "(s)") && s->rows[i].repeats && x < 1) decimals = 3;
        if (strstr(head, "Images") && s->rows[i].repeats && x < 100) decimals = 1;
    }
    for (int i = 0; i < t->rows; i++) {
        double x = scale * *(const double *)((const char *)&s->rows[i] + offset);
        int none = (offset == AT(speedup) || offset == AT(efficiency)) && !(x > 0);
        if (s->rows[i].repeats && isfinite(x) && !none)
            snprintf(t->cell[i][c], CELL, "%.*f", decimals, x);
        else
            snprintf(t->cell[i][c], CELL, "-");
    }
}

// The same of what records before a certain version do not tell.
static void told_column(table *t, const ls_study *s, const char *head, size_t offset, double scale, int decimals) {
    int c = t->columns;
    real_column(t, s, head, offset, scale, decimals);
    for (int i = 0; i < t->rows; i++) {
        double x = scale * *(const double *)((const char *)&s->rows[i] + offset);
        if (!s->rows[i].repeats) continue;
        if (!isfinite(x)) snprintf(t->cell[i][c], CELL, "unknown");
        if (fabs(x) < 0.5 * pow(10, -decimals)) snprintf(t->cell[i][c], CELL, "%.*f", decimals, 0.0);  // no "-0.0"
    }
}

static void compared_column(table *t, const ls_study *s) {
    int differs = 0, c = t->columns;
    for (int i = 0; i < s->row_count; i++) differs |= s->rows[i].repeats && s->rows[i].compared != s->rows[0].compared;
    if (!differs) return;
    t->columns++;
    t->words[c] = 1;
    snprintf(t->head[c], CELL, "Scaling");
    for (int i = 0; i < t->rows; i++) {
        const char *name = ls_comparison_name(s->rows[i].compared);
        snprintf(t->cell[i][c], CELL, "%s", name[0] ? name : "-");
    }
}

static void weights_column(table *t, const ls_study *s) {
    int c = t->columns++;
    t->words[c] = 1;
    snprintf(t->head[c], CELL, "Weights");
    for (int i = 0; i < t->rows; i++)
        snprintf(t->cell[i][c], CELL, "%.8s%s",
                 !s->rows[i].repeats    ? "-"
                 : s->rows[i].digest[0] ? s->rows[i].digest
                                        : "stopped",
                 s->rows[i].digest_differs ? " DIFFERS"
                 : s->rows[i].by_timing    ? " by timing"
                                           : "");
}

static void spread_column(table *t, const ls_study *s) {
    int several = 0, c = t->columns;
    for (int i = 0; i < t->rows; i++) several |= s->rows[i].repeats > 1;
    if (!several) return;
    t->columns++;
    snprintf(t->head[c], CELL, "Least to most (s)");
    for (int i = 0; i < t->rows; i++) {
        const ls_study_row *r = &s->rows[i];
        if (r->repeats)
            snprintf(t->cell[i][c], CELL, "%.*f to %.*f", r->epoch_seconds < 1 ? 3 : 2, r->epoch_seconds_least,
                     r->epoch_seconds < 1 ? 3 : 2, r->epoch_seconds_most);
        else
            snprintf(t->cell[i][c], CELL, "-");
    }
}

static ls_status begin(table *t, const ls_study *s, const char *title) {
    *t = (table){.title = title, .rows = s->row_count};
    LS_TRY(ls_calloc(t->rows, sizeof *t->cell, &t->cell));
    word_column(t, s, "Model", AT(model), 0);
    compared_column(t, s);
    word_column(t, s, "Data", AT(data), 0);
    word_column(t, s, "Precision", AT(precision), 0);
    word_column(t, s, "Strategy", AT(strategy), 0);
    word_column(t, s, "Recipe", AT(recipe), 0);
    differing_column(t, s, "Replicas per worker", AT(replicas_per_worker));
    differing_column(t, s, "Threads per replica", AT(threads_per_replica));
    batch_column(t, s);
    return LS_OK;
}

static ls_status times_table(table *t, const ls_study *s) {
    LS_TRY(begin(t, s, "Times and results"));
    whole_column(t, s, "Nodes", AT(nodes));
    whole_column(t, s, "Processes per node", AT(workers_per_node));
    whole_column(t, s, "Total processes", AT(workers));
    t->keys = t->columns;
    real_column(t, s, "Time to read (s)", AT(read_seconds), 1, 2);
    real_column(t, s, "Time per gradient update (ms)", AT(step_seconds), 1e3, 2);
    real_column(t, s, "Time per epoch (s)", AT(epoch_seconds), 1, 2);
    real_column(t, s, "Test loss", AT(test_loss), 1, 4);
    real_column(t, s, "Test accuracy (%)", AT(test_accuracy), 100, 2);
    for (int i = 0; i < s->row_count; i++) {
        if (!(s->rows[i].test_top_5 > 0)) continue;
        real_column(t, s, "Test top-5 accuracy (%)", AT(test_top_5), 100, 2);
        break;
    }
    real_column(t, s, "Total time (s)", AT(total_seconds), 1, 2);
    for (int i = 0; i < s->row_count; i++) {
        if (!isfinite(s->rows[i].until_accuracy)) continue;
        char head[CELL];
        snprintf(head, sizeof head, "Time to %g %% (s)", 100 * s->rows[i].until_accuracy);
        real_column(t, s, head, AT(until_seconds), 1, 2);
        real_column(t, s, "Epochs to it", AT(until_epoch), 1, 0);
        break;
    }
    return LS_OK;
}

static ls_status speedup_table(table *t, const ls_study *s) {
    LS_TRY(begin(t, s, "Speed and speedup"));
    whole_column(t, s, "Nodes", AT(nodes));
    whole_column(t, s, "Workers", AT(workers));
    t->keys = t->columns;
    real_column(t, s, "Time per epoch (s)", AT(epoch_seconds), 1, 2);
    spread_column(t, s);
    real_column(t, s, "Images per second", AT(images_per_second), 1, 0);
    real_column(t, s, "Speedup", AT(speedup), 1, 2);
    real_column(t, s, "Efficiency (%)", AT(efficiency), 100, 1);
    weights_column(t, s);
    return LS_OK;
}

static ls_status phases_table(table *t, const ls_study *s) {
    LS_TRY(begin(t, s, "Where a step's time goes (ms, mean over replicas)"));
    whole_column(t, s, "Nodes", AT(nodes));
    whole_column(t, s, "Workers", AT(workers));
    t->keys = t->columns;
    real_column(t, s, "Load", AT(load), 1e3, 2);
    real_column(t, s, "Forward", AT(forward), 1e3, 2);
    real_column(t, s, "Backward", AT(backward), 1e3, 2);
    real_column(t, s, "Exchange", AT(exchange), 1e3, 2);
    told_column(t, s, "Wait", AT(wait), 1e3, 2);
    real_column(t, s, "Update", AT(update), 1e3, 2);
    told_column(t, s, "Serial", AT(serial), 1e3, 2);
    return LS_OK;
}

static ls_status losses_table(table *t, const ls_study *s) {
    LS_TRY(begin(t, s, "Where the efficiency goes (% of the epoch time, against the fewest workers)"));
    whole_column(t, s, "Nodes", AT(nodes));
    whole_column(t, s, "Workers", AT(workers));
    t->keys = t->columns;
    real_column(t, s, "Efficiency", AT(efficiency), 100, 1);
    told_column(t, s, "Computing slower", AT(loss.compute), 100, 1);
    told_column(t, s, "Exchange not hidden", AT(loss.exchange), 100, 1);
    told_column(t, s, "Waiting for the slowest", AT(loss.wait), 100, 1);
    told_column(t, s, "Input", AT(loss.input), 100, 1);
    told_column(t, s, "Serial parts", AT(loss.serial), 100, 1);
    told_column(t, s, "Unexplained", AT(loss.unexplained), 100, 1);
    return LS_OK;
}

static void print_markdown(FILE *out, const table *t) {
    fprintf(out, "## %s\n\n|", t->title);
    for (int c = 0; c < t->columns; c++) fprintf(out, " %s |", t->head[c]);
    fputs("\n|", out);
    for (int c = 0; c < t->columns; c++) fputs(t->words[c] ? " --- |" : " ---: |", out);
    for (int i = 0; i < t->rows; i++) {
        fputs("\n|", out);
        for (int c = 0; c < t->columns; c++) {
            fputc(' ', out);
            for (const char *p = t->cell[i][c]; *p; p++) {
                if (*p == '|') fputc('\\', out);
                fputc(*p, out);
            }
            fputs(" |", out);
        }
    }
    fputs("\n\n", out);
}

// The head of a column on several lines, one word each, keeping it narrow. Returns the word at `line` or "".
static const char *head_word(const char *head, int line, char buffer[CELL]) {
    snprintf(buffer, CELL, "%s", head);
    char *rest = buffer, *word = "";
    for (int i = 0; i <= line; i++) {
        word = strsep(&rest, " ");
        if (!word) return "";
    }
    return word;
}

static void widths(const table *t, int width[MAX_COLUMNS]) {
    char buffer[CELL];
    for (int c = 0; c < t->columns; c++) {
        width[c] = 0;
        for (int n = 0; *head_word(t->head[c], n, buffer); n++) {
            int length = (int)strlen(head_word(t->head[c], n, buffer));
            if (length > width[c]) width[c] = length;
        }
        for (int i = 0; i < t->rows; i++)
            if ((int)strlen(t->cell[i][c]) > width[c]) width[c] = (int)strlen(t->cell[i][c]);
    }
}

static int head_lines(const table *t, int c) {
    char buffer[CELL];
    int n = 0;
    while (*head_word(t->head[c], n, buffer)) n++;
    return n;
}

// The words that tell rows apart, where they leave too little of a line to the numbers, become letters with a legend.
typedef struct legend {
    int columns;  // so many first columns become one letter; 0: none do
    int *letter;  // (rows)
} legend;

static int same_words(const table *t, int columns, int a, int b) {
    for (int c = 0; c < columns; c++)
        if (strcmp(t->cell[a][c], t->cell[b][c]) != 0) return 0;
    return 1;
}

static void print_legend(FILE *out, const table *t, const legend *l, int columns) {
    for (int i = 0, last = -1; i < t->rows; i++) {
        char text[LS_SERIES_NAME] = "", letter[8];
        if (l->letter[i] <= last) continue;
        last = l->letter[i];
        for (int c = 0; c < l->columns; c++) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%s", c ? ", " : "", t->cell[i][c]);
        }
        snprintf(letter, sizeof letter, "%c", 'A' + last % 26);
        ls_print_entry(out, letter, 3, columns, text);
    }
    fputc('\n', out);
}

static ls_status make_legend(const table *t, int columns, legend *l) {
    int width[MAX_COLUMNS] = {0}, used = 0, count = 0;
    widths(t, width);
    *l = (legend){0};
    while (l->columns < t->keys && t->words[l->columns]) used += width[l->columns++] + 2;
    if (used <= columns / 3) l->columns = 0;
    LS_TRY(ls_calloc(t->rows, sizeof *l->letter, &l->letter));
    for (int i = 0; i < t->rows; i++) {
        int j = 0;
        while (j < i && !same_words(t, l->columns, i, j)) j++;
        l->letter[i] = j < i ? l->letter[j] : count++;
    }
    return LS_OK;
}

// One line of the key columns and those of [from, to): of the head where row < 0.
static void print_line(FILE *out, const table *t, const legend *l, const int width[MAX_COLUMNS], int row, int from,
                       int to) {
    char buffer[CELL];
    int gap = 0;  // columns of space that are due once something stands behind them
    if (l->columns) fprintf(out, "  %c", row < 0 ? ' ' : 'A' + l->letter[row] % 26);
    for (int c = l->columns; c < to; c++) {
        if (c >= t->keys && c < from) continue;
        int line = row + head_lines(t, c);
        const char *cell = row >= 0 ? t->cell[row][c] : line >= 0 ? head_word(t->head[c], line, buffer) : "";
        int pad = width[c] - (int)strlen(cell);
        gap += 2 + (t->words[c] ? 0 : pad);
        if (*cell) {
            fprintf(out, "%*s%s", gap, "", cell);
            gap = 0;
        }
        gap += t->words[c] ? pad : 0;
    }
    fputc('\n', out);
}

// Heads stand at the bottom of their lines, next to the numbers.
static void print_block(FILE *out, const table *t, const legend *l, const int width[MAX_COLUMNS], int from, int to) {
    int lines = 0;
    for (int c = l->columns; c < to; c++)
        if ((c < t->keys || c >= from) && head_lines(t, c) > lines) lines = head_lines(t, c);
    for (int i = -lines; i < t->rows; i++) print_line(out, t, l, width, i, from, to);
    fputc('\n', out);
}

// What does not fit beside the key columns stands below them, so that no line is longer than the terminal.
static void print_text(FILE *out, const table *t, const legend *l, int columns) {
    int width[MAX_COLUMNS] = {0}, keys = l->columns ? 3 : 0;
    widths(t, width);
    for (int c = l->columns; c < t->keys; c++) keys += width[c] + 2;
    ls_print_entry(out, "", 0, columns, t->title);
    for (int from = t->keys, to; from < t->columns; from = to) {
        int used = keys;
        for (to = from; to < t->columns && (to == from || used + width[to] + 2 <= columns); to++) used += width[to] + 2;
        print_block(out, t, l, width, from, to);
    }
}

// --- what the tables do not say ----------------------------------------------------------------------------------------

// The warnings, and how far the rest can be trusted; `columns` 0: as Markdown.
static ls_status print_notes(FILE *out, const ls_study *s, int columns) {
    ls_statements words;
    LS_TRY(ls__study_words(s, &words));
    for (int i = 0; i < words.count; i++) {
        int warning = words.list[i].kind == LS_WORD_WARNING;
        if (columns)
            ls_print_entry(out, warning ? "!" : "-", 3, columns, words.list[i].text);
        else
            fprintf(out, "- %s%s\n", warning ? "Warning: " : "", words.list[i].text);
    }
    if (s->row_count)
        ls_print_entry(out, "-", 3, columns ? columns : 1000,
                       "Times are medians over repeats; the first epoch of a run with several is set apart.");
    ls__statements_free(&words);
    return LS_OK;
}

static ls_status print_table(FILE *out, const table *t, int columns, int first) {
    legend l;
    if (!columns) {
        print_markdown(out, t);
        return LS_OK;
    }
    LS_TRY(make_legend(t, columns, &l));
    if (l.columns && first) print_legend(out, t, &l, columns);
    print_text(out, t, &l, columns);
    free(l.letter);
    return LS_OK;
}

// columns 0: as Markdown.
static ls_status print_tables(FILE *out, const ls_study *s, int columns) {
    static ls_status (*const make[])(table *, const ls_study *) = {times_table, speedup_table, phases_table,
                                                                   losses_table};
    int compared = 0;
    for (int i = 0; i < s->row_count; i++) compared |= s->rows[i].base >= 0;
    for (size_t i = 0; i < sizeof make / sizeof make[0]; i++) {
        table t;
        if (make[i] == losses_table && !compared) continue;
        LS_TRY(make[i](&t, s));
        ls_status status = print_table(out, &t, columns, i == 0);
        free(t.cell);
        LS_TRY(status);
    }
    return LS_OK;
}

static void recipe_text(const ls_study_row *r, char *text, size_t size) {
    char batch[64];
    if (r->compared == LS_COMPARED_WEAK || r->compared == LS_COMPARED_BATCH)
        snprintf(batch, sizeof batch, "a batch of %lld for each worker", (long long)(r->global_batch / r->workers));
    else
        snprintf(batch, sizeof batch, "global batch %lld", (long long)r->global_batch);
    snprintf(text, size, "%s on %s; %d epoch%s, %s, %s, %s, seed %lld%s%s; %d replica%s per worker.\n\n", r->model,
             r->data, r->epochs, r->epochs == 1 ? "" : "s", batch, r->precision, r->optimizer, (long long)r->seed,
             r->recipe[0] ? ", " : "", r->recipe, r->replicas_per_worker, r->replicas_per_worker == 1 ? "" : "s");
}

// Once each: most rows have the recipe of the one before.
static void write_recipe(FILE *out, const ls_study *s, int i) {
    char text[512], other[512];
    if (!s->rows[i].repeats) return;
    recipe_text(&s->rows[i], text, sizeof text);
    for (int j = 0; j < i; j++) {
        recipe_text(&s->rows[j], other, sizeof other);
        if (s->rows[j].repeats && strcmp(text, other) == 0) return;
    }
    fputs(text, out);
}

// Names and sentences come from files of anybody's: what a reader of Markdown would take for HTML is not. `code`: within a block of code,
// which nothing in it may end.
static void put_markdown(FILE *out, char *text, int code) {
    ls_text_clean(text);
    for (const char *p = text; *p; p++) {
        if (!code && (*p == '<' || *p == '&'))
            fputs(*p == '<' ? "&lt;" : "&amp;", out);
        else
            fputc(code && strncmp(p, "```", 3) == 0 ? '\'' : *p, out);
    }
}

static ls_status print_markdown_all(FILE *out, const ls_study *s) {
    fprintf(out, "# %s\n\n", s->title);
    for (int i = 0; i < s->row_count; i++) write_recipe(out, s, i);
    fprintf(out, "Host %s%s%s%s%s. %s.%s%s%s\n\n", s->host, s->cpu[0] ? ": " : "", s->cpu, s->machine[0] ? ", " : "",
            s->machine, s->versions, s->dates[0] ? " " : "", s->dates, s->dates[0] ? "." : "");
    LS_TRY(print_tables(out, s, 0));
    LS_TRY(print_notes(out, s, 0));
    return LS_OK;
}

static ls_status write_markdown(FILE *out, const ls_study *s) {
    char *text = NULL, *commands = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    if (!memory) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    ls_status status = print_markdown_all(memory, s);
    if (fclose(memory) != 0 && status == LS_OK) status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    if (status == LS_OK && s->commands) status = ls_strdup(s->commands, &commands);
    if (status == LS_OK) put_markdown(out, text, 0);
    if (commands) {
        fputs("\n## To do it again\n\n```\n", out);
        put_markdown(out, commands, 1);
        fputs("```\n", out);
    }
    free(text);
    free(commands);
    return status;
}

ls_status ls_study_write_tables(const ls_study *study, const char *folder) {
    static const char *const names[] = {"results.csv", "results.md"};
    for (int i = 0; i < 2; i++) {
        char *path;
        if (asprintf(&path, "%s/%s", folder, names[i]) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
        ls_output output;
        ls_status status = LS_OK;
        int failed = ls_output_open(path, &output) != 0;
        if (!failed) {
            if (i == 0) ls__study_csv(output.file, study);
            if (i == 1) status = write_markdown(output.file, study);
            failed = ls_output_close(&output, path, status == LS_OK) != 0;
        }
        if (status == LS_OK && failed) status = LS_FAIL(LS_STATUS_IO, "cannot write %s: %s", path, strerror(errno));
        free(path);
        LS_TRY(status);
    }
    return LS_OK;
}

ls_status ls_study_table_text(const ls_study *study, int columns, char **text) {
    size_t size;
    *text = NULL;
    FILE *out = open_memstream(text, &size);
    if (!out) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    ls_status status = print_tables(out, study, columns);
    if (status == LS_OK) status = print_notes(out, study, columns);
    if (fclose(out) != 0 && status == LS_OK) status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    if (status != LS_OK) {
        free(*text);
        *text = NULL;
    } else {
        ls_text_clean(*text);
    }
    return status;
}
