// What a run of `lockstep train` prints: its head, the result table, why it stopped.
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "cli/train_run.h"

static int64_t limited(int64_t count, int64_t limit) { return limit > 0 && limit < count ? limit : count; }

int64_t cli_train_samples(const cli_train_run *r) {
    return limited(ls_dataset_train_count(r->dataset), r->config.limit_train);
}

int64_t cli_train_test_count(const cli_train_run *r) {
    return limited(ls_dataset_test_count(r->dataset), r->config.limit_test);
}

// What becomes of the images, where it is not the usual.
static void print_images(const cli_train_run *r) {
    const ls_train_config *c = &r->config;
    ls_shape stored = ls_dataset_image_shape(r->dataset), image = r->result.image;
    char text[640] = "";
    size_t n = 0;
    if (stored.ndim == 3 && stored.dim[0] == 0)
        ls_text_add(text, sizeof text, &n, "of any size, resized to %lldx%lld", (long long)image.dim[0],
                    (long long)image.dim[1]);
    else if (image.ndim == 3 && !ls_shape_equal(stored, image))
        ls_text_add(text, sizeof text, &n, "resized from %lldx%lld to %lldx%lld", (long long)stored.dim[0],
                    (long long)stored.dim[1], (long long)image.dim[0], (long long)image.dim[1]);
    if (c->resize > 0)
        ls_text_add(text, sizeof text, &n, "%scut out of %d pixels for the shorter side", n ? "; " : "", c->resize);
    if (strcmp(c->interpolation, "bilinear") != 0)
        ls_text_add(text, sizeof text, &n, "%sinterpolation: %s", n ? "; " : "", c->interpolation);
    if (strcmp(c->augment, "none") != 0)
        ls_text_add(text, sizeof text, &n, "%saugmented: %s", n ? "; " : "", c->augment);
    if (strcmp(c->normalize, "unit") != 0)
        ls_text_add(text, sizeof text, &n, "%snormalized: %s", n ? "; " : "", c->normalize);
    if (c->mean || c->std || c->scale != 1)
        ls_text_add(text, sizeof text, &n, "%s(pixel - %s) / %s * %g", n ? "; " : "", c->mean ? c->mean : "0",
                    c->std ? c->std : "1", c->scale);
    if (strcmp(c->channel_order, "rgb") != 0)
        ls_text_add(text, sizeof text, &n, "%schannels in the order %s", n ? "; " : "", c->channel_order);
    if (text[0]) cli_say("images %s", text);
}

// "adam, learning rate 0.008 (0.001 x 1024 / 128), warm-up of 1 epoch, cosine"
static void print_recipe(const cli_train_run *r) {
    const ls_train_config *c = &r->config;
    double rate;
    if (ls_train_base_rate(c, &rate) != LS_OK) return;
    int linear = strcmp(c->lr_scaling, "linear") == 0;
    double scale = linear ? (double)c->batch_size / (double)c->lr_base_batch : 1;
    char scaled[80] = "", warmup[64] = "";
    if (linear)
        snprintf(scaled, sizeof scaled, " (%.4g x %lld / %lld)", rate, (long long)c->batch_size,
                 (long long)c->lr_base_batch);
    if (c->warmup_epochs > 0)
        snprintf(warmup, sizeof warmup, ", warm-up of %g epoch%s", c->warmup_epochs, c->warmup_epochs == 1 ? "" : "s");
    int constant = strcmp(c->schedule, "constant") == 0;
    char decay[128] = "";
    size_t n = 0;
    if (r->result.weight_decay > 0)
        ls_text_add(decay, sizeof decay, &n, ", weight decay %g (%s)", r->result.weight_decay,
                    r->result.weight_decay_form);
    if (r->result.l2 > 0) ls_text_add(decay, sizeof decay, &n, ", L2 %g (coupled)", r->result.l2);
    cli_say("%s, learning rate %.4g%s%s%s%s%s", c->optimizer, rate * scale, scaled, warmup, constant ? "" : ", ",
            constant ? "" : c->schedule, decay);
}

static void print_tuned(const ls_train_result *t) {
    if (!t->tuned || !*t->tuned) return;
    cli_say("exchange %s, in buckets of %.2g MB, as measured%s (%.3g ms a bucket, %.4g MB/s)", t->algorithm,
            t->bucket_megabytes, strcmp(t->tuned, "cached") == 0 ? " by an earlier job" : "", 1e3 * t->bucket_seconds,
            t->exchange_bytes_per_second / 1e6);
}

