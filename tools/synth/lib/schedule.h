/* A schedule: which chunk crosses which link in which step, and how many rounds each step has. */
#ifndef TOOLS_SYNTH_LIB_SCHEDULE_H
#define TOOLS_SYNTH_LIB_SCHEDULE_H

#include "tools/synth/lib/demand.h"
#include "tools/synth/lib/rational.h"
#include "tools/synth/lib/topology.h"

enum { SYNTH_MAX_STEPS = 128, SYNTH_MAX_CHUNKS = 1024, SYNTH_MAX_SENDS = 1 << 21 };

typedef struct {
    int chunk, from, to, step; /* from, to: ranks */
    bool adds; /* true: the receiver adds it to its own value of the chunk; false: it replaces that value */
} synth_send_t;

typedef struct {
    synth_collective_t collective;
    int ranks, root, chunks, total_chunks; /* as in a demand */
    bool sends_whole_inputs; /* an all-reduce by an all-gather of whole inputs, which each rank adds up at the end */
    int steps;
    int rounds[SYNTH_MAX_STEPS]; /* of each step */
    synth_send_t *sends;         /* sorted by step */
    int send_count, send_room;   /* send_room: number of sends for which memory is allocated */
} synth_schedule_t;

/*
 * Makes a schedule without sends and steps, which the caller frees with synth_schedule_free. `root` counts only for
 * collectives with a root. NULL: memory ran out.
 */
synth_schedule_t *synth_schedule_new(synth_collective_t collective, int ranks, int root, int chunks);
void synth_schedule_free(synth_schedule_t *schedule); /* NULL is allowed */

/* Returns a copy that the caller frees with synth_schedule_free, or NULL if memory runs out. */
synth_schedule_t *synth_schedule_copy(const synth_schedule_t *schedule);

/* Appends a send. Returns false if memory runs out, or if there are too many sends (SYNTH_MAX_SENDS). */
bool synth_schedule_add(synth_schedule_t *schedule, int chunk, int from, int to, int step, bool adds);

/* Sorts the sends by step, sender, receiver and chunk. */
void synth_schedule_sort(synth_schedule_t *schedule);

/* Returns the sum of all steps' rounds. */
int synth_schedule_rounds(const synth_schedule_t *schedule);

/* Returns the rounds for each chunk. */
synth_rational_t synth_schedule_ratio(const synth_schedule_t *schedule);

/* Returns the rounds that the sends of all steps would take in one step. Each send must have a link. */
int synth_schedule_rounds_at_once(const synth_topology_t *topology, const synth_schedule_t *schedule);

/* Gives each step the number of rounds that its links and groups need, at least one. Each send must have a link. */
void synth_schedule_set_rounds(const synth_topology_t *topology, synth_schedule_t *schedule);

/*
 * Removes sends that no rank needs, so that the sends of each chunk form a tree. Not for schedules that add. Returns
 * false if memory runs out; the schedule is then unchanged, except that its sends are sorted.
 */
bool synth_schedule_prune(synth_schedule_t *schedule);

/*
 * Makes a schedule of a collective that combines, by reversing all sends of a schedule of its dual: a reduce-scatter
 * from an all-gather, or a reduce from a broadcast. The result is for the transposed topology. Returns NULL if memory
 * runs out.
 */
synth_schedule_t *synth_schedule_invert(const synth_schedule_t *dual, synth_collective_t collective);

/*
 * Makes an all-reduce from a reduce-scatter and an all-gather, or from a reduce and a broadcast of the same root.
 * Chunks are divided so that both schedules have the same number. Returns NULL if there are then too many chunks, steps
 * or sends, or if memory runs out.
 */
synth_schedule_t *synth_schedule_join(const synth_schedule_t *first, const synth_schedule_t *second);

/* Makes an all-reduce from an all-gather of whole inputs. Returns NULL if memory runs out. */
synth_schedule_t *synth_schedule_oneshot(const synth_schedule_t *gather);

typedef struct {
    const char
        *name; /* the rule that is broken: "link", "overfull", "absent", "doubled", "lost" or "range"; or "memory" */
    char text[SYNTH_REASON];
} synth_fault_t;

/*
 * Replays a schedule and counts, for each chunk at each rank, how often it contains the contribution of each rank.
 * Returns true if every rank ends up with the chunks that the collective requires. Each contribution must be in them
 * exactly once, and no link or group may carry more than its capacity. Otherwise, or if memory runs out, returns false
 * and stores the first fault in *fault.
 */
bool synth_schedule_verify(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_fault_t *fault);

/*
 * Completes a schedule whose sends have been added: sorts the sends, and gives each step the rounds that it needs.
 * Takes ownership of the schedule, which may be NULL. If not all sends were added (`ok` is false) or there are too many
 * steps, frees the schedule and returns NULL. The schedule is not replayed: that is left to synth_schedule_verify.
 */
synth_schedule_t *synth_schedule_finish(const synth_topology_t *topology, synth_schedule_t *schedule, int steps,
                                        bool ok);

#endif
