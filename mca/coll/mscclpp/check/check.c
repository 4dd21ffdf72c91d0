/*
 * Compares the calls of all ranks. Each rank sends its arguments to all others, with the number of the call. A rank
 * that has the arguments of all ranks compares them, so all ranks come to the same result. An error is found before the
 * call begins, so the communicator stays as it was.
 */
#include "mca/common/base/clock.h"
#include "mca/coll/mscclpp/check/check.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll/mscclpp/check/signature.h"
#include "mca/coll/mscclpp/oob/message.h"
#include "mca/common/base/call.h"
#include "mca/common/base/log.h"

/* The most ranks that a message names: thousands may be late at once. */
#define RANKS_SHOWN 8

/* Bytes that a comma, a rank and a terminating zero need in a message. */
#define RANK_LENGTH 16

/* How long this rank waits before it ends the job, so that its peers can print what they have found. */
#define GRACE_SECONDS 1.0

/* One call whose comparison is under way. */
typedef struct check {
    struct check *next;
    mca_coll_mscclpp_module_t *module;
    mca_coll_mscclpp_oob_t *oob;
    uint64_t number;   /* the call's number among the communicator's compared calls */
    int peers;         /* number of ranks in the communicator or, on an inter-communicator, in the remote group */
    int rank;          /* this rank's index among the peers; -1 on an inter-communicator */
    int missing_count; /* peers whose arguments have not arrived */
    double started;    /* when it began, by mscclpp_now */
    bool has_warned;   /* a warning has named the missing ranks */
    bool has_sent;     /* the sending of this rank's arguments has begun, or has failed */
    mca_coll_mscclpp_oob_message_t *messages; /* the messages that hold the peers' signatures, linked by `next` */
    mca_coll_mscclpp_signature_t *own_signature;
    mca_coll_mscclpp_signature_t *signatures[]; /* by peer; NULL: not received yet */
} check_t;

_Static_assert(0 == offsetof(mca_coll_mscclpp_oob_message_t, data) % _Alignof(mca_coll_mscclpp_signature_t),
               "signatures are read where they have been received");

/*
 * Comparisons of nonblocking calls on all communicators. A new one is pushed on `arrived`, without the lock, because
 * the call may be made within opal_progress while this thread holds the lock further down its stack. The next holder of
 * the lock moves it to `pending`.
 */
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;
static check_t *pending;
static check_t *arrived;

/*
 * Tells the peers not to wait for this rank's arguments of a nonblocking call, as it has no memory to compare it. The
 * call goes on: peers may have begun it, and would wait for this rank. Called without the oob's lock.
 */
static void skip_comparison(mca_coll_mscclpp_module_t *module, uint64_t number)
{
    mscclpp_error("%s: collective call %llu: no memory to compare it with the calls of the other ranks; it goes on",
                  mca_coll_mscclpp_comm_name(module->comm), (unsigned long long)number);
    mca_coll_mscclpp_oob_send_empty(module, NULL, mca_coll_mscclpp_peer_count(module->comm),
                                    MCA_COLL_MSCCLPP_OOB_CHECK_SKIPPED, number);
    mca_coll_mscclpp_oob_break_off(module);
}

/* Frees a check that is in no list, with the messages that it holds. */
static void free_check(check_t *check)
{
    mca_coll_mscclpp_oob_message_t *message;

    while ((message = check->messages) != NULL) {
        check->messages = message->next;
        free(message);
    }
    free(check->own_signature);
    free(check);
}

/*
 * Makes the check of one call, with this rank's arguments. Sends nothing yet. Returns NULL, without a log, if there is
 * no memory. On an intra-communicator, this rank's entry of `signatures` is `own_signature` itself.
 */
