// Fifty random studies, each drawn with its times, digests, accuracies, layouts and failures, written as records, and read back as a
// page. Every sentence of the page is taken apart and held against the numbers that were drawn; a sentence of no known kind fails.
#include <regex.h>

#include "random_study.h"
#include "report/study.h"

// --- sentences -------------------------------------------------------------------------------------------------------

typedef struct parts {
    char text[GROUPS][256];
} parts;

static int number(const parts *p, int group) { return atoi(p->text[group]); }
static double real(const parts *p, int group) { return atof(p->text[group]); }

// Whether the printed number is the true one, rounded as it was printed.
static int is(const char *text, double x) {
    const char *point = strchr(text, '.');
    double half = 0.5000001 * pow(10, point ? -(double)strlen(point + 1) : 0);
    return fabs(atof(text) - x) <= half + 1e-9 * fabs(x);
}

static int rows_of(const drawn *d, const char *model) {
    int n = 0;
    for (int i = 0; i < d->count; i++) n += good(&d->row[i]) && strcmp(d->row[i].model, model) == 0;
    return n;
}

static const truth *find(const drawn *d, const char *series, int workers) {
    for (int i = 0; i < d->count; i++) {
        const truth *t = &d->row[i];
        size_t n = strlen(t->model);
        char lr[32];
        snprintf(lr, sizeof lr, "lr %g", t->lr);
        if (strncmp(series, t->model, n) != 0 || (series[n] && series[n] != ',')) continue;
        if (d->how == SWEEP && series[n] && !strstr(series, lr)) continue;
        // With one row of a network that ran, nothing tells it apart.
        if (t->workers == workers && (d->how != SWEEP || series[n] || (good(t) && rows_of(d, t->model) == 1))) return t;
    }
    fail_msg("no such row: %s, %d workers, in '%s'", series, workers, d->sentence);
    return NULL;
}

