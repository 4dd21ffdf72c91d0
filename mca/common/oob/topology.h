/* Which ranks share a node. Every rank computes the same answer. */
#ifndef MCA_COMMON_OOB_TOPOLOGY_H
#define MCA_COMMON_OOB_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/launch.h"
#include "mca/common/base/status.h"

/* The nodes of a communicator. They are numbered in the order of their lowest ranks. */
typedef struct {
    int count;        /* number of nodes */
    int shards;       /* the smallest number of ranks on a node; a message has this many shards */
    int largest_node; /* the largest number of ranks on a node */
    bool in_order;    /* the nodes of ranks 0, 1 and so on never get lower: each node's ranks follow one another */
    bool one_host;    /* all ranks are on one host: if there are several nodes, they are imitated */
    int *node_of;     /* by rank: number of the rank's node */
    int *owners;      /* by node: the rank that has the same number on that node as this rank has on its own; -1 if
                         there is none */
    int *leaders;     /* by rank r: the lowest rank that r knows to be on its node; filled in by the caller */
    int *work;        /* one word per rank, for temporary use by the functions below */
    int node;         /* number of this rank's node */
    int size;         /* number of ranks on this rank's node */
    int rank;         /* this rank's number on its node */
    int members[MSCCLPP_DEV_MAX_RANKS]; /* the ranks of this rank's node, ascending; only the first
                                           MSCCLPP_DEV_MAX_RANKS if the node has too many for kernels */
} mscclpp_nodes_t;

/*
 * Allocate zeroed arrays for `size` ranks, and free them. After MSCCLPP_ERR_NO_MEMORY, which is not logged, there is
 * nothing to free. mscclpp_nodes_fini may be called twice.
 */
mscclpp_status_t mscclpp_nodes_init(mscclpp_nodes_t *nodes, int size);
void mscclpp_nodes_fini(mscclpp_nodes_t *nodes);

/*
 * Copies the nodes of `size` ranks, except for `work`. The copy has arrays of its own, which mscclpp_nodes_fini frees.
 * After MSCCLPP_ERR_NO_MEMORY, which is not logged, there is nothing to free.
 */
mscclpp_status_t mscclpp_nodes_copy(const mscclpp_nodes_t *nodes, int size, mscclpp_nodes_t *copy);

/*
 * Changes `leaders` so that ranks of different jobs on one host share a node. This is needed because each rank knows
 * only about its own job. `jobs` and `hosts` have the number of each rank's job and host; `hosts` are those of
 * mca/common/base/machine.h, with 0 for unknown. The leader of a job on a host is its first rank there. Its new leader
 * is the leader of the lowest rank of another job on that host, if that rank is lower. Contradictions in `leaders`
 * remain.
 */
void mscclpp_nodes_join_jobs(mscclpp_nodes_t *nodes, const uint64_t *jobs, const uint64_t *hosts, int size);

/*
 * Computes all other fields from `leaders`. `ranks_per_node` divides hosts into imitated nodes. If it is above 0, a new
 * node begins where (rank / ranks_per_node) changes. If it is below 0, the node is the rank modulo the absolute value.
 * Returns false, on all ranks alike, if the ranks' leaders contradict one another.
 */
bool mscclpp_nodes_map(mscclpp_nodes_t *nodes, int size, int rank, int ranks_per_node);

#endif
