/*
 * An agreement whose late ranks are named.
 *
 * Open MPI's all-reduce does not tell which ranks are missing. So ranks that wait long tell a leader, which asks all
 * ranks whether they wait, too, and names those that do not answer. Ranks that wait answer the leader alone, so n ranks
 * send 2n - 3 messages in all if one is late: the leader asks n - 1 ranks, and n - 2 wait.
 *
 * Rank 0 leads. If no leader has spoken after a while, ranks 1 to 3 lead, too, then all up to 15, and so on by fours:
 * the messages grow with the ranks and with the number of late ones among the first. Of several leaders the first one
 * logs. A leader that does not end the call after the deadline is taken for a late rank.
 *
 * These messages reach a late rank when it no longer needs them. The next agreement tells all ranks that there are such
 * messages, and the ranks throw them away.
 *
 * A rank may die after it has answered. If all ranks have answered at the deadline, the leader asks all once more, and
 * names those that do not answer again. Ranks that have completed the agreement answer from where they wait (waits.c).
 * They wait for the dead rank, too, and should end the call.
 */
#include "mca/coll/mscclpp/oob/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll/mscclpp/oob/waits.h"
#include "mca/common/base/call.h"
#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"

/* The most ranks that a message names. */
#define RANKS_SHOWN 8

/* Seconds between two looks for messages. A shorter wait never looks for any. */
#define LOOK_SECONDS 0.1

/* The most seconds that other ranks have to answer. Ranks that have not answered by then are named. */
#define ANSWER_SECONDS 1.0

/* The seconds after the deadline at which a rank no longer relies on the leader, which should have given up. */
#define FOLLOW_SECONDS 2.0

/*
 * The seconds after the deadline at which a leader ends the agreement if others have completed it. They wait for the
 * same ranks elsewhere, and should end the call for all and name the late ones.
 */
#define PASSED_SECONDS 8.0

/* While no leader has spoken, so many times as many ranks lead after each time to answer. */
#define LEADERS_FACTOR 4

/* What this rank knows of another one: flags. */
enum {
    WAITS = 1,    /* it has told this rank that it waits */
    LEADS = 2,    /* it is a leader */
    TOLD = 4,     /* this rank has told it that it waits */
    ANSWERED = 8, /* this rank has answered its second question */
    PASSED = 16   /* it has completed the agreement */
};

/* Memory of Open MPI's all-reduce, which cannot be cancelled. After a failure this memory is therefore never freed. */
typedef struct {
    /* The last element is 1 if this rank has sent messages in an earlier agreement, else 0. */
    uint64_t own_numbers[MCA_COLL_MSCCLPP_AGREED + 1];
    uint64_t maxima[MCA_COLL_MSCCLPP_AGREED + 1];
    ompi_request_t *request; /* of the all-reduce */
} numbers_t;

