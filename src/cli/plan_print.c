// What the plan says: the table, what fits, what else would, JSON.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/text.h"
#include "cli/plan.h"

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

// --- the table -------------------------------------------------------------------------------------------------------

static void print_head(const plan *p, const ls_memory *m) {
    char input[LS_INPUT_TEXT], count[32], batch[32];
    int64_t v = (m->global_batch + m->micro_batch - 1) / m->micro_batch;
    int compresses = strcmp(p->config.compress, "none") != 0;
    cli_say("%s, input %s, %d classes: %s parameters; %s, %s, %s%s%s%s", p->model,
            cli_input_text(ls_graph_input_at(p->graph, 0).shape, input), ls_graph_classes(p->graph),
            cli_count(ls_graph_parameter_count(p->graph), count), p->config.precision, p->config.optimizer,
            p->config.strategy, cli_compress_text(p->config.compress), compresses ? p->config.compress : "",
            p->config.remat ? ", remat" : "");
    cli_say("%d worker%s on %d host%s x %d replica%s x %d thread%s (%s); global batch %s = %lld micro-batch%s of %lld",
            m->workers, plural(m->workers), m->hosts, plural(m->hosts), m->replicas_per_worker,
            plural(m->replicas_per_worker), m->threads_per_replica, plural(m->threads_per_replica), m->replicas_reason,
            cli_count(m->global_batch, batch), (long long)v, v == 1 ? "" : "es", (long long)m->micro_batch);
    if (m->cores_advice[0]) cli_say("%s", m->cores_advice);
    putchar('\n');
}

static const char *cell(int64_t bytes, char buffer[32]) { return bytes > 0 ? ls_bytes_text(bytes, buffer) : "-"; }

static void print_row(const char *what, const ls_memory_bytes *b) {
    char replica[32], worker[32], host[32];
    printf("%-32s%12s%12s%12s\n", what, cell(b->replica, replica), cell(b->worker, worker), cell(b->host, host));
}

static void print_arena(const char *what, const ls_memory_arena *a) {
    char samples[32], bytes[32], text[64];
    if (!a->samples) return;
    snprintf(text, sizeof text, "%s, %s sample%s", what, cli_count(a->samples, samples), plural(a->samples));
    printf("  %-42s%12s\n", text, ls_bytes_text(a->bytes, bytes));
}

static void print_arenas(const ls_memory *m) {
    printf(
        "\nActivations to workspaces are one block in each replica, as large as the largest of its plans wants it:\n");
    print_arena("training", &m->train);
    print_arena("training, the last of a step", &m->train_rest);
    print_arena("training, the last", &m->train_tail);
    print_arena("evaluation", &m->evaluate);
    print_arena("evaluation, the last", &m->evaluate_tail);
}

// What is read of files at some rate, of which each host has its share.
static void print_reading(const plan *p, const ls_memory *m) {
    double stored = (double)ls_dataset_stored_bytes(p->dataset), count = (double)ls_dataset_train_count(p->dataset);
    char sample[32], epoch[32], host[32], rate[32];
    if (stored <= 0) return;
    double each = p->set.rate * stored / count / m->hosts;
    cli_say(
        "Data: %s are read for a sample, %s for an epoch. At %s samples a second of the whole job %s host reads %s a "
        "second; 'lockstep data' measures what the storage gives",
        ls_bytes_text((int64_t)(stored / count), sample), ls_bytes_text((int64_t)stored, epoch),
        cli_count((int64_t)p->set.rate, rate), m->hosts > 1 ? "each" : "the", ls_bytes_text((int64_t)each, host));
}

// The plan may be for another machine, so that is no failure; training here takes fewer loader threads where nothing says how many, or is refused.
static void print_limit(const ls_memory *m) {
    double limit = ls_limits_memory();
    char needed[32], there[32];
    if (limit < 0 || (double)m->total.host <= limit) return;
    printf("Not on this machine as it is: a host needs %s, and there are only %s (%s)\n",
           ls_bytes_text(m->total.host, needed), ls_bytes_text((int64_t)limit, there),
           ls_limits_group_memory() >= 0 ? "its control group's limit" : "all its memory");
}

