/* Which ranks share a node. Every rank computes the same answer. */
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
    bool one_host;                      /* all ranks are on one host: if there are several nodes, they are imitated */
    int node_of[MSCCLPP_DEV_MAX_RANKS]; /* of each rank */
    int node;                           /* this rank's node */
    int size;                           /* the number of its ranks */
    int rank;                           /* this rank's number among them */
    int members[MSCCLPP_DEV_MAX_RANKS]; /* its ranks, ascending */
    int owners[MSCCLPP_DEV_MAX_RANKS];  /* for each node, the rank with the number `rank` on it; -1 if it has none */
} mscclpp_nodes_t;

/*
 * Joins the ranks of different jobs on one host, since a launch tells its ranks only about their own job. The leader of
 * a job on a host is its first rank there. It gets the leader of the lowest rank of another job on this host
 * (base/machine.h; 0: unknown). Changes `leaders`, which is as for mscclpp_nodes_map; contradictions in it remain.
 */
void mscclpp_nodes_join_jobs(int *leaders, const uint64_t *jobs, const uint64_t *hosts, int size);

/*
 * `leaders` holds, for each of `size` ranks, the lowest rank on its node as that rank knows it. `ranks_per_node`
 * divides nodes further: above 0, where (rank / ranks_per_node) changes; below 0, by the rank modulo its absolute
 * value. False, on all ranks alike, if the ranks contradict one another.
 */
bool mscclpp_nodes_map(const int *leaders, int size, int rank, int ranks_per_node, mscclpp_nodes_t *nodes);

#endif
