/*
 * Finds calls in which some ranks pass device buffers and others pass host buffers.
 *
 * The ranks with host buffers would wait forever in the previous component's collective, because the ranks with device
 * buffers never join it. This callback of opal_progress runs while they wait. It looks for peers with device buffers,
 * names them, and ends the job, because nothing else can end that call.
 */
#include "mca/common/base/clock.h"
#include "mca/coll/mscclpp/native/native.h"
#include "mca/coll/mscclpp/oob/oob.h"

#include "mca/common/base/log.h"

/*
 * Only one in CALL_INTERVAL calls of this callback reads the clock, because MPI calls it in each turn of every wait.
 */
#define CALL_INTERVAL 64u

/* The least time between two searches through the modules, of which there may be thousands. */
#define PERIOD_SECONDS 0.01

/*
 * How long a host call may last before it is suspected, in seconds. Ordinary calls are shorter, so they cause no search
 * for peers.
 */
#define PATIENCE_SECONDS 0.05

/* How long this rank waits before it ends the job, so that its peers can print what they know. */
#define GRACE_SECONDS 1.0

/* Returns true if the component before this one is serving call `call` on host buffers. */
static bool in_host_call(const mca_coll_mscclpp_module_t *module, uint64_t call)
{
    return 0 != __atomic_load_n(&module->in_host_call, __ATOMIC_ACQUIRE) &&
           call == __atomic_load_n(&module->calls, __ATOMIC_RELAXED);
}

/*
 * Returns a module that has been in the same host call, *call_p, for longer than PATIENCE_SECONDS, or NULL if there is
 * none. Raises the module's `watchers`, which keeps the module alive; the caller lowers it again.
 */
static mca_coll_mscclpp_module_t *find_suspect(double now, uint64_t *call_p)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    mca_coll_mscclpp_module_t *module;

    /*
     * Never waits for the lock: another thread may hold it and can search instead, or this thread holds it further down
     * its stack.
     */
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
            module->suspect_since = now;
        } else if (now - module->suspect_since > PATIENCE_SECONDS) {
            /* This restarts this module's time, so that the next search may return another module. */
            module->suspect_since = now;
            (void)__atomic_add_fetch(&module->watchers, 1, __ATOMIC_ACQ_REL);
            *call_p = call;
            break;
        }
    }
    pthread_mutex_unlock(&state->lock);
    return module;
}

/*
 * Finds a rank that passed device memory in the call in which this one passed host memory; -1: none. Without a team,
 * also refuses the ranks that set one up in this call (oob/oob.h).
 */
static int find_device_rank(mca_coll_mscclpp_module_t *module, uint64_t call)
{
    mscclpp_team_t *team = __atomic_load_n(&module->team, __ATOMIC_ACQUIRE);

    return team != NULL ? mscclpp_team_find_device_rank(team, call) : mca_coll_mscclpp_oob_refuse(module, call);
}

/*
 * Reports the mixture, waits GRACE_SECONDS so that other ranks can write their reports, too, and ends the job. The
 * progress in this function may call find_mixture again, which does nothing, because `searching` is set.
 */
static void end_job(mca_coll_mscclpp_module_t *module, uint64_t call, int peer)
{
    double deadline = mscclpp_now() + GRACE_SECONDS;

    mca_coll_mscclpp_report_mixed(module, call, ompi_comm_rank(module->comm), peer);
    while (mscclpp_now() < deadline) {
        /* Peers that begin the call only now are refused too. */
        (void)find_device_rank(module, call);
        opal_progress();
    }
    (void)ompi_mpi_abort(module->comm, MPI_ERR_BUFFER);
}

/*
 * Checks, from time to time, whether this rank waits in a host call for a rank that passed device memory. If so, ends
 * the job and does not return. Otherwise returns 0: no progress was made. It is a callback of opal_progress.
 */
static int find_mixture(void)
{
    static unsigned calls;     /* of this function, about */
    static int searching;      /* atomic: 1 while a thread searches */
    static double last_search; /* guarded by `searching` */
    mca_coll_mscclpp_module_t *module;
    double now;
    uint64_t call = 0;
    int not_searching = 0;
    int peer;

    /* Two threads may count the same call. An exact count would cost more and is not needed. */
    unsigned count = __atomic_load_n(&calls, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&calls, count, __ATOMIC_RELAXED);
    if (0 != count % CALL_INTERVAL ||
        !__atomic_compare_exchange_n(&searching, &not_searching, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return 0; /* the search runs opal_progress, which calls this function again */
    }
    now = mscclpp_now();
    module = NULL;
    if (now - last_search >= PERIOD_SECONDS) {
        last_search = now;
        module = find_suspect(now, &call);
    }
    if (module != NULL) {
        peer = find_device_rank(module, call);
        /* This rank is stuck only if it is still in that call, which it may have left since find_suspect looked. */
        if (peer >= 0 && in_host_call(module, call)) {
            end_job(module, call, peer);
        }
        (void)__atomic_sub_fetch(&module->watchers, 1, __ATOMIC_ACQ_REL);
    }
    __atomic_store_n(&searching, 0, __ATOMIC_RELEASE);
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
