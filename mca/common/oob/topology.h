/* Which ranks share a node. Every rank computes the same answer. */
#ifndef MCA_COMMON_OOB_TOPOLOGY_H
#define MCA_COMMON_OOB_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/launch.h"
#include "mca/common/base/status.h"

/* Nodes are numbered in the order of their lowest ranks. */
typedef struct {
    int count;
    int shards;    /* the fewest ranks that a node has */
    int most;      /* the most ranks that a node has */
    bool one_host; /* all ranks are on one host: if there are several nodes, they are imitated */
    int *node_of;  /* of each rank */
    int *owners;   /* for each node, the rank with the number `rank` on it; -1 if it has none */
    int *leaders;  /* for each rank, the lowest rank on its node, as that rank knows it: for the caller to fill in */
    int *work;     /* one word for each rank, for the functions below */
    int node;      /* this rank's node */
    int size;      /* the number of its ranks */
    int rank;      /* this rank's number among them */
    int members[MSCCLPP_DEV_MAX_RANKS]; /* its ranks, ascending; the first ones of a node with too many for kernels */
} mscclpp_nodes_t;

/* Zeroed arrays for a number of ranks. MSCCLPP_ERR_NO_MEMORY leaves nothing to free; freeing twice is allowed. */
mscclpp_status_t mscclpp_nodes_init(mscclpp_nodes_t *nodes, int size);
void mscclpp_nodes_fini(mscclpp_nodes_t *nodes);

/*
 * Joins the ranks of different jobs on one host, since a launch tells its ranks only about their own job. The leader of
 * a job on a host is its first rank there. It gets the leader of the lowest rank of another job on this host
 * (base/machine.h; 0: unknown). Changes `leaders`; contradictions in it remain.
 */
void mscclpp_nodes_join_jobs(mscclpp_nodes_t *nodes, const uint64_t *jobs, const uint64_t *hosts, int size);

/*
 * `ranks_per_node` divides the nodes that `leaders` describes: above 0, where (rank / ranks_per_node) changes; below 0,
 * by the rank modulo its absolute value. False, on all ranks alike, if the ranks contradict one another.
 */
bool mscclpp_nodes_map(mscclpp_nodes_t *nodes, int size, int rank, int ranks_per_node);

#endif
