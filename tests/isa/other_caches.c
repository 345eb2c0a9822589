// Loaded before a program, shows it a processor with other caches, or of another maker, than the one it runs on: the system is asked to trap
// the instruction CPUID (Linux, x86-64, a processor with cpuid_fault), and what it tells is changed here. Libraries that cut their work by the
// sizes of caches then do it as they would there.
//   LS_CACHES=L1,L2,L3  KiB of the three levels (0: as it is)
//   LS_MAKER=AuthenticAMD  the maker's twelve letters
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { SET_CPUID = 0x1012, KIB = 1024 };

static unsigned caches[4];  // KiB, by level
static const char *maker;

static void trap(int on) { syscall(SYS_arch_prctl, SET_CPUID, (unsigned long)!on); }

static void ask(uint32_t leaf, uint32_t sub, uint32_t r[4]) {
    __asm__ volatile("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "a"(leaf), "c"(sub));
}

// Of a data cache: as many sets as make the size, of as many ways as it has.
static void resize(uint32_t r[4]) {
    uint32_t type = r[0] & 31, level = r[0] >> 5 & 7;
    if ((type != 1 && type != 3) || level > 3 || !caches[level]) return;
    uint32_t line = (r[1] & 0xFFF) + 1, parts = (r[1] >> 12 & 0x3FF) + 1, ways = 8;
    r[1] = (r[1] & 0x3FFFFF) | (ways - 1) << 22;
    r[2] = caches[level] * KIB / (line * parts * ways) - 1;
}

void other_caches_restore(void);
__asm__(".text\nother_caches_restore:\n mov $15, %eax\n syscall\n");  // rt_sigreturn
#define restore other_caches_restore

static void on_trap(int number, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)g[REG_RIP];
    uint32_t r[4];
    (void)info;
    if (at[0] != 0x0F || at[1] != 0xA2) {  // not ours: as if there were no handler
        signal(number, SIG_DFL);
        return;
    }
    uint32_t leaf = (uint32_t)g[REG_RAX], sub = (uint32_t)g[REG_RCX];
    trap(0);
    ask(leaf, sub, r);
    trap(1);
    if (leaf == 4) resize(r);
    if (leaf == 0 && maker) {
        memcpy(&r[1], maker, 4);
        memcpy(&r[3], maker + 4, 4);
        memcpy(&r[2], maker + 8, 4);
    }
    g[REG_RAX] = r[0], g[REG_RBX] = r[1], g[REG_RCX] = r[2], g[REG_RDX] = r[3];
    g[REG_RIP] += 2;
}

// The program may have a handler of its own for crashes: it does not get it.
int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    int (*real)(int, const struct sigaction *, struct sigaction *) =
        (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(RTLD_NEXT, "sigaction");
    if (number == SIGSEGV && action && (caches[1] || caches[2] || caches[3] || maker)) return 0;
    return real(number, action, before);
}

// Nor does it block the signal in threads: a trap there would end it.
int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
    int (*real)(int, const sigset_t *, sigset_t *) =
        (int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_NEXT, "pthread_sigmask");
    sigset_t without;
    if (!set) return real(how, set, before);
    without = *set;
    sigdelset(&without, SIGSEGV);
    return real(how, &without, before);
}

// The C library is not there yet.
static const char *value_of(char **environment, const char *name) {
    size_t n = strlen(name);
    for (char **e = environment; *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') return *e + n + 1;
    return NULL;
}

__attribute__((constructor)) static void begin(int argc, char **argv, char **environment) {
    (void)argc, (void)argv;
    const char *sizes = value_of(environment, "LS_CACHES");
    maker = value_of(environment, "LS_MAKER");
    if (maker && strlen(maker) != 12) maker = NULL;
    for (int level = 1; sizes && level < 4; level++) {
        for (; *sizes >= '0' && *sizes <= '9'; sizes++) caches[level] = 10 * caches[level] + (unsigned)(*sizes - '0');
        if (*sizes) sizes++;
    }
    if (!sizes && !maker) return;
    // As the kernel takes it, with the way back that it wants.
    struct {
        void (*handler)(int, siginfo_t *, void *);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {on_trap, SA_SIGINFO | SA_NODEFER | 0x04000000, restore, 0};
    syscall(SYS_rt_sigaction, SIGSEGV, &action, NULL, 8);
    trap(1);
    if (syscall(SYS_arch_prctl, 0x1011) != 0) {
        static const char text[] = "other_caches: this system does not trap CPUID\n";
        ssize_t said = write(2, text, sizeof text - 1);
        _exit(said > 0 ? 77 : 78);
    }
}
