/* The demand of a collective: which rank has each chunk, and which ranks want it. */
#ifndef TOOLS_SYNTH_LIB_DEMAND_H
#define TOOLS_SYNTH_LIB_DEMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    SYNTH_ALLGATHER,
    SYNTH_BROADCAST,
    SYNTH_GATHER,
    SYNTH_SCATTER,
    SYNTH_ALLTOALL,
    SYNTH_REDUCESCATTER,
    SYNTH_REDUCE,
    SYNTH_ALLREDUCE,
    SYNTH_COLLECTIVES
} synth_collective_t;

extern const char *const synth_collective_names[SYNTH_COLLECTIVES];

/* Finds a collective by its name. Returns false for an unknown name. */
bool synth_collective_find(const char *name, synth_collective_t *collective_p);

/* Returns true if the collective adds chunks up on their way. */
bool synth_combines(synth_collective_t collective);

/*
 * Returns the collective whose reversed schedules are schedules of this one: all-gather for reduce-scatter, and
 * broadcast for reduce. Returns all other collectives themselves.
 */
synth_collective_t synth_dual(synth_collective_t collective);

typedef struct {
    synth_collective_t collective;
    int ranks, root;
    int chunks; /* chunks of one rank's block, or of the whole vector; for alltoall, of everything that one rank sends
                 */
    int total_chunks; /* of all ranks */
    int *source;      /* [chunk]: the rank that has it at first */
    uint64_t *wanted; /* [chunk]: the set of ranks that want it, without the source */
} synth_demand_t;

/*
 * Makes the demand of a collective that does not combine. The caller frees it with synth_demand_free. Returns NULL if
 * memory runs out.
 */
synth_demand_t *synth_demand_new(synth_collective_t collective, int ranks, int root, int chunks);
void synth_demand_free(synth_demand_t *demand);

/* Returns the least allowed value of `chunks`; all other allowed values are multiples of it. */
int synth_min_chunks(synth_collective_t collective, int ranks);

#endif
