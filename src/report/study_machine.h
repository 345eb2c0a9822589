// The machine a study was made on, from study.json.
#ifndef LS_REPORT_STUDY_MACHINE_H
#define LS_REPORT_STUDY_MACHINE_H

#include <jansson.h>

// "2 cores, 25.3 GB of memory; network: eth0, 10000 Mbit/s; Slurm: job 17, on n[1-2]", or as much of it as `host` tells.
void ls__machine_text(const json_t *host, char *text, size_t size);

#endif
