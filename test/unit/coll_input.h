/* What the tests of the choice for collectives other than all-reduce start from. */
#ifndef TEST_UNIT_COLL_INPUT_H
#define TEST_UNIT_COLL_INPUT_H

#include "mca/common/algo/coll.h"
#include "mca/common/algo/select.h"
#include "test/unit/select_input.h"
#include "test/unit/unit.h"

#define MIB (1024 * KIB)
#define SERVED(algo_) ((int)(algo_))
#define REFUSED (-1)

static mscclpp_protocol_t protocol;
static mscclpp_layout_t layout;

/* Ranks of one node, each with a GPU of its own. */
static inline mscclpp_select_input_t gpus(uint32_t ranks)
{
    mscclpp_select_input_t input;
    int coll;

    memset(&input, 0, sizeof(input));
    fill_protocol(&protocol);
    for (coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        protocol.coll_algorithm[coll] = MSCCLPP_ALGO_AUTO;
    }
    mscclpp_layout_init(&layout, 16 * MIB);
    input.nranks = ranks;
    input.nodes = 1;
    input.all_ranks = ranks;
    input.dtype = MSCCLPP_DTYPE_UINT8;
    input.may_use_engines = true;
    input.block_limit = 128;
    input.protocol = &protocol;
    input.layout = &layout;
    return input;
}

static inline bool moves(int coll)
{
    return !MSCCLPP_DEV_COMBINES(mscclpp_coll_pattern((mscclpp_coll_t)coll));
}

static inline int choose(const mscclpp_select_input_t *input, int coll, uint64_t bytes, bool mapped)
{
    mscclpp_coll_choice_t choice;

    return mscclpp_coll_select(input, (mscclpp_coll_t)coll, bytes, false, mapped, &choice) == MSCCLPP_OK
               ? SERVED(choice.algo)
               : REFUSED;
}

#endif
