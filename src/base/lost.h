// Processes of this host that end before their time. Launchers end all workers when one has died, at once or a second later, so whoever is left has to say
// what it knows within that time: a thread sees the end of each of them as it happens, or looks when this process is asked to end.
#ifndef LS_BASE_LOST_H
#define LS_BASE_LOST_H

#include "base/flight.h"
#include "base/watch.h"

#define LS_LOST "has lost worker"  // how a sentence of that begins

// Called on that thread, at most once with a sentence: who was lost, and what this process was doing or waiting for. NULL: this process was asked to end, and
// nobody was lost that it knows of; the sentence of one that waits for another host meanwhile comes before that, with `lost` 0.
typedef void (*ls_lost_fn)(void *user, const char *sentence, int lost);

// Starts it, at most once in a process, from its main thread. Where that fails nobody looks.
void ls_lost_start(ls_lost_fn fn, void *user);
// Who there is (base/watch.h): from now on they are looked at. Records may be NULL.
void ls_lost_crew(const ls_watch_peer *peers, const ls_flight *const *records, int count, int hosts);
// This process is asked to end. Returns whether the thread takes care of it. For signal handlers.
int ls_lost_asked(void);

#endif
