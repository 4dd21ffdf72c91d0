/* What the rules of a file, which all ranks share, say of a call. */
#ifndef MCA_COMMON_ALGO_RULED_H
#define MCA_COMMON_ALGO_RULED_H

#include "mca/common/algo/algo.h"
#include "mca/common/base/colls.h"

/*
 * The algorithm of the first rule for such a call; false: there is none. MSCCLPP_COLL_LAST stands for all-reduce.
 * Pure; equal on all ranks.
 */
bool mscclpp_ruled(const mscclpp_protocol_t *protocol, mscclpp_coll_t coll, uint64_t bytes, bool in_place,
                   int64_t *algorithm_p);

#endif
