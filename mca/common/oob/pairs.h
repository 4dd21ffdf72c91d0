/* An exchange at set-up in which each rank has a message for some others, and gets one from each of these. */
#ifndef MCA_COMMON_OOB_PAIRS_H
#define MCA_COMMON_OOB_PAIRS_H

#include "mca/common/oob/oob.h"

/*
 * Collective over all ranks; a rank may have no peers. Whoever is among a rank's `count` peers has that rank among its
 * own. `sent` and `received` have `pitch` bytes for each peer, in the order of `peers`. The first lengths[i] of those
 * sent travel; `received` is 0 before the call. Returns this rank's own status, on which the ranks have not voted.
 */
mscclpp_status_t mscclpp_oob_exchange(const mscclpp_oob_t *oob, const int *peers, int count, const void *sent,
                                      const size_t *lengths, void *received, size_t pitch);

#endif
