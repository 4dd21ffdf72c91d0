/*
 * The message sizes at which the built-in choice of all-reduce changes its algorithm. Parameters and rules files
 * override them (mca/common/algo/select.c). The other collectives' thresholds are in mca/common/algo/coll.c.
 */
#ifndef MCA_COMMON_ALGO_ALLREDUCE_THRESHOLDS_H
#define MCA_COMMON_ALGO_ALLREDUCE_THRESHOLDS_H

#include "mca/common/algo/algo.h"

/*
 * One row of a table; sizes are in bytes. oneshot_max, twophase_max and put_max are the largest messages for the two
 * packet algorithms and for one-shot puts; engine_min is the smallest message for copy engines. If links deliver lines
 * of 128 bytes whole, two-phase packets are LL128 from lines_min on, and lines_max replaces twophase_max. mapped_min is
 * the smallest message of a queued call for whose kernel mapped buffers pay off.
 */
typedef struct {
    uint32_t ranks; /* the row is for at most this number of ranks */
    uint64_t oneshot_max;
    uint64_t twophase_max;
    uint64_t put_max;
    uint64_t engine_min;
    uint64_t lines_min;
    uint64_t lines_max;
    uint64_t mapped_min;
} mscclpp_thresholds_t;

/*
 * Returns the row for the number of ranks of the call and its kind of links: the first row whose `ranks` is not smaller
 * than that number.
 */
const mscclpp_thresholds_t *mscclpp_thresholds_find(const mscclpp_select_input_t *input);

/* Returns true if the two-phase packets of this call are in the format LL128. */
bool mscclpp_select_ll128(const mscclpp_select_input_t *input);

/* Returns true if the kernel of a queued call should use the buffers of all ranks, which are mapped. */
bool mscclpp_worth_mapping(const mscclpp_select_input_t *input);

/*
 * The following functions answer questions about an all-reduce between nodes. If a parameter answers a question, that
 * answer is returned.
 */

/* Returns true if the message is small enough for packets. */
bool mscclpp_worth_packets(const mscclpp_select_input_t *input);

/*
 * Returns true if packets to one partner after another are faster than packets to all other nodes at once, or if
 * nodes_fanout forbids the latter.
 */
bool mscclpp_worth_doubling(const mscclpp_select_input_t *input);

/* Returns true if the cost model prefers trees to every other pattern without packets. */
bool mscclpp_worth_trees(const mscclpp_select_input_t *input);

/* Returns true if the cost model prefers halving to every other pattern without packets. */
bool mscclpp_worth_halving(const mscclpp_select_input_t *input);

/* Returns true if the message is large enough for a ring. */
bool mscclpp_worth_ring(const mscclpp_select_input_t *input);

/* Returns true if the message is large enough that each node should combine only a part of it. */
bool mscclpp_worth_splitting(const mscclpp_select_input_t *input);

#endif
