/*
 * An exchange at set-up in which each rank sends a message to selected peers and receives one message from each of
 * them.
 */
#ifndef MCA_COMMON_OOB_PAIRS_H
#define MCA_COMMON_OOB_PAIRS_H

#include "mca/common/oob/oob.h"

/*
 * Exchanges messages with `count` peers. Collective over all ranks; a rank may have no peers. If rank a has rank b
 * among its peers, b has a among its own. `sent` and `received` have `pitch` bytes for each peer, in the order of
 * `peers`. The first lengths[i] bytes are sent to peer i. The caller fills `received` with zeros before the call. The
 * part of a peer that has failed and sends nothing stays zero. Returns this rank's own status; the ranks have not voted
 * on it.
 *
 * A rank that cannot continue passes NULL for `lengths`. It then sends messages without data to its peers, which tells
 * them, and receives none. It needs no memory for that if the runtime has an `exchange`.
 */
mscclpp_status_t mscclpp_oob_exchange(const mscclpp_oob_t *oob, const int *peers, int count, const void *sent,
                                      const size_t *lengths, void *received, size_t pitch);

#endif
