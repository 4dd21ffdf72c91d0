/*
 * Stores the results of searches in files, so that a search that was cut short can be continued. There is one file for
 * each combination of topology, collective and root; topologies that differ only in the numbering of their ranks share
 * a file. No proof depends on a file: schedules that were read are replayed, and bounds are computed anew.
 */
#ifndef TOOLS_SYNTH_LIB_CACHE_H
#define TOOLS_SYNTH_LIB_CACHE_H

#include "tools/synth/lib/schedule.h"

typedef struct synth_cache synth_cache_t;

/*
 * Opens the entry of a collective that does not combine, and makes the folder if it does not exist. `root` is negative
 * if the collective has no root. Returns NULL if memory runs out.
 * - If the file cannot be read or is no valid entry, the cache begins empty and `reason` names the file. The file is
 *   replaced as soon as there is something to write. Otherwise `reason` is empty.
 * - If the folder cannot be made, or the path is too long, the cache works in memory only, and synth_cache_close
 *   reports the failure.
 */
synth_cache_t *synth_cache_open(const char *folder, const synth_topology_t *topology, synth_collective_t collective,
                                int root, char *reason, size_t reason_size);

/* Returns the number of schedules in the cache. */
int synth_cache_count(const synth_cache_t *cache);

/*
 * Returns schedule i, in the numbering of the topology with which the cache was opened, and sets *seconds_p to the time
 * that its search took. The caller owns the schedule, and has to replay it, because it comes from a file and may be
 * wrong. Returns NULL if memory runs out.
 */
synth_schedule_t *synth_cache_schedule(const synth_cache_t *cache, int i, double *seconds_p);

/* Adds a copy of a schedule, if there is room for it, and writes the file. synth_cache_close reports failures. */
void synth_cache_keep(synth_cache_t *cache, const synth_schedule_t *schedule, double seconds);

/*
 * Returns how many passes of the search for an instance were not cut short, or 0 if the instance is not known. Sets
 * *is_impossible_p to true if one of the passes showed that the instance has no schedule.
 */
int synth_cache_tried(const synth_cache_t *cache, int steps, int chunks, int rounds, bool *is_impossible_p);

/*
 * Stores the progress of the search for an instance, if there is room: `passes` passes were not cut short. The stored
 * number never decreases. The next synth_cache_keep or synth_cache_close writes it to the file.
 */
void synth_cache_try(synth_cache_t *cache, int steps, int chunks, int rounds, int passes, bool is_impossible);

/*
 * Writes the file if the cache has anything new, and frees the cache. Returns false, with a text in `reason`, if the
 * file could not be written, now or before.
 */
bool synth_cache_close(synth_cache_t *cache, char *reason, size_t reason_size);

#endif
