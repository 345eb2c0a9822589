// What this host's probe gave in an earlier job, kept where nothing that it depends on can have changed without being noticed.
#ifndef LS_TRAIN_PROBE_CACHE_H
#define LS_TRAIN_PROBE_CACHE_H

// A probe that took less is not kept; LOCKSTEP_PROBE_SECONDS in the environment says otherwise, "never" for none at all.
#define LS_PROBE_SECONDS 0.2

// A hash of `recipe` (a text: versions, network, data, options), of the program and the libraries it is linked with (names, sizes and times of their files), of what the
// processor says about itself (maker, model, instructions, caches), and of the environment that oneDNN reads. 0: none can be made here, nothing is kept.
// Not collective.
int ls__probe_key(const char *recipe, char key[65]);
// What a probe gave.
typedef struct ls_probe_kept {
    char digest[65];
    double seconds;  // that its micro-batch took, once its kernels had run; 0: nobody asked
} ls_probe_kept;
// 1: an earlier job of this user left it under this key. What cannot be read or is no such thing is none. Not collective.
int ls__probe_load(const char *key, ls_probe_kept *out);
// Keeps it, where the probe took long enough (`took` seconds in all). What cannot be written is not. There are at most 256 such files: a later one
// takes an earlier one's place. Not collective.
void ls__probe_store(const char *key, const ls_probe_kept *kept, double took);

#endif
