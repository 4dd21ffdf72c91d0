/* Set-up exchange and control messages over the communicator's point-to-point, with deadlines. */
#ifndef MCA_COLL_MSCCLPP_OOB_OOB_H
#define MCA_COLL_MSCCLPP_OOB_OOB_H

#include "mca/coll/mscclpp/ompi/module.h"
#include "mca/common/oob/oob.h"

/* The end of a team's control messages: those of a communicator's teams have numbers, the same on all ranks. */
typedef struct {
    mca_coll_mscclpp_oob_t *oob;
    uint64_t number; /* 0: the communicator's own team */
} mca_coll_mscclpp_oob_port_t;

/*
 * `port` is filled in, but for its number, and has to outlive the team that is made with the table; NULL: that of the
 * communicator's own team.
 */
int mca_coll_mscclpp_oob_create(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_oob_port_t *port,
                                mscclpp_oob_t *oob_p);
void mca_coll_mscclpp_oob_destroy(mca_coll_mscclpp_module_t *module);

/*
 * For a rank without memory: its peers, which are in all-gather `number` of the set-up (from 1) or on their way into
 * it, end it with MSCCLPP_ERR_NOT_SUPPORTED. Takes no memory of its own, and no oob.
 */
void mca_coll_mscclpp_oob_abstain(mca_coll_mscclpp_module_t *module, uint64_t number);

/*
 * The first rank that brings up a team in all-reduce call `call`, in which this rank passed host memory; -1 if there is
 * none. Each such rank is sent a refusal, which ends its bring-up with MSCCLPP_ERR_MIXED. From any thread.
 */
int mca_coll_mscclpp_oob_refuse(mca_coll_mscclpp_module_t *module, uint64_t call);

/* Logs that ranks passed different kinds of buffers. */
void mca_coll_mscclpp_report_mixed(const mca_coll_mscclpp_module_t *module, uint64_t call, int host_rank,
                                   int device_rank);

#endif
