/* The message sizes at which the all-reduce changes its algorithm, if neither a parameter nor a rule says so. */
#ifndef MCA_COMMON_ALGO_ALLREDUCE_THRESHOLDS_H
#define MCA_COMMON_ALGO_ALLREDUCE_THRESHOLDS_H

#include "mca/common/algo/algo.h"

/*
 * Sizes in bytes: the largest messages for the packet algorithms and for one-shot puts, and the smallest for copy
 * engines. Where links keep lines of 128 bytes whole, also the smallest two-phase message sent as LL128, and the
 * largest two-phase message. The first row whose `ranks` is not smaller than the number of ranks applies.
 */
typedef struct {
    uint32_t ranks;
    uint64_t oneshot_max;
    uint64_t twophase_max;
    uint64_t put_max;
    uint64_t engine_min;
    uint64_t lines_min;
    uint64_t lines_max;
    bool lines_queued; /* only queued calls use LL128 */
} mscclpp_thresholds_t;

const mscclpp_thresholds_t *mscclpp_thresholds_find(const mscclpp_select_input_t *input);

/* Whether two-phase packets of this call are LL128. */
bool mscclpp_select_ll128(const mscclpp_select_input_t *input);

/*
 * Between nodes: whether the message is small enough for packets, large enough for a ring, and large enough for each
 * node to combine a part. These also take the parameters into account.
 */
bool mscclpp_worth_packets(const mscclpp_select_input_t *input);
bool mscclpp_worth_ring(const mscclpp_select_input_t *input);
bool mscclpp_worth_splitting(const mscclpp_select_input_t *input);

#endif
