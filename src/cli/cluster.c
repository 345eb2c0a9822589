// A job without a launcher: --hosts, --task and --key-file, or TF_CONFIG.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"

#define GROUP "Workers, replicas, threads"

static const ls_option table[] = {
    {"hosts", LS_OPTION_TEXT, .offset = offsetof(ls_cluster, hosts), .metavar = "HOST:PORT,...", .group = GROUP,
     .initial = "what TF_CONFIG says, where it is set",
     .help = "the workers of a job without MPI's launcher, worker 0 first: each is started with this same list and its "
             "own --task, and listens at its address"},
    {"task", LS_OPTION_INT, .offset = offsetof(ls_cluster, task), .metavar = "N", .max = 65535, .group = GROUP,
     .initial = "what TF_CONFIG says", .help = "which of --hosts this process is, from 0"},
    {"key-file", LS_OPTION_TEXT, .offset = offsetof(ls_cluster, key_file), .metavar = "FILE", .group = GROUP,
     .initial = "LOCKSTEP_KEY in the environment",
     .help =
         "the key that the workers of --hosts prove to each other: at least 16 bytes, in a file that nobody else may "
         "read"},
    {.name = NULL},
};

const ls_option *cli_cluster_options(void) { return table; }

ls_status cli_cluster_find(cli *c, int workers) {
    const char *config = getenv("TF_CONFIG");
    ls_cluster *cluster = &c->cluster;
    int listed = config && *config;
    if (cluster->hosts && cluster->task < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--hosts: which of them is this process? --task says it, 0 is the first");
    if (cluster->hosts && workers > 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--workers %d with --hosts: leave out --workers; the list says how many there are", workers);
    if (cluster->hosts && cli_job_size() > 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--hosts, but a launcher has started %d workers of this: start each by itself, with a --task of "
                       "its own, or leave out --hosts and --task",
                       cli_job_size());
    if (!cluster->hosts && !listed && (cluster->task >= 0 || cluster->key_file))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s: of which job? --hosts names its workers",
                       cluster->task >= 0 ? "task" : "key-file");
    c->clustered = cluster->hosts || (listed && workers == 0 && cli_job_size() <= 1);
    return LS_OK;
}

// While the others are waited for.
static void tell(void *user, const char *sentence) {
    const cli *c = user;
    char text[256];
    snprintf(text, sizeof text, "%s", sentence);
    ls_text_clean(text);
    fprintf(stderr, "lockstep %s: sent away %s; still waiting for the workers of this job\n", c->command, text);
}

ls_status cli_cluster_join(cli *c) {
    ls_cluster cluster = c->cluster;
    double limit = c->wait_limit;
    cluster.join_seconds = limit;                                      // 0: what the library takes; < 0: for ever
    if (limit > 0 && limit < 80) cluster.link_seconds = 0.75 * limit;  // before waiting is over: it says more
    cluster.note = tell;
    cluster.user = c;
    return ls_context_create_cluster(&cluster, &c->context);
}
