/*
 * Progress of teams over several nodes between their calls. With some transports, the receiver's CPU has to answer
 * requests. A peer may send a request after this rank has left the call, while this rank waits in another function of
 * MPI.
 */
#include "mca/coll/mscclpp/component.h"

/* A callback of opal_progress. Returns 0, as it completes no request of the application. */
static int serve_teams(void)
{
    mscclpp_team_progress_all();
    return 0;
}

int mca_coll_mscclpp_progress_init(void)
{
    return opal_progress_register_lp(serve_teams);
}

void mca_coll_mscclpp_progress_fini(void)
{
    (void)opal_progress_unregister(serve_teams);
}
