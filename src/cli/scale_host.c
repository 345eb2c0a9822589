// The machine a study was made on, for study.json. What cannot be found out is left out.
#define _GNU_SOURCE
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/scale.h"

// The first line of a file, without its end; 0 where there is none.
static int first_line(const char *path, char *out, size_t size) {
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int there = fgets(out, (int)size, file) != NULL;
    fclose(file);
    if (there) out[strcspn(out, "\n")] = 0;
    return there && *out;
}

static void add_cpu(json_t *host) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value) continue;
        value += 1 + strspn(value + 1, " ");
        value[strcspn(value, "\n")] = 0;
        json_object_set_new(host, "cpu", json_string(value));
        break;
    }
    if (file) fclose(file);
}

// Cores this process may use: those processing units that are the first of their core, or where the machine hides its
// cores, all of them.
static int cores(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return (int)sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t firsts;
    CPU_ZERO(&firsts);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        char path[128], siblings[256];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        int first = first_line(path, siblings, sizeof siblings) ? atoi(siblings) : cpu;
        CPU_SET(first, &firsts);
    }
    double quota = ls_limits_group_cpus();  // which control groups allow the time of
    int count = CPU_COUNT(&firsts);
    return quota > 0 && quota < count ? (int)ceil(quota) : count;
}

// Network interfaces, each with its speed where the system tells it: the cards, or those made in software.
static json_t *interfaces(int cards) {
    DIR *folder = opendir("/sys/class/net");
    json_t *list = json_array();
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[512], speed[64];
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "lo") == 0) continue;
        snprintf(path, sizeof path, "/sys/class/net/%s/device", entry->d_name);
        if ((access(path, F_OK) == 0) != cards) continue;
        snprintf(path, sizeof path, "/sys/class/net/%s/speed", entry->d_name);
        if (first_line(path, speed, sizeof speed) && atoi(speed) > 0)
            json_array_append_new(list, json_sprintf("%s, %s Mbit/s", entry->d_name, speed));
        else
            json_array_append_new(list, json_string(entry->d_name));
    }
    if (folder) closedir(folder);
    return list;
}

// What InfiniBand's and its like's ports say of themselves: "200 Gb/sec (4X HDR)".
static void add_fabrics(json_t *list) {
    DIR *folder = opendir("/sys/class/infiniband");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[512], rate[64];
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/rate", entry->d_name);
        if (entry->d_name[0] != '.' && first_line(path, rate, sizeof rate))
            json_array_append_new(list, json_sprintf("%s, %s", entry->d_name, rate));
    }
    if (folder) closedir(folder);
}

// Bridges, tunnels and the like say nothing where there are cards; a container may see nothing else.
static json_t *network(void) {
    json_t *list = interfaces(1);
    if (json_array_size(list) == 0) {
        json_decref(list);
        list = interfaces(0);
    }
    add_fabrics(list);
    return list;
}

json_t *scale_host(void) {
    json_t *host = json_object();
    struct utsname system;
    if (uname(&system) == 0) {
        json_object_set_new(host, "name", json_string(system.nodename));
        json_object_set_new(host, "system", json_sprintf("%s %s %s", system.sysname, system.release, system.machine));
    }
    add_cpu(host);
    json_object_set_new(host, "cores", json_integer(cores()));
    json_object_set_new(host, "memory_bytes",
                        json_integer((json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE)));
    json_object_set_new(host, "network", network());
    static const char *const slurm[][2] = {{"slurm_job", "SLURM_JOB_ID"},
                                           {"slurm_nodes", "SLURM_JOB_NODELIST"},
                                           {"slurm_partition", "SLURM_JOB_PARTITION"}};
    for (int i = 0; i < 3; i++)
        if (getenv(slurm[i][1])) json_object_set_new(host, slurm[i][0], json_string(getenv(slurm[i][1])));
    char *version = NULL;
    size_t size;
    FILE *out = open_memstream(&version, &size);
    if (out) {
        cli_version(out);
        fclose(out);
        json_object_set_new(host, "versions", json_string(version));
        free(version);
    }
    return host;
}
