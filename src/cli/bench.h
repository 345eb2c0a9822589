// lockstep bench: its parts.
#ifndef LS_CLI_BENCH_H
#define LS_CLI_BENCH_H

#include "cli/cli.h"

// bench_exchange.c: `lockstep bench exchange`; argv begins with that word.
ls_status cli_bench_exchange(cli *c, int argc, char **argv);
// bench_data.c: `lockstep bench data SPEC`; argv begins with that word.
ls_status cli_bench_data(cli *c, int argc, char **argv);

#endif