void cli_train_print_head(const cli_train_run *r) {
    const ls_train_result *t = &r->result;
    char a[32], b[32], c[32];
    int64_t micro_batches = (t->global_batch + t->micro_batch - 1) / t->micro_batch;
    int64_t rest = t->global_batch % t->micro_batch;
    char last[48] = "";
    if (rest) snprintf(last, sizeof last, ", the last of %lld", (long long)rest);
    cli_say("%s: %s parameters; %s: %s samples to train on, %s to test on", r->set.model,
            cli_count(ls_graph_parameter_count(r->graph), a), r->set.data, cli_count(cli_train_samples(r), b),
            cli_count(cli_train_test_count(r), c));
    if (*ls_dataset_note(r->dataset)) cli_say("%s", ls_dataset_note(r->dataset));
    char servers[96] = "";
    if (t->servers > 0) snprintf(servers, sizeof servers, " (%d server%s)", t->servers, t->servers == 1 ? "" : "s");
    if (r->config.async)
        ls_text_add(servers, sizeof servers, &(size_t){strlen(servers)}, ", asynchronous%s",
                    r->config.replay ? ", replayed" : "");
    if (r->config.async && r->config.staleness >= 0)
        ls_text_add(servers, sizeof servers, &(size_t){strlen(servers)}, ", staleness at most %d", r->config.staleness);
    cli_say("%d worker%s on %d host%s x %d replica%s x %d thread%s%s%s%s", t->workers, t->workers == 1 ? "" : "s",
            t->hosts, t->hosts == 1 ? "" : "s", t->replicas_per_worker, t->replicas_per_worker == 1 ? "" : "s",
            t->threads_per_replica, t->threads_per_replica == 1 ? "" : "s", t->replicas_reason[0] ? " (" : "",
            t->replicas_reason, t->replicas_reason[0] ? ")" : "");
    if (t->cores_advice[0]) cli_say("%s", t->cores_advice);
    if (t->normalization_advice[0]) cli_say("%s", t->normalization_advice);
    cli_deadline_print(&r->deadline);
    print_images(r);
    int compresses = strcmp(r->config.compress, "none") != 0;
    cli_say("global batch %lld = %lld micro-batch%s of %lld%s; %s, %s%s%s%s", (long long)t->global_batch,
            (long long)micro_batches, micro_batches == 1 ? "" : "es", (long long)t->micro_batch, last,
            r->config.precision, r->config.strategy, servers, cli_compress_text(r->config.compress),
            compresses ? r->config.compress : "");
    print_tuned(t);
    print_recipe(r);
    cli_checkpoints_say(&r->checkpoints, r->result.device_description);
    if (r->set.weights && !r->checkpoints.resumed) {
        cli_say("weights from %s: %d of %d parameters%s", r->set.weights, r->loaded,
                ls_store_count(ls_graph_store(r->graph)),
                r->loaded < ls_store_count(ls_graph_store(r->graph)) ? ", the others drawn from the seed" : "");
    }
    fflush(stdout);
}

