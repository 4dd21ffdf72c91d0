/*
 * An exchange among the ranks of one node, built on the exchange of all ranks. Every round is one all-gather of all
 * ranks, in which each node does its own business. Ranks that are done keep answering until all are done. So nodes that
 * need different numbers of exchanges never fall out of step.
 */
#ifndef MCA_COMMON_OOB_PART_H
#define MCA_COMMON_OOB_PART_H

#include "mca/common/oob/topology.h"
#include "mca/common/oob/oob.h"

typedef struct mscclpp_oob_part mscclpp_oob_part_t;

/* The exchange of all ranks must outlive the part. NULL, with an error logged, without memory. */
mscclpp_oob_part_t *mscclpp_oob_part_create(const mscclpp_oob_t *whole);

/*
 * Fills in a table for the ranks of the node, numbered within it and without messages. `nodes` must outlive the part.
 * The table's all-gather ends with MSCCLPP_ERR_PEER if a rank of the node is done already.
 */
void mscclpp_oob_part_table(mscclpp_oob_part_t *part, const mscclpp_nodes_t *nodes, mscclpp_oob_t *table_p);

/* This rank is done with the part. Returns once all ranks are, with the error of an exchange if there was one. */
mscclpp_status_t mscclpp_oob_part_finish(mscclpp_oob_part_t *part);

void mscclpp_oob_part_destroy(mscclpp_oob_part_t *part);

#endif
