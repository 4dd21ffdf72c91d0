/* The demand of collectives, chunk by chunk. */
#include "tools/synth/lib/demand.h"

#include <stdlib.h>
#include <string.h>

const char *const synth_collective_names[SYNTH_COLLECTIVES] = {"allgather", "broadcast",     "gather", "scatter",
                                                               "alltoall",  "reducescatter", "reduce", "allreduce"};

bool synth_collective_find(const char *name, synth_collective_t *collective_p)
{
    for (int i = 0; i < SYNTH_COLLECTIVES; ++i) {
        if (strcmp(synth_collective_names[i], name) == 0) {
            *collective_p = i;
            return true;
        }
    }
    return false;
}

bool synth_combines(synth_collective_t collective)
{
    return collective == SYNTH_REDUCESCATTER || collective == SYNTH_REDUCE || collective == SYNTH_ALLREDUCE;
}

synth_collective_t synth_dual(synth_collective_t collective)
{
    return collective == SYNTH_REDUCESCATTER ? SYNTH_ALLGATHER
           : collective == SYNTH_REDUCE      ? SYNTH_BROADCAST
                                             : collective;
}

int synth_min_chunks(synth_collective_t collective, int ranks)
{
    return collective == SYNTH_ALLTOALL || collective == SYNTH_ALLREDUCE ? ranks : 1;
}

/* Stores for each chunk the rank that has it at the begin, and the set of the other ranks that want it. */
synth_demand_t *synth_demand_new(synth_collective_t collective, int ranks, int root, int chunks)
{
    synth_demand_t *demand = calloc(1, sizeof(*demand));
    uint64_t all_ranks = UINT64_MAX >> (64 - ranks);

    if (demand == NULL) {
        return NULL;
    }
    demand->collective = collective;
    demand->ranks = ranks;
    demand->root = root;
    demand->chunks = chunks;
    demand->total_chunks = collective == SYNTH_BROADCAST ? chunks : ranks * chunks;
    demand->source = malloc(sizeof(*demand->source) * demand->total_chunks);
    demand->wanted = malloc(sizeof(*demand->wanted) * demand->total_chunks);
    if (demand->source == NULL || demand->wanted == NULL) {
        synth_demand_free(demand);
        return NULL;
    }
    /*
     * The chunks are numbered block by block. A block contains the chunks that one rank sends, or in a scatter the
     * chunks that one rank receives. A broadcast has only one block. The block of an all-to-all is divided once more,
     * by receivers: its number of chunks is a multiple of the number of ranks (synth_min_chunks).
     */
    for (int chunk = 0; chunk < demand->total_chunks; ++chunk) {
        int block = chunk / chunks, source = block;
        uint64_t wanted = all_ranks;

        if (collective == SYNTH_BROADCAST || collective == SYNTH_SCATTER) {
            source = root;
        }
        if (collective == SYNTH_GATHER) {
            wanted = UINT64_C(1) << root;
        } else if (collective == SYNTH_SCATTER) {
            wanted = UINT64_C(1) << block;
        } else if (collective == SYNTH_ALLTOALL) {
            wanted = UINT64_C(1) << (chunk % chunks / (chunks / ranks));
        }
        demand->source[chunk] = source;
        demand->wanted[chunk] = wanted & ~(UINT64_C(1) << source);
    }
    return demand;
}

void synth_demand_free(synth_demand_t *demand)
{
    if (demand != NULL) {
        free(demand->source);
        free(demand->wanted);
        free(demand);
    }
}
