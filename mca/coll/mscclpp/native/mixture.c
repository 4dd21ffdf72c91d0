/*
 * Device buffers on some ranks and host buffers on others, in one call, would leave the latter in the previous
 * component's all-reduce for ever: the former never join it. This callback of opal_progress, which runs in there, looks
 * for such peers, names them and ends the job, as nothing else can end that call.
 */
#include "mca/common/base/clock.h"
#include "mca/coll/mscclpp/native/native.h"
#include "mca/coll/mscclpp/oob/oob.h"

#include "mca/common/base/log.h"

/* opal_progress calls this callback now and then; only each so many of these calls look at anything. */
#define LOOK_INTERVAL 64u

/* Nor are the modules, of which there may be thousands, looked at more often than this. */
#define PERIOD_SECONDS 0.01

/* Nor is a call suspected before it has lasted so long, so that ordinary calls cost nothing more. */
#define PATIENCE_SECONDS 0.05

/* Time for the peers to print what they know, before this rank ends the job. */
#define GRACE_SECONDS 1.0

static bool in_host_call(const mca_coll_mscclpp_module_t *module, uint64_t call)
{
    return 0 != __atomic_load_n(&module->in_host_call, __ATOMIC_ACQUIRE) &&
           call == __atomic_load_n(&module->calls, __ATOMIC_RELAXED);
}

/* One that has been in one host call for long, pinned by its watchers; NULL if there is none. */
static mca_coll_mscclpp_module_t *suspect(double time, uint64_t *call_p)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    mca_coll_mscclpp_module_t *module;

    /* Other threads watch as well as this one does; and this one may hold the lock, below in its stack. */
    if (0 != pthread_mutex_trylock(&state->lock)) {
        return NULL;
    }
    for (module = state->modules; module != NULL; module = module->next) {
        uint64_t call = __atomic_load_n(&module->calls, __ATOMIC_RELAXED);
        if (!in_host_call(module, call)) {
            continue;
        }
        if (module->suspect_call != call) {
            module->suspect_call = call;
            module->suspect_since = time;
        } else if (time - module->suspect_since > PATIENCE_SECONDS) {
            module->suspect_since = time; /* another one's turn */
            (void)__atomic_add_fetch(&module->watchers, 1, __ATOMIC_ACQ_REL);
            *call_p = call;
            break;
        }
    }
    pthread_mutex_unlock(&state->lock);
    return module;
}

/* A rank that passed device memory in the call in which this one passed host memory, or -1. */
static int find_device_rank(mca_coll_mscclpp_module_t *module, uint64_t call)
{
    mscclpp_team_t *team = __atomic_load_n(&module->team, __ATOMIC_ACQUIRE);

    return team != NULL ? mscclpp_team_find_device_rank(team, call) : mca_coll_mscclpp_oob_refuse(module, call);
}

static void end_job(mca_coll_mscclpp_module_t *module, uint64_t call, int peer)
{
    double until = mscclpp_now() + GRACE_SECONDS;

    mca_coll_mscclpp_report_mixed(module, call, ompi_comm_rank(module->comm), peer);
    while (mscclpp_now() < until) {
        /* Peers that begin the call only now are refused too. */
        (void)find_device_rank(module, call);
        opal_progress();
    }
    (void)ompi_mpi_abort(module->comm, MPI_ERR_BUFFER);
}

static int find_mixture(void)
{
    static unsigned calls;
    static int looking;
    static double looked; /* of whoever looks */
    mca_coll_mscclpp_module_t *module;
    double time;
    uint64_t call = 0;
    int none = 0;
    int peer;

    /* A count that threads now and then lose is good enough, and cheaper than one that they do not. */
    unsigned count = __atomic_load_n(&calls, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&calls, count, __ATOMIC_RELAXED);
    if (0 != count % LOOK_INTERVAL ||
        !__atomic_compare_exchange_n(&looking, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return 0; /* a look itself runs opal_progress and comes back here */
    }
    time = mscclpp_now();
    module = NULL;
    if (time - looked >= PERIOD_SECONDS) {
        looked = time;
        module = suspect(time, &call);
    }
    if (module != NULL) {
        peer = find_device_rank(module, call);
        /* Only a rank that is in the same call still is stuck; one that went on met a message that was early. */
        if (peer >= 0 && in_host_call(module, call)) {
            end_job(module, call, peer);
        }
        (void)__atomic_sub_fetch(&module->watchers, 1, __ATOMIC_ACQ_REL);
    }
    __atomic_store_n(&looking, 0, __ATOMIC_RELEASE);
    return 0;
}

int mca_coll_mscclpp_mixture_init(void)
{
    /* With mixed_buffers the ranks agree before each call. */
    return mca_coll_mscclpp_state.config.mixed_buffers ? OMPI_SUCCESS : opal_progress_register_lp(find_mixture);
}

void mca_coll_mscclpp_mixture_fini(void)
{
    if (!mca_coll_mscclpp_state.config.mixed_buffers) {
        (void)opal_progress_unregister(find_mixture);
    }
}
