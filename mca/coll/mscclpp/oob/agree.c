/*
 * An agreement whose late ranks are named.
 *
 * Open MPI's all-reduce does not tell who is missing. So a rank that has waited long sends a message to all others, and
 * each rank that waits in the same agreement answers to all. Who has not answered is late. A late rank finds these
 * messages once it comes; the next agreement tells all ranks that there are some, and they are thrown away then.
 */
#include "mca/coll/mscclpp/oob/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll/mscclpp/oob/message.h"
#include "mca/common/base/call.h"
#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"

#define RANKS_SHOWN 8

/* Seconds from one look for messages to the next. Waits that are shorter look for none. */
#define LOOK_EVERY 0.1

/* The most seconds that other ranks get to answer before those that have not are named. */
#define ANSWER_TIME 1.0

/* Memory that Open MPI's all-reduce uses. It cannot be called off, so after a failure this memory is never freed. */
typedef struct {
    uint64_t mine[MCA_COLL_MSCCLPP_AGREED + 1]; /* the last one: this rank has told others that it waits */
    uint64_t all[MCA_COLL_MSCCLPP_AGREED + 1];
    ompi_request_t *request;
} numbers_t;

typedef struct {
    mca_coll_mscclpp_module_t *module;
    const char *collective;
    bool hurried;
    double started;
    double looked; /* when this rank last looked for messages */
    double asked;  /* when this rank told the others that it waits; 0: not yet */
    bool warned;
    bool *waits; /* by rank: it has said that it waits, too; NULL: there is no memory for it */
} wait_t;

/* Seconds after which a hurried rank asks who waits, too. */
static double patience(void)
{
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    const double half = config->timeout / 2;

    return config->warn_after > 0 && (half <= 0 || config->warn_after < half) ? config->warn_after : half;
}

/* Lists the first ranks that have not said that they wait. */
static void list_late(const wait_t *wait, char *text, size_t size)
{
    const int ranks = ompi_comm_size(wait->module->comm);
    int late = 0;
    size_t used = 0;

    (void)snprintf(text, size, wait->waits == NULL ? "unknown" : "none");
    for (int rank = 0; wait->waits != NULL && rank < ranks; ++rank) {
        if (!wait->waits[rank] && ++late <= RANKS_SHOWN && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%d", 1 == late ? "" : ", ", rank);
        }
    }
    if (late > RANKS_SHOWN && used < size) {
        (void)snprintf(text + used, size - used, " and %d more", late - RANKS_SHOWN);
    }
}

/* Sends one of this file's messages to all other ranks. What cannot be sent is missing from a message for users only.
 */
static void tell_all(const wait_t *wait, mca_coll_mscclpp_oob_t *oob, mca_coll_mscclpp_oob_kind_t kind)
{
    (void)mca_coll_mscclpp_oob_post_among(oob, NULL, ompi_comm_size(oob->comm), kind, wait->module->in_hand,
                                          wait->module->in_hand, NULL, 0);
    mca_coll_mscclpp_oob_break_off(wait->module); /* a late rank may never receive it */
    wait->module->told_waits = true;
}

/* Takes the messages of this agreement that have come. MSCCLPP_ERR_PEER if a rank has given up. */
static mscclpp_status_t take_messages(wait_t *wait, mca_coll_mscclpp_oob_t *oob)
{
    const uint64_t call = wait->module->in_hand;
    mca_coll_mscclpp_oob_message_t *message;
    mscclpp_status_t status = mca_coll_mscclpp_oob_advance(oob, MCA_COLL_MSCCLPP_OOB_ANY);
    bool asked = false;

    while (MSCCLPP_OK == status &&
           (message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_WAITS, call)) != NULL) {
        asked = true;
        if (wait->waits != NULL) {
            wait->waits[message->peer] = true;
        }
        free(message);
    }
    if (asked && 0 == wait->asked) {
        wait->asked = mscclpp_now();
        tell_all(wait, oob, MCA_COLL_MSCCLPP_OOB_WAITS);
    }
    message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_GIVES_UP, call);
    if (MSCCLPP_OK == status && message != NULL) {
        mscclpp_error("%s: %s call %llu: rank %d has given up waiting for late ranks", oob->label, wait->collective,
                      (unsigned long long)call, message->peer);
        status = MSCCLPP_ERR_PEER;
    }
    free(message);
    return status;
}

