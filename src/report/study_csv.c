// A study as comma-separated values, one row a configuration: results.csv, for programs and spreadsheets.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "report/csv.h"
#include "report/study_impl.h"

// Empty where it was not measured.
static void csv_number(FILE *out, double x, int measured) {
    fputc(',', out);
    if (measured && isfinite(x)) fputs(ls_text_real(x, (char[32]){0}), out);
}

void ls__study_csv(FILE *out, const ls_study *s) {
    fputs(
        "model,compared,data,precision,strategy,nodes,workers_per_node,workers,replicas_per_worker,threads_per_replica,"
        "parameters,global_batch,micro_batch,train_count,test_count,repeats,failed,stopped,oversubscribed,read_seconds,"
        "step_seconds,step_seconds_median,epoch_seconds,epoch_seconds_least,epoch_seconds_most,first_epoch_seconds,"
        "total_seconds,images_per_second,speedup,efficiency,test_loss,test_"
        "accuracy,"
        "load_seconds,forward_seconds,backward_seconds,exchange_seconds,wait_seconds,update_seconds,serial_seconds,"
        "lost_compute,lost_exchange,lost_wait,lost_input,lost_serial,lost_unexplained,peak_rss_bytes,planned_bytes,"
        "learning_rate,until_accuracy,until_epoch,until_seconds,weights_digest,digest_differs,device,reason,recipe\n",
        out);
    for (int i = 0; i < s->row_count; i++) {
        const ls_study_row *r = &s->rows[i];
        const char *const texts[] = {r->model, ls_comparison_name(r->compared), r->data, r->precision, r->strategy};
        const long long wholes[] = {
            r->nodes,      r->workers_per_node, r->workers,     r->replicas_per_worker, r->threads_per_replica,
            r->parameters, r->global_batch,     r->micro_batch, r->train_count,         r->test_count,
            r->repeats,    r->failed,           r->stopped,     r->oversubscribed};
        const double reals[] = {r->read_seconds,
                                r->step_seconds,
                                r->step_seconds_median,
                                r->epoch_seconds,
                                r->epoch_seconds_least,
                                r->epoch_seconds_most,
                                r->first_epoch_seconds,
                                r->total_seconds,
                                r->images_per_second,
                                r->speedup > 0 ? r->speedup : NAN,
                                r->efficiency > 0 ? r->efficiency : NAN,
                                r->test_loss,
                                r->test_accuracy,
                                r->load,
                                r->forward,
                                r->backward,
                                r->exchange,
                                r->wait,
                                r->update,
                                r->serial,
                                r->loss.compute,
                                r->loss.exchange,
                                r->loss.wait,
                                r->loss.input,
                                r->loss.serial,
                                r->loss.unexplained,
                                (double)r->peak_rss_bytes,
                                r->planned_bytes > 0 ? (double)r->planned_bytes : NAN,
                                r->rate,
                                r->until_accuracy,
                                r->until_epoch,
                                r->until_seconds};
        for (size_t j = 0; j < sizeof texts / sizeof texts[0]; j++) {
            if (j) fputc(',', out);
            ls_csv_text(out, texts[j]);
        }
        for (size_t j = 0; j < sizeof wholes / sizeof wholes[0]; j++) fprintf(out, ",%lld", wholes[j]);
        for (size_t j = 0; j < sizeof reals / sizeof reals[0]; j++) csv_number(out, reals[j], r->repeats > 0);
        fputc(',', out);
        if (r->digest[strspn(r->digest, "0123456789abcdef")])  // not one of ours
            ls_csv_text(out, r->digest);
        else
            fputs(r->digest, out);
        fprintf(out, ",%d,", r->digest_differs);
        ls_csv_text(out, r->device);
        fputc(',', out);
        ls_csv_text(out, r->reason);
        fputc(',', out);
        ls_csv_text(out, r->recipe);
        fputc('\n', out);
    }
}
