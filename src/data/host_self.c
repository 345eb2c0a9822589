// A host of one worker: private memory, ordinary reads, nobody to wait for.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"

typedef struct block {
    void *memory;
    struct block *next;
} block;

typedef struct self_host {
    ls_data_host host;
    block *blocks;
} self_host;

static ls_status self_alloc(void *self, int64_t bytes, void **out) {
    self_host *s = self;
    block *b;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *b, &b));
    ls_status status = ls_memory_alloc(bytes, &b->memory);
    if (status != LS_OK) {
        free(b);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    b->next = s->blocks;
    s->blocks = b;
    *out = b->memory;
    return LS_OK;
}

static void self_free(void *self, void *memory) {
    for (block **at = &((self_host *)self)->blocks; *at; at = &(*at)->next)
        if ((*at)->memory == memory) {
            block *b = *at;
            *at = b->next;
            ls_memory_free(b->memory);
            free(b);
            return;
        }
}

static ls_status self_read(void *self, const char *path, int64_t offset, int64_t bytes, void *out) {
    if (bytes == 0) return LS_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return LS_FAIL(LS_STATUS_IO, "cannot open %s: %s; check its permissions", path, strerror(errno));
    ls_status status = LS_OK;
    int64_t done = 0;
    while (done < bytes && status == LS_OK) {
        ssize_t n = pread(fd, (char *)out + done, (size_t)(bytes - done), offset + done);
        if (n > 0)
            done += n;
        else if (n == 0)
            status = LS_FAIL(LS_STATUS_IO,
                             "%s ends at byte %lld while %lld were being read from byte %lld on: it was cut short "
                             "meanwhile; start again once it is complete",
                             path, (long long)(offset + done), (long long)bytes, (long long)offset);
        else if (errno != EINTR)
            status = LS_FAIL(LS_STATUS_IO, "cannot read %s: %s; check the disk or copy the file again", path,
                             strerror(errno));
    }
    close(fd);
    return status;
}

static ls_status self_barrier(void *self) { return LS_OK; }

static ls_status self_agree(void *self, ls_status mine) { return mine; }

ls_status ls_data_host_create_self(ls_data_host **out) {
    *out = NULL;
    self_host *s;
    LS_TRY(ls_calloc(1, sizeof *s, &s));
    s->host = (ls_data_host){.rank = 0,
                             .size = 1,
                             .self = s,
                             .alloc = self_alloc,
                             .read = self_read,
                             .barrier = self_barrier,
                             .agree = self_agree,
                             .free = self_free};
    *out = &s->host;
    return LS_OK;
}

void ls_data_host_destroy_self(ls_data_host **host) {
    if (!*host) return;
    self_host *s = (*host)->self;
    while (s->blocks) self_free(s, s->blocks->memory);
    free(s);
    *host = NULL;
}
