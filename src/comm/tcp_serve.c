// Addresses and the socket that listens.
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/tcp_impl.h"

void ls__tcp_where(int socket, char text[80]) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[64], port[8];
    snprintf(text, 80, "an unknown address");
    if (getpeername(socket, (struct sockaddr *)&address, &size) == 0 &&
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(text, 80, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static ls_status no_address(const char *entry, int task, int why) {
    return LS_FAIL(LS_STATUS_NOT_FOUND,
                   "worker %d is to listen at %s, and that name has no address here: %s; give its IP address, or see "
                   "that the name is known (/etc/hosts)",
                   task, entry, gai_strerror(why));
}

static ls_status cannot_listen(const char *entry, int task, int why) {
    if (why == EADDRINUSE)
        return LS_FAIL(
            LS_STATUS_IO,
            "worker %d cannot listen at %s: the port is taken, by another process or by a worker of this "
            "number that runs already; end that, or give worker %d another port in the list of hosts, on all "
            "workers",
            task, entry, task);
    if (why == EADDRNOTAVAIL)
        return LS_FAIL(LS_STATUS_IO,
                       "worker %d cannot listen at %s: that is no address of this machine; is %d the number of the "
                       "worker that belongs here?",
                       task, entry, task);
    return LS_FAIL(LS_STATUS_IO, "worker %d cannot listen at %s: %s%s", task, entry, strerror(why),
                   why == EACCES ? "; ports below 1024 belong to the system" : "");
}

static int is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static int resolve(const ls__entry *entry, struct addrinfo **found) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    char port[8];
    snprintf(port, sizeof port, "%d", entry->port);
    return getaddrinfo(entry->host, port, &hints, found);
}

// Many systems give their own name an address that only they know (127.0.1.1): the others would wait in vain.
static ls_status check_reachable(const ls__entry *list, int count, int task, const struct sockaddr *mine) {
    char text[LS_LIST_ENTRY], other[LS_LIST_ENTRY], address[64] = "";
    struct addrinfo *found;
    if (!is_loopback(mine)) return LS_OK;
    socklen_t size = mine->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    getnameinfo(mine, size, address, sizeof address, NULL, 0, NI_NUMERICHOST);
    for (int i = 0; i < count; i++) {
        if (strcmp(list[i].host, list[task].host) == 0 || resolve(&list[i], &found) != 0) continue;
        int elsewhere = !is_loopback(found->ai_addr);
        freeaddrinfo(found);
        if (elsewhere)
            return LS_FAIL(LS_STATUS_IO,
                           "worker %d would listen at %s, which is %s here and reached from this machine alone, while "
                           "worker %d is at %s: put an address in the list that the others reach, or mend /etc/hosts",
                           task, ls__entry_text(&list[task], text), address, i, ls__entry_text(&list[i], other));
    }
    return LS_OK;
}

ls_status ls__tcp_listen(const ls__entry *list, int count, int task, int *out) {
    const ls__entry *entry = &list[task];
    struct addrinfo *found;
    char text[LS_LIST_ENTRY];
    int on = 1, error = 0, s = -1, why = resolve(entry, &found);
    ls__entry_text(entry, text);
    if (why != 0) return no_address(text, task, why);
    ls_status status = check_reachable(list, count, task, found->ai_addr);
    if (status != LS_OK) {
        freeaddrinfo(found);
        LS_TRY(status);
    }
    for (const struct addrinfo *a = found; a && s < 0; a = a->ai_next) {
        s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (s < 0) {
            error = errno;
            continue;
        }
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // connections of a run before, that end by themselves
        if (bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, 1024) == 0) break;
        error = errno;
        close(s);
        s = -1;
    }
    freeaddrinfo(found);
    if (s < 0) return cannot_listen(text, task, error);
    *out = s;
    return LS_OK;
}