static check_t *create_check(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_oob_t *oob,
                             const mca_coll_mscclpp_check_call_t *call)
{
    const int peers = mca_coll_mscclpp_peer_count(module->comm);
    check_t *check = calloc(1, sizeof(*check) + (size_t)peers * sizeof(check->signatures[0]));

    if (check == NULL) {
        return NULL;
    }
    check->module = module;
    check->oob = oob;
    check->number = module->checked_calls;
    check->peers = peers;
    check->missing_count = peers;
    check->rank = OMPI_COMM_IS_INTER(module->comm) ? -1 : ompi_comm_rank(module->comm);
    check->started = mscclpp_now();
    check->own_signature = mca_coll_mscclpp_signature_new(call, peers);
    if (check->own_signature == NULL) {
        free(check);
        return NULL;
    }
    if (check->rank >= 0) {
        check->signatures[check->rank] = check->own_signature;
        --check->missing_count;
    }
    return check;
}

/*
 * Starts to send this rank's arguments to all peers. On an intra-communicator, a rank without memory sends to none: a
 * peer that had the arguments of all ranks would begin the call. Called, like take_ending and advance_check, with the
 * oob's lock held.
 */
static mscclpp_status_t send_arguments(check_t *check)
{
    const size_t size = mca_coll_mscclpp_signature_size(check->own_signature);
    mscclpp_status_t status = MSCCLPP_OK;

    if (check->rank >= 0) {
        return mca_coll_mscclpp_oob_post_among(check->oob, NULL, check->peers, MCA_COLL_MSCCLPP_OOB_CHECK,
                                               check->number, check->module->calls, check->own_signature, size);
    }
    for (int i = 1; i <= check->peers && MSCCLPP_OK == status; ++i) {
        const int peer = (ompi_comm_rank(check->module->comm) + i) % check->peers;

        status = mca_coll_mscclpp_oob_post(check->oob, peer, MCA_COLL_MSCCLPP_OOB_CHECK, check->number,
                                           check->module->calls, check->own_signature, size);
    }
    return status;
}

/*
 * Keeps a message with the signature of one rank. If the message is damaged or the rank's second one, frees it and
 * returns MSCCLPP_ERR_PEER. message->peer is a valid index, since the message came over the communicator. Needs no
 * memory, because the peers may already have the arguments of all ranks and have begun the call.
 */
static mscclpp_status_t accept_signature(check_t *check, mca_coll_mscclpp_oob_message_t *message)
{
    const size_t length = message->header.length;
    mca_coll_mscclpp_signature_t *signature = (void *)message->data;

    if (length < sizeof(*signature) || length != mca_coll_mscclpp_signature_size(signature) ||
        check->signatures[message->peer] != NULL) {
        mscclpp_error("%s: rank %d sent an unexpected comparison of %zu bytes; do all ranks load the same version?",
                      check->oob->label, message->peer, length);
        free(message);
        return MSCCLPP_ERR_PEER;
    }
    message->next = check->messages;
    check->messages = message;
    check->signatures[message->peer] = signature;
    --check->missing_count;
    return MSCCLPP_OK;
}

static bool is_blocking(mca_coll_mscclpp_check_function_t function)
{
    return function < MCA_COLL_MSCCLPP_CHECK_iallgather; /* the first function that does not wait */
}

/* Returns a message of a rank that does not compare this call; NULL: none. The caller frees it by free(). */
static mca_coll_mscclpp_oob_message_t *take_ending(check_t *check)
{
    mca_coll_mscclpp_oob_message_t *message =
        mca_coll_mscclpp_oob_take(check->oob, MCA_COLL_MSCCLPP_OOB_CHECK_FAILED, check->number);

    return message != NULL ? message
                           : mca_coll_mscclpp_oob_take(check->oob, MCA_COLL_MSCCLPP_OOB_CHECK_SKIPPED, check->number);
}

/* Returns true if this rank and the sender of such a message both go on with the call: neither call waits for peers. */
static bool both_go_on(const check_t *check, const mca_coll_mscclpp_oob_message_t *message)
{
    return MCA_COLL_MSCCLPP_OOB_CHECK_SKIPPED == message->header.kind && !is_blocking(check->own_signature->function);
}

/*
 * Sends this rank's arguments, once, and receives those of other ranks. Returns MSCCLPP_OK when the arguments of all
 * ranks have arrived, and MSCCLPP_IN_PROGRESS before that. Anything else ends the comparison, and has been logged.
 * MSCCLPP_ERR_NOT_SUPPORTED: a rank continues without a comparison, so this rank may, too. MSCCLPP_ERR_PEER: a rank has
 * given up. Other errors are those of the messages.
 */
