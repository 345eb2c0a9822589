#define _GNU_SOURCE
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/options.h"
#include "cli/cli.h"

// Some launchers give their children a terminal of their own, wherever their output goes in the end. What the launcher
// writes to tells: LOCKSTEP_TERMINAL says it where this program launched itself, and /proc where it was launched by hand.
int cli_terminal_is(FILE *stream) {
    const char *told = getenv("LOCKSTEP_TERMINAL");
    if (told) return told[0] == '1';
    if (!isatty(fileno(stream))) return 0;
    if (cli_job_size() == 0) return 1;
    char path[64], target[256];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getppid(), fileno(stream));
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0) return 1;
    target[n] = 0;
    return strncmp(target, "/dev/pts/", 9) == 0 || strncmp(target, "/dev/tty", 8) == 0;
}

int cli_terminal_width(void) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    const char *columns = getenv("COLUMNS");
    int n = columns ? atoi(columns) : 0;
    return n > 0 ? n : 80;
}

// Without making that locale the program's: numbers are written for programs to read.
int cli_terminal_utf8(void) {
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (!locale) return 0;
    int utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return utf8;
}

void cli_say(const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) return;
    ls_print_entry(stdout, "", 0, cli_terminal_is(stdout) ? cli_terminal_width() : n + 1, text);
    free(text);
}

int cli_help_width(void) {
    int width = isatty(STDOUT_FILENO) ? cli_terminal_width() : 100;
    return width < 60 ? 60 : width > 100 ? 100 : width;
}

// Field 22 of /proc/self/stat: when the process started, in ticks since boot. Loading libraries comes after that and before
// main, and it is time the user waits too.
double cli_process_started(void) {
    double now = ls_clock();
    const char *launched = getenv("LOCKSTEP_STARTED");
    struct timespec t;
    if (launched) {
        clock_gettime(CLOCK_REALTIME, &t);  // the launcher may have run on another host
        double ago = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - strtod(launched, NULL);
        if (ago >= 0 && ago < 3600) return now - ago;
    }
    FILE *f = fopen("/proc/self/stat", "r");
    if (!f) return now;
    char text[1024];
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *p = strrchr(text, ')');  // the program's name, which may hold spaces, ends here: field 2
    for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
    if (!p) return now;
    clock_gettime(CLOCK_BOOTTIME, &t);
    double ago = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - strtod(p, NULL) / (double)sysconf(_SC_CLK_TCK);
    return ago >= 0 && ago < 3600 ? now - ago : now;
}

const char *cli_compress_text(const char *compress) {
    if (strcmp(compress, "none") == 0) return "";
    return strncmp(compress, "topk", 4) == 0 ? ", gradients by " : ", gradients in ";
}

const char *cli_count(int64_t n, char buffer[32]) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && digits[i - 1] != '-' && (length - i) % 3 == 0) buffer[at++] = ',';
        buffer[at++] = digits[i];
    }
    buffer[at] = 0;
    return buffer;
}
