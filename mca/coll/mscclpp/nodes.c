/*
 * Progress of teams over several nodes between their calls. Some transports answer by the receiver's CPU, and a rank
 * that has left its call may be asked while it waits in another function of MPI.
 */
#include "mca/coll/mscclpp/coll_mscclpp.h"

#include "mca/common/fabric.h"
#include "mca/common/log.h"

/* Guarded by the component's lock. */
static bool registered;

static int nodes_progress(void)
{
    mscclpp_fabric_progress_all();
    return 0;
}

void mca_coll_mscclpp_nodes_progress_start(void)
{
    pthread_mutex_lock(&mca_coll_mscclpp_component.lock);
    if (!registered) {
        registered = OMPI_SUCCESS == opal_progress_register_lp(nodes_progress);
        if (!registered) {
            mscclpp_warn("cannot register with opal_progress: ranks that wait for other nodes may be late");
        }
    }
    pthread_mutex_unlock(&mca_coll_mscclpp_component.lock);
}

void mca_coll_mscclpp_nodes_progress_fini(void)
{
    bool was;

    pthread_mutex_lock(&mca_coll_mscclpp_component.lock);
    was = registered;
    registered = false;
    pthread_mutex_unlock(&mca_coll_mscclpp_component.lock);
    if (was) {
        (void)opal_progress_unregister(nodes_progress);
    }
}
