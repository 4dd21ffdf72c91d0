/*
 * Progress of teams over several nodes between their calls. Some transports answer by the receiver's CPU, and a rank
 * that has left its call may be asked while it waits in another function of MPI.
 */
#include "mca/coll/mscclpp/component.h"

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
