/* Which ranks share a node, worked out by every rank alike. */
#ifndef MCA_COMMON_OOB_TOPOLOGY_H
#define MCA_COMMON_OOB_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/launch.h"

/* Nodes are numbered in the order of their lowest ranks. */
typedef struct {
    int count;
    int shards;                         /* the fewest ranks that a node has */
    int most;                           /* the most ranks that a node has */
    bool one_host;                      /* all ranks are on one: the nodes, if several, are imitated */
    int node_of[MSCCLPP_DEV_MAX_RANKS]; /* of each rank */
    int node;                           /* the own one */
    int size;                           /* its ranks */
    int rank;                           /* the own one among them */
    int members[MSCCLPP_DEV_MAX_RANKS]; /* its ranks, ascending */
    int owners[MSCCLPP_DEV_MAX_RANKS];  /* of each node the rank with the number `rank` there, -1 if it has none */
} mscclpp_nodes_t;

/*
 * What one launch tells its ranks of one another ends with that job: the first rank of a job on a host, its leader
 * there, becomes one of those that the lowest rank of another job on this host (base/machine.h; 0: unknown) leads.
 * Changes `leaders`, which is as below; what contradicts itself there still does.
 */
void mscclpp_nodes_join_jobs(int *leaders, const uint64_t *jobs, const uint64_t *hosts, int size);

/*
 * `leaders` holds, for each of `size` ranks, the lowest rank on its node as that rank knows it. With `ranks_per_node`
 * not 0, a node is further divided where (rank / ranks_per_node) changes, or, below 0, by the rank modulo its amount.
 * False if the ranks contradict one another, on all of them alike.
 */
bool mscclpp_nodes_map(const int *leaders, int size, int rank, int ranks_per_node, mscclpp_nodes_t *nodes);

#endif
