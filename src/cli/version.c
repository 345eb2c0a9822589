#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

const char *cli_document(const char *name, char path[CLI_DOCUMENT]) {
    // Where `make install` puts them, as seen from the program, and where the sources have them.
    static const char *const places[] = {LS_DOCUMENTS, "../.."};
    char self[2048], place[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = n > 0 ? (self[n] = '\0', strrchr(self, '/')) : NULL;
    if (slash) *slash = '\0';
    for (int i = 0; slash && i < 2; i++) {
        snprintf(place, sizeof place, "%s/%s/docs/networks.md", self, places[i]);
        char *real = realpath(place, NULL);
        if (!real) continue;
        int fits = snprintf(path, CLI_DOCUMENT, "%.*s%s", (int)(strlen(real) - strlen("networks.md")), real, name);
        free(real);
        if (fits < CLI_DOCUMENT) return path;
    }
    snprintf(path, CLI_DOCUMENT, "docs/%s", name);
    return path;
}

ls_status cli_version(FILE *out) {
    char text[256] = "";
    LS_TRY(ls_machine_kernels("cpu", text, sizeof text));
    fprintf(out, "lockstep %s\nkernels: %s\n", ls_version(), text);
    ls_machine_mpi(text, sizeof text);
    fprintf(out, "MPI: %s\ncompiler: %s\n", text, cli_compiler());
    return LS_OK;
}
