/*
 * An exchange among the ranks of one node, built on the exchange of all ranks. If the exchange of all ranks has an
 * all-gather among selected ranks, that is used. Otherwise every round is one all-gather of all ranks, in which each
 * node exchanges its own data. Nodes may need different numbers of rounds, so ranks that have finished continue to take
 * part until all ranks have finished.
 */
#ifndef MCA_COMMON_OOB_PART_H
#define MCA_COMMON_OOB_PART_H

#include "mca/common/oob/topology.h"
#include "mca/common/oob/oob.h"

typedef struct mscclpp_oob_part mscclpp_oob_part_t;

/*
 * Creates the exchange. `whole` is the exchange of all ranks, and must outlive the part. Returns NULL, with an error
 * logged, if there is no memory.
 */
mscclpp_oob_part_t *mscclpp_oob_part_create(const mscclpp_oob_t *whole);

/*
 * Fills in a table for the ranks of the node, which are numbered within the node. The table has no functions for
 * control messages. The part must outlive the table, and `nodes` the part. If each round is an all-gather of all ranks,
 * the table's all-gather deviates from oob.h: a rank that passes NULL as recvbuf, because it lacks memory, gets
 * MSCCLPP_ERR_NOT_SUPPORTED alone. The others get MSCCLPP_ERR_PEER then, as they do if a rank of the node has finished.
 */
void mscclpp_oob_part_table(mscclpp_oob_part_t *part, const mscclpp_nodes_t *nodes, mscclpp_oob_t *table_p);

/*
 * Tells the other ranks that this rank needs no more exchanges, and takes part in those of other nodes until all ranks
 * have finished. Returns the error of an exchange if one has failed. If the exchange of all ranks has an all-gather
 * among selected ranks, the function does nothing.
 */
mscclpp_status_t mscclpp_oob_part_finish(mscclpp_oob_part_t *part);

/* Frees the exchange. NULL is allowed. */
void mscclpp_oob_part_destroy(mscclpp_oob_part_t *part);

#endif