void plan_print(const plan *p, const ls_memory *m) {
    char text[64];
    print_head(p, m);
    printf("%-32s%12s%12s%12s\n", "", "a replica", "a worker", "a host");
    for (int i = 0; i < LS_MEMORY_PARTS; i++) {
        const ls_memory_bytes *b = &m->part[i];
        if (!b->replica && !b->worker && !b->host) continue;
        snprintf(text, sizeof text, "%s", ls_memory_part_name((ls_memory_part)i));
        if (i == LS_MEMORY_GRADIENTS && m->gradient_buffers > 1)
            snprintf(text, sizeof text, "%s, %d buffers", ls_memory_part_name((ls_memory_part)i), m->gradient_buffers);
        print_row(text, b);
    }
    print_row("Total", &m->total);
    print_arenas(m);
    if (p->job.workers > 1 && !p->job.more)
        printf("MPI could not be measured here: allow some 10 to 30 MB a worker more.\n");
    // A tenth to spare: for pages of files that Slurm counts, and for MPI's network.
    double mib = 1.1 * (double)m->total.host / 1048576;
    printf("In Slurm: --mem=%lldM for a node, a tenth of it to spare\n", (long long)mib + 1);
    if (p->dataset) print_reading(p, m);
    print_limit(m);
}

// --- what fits -------------------------------------------------------------------------------------------------------

static const char *limit_text(const plan *p, char buffer[96]) {
    char bytes[32];
    if (p->limit_host)
        snprintf(buffer, 96, "this machine's %s", ls_bytes_text(p->limit, bytes));
    else
        snprintf(buffer, 96, "%s (%s)", p->set.memory, ls_bytes_text(p->limit, bytes));
    return buffer;
}

static const char *who(const plan *p) { return p->limit_host ? "a host" : "a worker"; }

static int64_t part_counted(const plan *p, const ls_memory_bytes *b) { return p->limit_host ? b->host : b->worker; }

// Of activations and the like one part, since they change together.
static void largest_part(const plan *p, const ls_memory *m, const char **name, double *share) {
    int64_t most = 0;
    for (int i = 0; i < LS_MEMORY_PARTS; i++)
        if (part_counted(p, &m->part[i]) > most) {
            most = part_counted(p, &m->part[i]);
            *name = ls_memory_part_name((ls_memory_part)i);
        }
    *share = (double)most / (double)part_counted(p, &m->total);
}

// Words that the shell reads back as they are.
static void print_word(const char *word) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.,:=+@/%-";
    if (*word && !word[strspn(word, plain)]) {
        printf(" %s", word);
        return;
    }
    printf(" '");
    for (const char *c = word; *c; c++)
        if (*c == '\'')
            printf("'\\''");
        else
            putchar(*c);
    putchar('\'');
}

// Whether the option is one that train does not have or that the command below gives anew; *takes: a word follows.
static int is_replaced(const char *word, int *takes) {
    static const char *const names[] = {"memory", "hosts", "rate", "input-shape", "batch-size", "micro-batch"};
    *takes = 0;
    if (strcmp(word, "--json") == 0 || strcmp(word, "--no-json") == 0) return 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, names[i], n) != 0) continue;
        if (word[2 + n] && word[2 + n] != '=') continue;
        *takes = !word[2 + n];
        return 1;
    }
    return 0;
}

// A batch that nobody asked for is made of micro-batches that are worth it: larger ones only take more memory.
static void print_command(const plan *p, const ls_memory *m) {
    int takes;
    int64_t lanes = (int64_t)m->workers * m->replicas_per_worker, micro_batch = m->micro_batch, batch = m->global_batch;
    if (!p->config.batch_size && micro_batch > PLAN_WORTH_IT) {
        micro_batch = PLAN_WORTH_IT;
        batch = lanes * micro_batch;
        printf("Kernels gain nothing from more than %d samples, and training learns less from fewer, larger batches:\n",
               PLAN_WORTH_IT);
    }
    printf("  lockstep train");
    for (int i = 0; i < p->argc; i++) {
        if (is_replaced(p->argv[i], &takes))
            i += takes;
        else
            print_word(p->argv[i]);
    }
    if (!p->set.data) printf(" --data SPEC");
    printf(" --batch-size %lld --micro-batch %lld\n", (long long)batch, (long long)micro_batch);
}

static void print_others(const plan *p, const plan_found *found, const plan_other *others, int count) {
    char bytes[32], samples[32];
    if (!count) return;
    printf("\n%-44s%12s%12s\n", "What if", "micro-batch", who(p));
    printf("%-44s%12s%12s\n", "as asked", cli_count(found->memory.micro_batch, samples),
           ls_bytes_text(plan_counted(p, &found->memory), bytes));
    for (int i = 0; i < count; i++) {
        const plan_other *o = &others[i];
        int fits = o->found.fits;
        printf("%-44s%12s%12s\n", o->options, fits ? cli_count(o->found.memory.micro_batch, samples) : "none",
               fits ? ls_bytes_text(plan_counted(p, &o->found.memory), bytes) : "-");
    }
}

