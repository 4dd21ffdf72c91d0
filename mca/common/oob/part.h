/*
 * An exchange among the ranks of one node, built on the exchange of all ranks. If that one has an all-gather among some
 * ranks, it is used. Otherwise every round is one all-gather of all ranks, in which each node exchanges its own data.
 * Nodes may need different numbers of rounds, so ranks that have finished keep taking part until all have.
 */
#ifndef MCA_COMMON_OOB_PART_H
#define MCA_COMMON_OOB_PART_H

#include "mca/common/oob/topology.h"
#include "mca/common/oob/oob.h"

typedef struct mscclpp_oob_part mscclpp_oob_part_t;

/* Makes the exchange. `whole` must outlive it. Returns NULL, with an error logged, if there is no memory. */
mscclpp_oob_part_t *mscclpp_oob_part_create(const mscclpp_oob_t *whole);

/*
 * Fills in a table for the ranks of the node, numbered within it and without messages. `nodes` must outlive the part.
 * The table's all-gather ends with MSCCLPP_ERR_PEER if a rank of the node is done already.
 */
void mscclpp_oob_part_table(mscclpp_oob_part_t *part, const mscclpp_nodes_t *nodes, mscclpp_oob_t *table_p);

/*
 * Says that this rank needs no more exchanges, and takes part in those of other nodes until all ranks have finished.
 * Returns the error of an exchange if there was one. Has nothing to wait for if the exchange of all ranks has an
 * all-gather among some.
 */
mscclpp_status_t mscclpp_oob_part_finish(mscclpp_oob_part_t *part);

/* Frees the exchange. NULL is allowed. */
void mscclpp_oob_part_destroy(mscclpp_oob_part_t *part);

#endif
