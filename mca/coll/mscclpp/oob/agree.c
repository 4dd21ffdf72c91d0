/*
 * An agreement whose late ranks are named.
 *
 * Open MPI's all-reduce does not tell which ranks are missing. So a rank that has waited long tells all others that it
 * waits, and each rank that waits in the same agreement then tells all others, too. Ranks that have not done so are
 * late. All ranks that wait know that alike, so the first of them alone names the late ones, and the others log
 * nothing. These messages reach a late rank when it no longer needs them. The next agreement tells all ranks that there
 * are such messages, and they throw them away.
 */
#include "mca/coll/mscclpp/oob/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll/mscclpp/oob/message.h"
#include "mca/common/base/call.h"
#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"

/* The most ranks that a message names. */
#define RANKS_SHOWN 8

/* Seconds between two looks for messages. A shorter wait never looks for any. */
#define LOOK_EVERY 0.1

/* The most seconds that other ranks have to answer. Ranks that have not answered by then are named. */
#define ANSWER_TIME 1.0

/* The seconds after the deadline at which a rank gives up although a lower one waits that should have done so. */
#define FOLLOW_TIME 2.0

/* What this rank knows of another one. */
enum { UNHEARD, WAITS, NAMES }; /* NAMES: it waits, and is hurried */

/* Memory of Open MPI's all-reduce, which cannot be cancelled. After a failure this memory is therefore never freed. */
typedef struct {
    /* The last element is 1 if this rank has sent messages in an earlier agreement, else 0. */
    uint64_t own[MCA_COLL_MSCCLPP_AGREED + 1];
    uint64_t maxima[MCA_COLL_MSCCLPP_AGREED + 1];
    ompi_request_t *request; /* of the all-reduce */
} numbers_t;

/* The wait for one all-reduce. Times are by mscclpp_now, in seconds. */
typedef struct {
    mca_coll_mscclpp_module_t *module;
    const char *collective; /* its name, for messages */
    bool hurried;           /* this rank names late ranks, and gives up at the deadline */
    double started;
    double looked;          /* when this rank last looked for messages */
    double asked;           /* when this rank told the others that it waits; 0: not yet */
    bool warned;            /* a warning has named late ranks */
    unsigned char *present; /* by rank: WAITS or NAMES if the rank has told this one that it waits, too, and else
                               UNHEARD; NULL: not needed yet, or there is no memory */
} wait_t;

/*
 * Returns the seconds after which a hurried rank tells the others that it waits: the time of the warning, but at most
 * half of that to the deadline. 0: never.
 */
static double seconds_until_asking(void)
{
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    const double half = config->timeout / 2;

    return config->warn_after > 0 && (half <= 0 || config->warn_after < half) ? config->warn_after : half;
}

/*
 * Writes into `text` the first RANKS_SHOWN ranks that have not told this rank that they wait, and the number of the
 * others. Writes "unknown" if there is no memory for `present`, and "none" if all ranks wait.
 */
static void list_late(const wait_t *wait, char *text, size_t size)
{
    const int ranks = ompi_comm_size(wait->module->comm);
    int late = 0;
    size_t used = 0;

    (void)snprintf(text, size, wait->present == NULL ? "unknown" : "none");
    for (int rank = 0; wait->present != NULL && rank < ranks; ++rank) {
        if (UNHEARD == wait->present[rank] && ++late <= RANKS_SHOWN && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%d", 1 == late ? "" : ", ", rank);
        }
    }
    if (late > RANKS_SHOWN && used < size) {
        (void)snprintf(text + used, size - used, " and %d more", late - RANKS_SHOWN);
    }
}

/* Returns true if no lower rank is known to wait that names late ranks. */
static bool is_first(const wait_t *wait)
{
    const int own = ompi_comm_rank(wait->module->comm);
    int rank = 0;

    while (wait->present != NULL && rank < own && NAMES != wait->present[rank]) {
        ++rank;
    }
    return wait->present == NULL || rank == own;
}

/*
 * Sends a message of this agreement to all other ranks, which says whether this rank is hurried. Without memory, sends
 * them one after another, and without that.
 */
static void tell_all(const wait_t *wait, mca_coll_mscclpp_oob_t *oob, mca_coll_mscclpp_oob_kind_t kind)
{
    const int ranks = ompi_comm_size(oob->comm);
    const uint64_t call = wait->module->current_call;
    const unsigned char knows = wait->hurried ? NAMES : WAITS;

    /* Ranks that are not hurried have no deadline of their own: they wait until they are told. */
    if (MSCCLPP_ERR_NO_MEMORY ==
        mca_coll_mscclpp_oob_post_among(oob, NULL, ranks, kind, call, call, &knows, sizeof(knows))) {
        mca_coll_mscclpp_oob_send_empty(wait->module, NULL, ranks, kind, call);
    }
    mca_coll_mscclpp_oob_break_off(wait->module); /* because a late rank may never receive it */
    wait->module->told_waits = true;
}

