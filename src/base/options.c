#include "base/options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

#define MAX_NAMES 128

static void *field(const ls_option *option, const void *values) { return (char *)values + option->offset; }

// The index-th choice, from the function or the "a|b" metavar. `buffer` holds one word of the latter.
static const char *choice(const ls_option *option, int index, char *buffer, size_t size, const char **help) {
    *help = NULL;
    if (option->choices) return option->choices(index, help);
    if (!option->metavar || !strchr(option->metavar, '|')) return NULL;
    const char *p = option->metavar;
    while (index-- > 0) {
        p = strchr(p, '|');
        if (!p) return NULL;
        p++;
    }
    snprintf(buffer, size, "%.*s", (int)strcspn(p, "|"), p);
    return buffer;
}

static int distance(const char *a, const char *b) {
    enum { MAX = 40 };
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX || m > MAX) return INT_MAX;
    int row[MAX + 1];
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int change = diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            int add = row[j - 1] + 1, drop = row[j] + 1;
            diagonal = row[j];
            row[j] = change < add ? change : add;
            if (drop < row[j]) row[j] = drop;
        }
    }
    return row[m];
}

const char *ls_nearest(const char *word, const char *const *names, int count) {
    const char *best = NULL;
    int limit = (int)strlen(word) / 3, least = (limit < 2 ? 2 : limit) + 1;
    for (int i = 0; i < count; i++) {
        int d = distance(word, names[i]);
        // A word that is the beginning of a name is near however long the rest is.
        if (strlen(word) >= 3 && strncmp(names[i], word, strlen(word)) == 0) d = 1;
        if (d < least && d < (int)strlen(names[i])) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

// Whether an option is there: a row in front may stand for it, and one without help for none.
static int is_there(const ls_option_set *sets, const ls_option_set *of, const ls_option *option) {
    for (const ls_option_set *s = sets; s < of; s++)
        for (const ls_option *o = s->table; o->name; o++)
            if (strcmp(o->name, option->name) == 0) return 0;
    return option->help != NULL;
}

// Finds --name, or --no-name for a flag (*negated = 1).
static const ls_option *find(const ls_option_set *sets, const char *name, void **values, int *negated) {
    for (const ls_option_set *s = sets; s->table; s++)
        for (const ls_option *o = s->table; o->name; o++) {
            *values = s->values;
            *negated = strcmp(o->name, name) != 0;
            if (*negated &&
                (o->type != LS_OPTION_FLAG || strncmp(name, "no-", 3) != 0 || strcmp(o->name, name + 3) != 0))
                continue;
            return o->help ? o : NULL;
        }
    return NULL;
}

static ls_status unknown(const ls_option_set *sets, const char *name) {
    const char *names[MAX_NAMES];
    int count = 0, negated = strncmp(name, "no-", 3) == 0;
    for (const ls_option_set *s = sets; s->table; s++)
        for (const ls_option *o = s->table; o->name && count < MAX_NAMES; o++)
            if ((!negated || o->type == LS_OPTION_FLAG) && is_there(sets, s, o)) names[count++] = o->name;
    const char *dashes = name[0] == '-' ? "" : "--", *bare = negated ? name + 3 : name;
    const char *near = ls_nearest(bare, names, count);
    if (near)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown option %s%s; did you mean --%s%s?", dashes, name,
                       negated ? "no-" : "", near);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown option %s%s; --help lists the options", dashes, name);
}

static ls_status bad_number(const ls_option *option, const char *kind, const char *text) {
    char range[80] = "";
    if (option->max > option->min)
        snprintf(range, sizeof range, option->type == LS_OPTION_REAL ? " from %g to %g" : " from %.0f to %.0f",
                 option->min, option->max);
    else
        snprintf(range, sizeof range, " of at least %g", option->min);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s: expected %s%s, got '%s'", option->name, kind, range, text);
}

static int in_range(const ls_option *option, double x) {
    return x >= option->min && (option->max <= option->min || x <= option->max);
}

static ls_status set_whole(const ls_option *option, void *values, const char *text) {
    char *end;
    errno = 0;
    long long x = strtoll(text, &end, 10);
    int fits = !errno && (option->type != LS_OPTION_INT || (x >= INT_MIN && x <= INT_MAX));
    if (end == text || *end || !fits || !in_range(option, (double)x)) return bad_number(option, "a whole number", text);
    if (option->type == LS_OPTION_INT)
        *(int *)field(option, values) = (int)x;
    else if (option->type == LS_OPTION_COUNT)
        *(int64_t *)field(option, values) = x;
    else
        *(uint64_t *)field(option, values) = (uint64_t)x;
    return LS_OK;
}

static ls_status set_real(const ls_option *option, void *values, const char *text) {
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end || !isfinite(x) || !in_range(option, x)) return bad_number(option, "a number", text);
    *(double *)field(option, values) = x;
    return LS_OK;
}