void plan_print_found(const plan *p, const plan_found *found, const plan_other *others, int count) {
    char limit[96], bytes[32];
    const char *name = "";
    double share;
    largest_part(p, &found->memory, &name, &share);
    int most = !p->config.batch_size && found->memory.micro_batch == PLAN_MOST_SAMPLES;
    putchar('\n');
    cli_say("The largest micro-batch with which %s fits in %s is %lld%s; the largest part of that is \"%s\", %.0f %%.",
            who(p), limit_text(p, limit), (long long)found->memory.micro_batch, most ? " (none larger was tried)" : "",
            name, 100 * share);
    if (found->next_micro_batch)
        cli_say("The next one, %lld, would take %s more than that.", (long long)found->next_micro_batch,
                ls_bytes_text(found->next_bytes - p->limit, bytes));
    print_command(p, &found->memory);
    print_others(p, found, others, count);
}

ls_status plan_refuse(const plan *p, const plan_found *found, const plan_other *others, int count) {
    char limit[96], bytes[32], other[512] = "";
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        const plan_found *f = &others[i].found;
        char some[32];
        if (f->fits)
            ls_text_add(other, sizeof other, &used, "; with %s micro-batches of up to %lld fit", others[i].options,
                        (long long)f->memory.micro_batch);
        else
            ls_text_add(other, sizeof other, &used, "; with %s it needs %s", others[i].options,
                        ls_bytes_text(plan_counted(p, &f->memory), some));
    }
    int64_t need = plan_counted(p, &found->memory), mib = 1 << 20;
    int64_t least = (need + mib + mib - 1) / mib;  // the program itself is some pages larger or smaller in each run
    return LS_FAIL(
        LS_STATUS_OUT_OF_MEMORY,
        "%s does not fit in %s: with micro-batches of 1 sample %s of %d replica%s needs %s, so --memory %lldM is the "
        "least%s",
        p->model, limit_text(p, limit), who(p), found->memory.replicas_per_worker,
        plural(found->memory.replicas_per_worker), ls_bytes_text(need, bytes), (long long)least, other);
}

// --- JSON ------------------------------------------------------------------------------------------------------------

static json_t *bytes_json(const ls_memory_bytes *b) {
    return json_pack("{s:I,s:I,s:I}", "replica", (json_int_t)b->replica, "worker", (json_int_t)b->worker, "host",
                     (json_int_t)b->host);
}

static json_t *memory_json(const ls_memory *m) {
    static const char *const keys[] = {
#define X(name, text) #name,
        LS_MEMORY_LIST(X)
#undef X
    };
    json_t *parts = json_object();
    for (int i = 0; i < LS_MEMORY_PARTS; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s", keys[i]);
        for (char *c = key; *c; c++) *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        json_object_set_new(parts, key, bytes_json(&m->part[i]));
    }
    return json_pack("{s:i,s:i,s:i,s:i,s:I,s:I,s:i,s:o,s:o}", "workers", m->workers, "hosts", m->hosts,
                     "replicas_per_worker", m->replicas_per_worker, "threads_per_replica", m->threads_per_replica,
                     "global_batch", (json_int_t)m->global_batch, "micro_batch", (json_int_t)m->micro_batch,
                     "gradient_buffers", m->gradient_buffers, "parts", parts, "total", bytes_json(&m->total));
}

ls_status plan_print_json(const plan *p, const ls_memory *m, const plan_found *found, const plan_other *others,
                          int count) {
    json_t *root = memory_json(m);
    if (root) json_object_set_new(root, "model", json_string(p->model));
    if (root) json_object_set_new(root, "stored_bytes", json_integer(ls_dataset_stored_bytes(p->dataset)));
    if (root && found) {
        json_t *list = json_array();
        json_object_set_new(root, "limit", json_integer(p->limit));
        json_object_set_new(root, "next_micro_batch", json_integer(found->next_micro_batch));
        json_object_set_new(root, "next_bytes", json_integer(found->next_bytes));
        for (int i = 0; i < count; i++) {
            const plan_found *f = &others[i].found;
            json_array_append_new(
                list, json_pack("{s:s,s:b,s:I,s:I}", "options", others[i].options, "fits", f->fits, "micro_batch",
                                (json_int_t)f->memory.micro_batch, "bytes", (json_int_t)plan_counted(p, &f->memory)));
        }
        json_object_set_new(root, "what_if", list);
    }
    if (!root || json_dumpf(root, stdout, JSON_INDENT(2)) != 0) {
        json_decref(root);
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    }
    putchar('\n');
    json_decref(root);
    return LS_OK;
}