#define HOLDS(claim)                                                                                                   \
    do {                                                                                                               \
        if (!(claim)) fail_msg("not so: %s\nin: %s", #claim, d->sentence);                                             \
    } while (0)

static void runs_hold(const drawn *d, const char *text, const truth *t) {
    HOLDS(strcmp(text, "one run") == 0 ? good(t) == 1 : atoi(text) == good(t));
}

static void headline(const drawn *d, const parts *p) {
    const truth *a = find(d, p->text[1], number(p, 3)), *b = find(d, p->text[1], number(p, 6));
    HOLDS(a == base(d, b) && a->workers < b->workers && !a->shared && !b->shared);
    HOLDS(is(p->text[2], median(a)) && is(p->text[5], median(b)));
    runs_hold(d, p->text[4], a);
    runs_hold(d, p->text[7], b);
    HOLDS(strncmp(p->text[8], "each worker", 11) != 0 || d->how == WEAK);
    HOLDS(strncmp(p->text[8], "the same samples", 16) != 0 || d->how == BATCH);
    HOLDS(p->text[8][0] || d->how == STRONG);
    for (int i = 0; i < d->count; i++)  // no row of more workers could have been told
        HOLDS(strcmp(d->row[i].model, b->model) != 0 || d->row[i].workers <= b->workers || d->row[i].shared ||
              !good(&d->row[i]));
    int known = good(a) > 1 && good(b) > 1;
    double ideal = (double)b->workers / a->workers;
    int open = known && efficiency_at(d, b, 0) * ideal <= 1 && efficiency_at(d, b, 2) * ideal >= 1;
    HOLDS(open == (strcmp(p->text[9], "no more apart than their repeats") == 0));
    if (!open) HOLDS(is(p->text[10], speedup(d, b)) && is(p->text[11], 100 * efficiency(d, b)));
}

static void losses(const drawn *d, const parts *p) {
    static const char *const names[CAUSES] = {"computing that got slower",
                                              "exchange that is not hidden behind computing",
                                              "waiting for the slowest replica", "waiting for input", "serial parts"};
    const truth *t = find(d, p->text[1], number(p, 2)), *b = base(d, t);
    double lost[CAUSES], before = 1, whole = 1 - efficiency(d, t);
    HOLDS(b && b->workers == number(p, 4) && good(t) > 1 && good(b) > 1 && !t->shared && !b->shared);
    HOLDS(is(p->text[3], 100 * whole) && efficiency_at(d, t, 2) <= 0.98);
    HOLDS(efficiency_at(d, t, 2) - efficiency_at(d, t, 0) <= whole);
    lost_by_cause(d, t, lost);
    int told = 0;
    for (const char *c = p->text[5]; *c;) {
        int i = 0;
        while (i < CAUSES && strncmp(c, names[i], strlen(names[i])) != 0) i++;
        HOLDS(i < CAUSES);
        c += strlen(names[i]) + 2;
        char value[16];
        snprintf(value, sizeof value, "%.*s", (int)strcspn(c, " "), c);
        HOLDS(is(value, 100 * lost[i]) && lost[i] >= 0.0999 * whole && lost[i] <= before + 1e-9);
        before = lost[i];
        told |= 1 << i;
        c = strstr(c, "%)") + 2;
        if (strncmp(c, ", ", 2) == 0) c += 2;
    }
    for (int i = 0; i < CAUSES; i++)  // none that matters is missing
        HOLDS(told & (1 << i) || lost[i] <= fmax(0.1 * whole, 0.005) + 1e-9);
}

static void unexplained(const drawn *d, const parts *p) {
    const truth *t = find(d, p->text[1], number(p, 2));
    double lost[CAUSES], rest = 1 - efficiency(d, t);
    lost_by_cause(d, t, lost);
    for (int i = 0; i < CAUSES; i++) rest -= lost[i];
    HOLDS(is(p->text[3], 100 * rest) && fabs(rest) > 0.05);
}

static void accuracy(const drawn *d, const parts *p) {
    const truth *a = NULL, *b = NULL;
    for (int i = 0; i < d->count; i++) {
        const truth *t = &d->row[i];
        size_t n = strlen(t->model);
        if (!good(t) || strncmp(p->text[1], t->model, n) != 0 || (p->text[1][n] && p->text[1][n] != ',')) continue;
        if (t->batch == number(p, 4)) a = t;
        if (t->batch == number(p, 6)) b = t;
    }
    HOLDS(a && b && a->batch < b->batch);
    double chance = 3 * sqrt((a->accuracy * (1 - a->accuracy) + b->accuracy * (1 - b->accuracy)) / a->test);
    HOLDS(is(p->text[3], 100 * a->accuracy) && is(p->text[5], 100 * b->accuracy) && is(p->text[7], 100 * chance));
    HOLDS(fabs(a->accuracy - b->accuracy) > chance && number(p, 8) == a->test);
    HOLDS((strcmp(p->text[2], "falls") == 0) == (b->accuracy < a->accuracy));
}

static void until(const drawn *d, const parts *p) {
    int reached = 0, asked = 0;
    const truth *best = find(d, p->text[1], number(p, 3));
    for (int i = 0; i < d->count; i++) {
        const truth *t = &d->row[i];
        if (!good(t) || strcmp(t->model, best->model) != 0 || (d->how == SWEEP && t != best)) continue;
        asked++;
        if (!t->until_epoch) continue;
        reached++;
        HOLDS(t->until_seconds >= best->until_seconds);
    }
    HOLDS(is(p->text[2], 100 * d->until) && is(p->text[4], best->until_seconds) && number(p, 5) == best->until_epoch);
    HOLDS(number(p, 6) == reached && number(p, 7) == asked);
}

static void never(const drawn *d, const parts *p) {
    HOLDS(is(p->text[2], 100 * d->until));
    for (int i = 0; i < d->count; i++) {
        const truth *t = &d->row[i];
        char lr[32];
        snprintf(lr, sizeof lr, "lr %g", t->lr);
        if (strncmp(t->model, p->text[1], strlen(t->model)) != 0 || !good(t)) continue;
        if (d->how == SWEEP && p->text[1][strlen(t->model)] && !strstr(p->text[1], lr)) continue;
        HOLDS(!t->until_epoch);
    }
}

static void apart(const drawn *d, const parts *p) {
    const truth *a = find(d, p->text[2], number(p, 1)), *b = find(d, p->text[4], number(p, 1));
    HOLDS(is(p->text[3], 100 * efficiency(d, a)) && is(p->text[5], 100 * efficiency(d, b)));
    HOLDS(good(a) > 1 && good(b) > 1 && good(base(d, a)) > 1 && good(base(d, b)) > 1 && !a->shared && !b->shared);
    HOLDS(efficiency_at(d, a, 0) > efficiency_at(d, b, 2));
}

static void weights(const drawn *d, const parts *p) {
    int runs = 0, sizes = 0, last = 0;
    size_t n = strlen(p->text[3]);
    HOLDS(d->how == STRONG);
    for (int i = 0; i < d->count; i++) {
        const truth *t = &d->row[i];
        size_t m = strlen(t->model);
        if (!good(t) || other_weights(d, t) || strncmp(t->model, p->text[1], m) != 0) continue;
        if (strncmp(t->digest[0], p->text[3], n) != 0) continue;
        for (int r = 0; r < good(t); r++) HOLDS(strcmp(t->digest[r], t->digest[0]) == 0);
        runs += good(t);
        sizes += t->workers != last;
        last = t->workers;
    }
    HOLDS(runs == number(p, 2) && sizes > 1);
}

static void differing(const drawn *d, const parts *p) { HOLDS(other_weights(d, find(d, p->text[1], number(p, 2)))); }

static void failures(const drawn *d, const parts *p) {
    const truth *t = find(d, p->text[1], number(p, 2));
    HOLDS(number(p, 3) == t->failed && number(p, 4) == t->runs && number(p, 5) == t->workers);
}

static void sharing(const drawn *d, const parts *p) {
    for (int i = 0; i < d->count; i++) {
        const truth *t = &d->row[i];
        char name[64];
        snprintf(name, sizeof name, "%s with %d worker", t->model, t->workers);
        if (good(t)) HOLDS((strstr(p->text[1], name) != NULL) == (t->shared != 0));
    }
}

static void once(const drawn *d, const parts *p) {
    int rows = 0, single = 0;
    for (int i = 0; i < d->count; i++) rows += good(&d->row[i]) > 0, single += good(&d->row[i]) == 1;
    HOLDS(number(p, 1) == single && number(p, 2) == rows);
}

static void spread(const drawn *d, const parts *p) {
    double most = 0;
    for (int i = 0; i < d->count; i++)
        if (good(&d->row[i]) > 1)
            most = fmax(most, (sorted_at(&d->row[i], 2) - sorted_at(&d->row[i], 0)) / median(&d->row[i]));
    HOLDS(is(p->text[1], 100 * most) && most > 0.1);
    HOLDS(strcmp(p->text[2], "net") == 0 || strcmp(p->text[2], "wide") == 0);
}

static void micro_batches(const drawn *d, const parts *p) {
    int differ = 0;
    (void)p;
    for (int i = 0; i < d->count; i++) {
        const truth *t = &d->row[i];
        if (good(t) && base(d, t)) differ |= t->micro_batch != base(d, t)->micro_batch;
    }
    HOLDS(differ);
}

static int compared(const drawn *d) {
    int n = 0;
    for (int i = 0; i < d->count; i++) n += good(&d->row[i]) && base(d, &d->row[i]);
    return n;
}

static void strong(const drawn *d, const parts *p) { (void)p, assert_true(d->how == STRONG && compared(d)); }
static void weak(const drawn *d, const parts *p) { (void)p, assert_true(d->how == WEAK && compared(d)); }
static void per_worker(const drawn *d, const parts *p) {
    HOLDS(d->how == BATCH && compared(d) && !p->text[1][0]);  // the rate is the same in all rows drawn
}

static void incomparable(const drawn *d, const parts *p) {
    int rows = 0;
    for (int i = 0; i < d->count; i++) rows += good(&d->row[i]) > 0;
    HOLDS(number(p, 1) == rows - compared(d) && number(p, 2) == rows);
}

static const truth *only(const drawn *d) {
    HOLDS(d->count == 1 && good(&d->row[0]));
    return &d->row[0];
}

static void alone_speed(const drawn *d, const parts *p) {
    const truth *t = only(d);
    HOLDS(number(p, 1) == t->train && is(p->text[2], median(t)));
    runs_hold(d, p->text[3], t);
    HOLDS(is(p->text[4], t->train / median(t)));
}

static void alone_accuracy(const drawn *d, const parts *p) {
    const truth *t = only(d);
    HOLDS(number(p, 1) == 2 && number(p, 2) == t->test && is(p->text[3], 100 * t->accuracy));
}

static void alone_phase(const drawn *d, const parts *p) {
    const truth *t = only(d);
    double sum = 0, most = 0;
    int which = 0;
    for (int i = 0; i < PHASES; i++) {
        sum += t->share[i];
        if (t->share[i] > most) most = t->share[i], which = i;
    }
    HOLDS(strcmp(p->text[2], phase_names[which]) == 0 && is(p->text[3], 100 * most / sum));
    HOLDS(fabs(real(p, 1) - 1e3 * median(t) * t->batch / t->train) < 1e-3 * real(p, 1));
}

static void alone_memory(const drawn *d, const parts *p) {
    HOLDS(number(p, 1) == only(d)->workers && number(p, 2) == 2);
}

static void question(const drawn *d, const parts *p) {
    int least = 0, most = 0;
    for (int i = 0; i < d->count; i++) {
        if (!good(&d->row[i])) continue;
        least = !least || d->row[i].workers < least ? d->row[i].workers : least;
        most = d->row[i].workers > most ? d->row[i].workers : most;
    }
    HOLDS(compared(d) && number(p, 2) == least && number(p, 3) == most);
}

static void question_alone(const drawn *d, const parts *p) { HOLDS(number(p, 2) == only(d)->workers); }
static void question_none(const drawn *d, const parts *p) { (void)p, assert_true(!compared(d)); }
static void always(const drawn *d, const parts *p) { (void)d, (void)p; }
static void footnote(const drawn *d, const parts *p) {
    int shared = 0;
    for (int i = 0; i < d->count; i++) shared |= good(&d->row[i]) && d->row[i].shared;
    HOLDS(shared == (p->text[1][0] != 0));
}

#define SECONDS "([0-9.]+) s"
#define WORKERS "([0-9]+) workers?"
#define RUNS    "(one run|[0-9]+ runs)"

static const struct kind {
    const char *pattern;
    void (*check)(const drawn *d, const parts *p);
} kinds[] = {
    {"^(.+): an epoch took " SECONDS " with " WORKERS " [(]" RUNS "[)] and " SECONDS " with " WORKERS " [(]" RUNS
     "[)], (each worker with the same number of samples; |the same samples in fewer, larger batches; |)(a speedup of "
     "([0-9.]+), an "
     "efficiency of ([0-9]+) %|no more apart than their repeats)[.]$",
     headline},
    {"^(.+): with " WORKERS ", ([0-9.]+) % of an epoch's time were lost against the efficiency of " WORKERS
     ", most of all by (.*)[.]$",
     losses},
    {"^(.+): of what was lost with " WORKERS ", (-?[0-9.]+) % of the epoch are in no phase that was measured[.]$",
     unexplained},
    {"^(.+): test accuracy (falls|rises) from ([0-9.]+) % with a batch of ([0-9]+) to ([0-9.]+) % with ([0-9]+), by "
     "more than the "
     "([0-9.]+) points that ([0-9]+) test samples leave to chance[.]$",
     accuracy},
    {"^(.+): a test accuracy of ([0-9.]+) % was reached first with " WORKERS ", after " SECONDS
     " of training and ([0-9]+) epochs?; ([0-9]+) of ([0-9]+) configurations reached it[.]$",
     until},
    {"^(.+): no configuration reached a test accuracy of ([0-9.]+) %[.]$", never},
    {"^With " WORKERS
     ", (.+) has an efficiency of ([0-9]+) % and (.+) of ([0-9]+) %: more apart than their repeats[.]$",
     apart},
    {"^(.+): ([0-9]+) runs with different numbers of workers ended with the same weights, bit for bit [(]digest "
     "(.+)[)][.]$",
     weights},
    {"^(.+) with " WORKERS
     " ended with other weights than a run of the same work and kernels, so its times are those of other "
     "work: this is a defect worth reporting[.]$",
     differing},
    {"^(.+) with " WORKERS ": ([0-9]+) of ([0-9]+) runs? failed: no room on node ([0-9]+)[.]$", failures},
    {"^Fewer cores than threads, which took turns: (.+)[.] Their times say nothing about scaling[.]$", sharing},
    {"^([0-9]+) of ([0-9]+) configurations ran once: how much of a difference is chance, only repeats can tell[.]$",
     once},
    {"^Repeats differ by up to ([0-9]+) % of their median [(](.+) with " WORKERS "[)][.]$", spread},
    {"^Micro-batches are of different sizes in rows that are compared", micro_batches},
    {"^Strong scaling: rows with the same batch, samples and recipe take the same steps[.]", strong},
    {"^Batch per worker: the batch(, and with it the learning rate,|, and in some of these rows[^,]*,|) grows with the "
     "workers, on "
     "the same samples[.]",
     per_worker},
    {"^Weak scaling: batch and samples grow with the workers", weak},
    {"^([0-9]+) of ([0-9]+) configurations ha(s|ve) no other that did the same work with another number of workers: "
     "there is no "
     "speedup to give for (it|them)[.]$",
     incomparable},
    {"^An epoch of ([0-9]+) samples took " SECONDS " [(]" RUNS "[)]: ([0-9.]+) images per second[.]$", alone_speed},
    {"^After ([0-9]+) epochs? the accuracy on ([0-9]+) test samples is ([0-9.]+) %[.]$", alone_accuracy},
    {"^Of a step's ([0-9.e+-]+) ms, most went to ([a-z]+): ([0-9]+) %[.]$", alone_phase},
    {"^Its largest worker took ([0-9]+) MB of memory, and ([0-9]+) MB were planned[.]$", alone_memory},
    {"^How much faster does the training of (.+) get from ([0-9]+) to ([0-9]+) workers, and where does the rest go[?]$",
     question},
    {"^How did the training of (.+) go on " WORKERS ", and where did the time go[?]$", question_alone},
    {"^How do these ways to train .+ differ[?]$", question_none},
    {"^Times are medians over repeats; .*a negative loss is a gain[.]( [*] Fewer cores than threads: such a row says "
     "nothing about "
     "scaling[.])?$",
     footnote},
    {"^There are no charts: gnuplot was not found[.]", always},
    {"^Made by Lockstep from the records of the runs; the same numbers are in results.csv and results.md[.]$", always},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };
static int seen[KINDS];

static void check_sentence(drawn *d, const char *text) {
    d->sentence = text;
    for (int k = 0; k < KINDS; k++) {
        regex_t regex;
        regmatch_t match[GROUPS];
        assert_int_equal(regcomp(&regex, kinds[k].pattern, REG_EXTENDED), 0);
        int found = regexec(&regex, text, GROUPS, match, 0) == 0;
        regfree(&regex);
        if (!found) continue;
        parts p = {{""}};
        for (int g = 0; g < GROUPS; g++)
            if (match[g].rm_so >= 0)
                snprintf(p.text[g], sizeof p.text[g], "%.*s", (int)(match[g].rm_eo - match[g].rm_so),
                         text + match[g].rm_so);
        kinds[k].check(d, &p);
        seen[k]++;
        return;
    }
    fail_msg("a sentence of no known kind: %s", text);
}

// --- the page --------------------------------------------------------------------------------------------------------

// The text of an element, without markup.
static void plain(const char *from, const char *to, char *out, size_t size) {
    static const char *const escapes[][2] = {
        {"&#39;", "'"}, {"&quot;", "\""}, {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}};
    size_t n = 0;
    while (from < to && n + 2 < size) {
        if (*from == '<') {
            from = strchr(from, '>') + 1;
            continue;
        }
        int e = 0;
        while (e < 5 && strncmp(from, escapes[e][0], strlen(escapes[e][0])) != 0) e++;
        out[n++] = e < 5 ? *escapes[e][1] : *from;
        from += e < 5 ? strlen(escapes[e][0]) : 1;
    }
    out[n] = 0;
}

// Every paragraph and list item. Returns how many findings there are.
static int check_page(drawn *d, const char *page) {
    int findings = 0;
    for (const char *p = page; (p = strchr(p, '<')); p++) {
        int item = strncmp(p, "<li>", 4) == 0, paragraph = strncmp(p, "<p>", 3) == 0 || strncmp(p, "<p ", 3) == 0;
        if (!item && !paragraph) continue;
        char text[2048];
        const char *from = strchr(p, '>') + 1;
        plain(from, strstr(from, item ? "</li>" : "</p>"), text, sizeof text);
        check_sentence(d, text);
        findings += item;
    }
    return findings;
}

static char *read_page(const drawn *d) {
    char path[128];
    snprintf(path, sizeof path, "%s/index.html", d->folder);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = calloc(1, 1 << 18);
    assert_true(fread(text, 1, (1 << 18) - 1, f) > 0);
    fclose(f);
    return text;
}

static void check_rows(const drawn *d, const ls_study *s) {
    for (int i = 0; i < s->row_count; i++) {
        const ls_study_row *r = &s->rows[i];
        if (!r->repeats) continue;
        char series[64];
        snprintf(series, sizeof series, d->how == SWEEP ? "%s, lr %g" : "%s", r->model, r->rate);
        const truth *t = find(d, series, r->workers), *b = base(d, t);
        assert_int_equal(r->repeats, good(t));
        assert_int_equal(r->failed, t->failed);
        assert_int_equal(r->compared, !b                 ? LS_COMPARED_NOT
                                      : d->how == STRONG ? LS_COMPARED_STRONG
                                      : d->how == BATCH  ? LS_COMPARED_BATCH
                                                         : LS_COMPARED_WEAK);
        assert_true(fabs(r->epoch_seconds - median(t)) < 1e-9 * median(t));
        assert_true(fabs(r->speedup - (b ? speedup(d, t) : 0)) < 1e-6);
    }
}

static void fifty_studies_say_what_is_so(void **state) {
    drawn d = {.folder = "/tmp/lockstep-words.XXXXXX"};
    (void)state;
    assert_non_null(mkdtemp(d.folder));
    for (int i = 0; i < STUDIES; i++) {
        counter = (uint32_t)i << 16;
        draw_study(&d);
        write_study(&d);
        int any = 0;
        for (int k = 0; k < d.count; k++) any += good(&d.row[k]);
        ls_study *s;
        const char *const paths[] = {d.folder};
        assert_int_equal(ls_study_load(paths, 1, &s), LS_OK);
        check_rows(&d, s);
        assert_int_equal(ls_study_write_page(s, d.folder), LS_OK);
        char *page = read_page(&d);
        int findings = check_page(&d, page);
        if (findings > 6) fail_msg("study %d has %d findings", i, findings);
        (void)any;
        free(page);
        ls_study_free(&s);
    }
    // All kinds have been drawn: a pattern that nothing matches would check nothing.
    for (int k = 0; k < KINDS; k++)
        if (!seen[k]) fail_msg("no study had a sentence like %s", kinds[k].pattern);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", d.folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fifty_studies_say_what_is_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
