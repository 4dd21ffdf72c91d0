/*
 * The message sizes at which the built-in choice of all-reduce changes its algorithm. Parameters and rules files
 * override them (mca/common/algo/select.c). The other collectives' thresholds are in mca/common/algo/coll.c.
 */
#ifndef MCA_COMMON_ALGO_ALLREDUCE_THRESHOLDS_H
#define MCA_COMMON_ALGO_ALLREDUCE_THRESHOLDS_H

#include "mca/common/algo/algo.h"

/* One row of a table. All sizes are those of messages, in bytes. */
typedef struct {
    uint32_t ranks;        /* the row is for at most this number of ranks */
    uint64_t oneshot_max;  /* the largest message for one-shot packets */
    uint64_t twophase_max; /* the largest message for two-phase packets; with LL128, `lines_max` replaces it */
    uint64_t put_max;      /* the largest message for one-shot puts */
    uint64_t engine_min;   /* the smallest message for copy engines */
    uint64_t lines_min;    /* the smallest message for LL128, where links deliver lines of 128 bytes as a whole */
    uint64_t lines_max;    /* the largest message for LL128 */
    uint64_t mapped_min;   /* the smallest message of a queued call that gains from mapped buffers */
} mscclpp_thresholds_t;

/*
 * Returns the row for the number of ranks of the call and its kind of links: the first row whose `ranks` is not smaller
 * than that number.
 */
const mscclpp_thresholds_t *mscclpp_thresholds_find(const mscclpp_select_input_t *input);

/* Returns true if two-phase packets of this call have the format LL128. */
bool mscclpp_uses_ll128(const mscclpp_select_input_t *input);

/* Returns true if the kernel of a queued call should use mapped buffers. The caller knows whether they are mapped. */
bool mscclpp_prefers_mapping(const mscclpp_select_input_t *input);

/* The following functions are for an all-reduce between nodes. A parameter for the same choice overrides them. */

/* Returns true if the message is small enough for packets. */
bool mscclpp_prefers_packets(const mscclpp_select_input_t *input);

/*
 * Returns true if packets should go to one partner after another: because that is faster than to all other nodes at
 * once, or because nodes_fanout forbids the latter.
 */
bool mscclpp_prefers_doubling(const mscclpp_select_input_t *input);

/* Returns true if the cost model prefers trees to every other pattern without packets. */
bool mscclpp_prefers_trees(const mscclpp_select_input_t *input);

/* Returns true if the cost model prefers halving to every other pattern without packets. */
bool mscclpp_prefers_halving(const mscclpp_select_input_t *input);

/* Returns true if a ring of the nodes should serve the call, because it is faster than splitting and than DIRECT. */
bool mscclpp_prefers_ring(const mscclpp_select_input_t *input);

/* Returns true if each node should combine only a part of the message, because that is faster than DIRECT. */
bool mscclpp_prefers_splitting(const mscclpp_select_input_t *input);

#endif
