/* The exchange of the set-up in which each rank sends to some others, and receives from these. */
#ifndef MCA_COLL_MSCCLPP_OOB_PAIRS_H
#define MCA_COLL_MSCCLPP_OOB_PAIRS_H

#include "mca/coll/mscclpp/oob/gather.h"

/*
 * Carries out mscclpp_oob_exchange (mca/common/oob/pairs.h): sends lengths[i] bytes to peers[i], and waits for the
 * messages of all peers. Message i is at i * pitch in `sent` and in `received`. A rank without memory sends messages
 * without data, so that no peer waits for it; so does one that passes NULL for `lengths`, which then waits for nobody.
 * After an error `received` may be incomplete.
 */
mscclpp_status_t mca_coll_mscclpp_oob_pairs(mca_coll_mscclpp_oob_port_t *port, const int *peers, int count,
                                            const void *sent, const size_t *lengths, void *received, size_t pitch);

#endif