static void row(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void row(const char *what, const char *format, ...) {
    va_list args;
    printf("%-28s", what);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

// Of a sample, where samples are sequences of them; else 0.
int64_t cli_train_tokens_of(const cli_train_run *r) {
    ls_port input = ls_graph_input_at(r->graph, 0);
    return input.dtype == LS_DTYPE_I32 ? ls_shape_count(input.shape) : 0;
}

// Of a language model, after the last epoch; of others NAN.
static double measure_of(const cli_train_run *r, const char *name, int test) {
    for (int i = 0; i < ls_trainer_measure_count(r->trainer); i++) {
        ls_measure_result m = ls_trainer_measure(r->trainer, i);
        if (strcmp(m.name, name) == 0 && (r->evaluated || !test)) return test ? m.test : m.train;
    }
    return NAN;
}

double cli_train_perplexity(const cli_train_run *r, int test) { return measure_of(r, "perplexity", test); }

// A network with losses of its own may have a metric of that name, of any k.
double cli_train_top_5(const cli_train_run *r, int test) {
    return ls_graph_has_losses(r->graph) || ls_dataset_targets(r->dataset) ? NAN
                                                                           : measure_of(r, "top_k_accuracy", test);
}

double cli_train_area(const cli_train_run *r) { return r->roc ? ls_roc_mean_area(r->roc, r->labels) : NAN; }

int cli_train_has_perplexity(const cli_train_run *r) {
    for (int i = 0; i < ls_trainer_measure_count(r->trainer); i++)
        if (strcmp(ls_trainer_measure(r->trainer, i).name, "perplexity") == 0) return 1;
    return 0;
}

const char *cli_train_stop_reason(const cli_train_run *r) { return r->asked ? "signal" : "time limit"; }

// The one thing that even a silent run says: it did less than it was asked to.
void cli_train_print_stop(const cli_train_run *r) {
    const ls_train_result *t = &r->result;
    const ls_epoch_result *e = &t->epoch[t->epochs - 1];
    const char *evaluation = r->too_late_to_evaluate ? "; there is no time left to evaluate" : "";
    FILE *out = r->set.verbose ? stdout : stderr;
    fprintf(out, "Stopped after step %lld of %lld in epoch %d of %d, ", (long long)e->steps,
            (long long)t->steps_per_epoch, e->epoch, r->config.epochs);
    if (r->asked)
        fprintf(out, "as asked to%s.\n", evaluation);
    else
        fprintf(out, "to be over in time (%s)%s.\n", r->deadline.why, evaluation);
    if (r->checkpoints.set.folder && !r->checkpoints.latest_failed)
        fprintf(out, "The same command with --resume goes on from there.\n");
}

int cli_train_whole_epochs(const ls_train_result *t) {
    int whole = 0;
    for (int i = 0; i < t->epochs; i++) whole += t->epoch[i].steps == t->steps_per_epoch;
    return whole;
}

static void print_checkpoints(const cli_train_run *r) {
    ls_checkpoint_costs c = ls_trainer_checkpoint_costs(r->trainer);
    if (!r->checkpoints.set.folder) return;
    char failed[40] = "";
    if (c.failed) snprintf(failed, sizeof failed, ", %d failed", c.failed);
    row("Checkpoints", "%d written%s, of %.1f MB; training paused %.1f ms for each", c.written, failed,
        (double)c.bytes / 1e6, c.written + c.failed > 0 ? 1e3 * c.pause / (c.written + c.failed) : 0);
}

// The best epoch, as ls_epoch_score has it.
static void print_best(const cli_train_run *r) {
    const ls_epoch_result *best = &r->result.epoch[r->best_epoch - 1];
    const char *taken = r->restored ? "; the weights are those after it" : "";
    if (!isnan(best->val_area))
        row("Best epoch", "%d, area under ROC %.4f%s", best->epoch, best->val_area, taken);
    else if (!isnan(best->val_accuracy))
        row("Best epoch", "%d, %.2f %%%s", best->epoch, 100 * best->val_accuracy, taken);
    else
        row("Best epoch", "%d, loss %.4f%s", best->epoch, best->val_loss, taken);
}

static int64_t skipped_steps(const ls_train_result *t) {
    int64_t steps = 0;
    for (int i = 0; i < t->epochs; i++) steps += t->epoch[i].skipped;
    return steps;
}

enum { MOST_LOADERS = 1024 };

// What loaders cannot keep up with: whatever takes more of their time. In rows of 80 columns, whatever the numbers.
static void print_waited(const cli_train_run *r, double percent) {
    const ls_train_result *t = &r->result;
    double all = t->load_reading + t->load_preparing;
    int threads = t->loader_threads > 0 ? t->loader_threads : 1;
    row("Waited for data", "%.0f %% of the time, for %d loader thread%s of this host", percent, threads,
        threads == 1 ? "" : "s");
    if (all <= 0) return;
    int reads = t->load_reading > t->load_preparing;
    row("", "%s for %.0f %% of theirs", reads ? "reading" : "decoding and preparing",
        100 * (reads ? t->load_reading : t->load_preparing) / all);
    // As many more as would make in the rest of the time what is waited for.
    double enough = percent < 98 ? ceil(threads / (1 - percent / 100)) : MOST_LOADERS + 1;
    // Where they were measured, more of them had made nothing faster.
    if (enough > threads && enough <= MOST_LOADERS && !t->loader_threads_measured)
        row("", "--loader-threads %.0f would keep up, given the cores", enough);
    if (reads) row("", "'lockstep data' measures the storage");
}

// What samples cost: those that were broken, and waiting for them, where that is more than a twentieth of a step.
static void print_data(const cli_train_run *r, double step) {
    const ls_train_result *t = &r->result;
    char broken[sizeof t->broken_sample];
    snprintf(broken, sizeof broken, "%s", t->broken_sample);
    ls_text_clean(broken);
    if (t->samples_replaced)
        row("Broken samples", "%lld times another stood in for one. For example: %s", (long long)t->samples_replaced,
            broken);
    if (t->loader_threads_measured && t->loader_threads > 0)
        row("Loader threads", "%d of this host, as the first steps were measured", t->loader_threads);
    if (t->phases.load > 0.05 * step) print_waited(r, 100 * t->phases.load / step);
}

void cli_train_print_table(const cli_train_run *r) {
    const ls_train_result *t = &r->result;
    const ls_phase_seconds *p = &t->phases;
    char count[32];
    int whole = cli_train_whole_epochs(t);
    putchar('\n');
    row("Time to read the data", "%.2f s", ls_dataset_read_seconds(r->dataset));
    double step = p->load + p->forward + p->backward + p->exchange + p->wait + p->update + p->serial;
    row("Time per gradient update", "%.2f ms (mean; median %.2f ms)", 1e3 * step, 1e3 * t->step_seconds_median);
    row("  load, forward, backward", "%.2f, %.2f, %.2f ms", 1e3 * p->load, 1e3 * p->forward, 1e3 * p->backward);
    row("  exchange, wait, update", "%.2f, %.2f, %.2f ms", 1e3 * p->exchange, 1e3 * p->wait, 1e3 * p->update);
    if (t->buckets > 1) row("  exchange behind that", "%.2f ms, in %d buckets", 1e3 * t->exchange_hidden, t->buckets);
    if (p->serial > 0.005 * step) row("  serial parts", "%.2f ms", 1e3 * p->serial);
    row("First update done after", "%.2f s", r->first_step_seconds);
    if (whole > 0)
        row("Time per epoch", "%.2f s (median of %d)", t->epoch_seconds_median, whole);
    else
        row("Time per epoch", "no epoch is whole");
    int64_t tokens = cli_train_tokens_of(r);
    int clips = ls_dataset_image_shape(r->dataset).ndim == 4;
    row(tokens  ? "Sequences per second"
        : clips ? "Clips per second"
                : "Images per second",
        "%s", cli_count((int64_t)(t->images_per_second + 0.5), count));
    if (tokens)
        row("Tokens per second", "%s", cli_count((int64_t)(t->images_per_second * (double)tokens + 0.5), count));
    if (r->evaluated) {
        row("Test loss", "%.4f", t->test_loss);
        for (int i = 0; i < r->losses.count; i++)
            row(i ? "" : "  of that", "%s: %.4f", r->losses.of[i].name, r->losses.of[i].test);
        if (isfinite(t->test_accuracy)) row("Test accuracy", "%.2f %%", 100 * t->test_accuracy);
        if (isfinite(cli_train_top_5(r, 1))) row("Test top-5 accuracy", "%.2f %%", 100 * cli_train_top_5(r, 1));
        if (isfinite(cli_train_area(r)))
            row("Test area under ROC", "%.4f (mean of %d labels)", cli_train_area(r), r->labels);
        if (cli_train_has_perplexity(r)) row("Test perplexity", "%.3f", cli_train_perplexity(r, 1));
    }
    if (r->until_epoch)
        row("Time to that accuracy", "%.2f s of training, %d epoch%s (at least %g %% asked for)", r->until_seconds,
            r->until_epoch, r->until_epoch == 1 ? "" : "s", 100 * r->set.until_accuracy);
    else if (r->set.until_accuracy > 0)
        row("Time to that accuracy", "%g %% was not reached", 100 * r->set.until_accuracy);
    if (r->settled || r->restored) print_best(r);
    if (t->loss_scale != 1 || t->loss_scale_dynamic)
        row("Loss scale", "%.10g%s", t->loss_scale, t->loss_scale_dynamic ? ", dynamic" : "");
    if (skipped_steps(t) > 0) row("Steps left out", "%lld, not finite", (long long)skipped_steps(t));
    print_data(r, step);
    print_checkpoints(r);
    row("Total run time", "%.2f s", r->total_seconds);
    row("Peak memory", "%.0f MB%s, planned %.0f MB", (double)t->peak_rss_bytes / 1e6,
        t->workers > 1 ? " (largest worker)" : "", (double)t->planned_bytes / 1e6);
    if (r->config.async)
        row("Staleness of pushes", "%.2f (mean), %lld (largest)", t->staleness_mean, (long long)t->staleness_largest);
    printf("%-16s%s\n", "Weights digest", t->weights_digest);  // 80 columns
    if (t->digest_by_timing) row("", "which depends on timing; --push-log and --replay repeat it");
    row("  on", "%s", t->device_description);
    if (r->roc) putchar('\n');
    if (r->roc) ls_roc_print(stdout, r->roc, r->labels);
    fflush(stdout);
}
