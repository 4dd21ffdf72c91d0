/* An exchange at set-up in which each rank sends a message to some others and receives one from each of these. */
#ifndef MCA_COMMON_OOB_PAIRS_H
#define MCA_COMMON_OOB_PAIRS_H

#include "mca/common/oob/oob.h"

/*
 * Collective over all ranks; a rank may have no peers. If rank a has rank b among its `count` peers, b has a among its
 * own. `sent` and `received` have `pitch` bytes for each peer, in the order of `peers`. Of those for peer i, the first
 * lengths[i] travel. The caller fills `received` with zeros before the call; they stay where a peer has failed and
 * sends nothing. Returns this rank's own status; the ranks have not voted on it.
 *
 * A rank that cannot go on passes NULL for `lengths`. It tells its peers by messages without data, receives none, and
 * needs no memory for that.
 */
mscclpp_status_t mscclpp_oob_exchange(const mscclpp_oob_t *oob, const int *peers, int count, const void *sent,
                                      const size_t *lengths, void *received, size_t pitch);

#endif