// Whether `text` is one of the option's choices, where it has any.
static ls_status check_choice(const ls_option *option, const char *text) {
    char buffer[64], all[512] = "";
    const char *names[MAX_NAMES], *name, *help;
    char kept[MAX_NAMES][64];
    int count = 0;
    for (int i = 0; i < MAX_NAMES && (name = choice(option, i, buffer, sizeof buffer, &help)); i++) {
        if (strcmp(name, text) == 0) return LS_OK;
        snprintf(kept[i], sizeof kept[i], "%s", name);
        names[count++] = kept[i];
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", name);
    }
    if (!count) return LS_OK;
    const char *near = ls_nearest(text, names, count);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s: '%s' is not one of %s%s%s%s", option->name, text, all,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

// The same for each of several words with commas between them. What goes on with = is for whoever takes the word.
static ls_status check_choices(const ls_option *option, const char *text) {
    char word[64];
    for (;;) {
        size_t length = strcspn(text, ",");
        snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ",="), text);
        LS_TRY(check_choice(option, word));
        if (!text[length]) return LS_OK;
        text += length + 1;
    }
}

static ls_status set_text(const ls_option *option, void *values, const char *text) {
    LS_TRY(option->several ? check_choices(option, text) : check_choice(option, text));
    if (!*text)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s: expected %s, got nothing", option->name, option->metavar);
    *(const char **)field(option, values) = text;
    return LS_OK;
}

static ls_status set_flag(const ls_option *option, void *values, int on) {
    *(int *)field(option, values) = on;
    return LS_OK;
}

static ls_status set(const ls_option *option, void *values, const char *text) {
    switch (option->type) {
    case LS_OPTION_INT:
    case LS_OPTION_COUNT:
    case LS_OPTION_SEED: return set_whole(option, values, text);
    case LS_OPTION_REAL: return set_real(option, values, text);
    case LS_OPTION_TEXT: return set_text(option, values, text);
    case LS_OPTION_FLAG: break;
    }
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) return set_flag(option, values, text[0] == 't');
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s: expected true or false, got '%s'", option->name, text);
}

ls_status ls_options_assign(const ls_option_set *sets, const char *name, const char *text) {
    void *values;
    int negated;
    const ls_option *option = find(sets, name, &values, &negated);
    if (!option) return unknown(sets, name);
    LS_TRY(set(option, values, text));
    if (negated) *(int *)field(option, values) ^= 1;
    return LS_OK;
}

// One "--name", "--name=value" or "--name value" at argv[*at]; moves *at past what it used.
static ls_status parse_option(const ls_option_set *sets, int argc, char *const *argv, int *at) {
    const char *arg = argv[(*at)++];
    if (arg[1] != '-') return unknown(sets, arg);
    char name[64];
    const char *equals = strchr(arg, '=');
    snprintf(name, sizeof name, "%.*s", (int)(equals ? equals - arg - 2 : (long)strlen(arg) - 2), arg + 2);
    void *values;
    int negated;
    const ls_option *option = find(sets, name, &values, &negated);
    if (!option) return unknown(sets, name);
    if (option->type == LS_OPTION_FLAG) {
        if (equals) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s takes no value, got '%s'", name, equals + 1);
        return set_flag(option, values, !negated);
    }
    if (equals) return set(option, values, equals + 1);
    if (*at >= argc)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s needs a value: --%s %s", name, name, option->metavar);
    return set(option, values, argv[(*at)++]);
}

static ls_status parse(const ls_option_set *sets, int argc, char *const *argv, int most, const char **words, int *count,
                       int *help) {
    int only_words = 0;
    *count = *help = 0;
    for (int i = 0; i < argc;) {
        const char *arg = argv[i];
        if (!only_words && strcmp(arg, "--") == 0) {
            only_words = 1;
            i++;
        } else if (!only_words && (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0)) {
            *help = 1;
            return LS_OK;
        } else if (!only_words && arg[0] == '-' && arg[1]) {
            LS_TRY(parse_option(sets, argc, argv, &i));
        } else {
            if (*count >= most)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unexpected word '%s'; --help shows the usage", arg);
            words[(*count)++] = arg;
            i++;
        }
    }
    return LS_OK;
}

ls_status ls_options_parse(const ls_option_set *sets, int argc, char *const *argv, int max_words, ls_words *out) {
    int most = max_words < LS_MAX_WORDS ? max_words : LS_MAX_WORDS;
    *out = (ls_words){.count = 0};
    return parse(sets, argc, argv, most, out->word, &out->count, &out->help);
}

ls_status ls_options_parse_words(const ls_option_set *sets, int argc, char *const *argv, const char **words, int *count,
                                 int *help) {
    return parse(sets, argc, argv, argc, words, count, help);
}

