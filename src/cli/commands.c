#include "cli/cli.h"

extern const cli_command cli_command_train, cli_command_evaluate, cli_command_predict, cli_command_inspect,
    cli_command_summary, cli_command_models, cli_command_datasets, cli_command_data, cli_command_convert,
    cli_command_export, cli_command_bench, cli_command_scale, cli_command_report, cli_command_check, cli_command_batch,
    cli_command_slurm, cli_command_plan, cli_command_gan;

static const cli_command *const commands[] = {
    &cli_command_train,
    &cli_command_gan,
    &cli_command_evaluate,
    &cli_command_predict,
    &cli_command_inspect,
    &cli_command_summary,
    &cli_command_models,
    &cli_command_datasets,
    &cli_command_data,
    &cli_command_convert,
    &cli_command_export,
    &cli_command_plan,
    &cli_command_bench,
    &cli_command_scale,
    &cli_command_report,
    &cli_command_check,
    &cli_command_batch,
    &cli_command_slurm,
    NULL,
};

const cli_command *const *cli_commands(void) { return commands; }