/* The wait for one all-reduce. Times are by mscclpp_now, in seconds. */
typedef struct {
    mca_coll_mscclpp_module_t *module;
    const char *collective; /* its name, for messages */
    int deadline_rank;      /* the rank whose deadline this rank keeps: its own if it is hurried, or that of a rank that
                               has told this one and waits for longer; -1: none */
    double deadline_from;   /* when that rank began to wait, or this one if there is none */
    double looked_at;       /* when this rank last looked for messages */
    double told_at;         /* when this rank last told others that it waits; 0: not yet */
    int leaders;            /* ranks below this number are to lead */
    double led_since;       /* when this rank became a leader; 0: it is none */
    bool is_overdue;        /* the leader has not ended the call in time */
    bool has_warned;        /* a warning has named late ranks */
    bool asks_again;        /* this rank leads, and has asked all ranks a second time */
    bool has_tended;        /* `tend` has been called */
    mca_coll_mscclpp_agree_tend_fn_t *tend; /* NULL: none */
    unsigned char *flags;                   /* by rank; NULL: not needed yet, or there is no memory */
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

/* The time to answer: the warning should come before the deadline, which may be at twice the time until asking. */
static double seconds_to_answer(void)
{
    const double ask_after = seconds_until_asking();

    return ask_after < ANSWER_SECONDS ? ask_after / 2 : ANSWER_SECONDS;
}

/* Returns true if a flag of a rank is set. False without memory for the flags. */
static bool has_flag(const wait_t *wait, int rank, unsigned char flag)
{
    return wait->flags != NULL && 0 != (wait->flags[rank] & flag);
}

static void set_flag(wait_t *wait, int rank, unsigned char flag)
{
    if (wait->flags != NULL) {
        wait->flags[rank] |= flag;
    }
}

/*
 * Writes into `text` the first RANKS_SHOWN ranks that have not told this rank that they wait, and the number of the
 * others. Writes "unknown" if there is no memory for the flags, and "none" if all ranks wait.
 */
static void list_late(const wait_t *wait, char *text, size_t size)
{
    const int ranks = ompi_comm_size(wait->module->comm);
    int late = 0;
    size_t used = 0;

    (void)snprintf(text, size, wait->flags == NULL ? "unknown" : "none");
    for (int rank = 0; wait->flags != NULL && rank < ranks; ++rank) {
        if (!has_flag(wait, rank, WAITS) && ++late <= RANKS_SHOWN && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%d", 1 == late ? "" : ", ", rank);
        }
    }
    if (late > RANKS_SHOWN && used < size) {
        (void)snprintf(text + used, size - used, " and %d more", late - RANKS_SHOWN);
    }
}

/* Returns the first leader that this rank knows of, which may be itself, or -1. */
static int find_leader(const wait_t *wait)
{
    const int ranks = ompi_comm_size(wait->module->comm);
    int rank = 0;

    while (rank < ranks && !has_flag(wait, rank, LEADS)) {
        ++rank;
    }
    return rank < ranks ? rank : -1;
}

/*
 * Tells a rank that this one waits, unless it has been told. Without memory for the message nothing is sent, and a
 * later call tries again. Without memory for the flags, each call tells the rank.
 */
static void tell_wait(wait_t *wait, mca_coll_mscclpp_oob_t *oob, int rank, double now)
{
    const mca_coll_mscclpp_waits_t notice = {.kind = wait->asks_again       ? MCA_COLL_MSCCLPP_WAITS_AGAIN
                                                     : 0 != wait->led_since ? MCA_COLL_MSCCLPP_WAITS_LEADS
                                                                            : MCA_COLL_MSCCLPP_WAITS_TELLS,
                                             .deadline_rank = wait->deadline_rank,
                                             .waited = now - wait->deadline_from};
    const uint64_t call = wait->module->current_call;

    wait->told_at = now;
    if (rank != ompi_comm_rank(oob->comm) && !has_flag(wait, rank, TOLD) &&
        MSCCLPP_OK ==
            mca_coll_mscclpp_oob_post(oob, rank, MCA_COLL_MSCCLPP_OOB_WAITS, call, call, &notice, sizeof(notice))) {
        set_flag(wait, rank, TOLD);
        mca_coll_mscclpp_waits_note_sent(wait->module, 1);
    }
}

/*
 * Makes this rank a leader, and asks all other ranks whether they wait. Ranks that were told earlier are asked again,
 * because that message did not ask for an answer. Begins after itself, so that several leaders do not all ask the same
 * rank first.
 */
static void become_leader(wait_t *wait, mca_coll_mscclpp_oob_t *oob, double now)
{
    const int own_rank = ompi_comm_rank(oob->comm), ranks = ompi_comm_size(oob->comm);

    wait->led_since = now;
    set_flag(wait, own_rank, WAITS | LEADS);
    for (int i = 1; i < ranks; ++i) {
        const int rank = (own_rank + i) % ranks;
        if (wait->flags != NULL) {
            wait->flags[rank] &= (unsigned char)~TOLD;
        }
        tell_wait(wait, oob, rank, now);
    }
}

/* Returns how many ranks have a flag. None without memory for the flags. */
static int count_flags(const wait_t *wait, unsigned char flag)
{
    const int ranks = ompi_comm_size(wait->module->comm);
    int count = 0;

    for (int rank = 0; rank < ranks; ++rank) {
        count += has_flag(wait, rank, flag);
    }
    return count;
}

/* Asks all ranks a second time, and gives them the time to answer. */
static void ask_again(wait_t *wait, mca_coll_mscclpp_oob_t *oob, double now)
{
    const int own_rank = ompi_comm_rank(oob->comm), ranks = ompi_comm_size(oob->comm);

    wait->asks_again = true;
    for (int i = 1; i < ranks; ++i) {
        wait->flags[(own_rank + i) % ranks] &= (unsigned char)~(WAITS | TOLD);
        tell_wait(wait, oob, (own_rank + i) % ranks, now);
    }
    wait->led_since = now;
}

/* Tells those that are to lead that this rank waits. Leads if it is one of them. */
static void tell_leaders(wait_t *wait, mca_coll_mscclpp_oob_t *oob, double now)
{
    const int ranks = ompi_comm_size(oob->comm);

    if (ompi_comm_rank(oob->comm) < wait->leaders) {
        become_leader(wait, oob, now);
    }
    for (int rank = 0; rank < wait->leaders && rank < ranks; ++rank) {
        tell_wait(wait, oob, rank, now);
    }
}

/*
 * Notes that the sender waits. Answers a sender that leads, if it has not been told yet. Answers a second question
 * once, since two leaders that ask each other would go on for ever. If the sender does not lead, and no leader is
 * known, this rank becomes one, because the sender has told it in the hope that it leads; without memory for the flags
 * it does not. If the sender keeps an earlier deadline, this rank keeps that one from now on. A message of another
 * length only tells that the sender waits.
 */
static void take_notice(wait_t *wait, mca_coll_mscclpp_oob_t *oob, const mca_coll_mscclpp_oob_message_t *message,
                        double now)
{
    mca_coll_mscclpp_waits_t notice = {.deadline_rank = -1};
    bool leads;

    if (sizeof(notice) == message->header.length) {
        memcpy(&notice, message->data, sizeof(notice));
    }
    leads = MCA_COLL_MSCCLPP_WAITS_LEADS == notice.kind || MCA_COLL_MSCCLPP_WAITS_AGAIN == notice.kind;
    set_flag(wait, message->peer, leads ? WAITS | LEADS : WAITS);
    if (MCA_COLL_MSCCLPP_WAITS_PASSED == notice.kind) {
        set_flag(wait, message->peer, PASSED);
        return;
    }
    if (MCA_COLL_MSCCLPP_WAITS_AGAIN == notice.kind && wait->flags != NULL &&
        !has_flag(wait, message->peer, ANSWERED)) {
        wait->flags[message->peer] &= (unsigned char)~TOLD;
        set_flag(wait, message->peer, ANSWERED);
    }
    if (notice.deadline_rank >= 0 && (wait->deadline_rank < 0 || now - notice.waited < wait->deadline_from)) {
        wait->deadline_rank = notice.deadline_rank;
        wait->deadline_from = now - notice.waited;
    }
    if (leads) {
        tell_wait(wait, oob, message->peer, now);
    } else if (0 == wait->led_since && wait->flags != NULL && find_leader(wait) < 0) {
        become_leader(wait, oob, now);
    }
}

/*
 * Takes the messages of this agreement that have arrived. Returns MSCCLPP_ERR_PEER if a rank has given up, or an error
 * of the messages. Called, like the next function, with the oob's lock held.
 */
static mscclpp_status_t take_messages(wait_t *wait, mca_coll_mscclpp_oob_t *oob, double now)
{
    const uint64_t call = wait->module->current_call;
    mca_coll_mscclpp_oob_message_t *message;
    mscclpp_status_t status = mca_coll_mscclpp_oob_advance(oob, MCA_COLL_MSCCLPP_OOB_ANY);

    while (MSCCLPP_OK == status &&
           (message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_WAITS, call)) != NULL) {
        take_notice(wait, oob, message, now);
        free(message);
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
 * Finds a leader: tells the first ranks that this one waits, and more of them as long as none leads. A leader that has
 * not ended the call at `is_overdue` is forgotten, and so has to answer the next one.
 */
static void find_leaders(wait_t *wait, mca_coll_mscclpp_oob_t *oob, bool is_overdue, double now)
{
    const int own_rank = ompi_comm_rank(oob->comm), ranks = ompi_comm_size(oob->comm);
    int leader = find_leader(wait);

    if (is_overdue && !wait->is_overdue) {
        wait->is_overdue = true;
        for (; leader >= 0 && leader != own_rank; leader = find_leader(wait)) {
            wait->flags[leader] = 0;
        }
        wait->told_at = leader < 0 ? 0 : wait->told_at;
        wait->leaders = 1;
    }
    if (leader < 0 && (0 == wait->told_at || now - wait->told_at > seconds_to_answer())) {
        wait->leaders = 0 == wait->told_at || wait->leaders >= ranks ? wait->leaders : LEADERS_FACTOR * wait->leaders;
        tell_leaders(wait, oob, now);
        wait->told_at = now;
    }
}

/* Tells all ranks that this one gives up. Without memory, sends the messages one after another. */
static void give_up(const wait_t *wait, mca_coll_mscclpp_oob_t *oob)
{
    const int ranks = ompi_comm_size(oob->comm);
    const uint64_t call = wait->module->current_call;

    if (MSCCLPP_ERR_NO_MEMORY ==
        mca_coll_mscclpp_oob_post_among(oob, NULL, ranks, MCA_COLL_MSCCLPP_OOB_GIVES_UP, call, call, NULL, 0)) {
        mca_coll_mscclpp_oob_send_empty(wait->module, NULL, ranks, MCA_COLL_MSCCLPP_OOB_GIVES_UP, call);
    }
    mca_coll_mscclpp_waits_note_sent(wait->module, ranks - 1);
}

/*
 * Looks after the deadline that this rank keeps. After some time it looks for a leader. The leader warns a while later
 * about those that have not answered. At the deadline the leader logs an error, tells all ranks and returns
 * MSCCLPP_ERR_TIMEOUT. A rank without memory for the flags knows of no leader, and does the same FOLLOW_SECONDS later.
 * On ranks that keep no deadline, does nothing and returns MSCCLPP_OK.
 */
static mscclpp_status_t check_clock(wait_t *wait, mca_coll_mscclpp_oob_t *oob, double now)
{
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    const double waited = now - wait->deadline_from, ask_after = seconds_until_asking();
    const double past_deadline = config->timeout > 0 ? waited - config->timeout : -1;
    const int own_rank = ompi_comm_rank(wait->module->comm);
    bool must_end, must_warn, leads;
    int waiting_rank;
    char call[96], ranks[128];

    if (wait->deadline_rank < 0) {
        return MSCCLPP_OK;
    }
    if (wait->flags != NULL && ask_after > 0 && waited > ask_after) {
        find_leaders(wait, oob, past_deadline > FOLLOW_SECONDS, now);
    }
    leads = 0 != wait->led_since && find_leader(wait) == own_rank && now - wait->led_since > seconds_to_answer();
    if (past_deadline > 0 && past_deadline < PASSED_SECONDS && count_flags(wait, PASSED) > 0) {
        return MSCCLPP_OK;
    }
    must_end = past_deadline > 0 && (leads || (wait->flags == NULL && past_deadline > FOLLOW_SECONDS));
    must_warn = leads && config->warn_after > 0 && waited > config->warn_after && !wait->has_warned;
    if (must_end && !wait->asks_again && count_flags(wait, WAITS) == ompi_comm_size(oob->comm)) {
        ask_again(wait, oob, now);
        return MSCCLPP_OK;
    }
    if (!must_end && !must_warn) {
        return MSCCLPP_OK;
    }
    wait->has_warned = true;
    /* The rank whose deadline this is may have died since. It is then one of the late ranks. */
    waiting_rank = has_flag(wait, wait->deadline_rank, WAITS) ? wait->deadline_rank : own_rank;
    list_late(wait, ranks, sizeof(ranks));
    (void)snprintf(call, sizeof(call), "%s call %llu, agreement on sizes", wait->collective,
                   (unsigned long long)wait->module->current_call);
    if (!must_end) {
        mscclpp_report_late(oob->label, call, waiting_rank, waited, ranks);
        return MSCCLPP_OK;
    }
    mscclpp_report_deadline(oob->label, call, waiting_rank, config->timeout, ranks, config->check_calls);
    give_up(wait, oob);
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
    mscclpp_status_t status = MSCCLPP_OK;

    if (now - wait->looked_at < LOOK_SECONDS) {
        return MSCCLPP_OK;
    }
    wait->looked_at = now;
    if (wait->tend != NULL) {
        status =
            wait->tend(wait->module, wait->has_tended ? MCA_COLL_MSCCLPP_AGREE_WAITS : MCA_COLL_MSCCLPP_AGREE_BEGINS);
        wait->has_tended = true;
    }
    if (MSCCLPP_OK != status) {
        wait->module->peer_reports = true;
        return status;
    }
    oob = mca_coll_mscclpp_oob_ensure(wait->module);
    if (oob == NULL) {
        return MSCCLPP_OK; /* no memory for messages: the all-reduce does not need them, and may still end */
    }
    if (wait->flags == NULL) {
        wait->flags = calloc((size_t)ompi_comm_size(wait->module->comm), sizeof(*wait->flags));
        set_flag(wait, ompi_comm_rank(wait->module->comm), WAITS);
    }
    status = mca_coll_mscclpp_oob_check(oob);
    if (MSCCLPP_OK != status) {
        return status;
    }
    mca_coll_mscclpp_oob_lock(oob);
    status = take_messages(wait, oob, now);
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
    mca_coll_mscclpp_oob_drop_kind_before(oob, MCA_COLL_MSCCLPP_OOB_WAITS, module->current_call);
    pthread_mutex_unlock(&oob->lock);
}

/*
 * Waits for the all-reduce. Returns MSCCLPP_OK when it is complete. Returns an error of check_wait if this rank or
 * another one gives up, or if the communicator is revoked; the all-reduce is then still in progress.
 */
static mscclpp_status_t await(wait_t *wait, const numbers_t *numbers)
{
    mscclpp_status_t status = MSCCLPP_OK;

    wait->deadline_from = wait->looked_at = mscclpp_now();
    while (!REQUEST_COMPLETE(numbers->request) && MSCCLPP_OK == status) {
        mca_coll_mscclpp_progress();
        status = check_wait(wait);
    }
    if (wait->has_tended) {
        (void)wait->tend(wait->module, MCA_COLL_MSCCLPP_AGREE_ENDS);
    }
    free(wait->flags);
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
int mca_coll_mscclpp_agree(mca_coll_mscclpp_module_t *module, const char *collective, bool hurried,
                           mca_coll_mscclpp_agree_tend_fn_t *tend, const uint64_t *own_numbers, uint64_t *maxima,
                           mscclpp_status_t *late_p)
{
    numbers_t *numbers = malloc(sizeof(*numbers));
    wait_t wait = {.module = module,
                   .collective = collective,
                   .deadline_rank = hurried ? ompi_comm_rank(module->comm) : -1,
                   .leaders = 1,
                   .tend = tend};
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
    memcpy(numbers->own_numbers, own_numbers, MCA_COLL_MSCCLPP_AGREED * sizeof(*own_numbers));
    numbers->own_numbers[MCA_COLL_MSCCLPP_AGREED] = module->told_waits;
    module->told_waits = false;
    rc = module->previous.iallreduce(numbers->own_numbers, numbers->maxima, MCA_COLL_MSCCLPP_AGREED + 1,
                                     &ompi_mpi_uint64_t.dt, &ompi_mpi_op_max.op, module->comm, &numbers->request,
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
    __atomic_store_n(&module->agreed, module->current_call + 1, __ATOMIC_RELAXED); /* waits of other threads read it */
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