static mscclpp_status_t advance_check(check_t *check)
{
    mca_coll_mscclpp_oob_message_t *message;
    mscclpp_status_t status = MSCCLPP_OK;

    if (!check->has_sent) {
        check->has_sent = true;
        status = send_arguments(check);
    }
    if (MSCCLPP_OK == status) {
        status = mca_coll_mscclpp_oob_advance(check->oob, MCA_COLL_MSCCLPP_OOB_ANY);
    }
    message = MSCCLPP_OK == status ? take_ending(check) : NULL;
    if (message != NULL && both_go_on(check, message)) {
        mscclpp_warn("%s: collective call %llu: not compared, as rank %d has no memory for that", check->oob->label,
                     (unsigned long long)check->number, message->peer);
        free(message);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (message != NULL) {
        mscclpp_error("%s: collective call %llu: rank %d has given up comparing it", check->oob->label,
                      (unsigned long long)check->number, message->peer);
        free(message);
        return MSCCLPP_ERR_PEER;
    }
    while (MSCCLPP_OK == status &&
           (message = mca_coll_mscclpp_oob_take(check->oob, MCA_COLL_MSCCLPP_OOB_CHECK, check->number)) != NULL) {
        status = accept_signature(check, message);
    }
    return MSCCLPP_OK == status && check->missing_count > 0 ? MSCCLPP_IN_PROGRESS : status;
}

/* Returns true if the calls of all ranks match. Otherwise `text` names the difference. */
static bool calls_match(const check_t *check, char *text, size_t size)
{
    if (check->rank >= 0) {
        return mca_coll_mscclpp_signatures_match(check->signatures, check->peers, text, size);
    }
    for (int peer = 0; peer < check->peers; ++peer) {
        if (!mca_coll_mscclpp_signatures_match_inter(check->own_signature, ompi_comm_rank(check->module->comm),
                                                     check->signatures[peer], peer, text, size)) {
            return false;
        }
    }
    return true;
}

/* Writes the lowest RANKS_SHOWN ranks whose signatures have not arrived into `text`. */
static void list_missing(const check_t *check, char *text, size_t size)
{
    size_t used = 0;
    int shown = 0;

    text[0] = '\0';
    for (int peer = 0; peer < check->peers && shown < RANKS_SHOWN && used + RANK_LENGTH < size; ++peer) {
        if (check->signatures[peer] == NULL) {
            used += (size_t)snprintf(text + used, size - used, "%s%d", 0 == shown ? "" : ", ", peer);
            ++shown;
        }
    }
}

/*
 * Logs the missing ranks: once as a warning, and at the deadline as the error that ends the wait (MSCCLPP_ERR_TIMEOUT).
 * Returns MSCCLPP_OK if the wait continues.
 */
static mscclpp_status_t check_clock(check_t *check)
{
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    const double waited = mscclpp_now() - check->started;
    const bool is_over = config->timeout > 0 && waited > config->timeout;
    const bool must_warn = config->warn_after > 0 && waited > config->warn_after && !check->has_warned;
    const int rank = ompi_comm_rank(check->module->comm);
    char name[64], call[112], ranks[128];

    if (!is_over && !must_warn) {
        return MSCCLPP_OK;
    }
    check->has_warned = true;
    mca_coll_mscclpp_signature_name(check->own_signature->function, name, sizeof(name));
    list_missing(check, ranks, sizeof(ranks));
    (void)snprintf(call, sizeof(call), "collective call %llu, %s", (unsigned long long)check->number, name);
    if (is_over) {
        mscclpp_report_deadline(check->oob->label, call, rank, config->timeout, ranks, true);
    } else {
        mscclpp_report_late(check->oob->label, call, rank, waited, ranks);
    }
    return is_over ? MSCCLPP_ERR_TIMEOUT : MSCCLPP_OK;
}

/* Logs at `level` that the calls do not match. `text` names the difference, as written by `calls_match`. */
static void report_mismatch(const check_t *check, mscclpp_log_level_t level, const char *text)
{
    char name[64];

    mca_coll_mscclpp_signature_name(check->own_signature->function, name, sizeof(name));
    mscclpp_log(level, "%s: collective call %llu, %s on rank %d: the calls of the ranks do not match: %s",
                check->oob->label, (unsigned long long)check->number, name, ompi_comm_rank(check->module->comm), text);
}

/* Ends the job. Makes progress for a moment before, in which other ranks can write their reports, too. */
static void end_job(const check_t *check)
{
    const double deadline = mscclpp_now() + GRACE_SECONDS;

    while (mscclpp_now() < deadline) {
        opal_progress();
    }
    (void)ompi_mpi_abort(check->module->comm, MPI_ERR_ARG);
}

/*
 * Waits until the arguments of all ranks have arrived (MSCCLPP_OK), for a blocking call. Returns MSCCLPP_ERR_REVOKED if
 * the communicator is revoked; any other error, of this function or of advance_check, has been logged.
 */
static mscclpp_status_t await_arguments(check_t *check)
{
    mscclpp_status_t status;

    for (;;) {
        mca_coll_mscclpp_oob_lock(check->oob);
        status = advance_check(check);
        pthread_mutex_unlock(&check->oob->lock);
        if (MSCCLPP_IN_PROGRESS != status) {
            return status;
        }
        opal_progress();
        if (mca_coll_mscclpp_comm_revoked(check->module->comm)) {
            return MSCCLPP_ERR_REVOKED;
        }
        if (check->module->check_failed) {
            return MSCCLPP_ERR_PEER; /* a rank has given up an earlier, nonblocking call */
        }
        status = check_clock(check);
        if (MSCCLPP_OK != status) {
            return status;
        }
    }
}

/* Pushes to `arrived`, without a lock, as a caller up the stack may hold pending_lock. Any thread may call it. */
static void push_arrived(check_t *check)
{
    check->next = __atomic_load_n(&arrived, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&arrived, &check->next, check, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

/* Moves the comparisons that have arrived to the end of `pending`. Called with pending_lock held. */
static void move_arrived(void)
{
    check_t **tail = &pending;

    while (*tail != NULL) {
        tail = &(*tail)->next;
    }
    *tail = __atomic_exchange_n(&arrived, NULL, __ATOMIC_ACQUIRE);
}

/*
 * Advances the pending comparisons until one has ended. Removes this comparison from the list and returns it, for the
 * caller to free, with its status in *status_p. Returns NULL if none has ended. Skips a comparison whose oob is locked,
 * perhaps by this thread further down its stack; the next call tries again.
 */
static check_t *take_ended(mscclpp_status_t *status_p)
{
    check_t **link, *check = NULL;

    /* Does not wait: this thread may hold the lock further down its stack, or another thread is doing the work. */
    if (0 != pthread_mutex_trylock(&pending_lock)) {
        return NULL;
    }
    move_arrived();
    for (link = &pending; *link != NULL; link = &(*link)->next) {
        mscclpp_status_t status = MSCCLPP_IN_PROGRESS;

        if (0 == pthread_mutex_trylock(&(*link)->oob->lock)) {
            status = advance_check(*link);
            pthread_mutex_unlock(&(*link)->oob->lock);
        }
        if (MSCCLPP_IN_PROGRESS != status) {
            check = *link;
            *link = check->next;
            *status_p = status;
            break;
        }
    }
    pthread_mutex_unlock(&pending_lock);
    return check;
}

/*
 * Advances comparisons of nonblocking calls: a callback of opal_progress. Returns how many have ended. A mismatch ends
 * the job. If a peer has given up, later compared calls of the communicator fail.
 */
static int advance_pending(void)
{
    mscclpp_status_t status = MSCCLPP_OK;
    char text[512];
    check_t *check;
    int ended = 0;

    /* The lists are looked at without the lock: a comparison that is missed here is advanced by the next call. */
    while (
        (__atomic_load_n(&pending, __ATOMIC_RELAXED) != NULL || __atomic_load_n(&arrived, __ATOMIC_RELAXED) != NULL) &&
        (check = take_ended(&status)) != NULL) {
        if (MSCCLPP_OK == status && !calls_match(check, text, sizeof(text))) {
            report_mismatch(check, MSCCLPP_LOG_ERROR, text);
            end_job(check);
        }
        check->module->check_failed = check->module->check_failed || MSCCLPP_ERR_PEER == status;
        if (MSCCLPP_ERR_NO_MEMORY == status) {
            skip_comparison(check->module, check->number);
        }
        free_check(check);
        ++ended;
    }
    return ended;
}

/* Returns true if comparisons of the module's calls are in progress. `module` NULL: any module. */
static bool has_pending(const mca_coll_mscclpp_module_t *module)
{
    bool is_found = false;

    pthread_mutex_lock(&pending_lock);
    move_arrived();
    for (check_t *check = pending; check != NULL && !is_found; check = check->next) {
        is_found = module == NULL || module == check->module;
    }
    pthread_mutex_unlock(&pending_lock);
    return is_found;
}

/* First moves `arrived` to `pending`, so that no comparison of the module is missed. `module` NULL: all modules. */
void mca_coll_mscclpp_check_forget(const mca_coll_mscclpp_module_t *module)
{
    check_t **link = &pending;

    pthread_mutex_lock(&pending_lock);
    move_arrived();
    while (*link != NULL) {
        check_t *check = *link;

        if (module == NULL || module == check->module) {
            *link = check->next;
            free_check(check);
        } else {
            link = &check->next;
        }
    }
    pthread_mutex_unlock(&pending_lock);
}

void mca_coll_mscclpp_check_settle(mca_coll_mscclpp_module_t *module)
{
    const double timeout = mca_coll_mscclpp_state.config.timeout;
    const double started = mscclpp_now();

    while (has_pending(module) && (timeout <= 0 || mscclpp_now() - started < timeout)) {
        opal_progress();
    }
    mca_coll_mscclpp_check_forget(module);
}

int mca_coll_mscclpp_check_init(void)
{
    return mca_coll_mscclpp_state.config.check_calls ? opal_progress_register(advance_pending) : OMPI_SUCCESS;
}

void mca_coll_mscclpp_check_fini(void)
{
    if (mca_coll_mscclpp_state.config.check_calls) {
        (void)opal_progress_unregister(advance_pending);
        mca_coll_mscclpp_check_forget(NULL);
    }
}

/*
 * Ends the comparisons of a communicator after an error: its later compared calls fail. Tells the other ranks that this
 * rank has given up: a rank that comes late to the call must not wait for ranks that have left it. Tells nobody after
 * MSCCLPP_ERR_PEER, for which another rank is to blame, or on an inter-communicator.
 */
static void abandon_check(check_t *check, mscclpp_status_t status)
{
    check->module->check_failed = true;
    if (MSCCLPP_ERR_PEER != status && check->rank >= 0) {
        const int ranks = ompi_comm_size(check->module->comm);

        mca_coll_mscclpp_oob_lock(check->oob);
        if (MSCCLPP_ERR_NO_MEMORY == mca_coll_mscclpp_oob_post_among(check->oob, NULL, ranks,
                                                                     MCA_COLL_MSCCLPP_OOB_CHECK_FAILED, check->number,
                                                                     check->module->calls, NULL, 0)) {
            mca_coll_mscclpp_oob_send_empty(check->module, NULL, ranks, MCA_COLL_MSCCLPP_OOB_CHECK_FAILED,
                                            check->number);
        }
        pthread_mutex_unlock(&check->oob->lock);
    }
    mca_coll_mscclpp_oob_break_off(check->module);
}

/*
 * Compares the calls of all ranks, and waits for the result. Called for blocking calls. Returns MSCCLPP_ERR_INVALID,
 * after a log, if the calls do not match. Other errors are those of await_arguments.
 */
static mscclpp_status_t compare_now(check_t *check)
{
    mscclpp_status_t status = await_arguments(check);
    char text[512];

    if (MSCCLPP_OK == status && !calls_match(check, text, sizeof(text))) {
        status = MSCCLPP_ERR_INVALID;
        /* All ranks find the same mismatch, so only rank 0 logs it as an error. */
        report_mismatch(check, check->rank > 0 ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_ERROR, text);
        if (check->rank < 0) {
            /* On an inter-communicator, ranks whose own calls match find no error and would wait: ends the job. */
            end_job(check);
        }
    }
    return status;
}

/*
 * Sends this rank's arguments and does not wait, because the call ends with an error anyway. Peers that have not met
 * the error yet compare this call with theirs. What is sent to this rank in return may never be received.
 */
static void send_without_waiting(check_t *check)
{
    mca_coll_mscclpp_oob_lock(check->oob);
    (void)send_arguments(check);
    pthread_mutex_unlock(&check->oob->lock);
    mca_coll_mscclpp_oob_break_off(check->module);
}

/*
 * Gives up a call's comparison for lack of memory. A blocking call fails: logs this, tells the other ranks (but not on
 * an inter-communicator), and returns MPI_ERR_NO_MEM. Any other call goes on: returns OMPI_SUCCESS.
 */
static int give_up_without_memory(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_check_function_t function)
{
    if (!is_blocking(function)) {
        skip_comparison(module, module->checked_calls);
        return OMPI_SUCCESS;
    }
    mscclpp_error("%s: collective call %llu: no memory to compare it with the calls of the other ranks",
                  mca_coll_mscclpp_comm_name(module->comm), (unsigned long long)module->checked_calls);
    module->check_failed = true;
    if (!OMPI_COMM_IS_INTER(module->comm)) {
        mca_coll_mscclpp_oob_send_empty(module, NULL, ompi_comm_size(module->comm), MCA_COLL_MSCCLPP_OOB_CHECK_FAILED,
                                        module->checked_calls);
    }
    mca_coll_mscclpp_oob_break_off(module);
    return MPI_ERR_NO_MEM;
}

/*
 * Counts a call whose comparison begins. Returns false if there is none: *rc_p is then what the caller returns. A rank
 * without peers compares nothing, and after a failed comparison, which was logged, each call fails at once.
 */
static bool begin_comparison(mca_coll_mscclpp_module_t *module, int *rc_p)
{
    *rc_p = module->check_failed ? MPI_ERR_OTHER : OMPI_SUCCESS;
    if (module->check_failed || (!OMPI_COMM_IS_INTER(module->comm) && 1 == ompi_comm_size(module->comm))) {
        return false;
    }
    if (1 == ++module->checked_calls) {
        (void)mca_coll_mscclpp_state.bind(module); /* so that MPI_Comm_free settles the comparisons in progress */
    }
    return true;
}

int mca_coll_mscclpp_check_without_memory(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_check_function_t function)
{
    int rc;

    return begin_comparison(module, &rc) ? give_up_without_memory(module, function) : rc;
}

/* A nonblocking call is left to `advance_pending`. */
int mca_coll_mscclpp_check_call(mca_coll_mscclpp_module_t *module, const mca_coll_mscclpp_check_call_t *call)
{
    mca_coll_mscclpp_oob_t *oob;
    mscclpp_status_t status;
    check_t *check;
    int rc;

    if (!begin_comparison(module, &rc)) {
        return rc;
    }
    oob = mca_coll_mscclpp_oob_ensure(module);
    check = oob != NULL ? create_check(module, oob, call) : NULL;
    if (check == NULL) {
        return give_up_without_memory(module, call->function);
    }
    if (!is_blocking(call->function)) {
        push_arrived(check);
        (void)advance_pending(); /* sends this rank's arguments, unless it already runs further down the stack */
        return OMPI_SUCCESS;
    }
    if (call->is_hopeless) {
        send_without_waiting(check);
        free_check(check);
        return OMPI_SUCCESS; /* the call itself reports the error */
    }
    status = compare_now(check);
    /* After a mismatch, all ranks have compared this call and fail it, so the next one can be compared again. */
    if (MSCCLPP_OK != status && MSCCLPP_ERR_INVALID != status) {
        abandon_check(check, status);
    }
    free_check(check);
    return MSCCLPP_OK == status ? OMPI_SUCCESS : mca_coll_mscclpp_status_to_ompi(status);
}