/*
 * Takes the messages of this agreement that have arrived. When the first rank tells this one that it waits, this rank
 * tells all others that it waits, too. Returns MSCCLPP_ERR_PEER if a rank has given up, or an error of the messages.
 * Called, like the next function, with the oob's lock held.
 */
static mscclpp_status_t take_messages(wait_t *wait, mca_coll_mscclpp_oob_t *oob)
{
    const uint64_t call = wait->module->current_call;
    mca_coll_mscclpp_oob_message_t *message;
    mscclpp_status_t status = mca_coll_mscclpp_oob_advance(oob, MCA_COLL_MSCCLPP_OOB_ANY);
    bool was_asked = false;

    while (MSCCLPP_OK == status &&
           (message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_WAITS, call)) != NULL) {
        was_asked = true;
        if (wait->present != NULL) {
            wait->present[message->peer] =
                sizeof(wait->present[0]) == message->header.length ? message->data[0] : WAITS;
        }
        free(message);
    }
    if (was_asked && 0 == wait->asked) {
        wait->asked = mscclpp_now();
        tell_all(wait, oob, MCA_COLL_MSCCLPP_OOB_WAITS);
    }
    message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_GIVES_UP, call);
    if (MSCCLPP_OK == status && message != NULL) {
        mscclpp_info("%s: %s call %llu: rank %d has given up waiting for late ranks", oob->label, wait->collective,
                     (unsigned long long)call, message->peer);
        wait->module->peer_reports = true;
        status = MSCCLPP_ERR_PEER;
    }
    free(message);
    return status;
}

/*
 * Looks after the deadline of a hurried rank. After some time it tells all ranks that this rank waits; ranks that wait,
 * too, answer. A while later the first of them warns about those that have not answered. At the deadline it logs an
 * error, tells all ranks and returns MSCCLPP_ERR_TIMEOUT; another one follows if it does not. On other ranks, whose
 * calls on host memory have no deadline, it does nothing and returns MSCCLPP_OK.
 */
static mscclpp_status_t check_clock(wait_t *wait, mca_coll_mscclpp_oob_t *oob, double now)
{
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    const double waited = now - wait->started, ask_after = seconds_until_asking();
    /*
     * The warning should come before the deadline, which may be at 2 * ask_after. So if ask_after is short, the time to
     * answer is half of it.
     */
    const double answer_time = ask_after < ANSWER_TIME ? ask_after / 2 : ANSWER_TIME;
    const bool leads = is_first(wait);
    const bool is_over = config->timeout > 0 && waited > config->timeout + (leads ? 0 : FOLLOW_TIME);
    const bool warns = config->warn_after > 0 && waited > config->warn_after && 0 != wait->asked &&
                       now - wait->asked > answer_time && !wait->warned && leads;
    const int rank = ompi_comm_rank(wait->module->comm);
    char call[96], ranks[128];

    if (!wait->hurried) {
        return MSCCLPP_OK;
    }
    if (0 == wait->asked && ask_after > 0 && waited > ask_after) {
        wait->asked = now;
        tell_all(wait, oob, MCA_COLL_MSCCLPP_OOB_WAITS);
    }
    if (!is_over && !warns) {
        return MSCCLPP_OK;
    }
    wait->warned = true;
    list_late(wait, ranks, sizeof(ranks));
    (void)snprintf(call, sizeof(call), "%s call %llu, agreement on sizes", wait->collective,
                   (unsigned long long)wait->module->current_call);
    if (!is_over) {
        mscclpp_report_late(oob->label, call, rank, waited, ranks);
        return MSCCLPP_OK;
    }
    mscclpp_report_deadline(oob->label, call, rank, config->timeout, ranks, config->check_calls);
    tell_all(wait, oob, MCA_COLL_MSCCLPP_OOB_GIVES_UP);
    return MSCCLPP_ERR_TIMEOUT;
}

/*
 * Tells whether the wait may go on. Called in each turn of the wait. Every LOOK_EVERY seconds, takes messages and
 * checks the clock. Returns MSCCLPP_OK if the wait continues, or the error that ends it: MSCCLPP_ERR_TIMEOUT,
 * MSCCLPP_ERR_PEER, a revocation, or an error of the messages.
 */
static mscclpp_status_t check_wait(wait_t *wait)
{
    const double now = mscclpp_now();
    mca_coll_mscclpp_oob_t *oob;
    mscclpp_status_t status;

    if (now - wait->looked < LOOK_EVERY) {
        return MSCCLPP_OK;
    }
    wait->looked = now;
    oob = mca_coll_mscclpp_oob_ensure(wait->module);
    if (oob == NULL) {
        return MSCCLPP_OK; /* no memory for messages: the all-reduce does not need them, and may still end */
    }
    if (wait->present == NULL) {
        wait->present = calloc((size_t)ompi_comm_size(wait->module->comm), sizeof(*wait->present));
        if (wait->present != NULL) {
            wait->present[ompi_comm_rank(wait->module->comm)] = WAITS;
        }
    }
    status = mca_coll_mscclpp_oob_check(oob);
    if (MSCCLPP_OK != status) {
        return status;
    }
    mca_coll_mscclpp_oob_lock(oob);
    status = take_messages(wait, oob);
    if (MSCCLPP_OK == status) {
        status = check_clock(wait, oob, now);
    }
    pthread_mutex_unlock(&oob->lock);
    return status;
}

