/* The exchanges of a team's set-up, and its control messages, over MPI's point-to-point. Waits have deadlines. */
#ifndef MCA_COLL_MSCCLPP_OOB_OOB_H
#define MCA_COLL_MSCCLPP_OOB_OOB_H

#include "mca/coll/mscclpp/ompi/module.h"
#include "mca/common/oob/oob.h"

/*
 * The port of a team's messages. Its number tells the teams of a communicator apart, is the same on all ranks, and is
 * never used again, so that messages of a set-up that has failed do not reach a later one. Guarded by the oob's lock.
 */
typedef struct {
    mca_coll_mscclpp_oob_t *oob;
    uint64_t number;        /* 0: the communicator's own team */
    uint64_t gathers;       /* number of all-gathers of all ranks that this rank has begun */
    uint64_t gathers_among; /* number of all-gathers among its node's ranks that this rank has begun */
    uint64_t exchanges;     /* number of exchanges with some ranks that this rank has begun */
} mca_coll_mscclpp_oob_port_t;

/*
 * Fills in the table and `port`, except for the port's numbers. The port has to outlive the team that is made with the
 * table. NULL: the port of the communicator's own team. Returns an Open MPI error code. `destroy` frees the module's
 * messages; no team may use them any more.
 */
int mca_coll_mscclpp_oob_create(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_oob_port_t *port,
                                mscclpp_oob_t *oob_p);
void mca_coll_mscclpp_oob_destroy(mca_coll_mscclpp_module_t *module);

/*
 * Called by a rank that has no memory to enter the first all-gather of the set-up of port `port`, while its peers are
 * in it or will be. Makes them end it with MSCCLPP_ERR_NOT_SUPPORTED. Needs neither memory nor the module's oob.
 */
void mca_coll_mscclpp_oob_abstain(mca_coll_mscclpp_module_t *module, uint64_t port);

/*
 * Called while this rank is in a call with host memory. Finds the ranks that set up a team in that call, by their
 * messages that have arrived. Sends each of them a refusal, which ends its set-up with MSCCLPP_ERR_MIXED. Returns the
 * first such rank, or -1 if it finds none now; a later call may find one. Any thread may call this.
 */
int mca_coll_mscclpp_oob_refuse(mca_coll_mscclpp_module_t *module, uint64_t call);

/* Logs that in `call` host_rank passed host buffers, and device_rank device buffers. */
void mca_coll_mscclpp_report_mixed(const mca_coll_mscclpp_module_t *module, uint64_t call, int host_rank,
                                   int device_rank);

#endif
