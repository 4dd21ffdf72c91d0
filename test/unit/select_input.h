/* Inputs that the tests of the selector and of shapes start from. */
#ifndef TEST_UNIT_SELECT_INPUT_H
#define TEST_UNIT_SELECT_INPUT_H

#include <string.h>

#include "mca/common/algo/algo.h"
#include "mca/common/algo/shape/tiles.h"

#define KIB ((uint64_t)1024)

/* Nothing is forced. The twin has one block of one thread. */
static inline void fill_protocol(mscclpp_protocol_t *protocol)
{
    memset(protocol, 0, sizeof(*protocol));
    protocol->algorithm = MSCCLPP_ALGO_AUTO;
    protocol->twin_blocks = 1;
    protocol->twin_threads = 1;
    protocol->linger_max = 16 * 1024 * KIB;
    protocol->linger_blocks = 16;
    protocol->zerocopy = 1;
    protocol->scratch_size = 1024 * KIB;
    protocol->engine_scratch = 192 * 1024 * KIB;
    protocol->epoch_limit = (uint64_t)1 << 31;
}

/* So many nodes, with the slots that they have by default. */
static inline void set_nodes(mscclpp_select_input_t *input, uint32_t nodes)
{
    input->nodes = nodes;
    input->slot_size = mscclpp_tiles_find_slot_size(nodes, 14 * 1024 * KIB);
}

#endif
