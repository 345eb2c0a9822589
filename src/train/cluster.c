// Joining a job by a list of its workers, from the caller or from TF_CONFIG, as TensorFlow's ClusterSpec has it:
//
//     {"cluster": {"worker": ["a:33562", "b:33561"]}, "task": {"type": "worker", "index": 0}}
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "train/context.h"

#define ADDRESS 270  // the longest of an address

void ls_cluster_init(ls_cluster *cluster) {
    if (cluster) *cluster = (ls_cluster){.task = -1};
}

static ls_status no_cluster(const char *what) {
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "TF_CONFIG %s; it is to look like {\"cluster\": {\"worker\": [\"a:33562\", \"b:33561\"]}, "
                   "\"task\": {\"type\": \"worker\", \"index\": 0}}",
                   what);
}

static const json_t *list_of(const json_t *cluster, const char *type) { return json_object_get(cluster, type); }

// Appends the addresses of workers of a type.
static ls_status add_type(const json_t *cluster, const char *type, char *text, size_t size, size_t *used) {
    const json_t *list = list_of(cluster, type);
    if (!list) return LS_OK;
    if (!json_is_array(list)) return no_cluster("has a cluster whose workers are no list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *address = json_string_value(json_array_get(list, i));
        if (!address || strlen(address) >= ADDRESS) return no_cluster("has a worker that is no address");
        ls_text_add(text, size, used, "%s%s", *used ? "," : "", address);
    }
    return LS_OK;
}

// A chief, or master as it was called once, comes before the workers, as TensorFlow counts.
static ls_status read_task(const json_t *root, const json_t *cluster, int *task) {
    const json_t *of = json_object_get(root, "task");
    const char *type = json_string_value(json_object_get(of, "type"));
    const json_t *index = json_object_get(of, "index");
    size_t before = json_array_size(list_of(cluster, "chief")) + json_array_size(list_of(cluster, "master"));
    if (*task >= 0) return LS_OK;
    if (!of) return no_cluster("names no task: which of the workers this one is");
    int leads = type && (strcmp(type, "chief") == 0 || strcmp(type, "master") == 0);
    if (!type || (!leads && strcmp(type, "worker") != 0))
        return no_cluster("has a task that is neither a worker nor the chief");
    if (!json_is_integer(index) || json_integer_value(index) < 0 || json_integer_value(index) > 65535)
        return no_cluster("has a task whose index is no number");
    *task = (int)json_integer_value(index) + (leads ? 0 : (int)before);
    return LS_OK;
}

static ls_status read_root(const json_t *root, char **hosts, int *task) {
    const json_t *cluster = json_object_get(root, "cluster");
    static const char *const types[] = {"chief", "master", "worker"};
    size_t count = 0, used = 0;
    if (!json_is_object(root)) return no_cluster("is no object");
    if (json_object_size(cluster) == 0) return LS_OK;  // this process alone, as TensorFlow takes it
    if (json_array_size(list_of(cluster, "ps")) > 0)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "TF_CONFIG has parameter servers in its cluster: list them as workers too, and say --strategy "
                       "parameter-server --servers %d",
                       (int)json_array_size(list_of(cluster, "ps")));
    for (int i = 0; i < 3; i++) count += json_array_size(list_of(cluster, types[i]));
    if (count == 0) return no_cluster("has a cluster without workers");
    LS_TRY(ls_calloc((int64_t)count, ADDRESS + 1, hosts));
    for (int i = 0; i < 3; i++) LS_TRY(add_type(cluster, types[i], *hosts, count * (ADDRESS + 1), &used));
    return read_task(root, cluster, task);
}

static ls_status read_config(const char *text, char **hosts, int *task) {
    json_error_t error;
    *hosts = NULL;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "TF_CONFIG is no JSON: %s at column %d", error.text, error.column);
    ls_status status = read_root(root, hosts, task);
    json_decref(root);
    if (status == LS_OK) return LS_OK;
    free(*hosts);
    *hosts = NULL;
    return ls__fail_passed(status, __FILE__, __LINE__);
}

// How many workers the list has.
static int count_of(const char *hosts) {
    int count = 1;
    for (; *hosts; hosts++) count += *hosts == ',';
    return count;
}

static ls_status join(const void *of, ls_comm **out) {
    const ls_cluster *cluster = of;
    if (!cluster->hosts) return ls_comm_create_self(out);
    if (cluster->task == 0 && count_of(cluster->hosts) == 1) return ls_comm_create_self(out);
    return ls_comm_create_tcp(cluster, out);
}

ls_status ls_context_create_cluster(const ls_cluster *cluster, ls_context **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(cluster, "cluster");
    ls_cluster found = *cluster;
    char *hosts = NULL;
    const char *config = getenv("TF_CONFIG");
    if (!found.hosts) {
        if (!config || !*config)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "there is no list of hosts: name all workers, host:port,host:port, or set TF_CONFIG");
        LS_TRY(read_config(config, &hosts, &found.task));
        found.hosts = hosts;
    }
    ls_status status = ls__context_create(join, &found, out);
    free(hosts);
    return status;
}
