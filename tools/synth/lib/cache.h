/*
 * Keeps what searches found in files, so that a search that was cut short goes on where it stopped. There is one file
 * for each topology, up to the numbering of its ranks, collective and root. No proof rests on a file: schedules are
 * replayed, and bounds are computed anew.
 */
#ifndef TOOLS_SYNTH_LIB_CACHE_H
#define TOOLS_SYNTH_LIB_CACHE_H

#include "tools/synth/lib/schedule.h"

typedef struct synth_cache synth_cache_t;

/*
 * Opens the entry of a collective that does not combine, and makes the folder if need be. `root` is negative if the
 * collective has none. If the file cannot be read, or is no valid entry, the cache begins empty, `why` names
 * the file, and it is replaced once there is something to write; otherwise `why` is empty. If the folder cannot be
 * made, or the path is too long, the cache works in memory, and only synth_cache_close fails. Returns NULL if memory
 * runs out.
 */
synth_cache_t *synth_cache_open(const char *folder, const synth_topology_t *topology, synth_collective_t collective,
                                int root, char *why, size_t why_size);

/* Returns the number of schedules in the cache. */
int synth_cache_count(const synth_cache_t *cache);

/* Returns schedule i, in the numbering of the topology that the cache was opened with, and how long its search took.
 * The caller owns it, and has to replay it: it comes from a file and may be wrong. NULL if memory runs out. */
synth_schedule_t *synth_cache_schedule(const synth_cache_t *cache, int i, double *seconds_p);

/* Adds a copy of a schedule, if there is room for it, and writes the file. Failures show in synth_cache_close. */
void synth_cache_keep(synth_cache_t *cache, const synth_schedule_t *schedule, double seconds);

/* Returns how many passes of the search for an instance were not cut short; 0 if nothing is known of it.
 * *is_impossible_p: one of them showed that it has no schedule. */
int synth_cache_tried(const synth_cache_t *cache, int steps, int chunks, int rounds, bool *is_impossible_p);

/* Notes how far the search for an instance came, if there is room: `passes` were not cut short. What was noted before
 * never gets less. Written by the next synth_cache_keep or by synth_cache_close. */
void synth_cache_try(synth_cache_t *cache, int steps, int chunks, int rounds, int passes, bool is_impossible);

/* Writes what is new and frees the cache. Returns false, and says why, if the file could not be written, now or before.
 */
bool synth_cache_close(synth_cache_t *cache, char *why, size_t why_size);

#endif
