#include "report/study_machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

void ls__machine_text(const json_t *host, char *text, size_t size) {
    static const char *const slurm[][2] = {
        {"slurm_job", "job"}, {"slurm_nodes", "on"}, {"slurm_partition", "partition"}};
    long long cores = json_integer_value(json_object_get(host, "cores"));
    double memory = json_number_value(json_object_get(host, "memory_bytes"));
    const json_t *network;
    size_t i;
    text[0] = 0;
    if (cores > 0) add(text, size, "%lld core%s", cores, cores == 1 ? "" : "s");
    if (memory > 0) add(text, size, "%s%.1f GB of memory", text[0] ? ", " : "", 1e-9 * memory);
    int interfaces = 0;
    json_array_foreach(json_object_get(host, "network"), i, network) {
        const char *name = json_string_value(network);
        if (name) add(text, size, "%s%s", interfaces++ ? "; " : text[0] ? "; network: " : "network: ", name);
    }
    int facts = 0;
    for (i = 0; i < sizeof slurm / sizeof slurm[0]; i++) {
        const char *value = json_string_value(json_object_get(host, slurm[i][0]));
        if (value) add(text, size, "%s%s %s", facts++ ? ", " : text[0] ? "; Slurm: " : "Slurm: ", slurm[i][1], value);
    }
}
