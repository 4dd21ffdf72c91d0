/*
 * Progress of teams over several nodes between their calls. With some transports the receiver's CPU has to answer
 * requests. A peer may send one after this rank has left its call, while it waits in another function of MPI.
 */
#include "mca/coll/mscclpp/component.h"

/* A callback of opal_progress. Returns 0, as it completes no request of the application. */
static int nodes_progress(void)
{
    mscclpp_team_progress_all();
    return 0;
}

int mca_coll_mscclpp_nodes_init(void)
{
    return opal_progress_register_lp(nodes_progress);
}

void mca_coll_mscclpp_nodes_fini(void)
{
    (void)opal_progress_unregister(nodes_progress);
}
