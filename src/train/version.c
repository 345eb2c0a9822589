#include <lockstep/context.h>

const char *ls_version(void) { return LS_VERSION; }
