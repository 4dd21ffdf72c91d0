/*
 * What earlier searches found, in files: one for each topology up to renumbering, collective and root. A search that
 * was cut short goes on where it stopped. No proof rests on a file: schedules are replayed and bounds computed anew.
 */
#ifndef TOOLS_SYNTH_LIB_CACHE_H
#define TOOLS_SYNTH_LIB_CACHE_H

#include "tools/synth/lib/schedule.h"

typedef struct synth_cache synth_cache_t;

/*
 * Opens the entry of a collective that does not combine. `folder` is made if it is not there. `root` is negative if the
 * collective has none. NULL without memory. A file that is not as it should be counts as empty, and `why`, which is
 * empty otherwise, names it.
 */
synth_cache_t *synth_cache_open(const char *folder, const synth_topology_t *topology, synth_collective_t collective,
                                int root, char *why, size_t why_size);

/* The number of schedules in the cache. */
int synth_cache_count(const synth_cache_t *cache);

/* A schedule in the numbering of the topology at hand, and what its search took. The caller owns it. NULL without
 * memory. It may be wrong: it comes from a file. */
synth_schedule_t *synth_cache_schedule(const synth_cache_t *cache, int i, double *seconds_p);

/* Remembers a schedule, and writes the file. */
void synth_cache_keep(synth_cache_t *cache, const synth_schedule_t *schedule, double seconds);

/* How many passes of the search looked at an instance to their end, and whether one showed that it has no schedule. */
int synth_cache_tried(const synth_cache_t *cache, int steps, int chunks, int rounds, bool *none_p);
/* Remembers how far the search for an instance came. */
void synth_cache_try(synth_cache_t *cache, int steps, int chunks, int rounds, int passes, bool none);

/* Writes what is new and frees. False, and why, if it could not be written, now or before. */
bool synth_cache_close(synth_cache_t *cache, char *why, size_t why_size);

#endif
