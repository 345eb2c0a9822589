// LS_CLONES: compiles a function once per instruction set and picks at load time. Only for loops whose results do not
// depend on the instruction set (no contraction, no reordered sums). Not under sanitizers, which run before the picking
// can, and not with clang, which before its version 17 cannot call such a function from another file.
#ifndef LS_BASE_CLONES_H
#define LS_BASE_CLONES_H

#if defined(__x86_64__) && defined(__linux__) && (!defined(__clang__) || __clang_major__ >= 17) &&                     \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(LS_SANITIZED)
#define LS_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define LS_CLONES
#endif

#endif