/* Warns, and gives up at the deadline. */
static mscclpp_status_t check_clock(wait_t *wait, mca_coll_mscclpp_oob_t *oob, double now)
{
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    const double waited = now - wait->started, first = patience();
    const double answers = first < ANSWER_TIME ? first / 2 : ANSWER_TIME;
    const bool late = config->timeout > 0 && waited > config->timeout;
    const bool warn = config->warn_after > 0 && waited > config->warn_after && 0 != wait->asked &&
                      now - wait->asked > answers && !wait->warned;
    const int rank = ompi_comm_rank(wait->module->comm);
    char call[96], ranks[128];

    if (!wait->hurried) {
        return MSCCLPP_OK;
    }
    if (0 == wait->asked && first > 0 && waited > first) {
        wait->asked = now;
        tell_all(wait, oob, MCA_COLL_MSCCLPP_OOB_WAITS);
    }
    if (!late && !warn) {
        return MSCCLPP_OK;
    }
    wait->warned = true;
    list_late(wait, ranks, sizeof(ranks));
    (void)snprintf(call, sizeof(call), "%s call %llu, agreement on sizes", wait->collective,
                   (unsigned long long)wait->module->in_hand);
    if (!late) {
        mscclpp_report_late(oob->label, call, rank, waited, ranks);
        return MSCCLPP_OK;
    }
    mscclpp_report_deadline(oob->label, call, rank, config->timeout, ranks, config->check_calls);
    tell_all(wait, oob, MCA_COLL_MSCCLPP_OOB_GIVES_UP);
    return MSCCLPP_ERR_TIMEOUT;
}

/* Looks now and then for messages and at the clock. */
static mscclpp_status_t look(wait_t *wait)
{
    const double now = mscclpp_now();
    mca_coll_mscclpp_oob_t *oob;
    mscclpp_status_t status;

    if (now - wait->looked < LOOK_EVERY) {
        return MSCCLPP_OK;
    }
    wait->looked = now;
    oob = mca_coll_mscclpp_oob_of(wait->module);
    if (oob == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    if (wait->waits == NULL) {
        wait->waits = calloc((size_t)ompi_comm_size(wait->module->comm), sizeof(*wait->waits));
        if (wait->waits != NULL) {
            wait->waits[ompi_comm_rank(wait->module->comm)] = true;
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

/* Throws away what was sent to this rank before it came. */
static void drop_messages(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_oob_t *oob = mca_coll_mscclpp_oob_of(module);

    if (oob == NULL) {
        return;
    }
    mca_coll_mscclpp_oob_lock(oob);
    (void)mca_coll_mscclpp_oob_advance(oob, MCA_COLL_MSCCLPP_OOB_ANY);
    mca_coll_mscclpp_oob_drop_before(oob, MCA_COLL_MSCCLPP_OOB_WAITS, module->in_hand);
    pthread_mutex_unlock(&oob->lock);
}

/* Waits for the all-reduce. */
static mscclpp_status_t await(wait_t *wait, const numbers_t *numbers)
{
    mscclpp_status_t status = MSCCLPP_OK;

    wait->started = wait->looked = mscclpp_now();
    while (!REQUEST_COMPLETE(numbers->request) && MSCCLPP_OK == status) {
        mca_coll_mscclpp_progress();
        status = look(wait);
    }
    free(wait->waits);
    return status;
}

int mca_coll_mscclpp_agree(mca_coll_mscclpp_module_t *module, const char *collective, bool hurried,
                           const uint64_t *mine, uint64_t *all, mscclpp_status_t *late_p)
{
    numbers_t *numbers = malloc(sizeof(*numbers));
    wait_t wait = {.module = module, .collective = collective, .hurried = hurried};
    int rc;

    *late_p = MSCCLPP_OK;
    if (numbers == NULL) {
        mscclpp_error("%s: no memory to agree with the other ranks", mca_coll_mscclpp_comm_name(module->comm));
        return MPI_ERR_NO_MEM;
    }
    memcpy(numbers->mine, mine, MCA_COLL_MSCCLPP_AGREED * sizeof(*mine));
    numbers->mine[MCA_COLL_MSCCLPP_AGREED] = module->told_waits;
    module->told_waits = false;
    rc = module->previous.iallreduce(numbers->mine, numbers->all, MCA_COLL_MSCCLPP_AGREED + 1, &ompi_mpi_uint64_t.dt,
                                     &ompi_mpi_op_max.op, module->comm, &numbers->request,
                                     module->previous.iallreduce_module);
    if (OMPI_SUCCESS != rc) {
        free(numbers);
        return rc;
    }
    *late_p = await(&wait, numbers);
    if (MSCCLPP_OK != *late_p) {
        mca_coll_mscclpp_oob_break_off(module);
        return mca_coll_mscclpp_status_to_ompi(*late_p);
    }
    opal_atomic_rmb();
    rc = numbers->request->req_status.MPI_ERROR;
    (void)ompi_request_free(&numbers->request);
    memcpy(all, numbers->all, MCA_COLL_MSCCLPP_AGREED * sizeof(*all));
    if (OMPI_SUCCESS == rc && 0 != numbers->all[MCA_COLL_MSCCLPP_AGREED]) {
        drop_messages(module);
    }
    free(numbers);
    return rc;
}
