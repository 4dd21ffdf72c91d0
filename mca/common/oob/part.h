/*
 * An exchange among the ranks of one node, built on the exchange of all ranks. If that has no all-gather among some of
 * its ranks, every round is one all-gather of all of them, in which each node exchanges its own data. Ranks that have
 * finished keep taking part then until all have. So nodes may need different numbers of exchanges.
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

/* Finishes on this rank. Returns once all ranks have finished, with the error of an exchange if there was one. */
mscclpp_status_t mscclpp_oob_part_finish(mscclpp_oob_part_t *part);

void mscclpp_oob_part_destroy(mscclpp_oob_part_t *part);

#endif
