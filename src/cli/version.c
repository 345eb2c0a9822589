#include "base/error.h"
#include "cli/cli.h"

#define TEXT(x)   #x
#define NUMBER(x) TEXT(x)

const char *cli_compiler(void) {
#if defined __clang__
    return "clang " NUMBER(__clang_major__) "." NUMBER(__clang_minor__) "." NUMBER(__clang_patchlevel__);
#else
    return "gcc " NUMBER(__GNUC__) "." NUMBER(__GNUC_MINOR__) "." NUMBER(__GNUC_PATCHLEVEL__);
#endif
}

ls_status cli_version(FILE *out) {
    char text[256] = "";
    LS_TRY(ls_machine_kernels("cpu", text, sizeof text));
    fprintf(out, "lockstep %s\nkernels: %s\n", ls_version(), text);
    ls_machine_mpi(text, sizeof text);
    fprintf(out, "MPI: %s\ncompiler: %s\n", text, cli_compiler());
    return LS_OK;
}
