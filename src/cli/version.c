#include "cli/cli.h"
#include "comm/comm.h"
#include "device/device.h"

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
    ls_device *device;
    ls_status status = ls_device_create("cpu", NULL, &device);
    if (status != LS_OK) return status;
    device->ops->describe(device, text, sizeof text);
    ls_device_destroy(&device);
    fprintf(out, "lockstep %s\nkernels: %s\n", ls_version(), text);
    ls_comm_library(text, sizeof text);
    fprintf(out, "MPI: %s\ncompiler: %s\n", text, cli_compiler());
    return LS_OK;
}