/*
 * Frees OOB_WAITS messages of earlier agreements, which arrived when this rank no longer needed them. Messages that
 * cannot be received now stay in Open MPI's queues. They are harmless, because they have the numbers of earlier calls.
 */
static void drop_messages(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_oob_t *oob = mca_coll_mscclpp_oob_ensure(module);

    if (oob == NULL) {
        return;
    }
    mca_coll_mscclpp_oob_lock(oob);
    (void)mca_coll_mscclpp_oob_advance(oob, MCA_COLL_MSCCLPP_OOB_ANY);
    mca_coll_mscclpp_oob_drop_before(oob, MCA_COLL_MSCCLPP_OOB_WAITS, module->current_call);
    pthread_mutex_unlock(&oob->lock);
}

/*
 * Waits for the all-reduce. Returns MSCCLPP_OK when it is complete. Returns an error of check_wait if this rank or
 * another one gives up, or if the communicator is revoked; the all-reduce is then still in progress.
 */
static mscclpp_status_t await(wait_t *wait, const numbers_t *numbers)
{
    mscclpp_status_t status = MSCCLPP_OK;

    wait->started = wait->looked = mscclpp_now();
    while (!REQUEST_COMPLETE(numbers->request) && MSCCLPP_OK == status) {
        mca_coll_mscclpp_progress();
        status = check_wait(wait);
    }
    free(wait->present);
    return status;
}

/*
 * Makes the other ranks give up, on a rank that cannot begin the all-reduce, for which they would wait. Needs no
 * memory.
 */
static void abstain(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_oob_send_empty(module, NULL, ompi_comm_size(module->comm), MCA_COLL_MSCCLPP_OOB_GIVES_UP,
                                    module->current_call);
    mca_coll_mscclpp_oob_break_off(module);
}

/*
 * The numbers are on the heap, because Open MPI may still write to them after this rank has given up. An error of the
 * all-reduce itself is returned with *late_p MSCCLPP_OK; it breaks nothing.
 */
int mca_coll_mscclpp_agree(mca_coll_mscclpp_module_t *module, const char *collective, bool hurried, const uint64_t *own,
                           uint64_t *maxima, mscclpp_status_t *late_p)
{
    numbers_t *numbers = malloc(sizeof(*numbers));
    wait_t wait = {.module = module, .collective = collective, .hurried = hurried};
    int rc;

    mscclpp_fiber_close();
    *late_p = MSCCLPP_OK;
    if (numbers == NULL) {
        mscclpp_error("%s: %s call %llu: no memory to agree with the other ranks",
                      mca_coll_mscclpp_comm_name(module->comm), collective, (unsigned long long)module->current_call);
        abstain(module);
        *late_p = MSCCLPP_ERR_NO_MEMORY;
        return MPI_ERR_NO_MEM;
    }
    memcpy(numbers->own, own, MCA_COLL_MSCCLPP_AGREED * sizeof(*own));
    numbers->own[MCA_COLL_MSCCLPP_AGREED] = module->told_waits;
    module->told_waits = false;
    rc = module->previous.iallreduce(numbers->own, numbers->maxima, MCA_COLL_MSCCLPP_AGREED + 1, &ompi_mpi_uint64_t.dt,
                                     &ompi_mpi_op_max.op, module->comm, &numbers->request,
                                     module->previous.iallreduce_module);
    if (OMPI_SUCCESS != rc) {
        mscclpp_error("%s: %s call %llu: Open MPI cannot begin an agreement of all ranks (error %d)",
                      mca_coll_mscclpp_comm_name(module->comm), collective, (unsigned long long)module->current_call,
                      rc);
        free(numbers);
        abstain(module);
        *late_p = MSCCLPP_ERR_PEER;
        return rc;
    }
    *late_p = await(&wait, numbers);
    if (MSCCLPP_OK != *late_p) {
        /* Open MPI may still write to the numbers, so they are not freed. */
        mca_coll_mscclpp_oob_break_off(module);
        return mca_coll_mscclpp_status_to_ompi(*late_p);
    }
    opal_atomic_rmb(); /* the maxima and the result were written before the request became complete */
    rc = numbers->request->req_status.MPI_ERROR;
    (void)ompi_request_free(&numbers->request);
    memcpy(maxima, numbers->maxima, MCA_COLL_MSCCLPP_AGREED * sizeof(*maxima));
    if (OMPI_SUCCESS == rc && 0 != numbers->maxima[MCA_COLL_MSCCLPP_AGREED]) {
        drop_messages(module);
    }
    free(numbers);
    return rc;
}