const char *ls_option_text(const ls_option *option, const void *values, char *buffer, size_t size) {
    const void *value = field(option, values);
    switch (option->type) {
    case LS_OPTION_FLAG: snprintf(buffer, size, "%s", *(const int *)value ? "true" : "false"); break;
    case LS_OPTION_INT: snprintf(buffer, size, "%d", *(const int *)value); break;
    case LS_OPTION_COUNT: snprintf(buffer, size, "%lld", (long long)*(const int64_t *)value); break;
    case LS_OPTION_SEED: snprintf(buffer, size, "%llu", (unsigned long long)*(const uint64_t *)value); break;
    case LS_OPTION_REAL: snprintf(buffer, size, "%s", ls_text_real(*(const double *)value, (char[32]){0})); break;
    case LS_OPTION_TEXT: return *(const char *const *)value ? *(const char *const *)value : "";
    }
    return buffer;
}

void ls_options_line(const ls_option_set *sets, char *text, size_t size) {
    size_t used = 0;
    int whole = 1;
    uint64_t sum = 14695981039346656037u;  // FNV-1a, of all there is to say
    if (size > 0) text[0] = 0;
    for (const ls_option_set *s = sets; s->table; s++)
        for (const ls_option *o = s->table; o->name; o++) {
            char buffer[64];
            const char *value = ls_option_text(o, s->values, buffer, sizeof buffer);
            for (size_t i = 0, n = strlen(value); i <= n; i++) sum = (sum ^ (unsigned char)value[i]) * 1099511628211u;
            whole &= ls_text_add(text, size, &used, "%s%s=%s", used ? "; " : "", o->name, value);
        }
    char tail[32];
    size_t length = (size_t)snprintf(tail, sizeof tail, "...; all=%016llx", (unsigned long long)sum);
    if (!whole && length < size) memcpy(text + size - 1 - length, tail, length + 1);
}

void ls_print_entry(FILE *out, const char *left, int column, int width, const char *text) {
    int at = fprintf(out, "%s", left);
    if (at > 0 && at > column - 2) {
        fputc('\n', out);
        at = 0;
    }
    int begin = 1;  // nothing on this line's right-hand side yet
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (!begin && at + 1 + n > width) {
            fputc('\n', out);
            at = 0;
            begin = 1;
        }
        at += begin ? fprintf(out, "%*s%.*s", column - at, "", n, text) : fprintf(out, " %.*s", n, text);
        begin = 0;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static int on_by_default(const ls_option *option, const void *values) {
    return option->type == LS_OPTION_FLAG && *(const int *)field(option, values);
}

static void help_option(FILE *out, const ls_option *option, const void *values, int column, int width) {
    char left[80], text[1024], buffer[64];
    snprintf(left, sizeof left, "  --%s%s%s%s", on_by_default(option, values) ? "no-" : "", option->name,
             option->type == LS_OPTION_FLAG ? "" : " ", option->type == LS_OPTION_FLAG ? "" : option->metavar);
    const char *initial = option->initial ? option->initial : ls_option_text(option, values, buffer, sizeof buffer);
    if (option->type == LS_OPTION_FLAG || !*initial)
        snprintf(text, sizeof text, "%s", option->help);
    else
        snprintf(text, sizeof text, "%s (default: %s)", option->help, initial);
    ls_print_entry(out, left, column, width, text);
    const char *help;
    if (option->choices)
        for (int i = 0; option->choices(i, &help); i++) {
            const char *name = option->choices(i, &help);
            snprintf(left, sizeof left, "%*s%s", column + 2, "", name);
            ls_print_entry(out, left, column + 20, width, help ? help : "");
        }
}

void ls_options_help(FILE *out, const ls_option_set *sets, int width) {
    const char *done[32] = {0};
    int groups = 0, column = 0;
    for (const ls_option_set *s = sets; s->table; s++)
        for (const ls_option *o = s->table; o->name; o++) {
            if (!is_there(sets, s, o)) continue;
            int n = (int)strlen(o->name) + (o->type == LS_OPTION_FLAG ? 3 : 1 + (int)strlen(o->metavar)) + 6;
            if (n > column && n <= 30) column = n;
        }
    for (const ls_option_set *s = sets; s->table; s++)
        for (const ls_option *first = s->table; first->name; first++) {
            if (!is_there(sets, s, first)) continue;
            int seen = 0;
            for (int i = 0; i < groups; i++) seen |= strcmp(done[i], first->group) == 0;
            if (seen || groups == 32) continue;
            done[groups++] = first->group;
            fprintf(out, "\n%s:\n", first->group);
            for (const ls_option_set *t = sets; t->table; t++)
                for (const ls_option *o = t->table; o->name; o++)
                    if (is_there(sets, t, o) && strcmp(o->group, first->group) == 0)
                        help_option(out, o, t->values, column, width);
        }
}
