/* Waits of the host. A wait names the ranks that are late, and ends at a deadline. */
#include <stdio.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/call.h"
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/group/group.h"

/*
 * The number of turns of a wait between two readings of the clock. On the twin, a turn yields the processor and may
 * take milliseconds, so every turn reads the clock.
 */
#define CLOCK_TURNS 64u
#define TWIN_CLOCK_TURNS 1u

/*
 * The number of readings of a word on the board in each turn of the wait. Together, the readings take about as long as
 * a call of the embedding runtime's progress. On the twin, each reading is followed by a turn.
 */
#define POLLS_PER_TURN 64

/* Seconds between two rounds of the checks that take time. */
#define CHECK_SECONDS 1e-3

/*
 * The maximum number of seconds between two turns in a fiber that counts as waiting. If the application stays away from
 * the runtime for longer, this rank may be the one that its peers wait for.
 */
#define AWAY_SECONDS_MAX 1.0

/* Seconds after which a wait asks the GPU runtime about kernels even if that may deadlock (mscclpp_group_may_ask). */
#define PATIENT_SECONDS 5.0

/*
 * Seconds for which a wait ignores that a peer has failed in a later call. That peer has completed this call, so it has
 * sent what it owes this rank. In most cases this rank can complete the call, too.
 */
#define LATER_FAILURE_SECONDS 1.0

/* Seconds after which a wait is reported to the other nodes. Ordinary delays are shorter, so they cost no messages. */
#define TELL_AFTER_SECONDS 0.5

void mscclpp_group_wait_init(mscclpp_group_wait_t *wait, mscclpp_group_t *group, const char *event_name, uint64_t bytes)
{
    memset(wait, 0, sizeof(*wait));
    wait->group = group;
    wait->event_name = event_name;
    wait->bytes = bytes;
    mscclpp_fiber_note_wait();
}

/* Writes a description of the current call for messages. With `with_event`, it also says what the wait is for. */
static void describe_call(const mscclpp_group_wait_t *wait, bool with_event, char *text, size_t size)
{
    const mscclpp_group_t *group = wait->group;

    snprintf(text, size, "%s call %llu of %llu bytes%s%s%s", group->collective, (unsigned long long)group->call,
             (unsigned long long)wait->bytes, with_event ? " (" : "", with_event ? wait->event_name : "",
             with_event ? ")" : "");
}

/*
 * Returns MSCCLPP_ERR_MIXED, which is logged, if a rank passed host buffers in this call, and MSCCLPP_OK otherwise. The
 * board shows the ranks of this node, and `host_notice` is the last notice about a rank of
 * any node. The rank that passed host buffers is also stored, so that the notices in which this rank reports its
 * failure name that rank.
 */
static mscclpp_status_t check_mixture(const mscclpp_group_wait_t *wait, const mscclpp_group_notice_t *host_notice)
{
    mscclpp_group_t *group = wait->group;
    int rank = mscclpp_group_find_announced(group, group->call, MSCCLPP_CALL_HOST);
    char call_text[128];

    if (rank < 0 && host_notice->call == group->call) {
        rank = host_notice->rank;
    }
    if (rank < 0) {
        return MSCCLPP_OK;
    }
    describe_call(wait, false, call_text, sizeof(call_text));
    mscclpp_report_mixed(group->oob.label, call_text, rank, group->members[group->rank]);
    mscclpp_group_note_host(group, rank);
    return MSCCLPP_ERR_MIXED;
}

/* Names of types in messages, by mscclpp_dtype_t. */
static const char *const dtype_names[MSCCLPP_DTYPE_LAST] = {
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "float",
    "double",
    "long double",
    "complex float",
    "complex double",
    "short and int",
    "int and int",
    "long and int",
    "float and int",
    "double and int",
    "float and float",
    "double and double",
};

/* Names of operations in messages, by mscclpp_op_t: as MPI names them. */
static const char *const op_names[MSCCLPP_OP_LAST] = {
    "MPI_MAX", "MPI_MIN", "MPI_SUM",  "MPI_PROD", "MPI_LAND",   "MPI_BAND",
    "MPI_LOR", "MPI_BOR", "MPI_LXOR", "MPI_BXOR", "MPI_MAXLOC", "MPI_MINLOC",
};

/* Writes a description of arguments into `text`. */
static void describe_call_args(mscclpp_board_args_t call_args, char *text, size_t size)
{
    const unsigned dtype = MSCCLPP_BOARD_ARGS_DTYPE(call_args), op = MSCCLPP_BOARD_ARGS_OP(call_args);
    const mscclpp_coll_t coll = MSCCLPP_BOARD_ARGS_COLL(call_args);
    const char *coll_name = coll < MSCCLPP_COLL_LAST ? mscclpp_coll_name(coll) : NULL;
    const char *dtype_name = dtype < MSCCLPP_DTYPE_LAST ? dtype_names[dtype] : "?";
    const char *op_name = op < MSCCLPP_OP_LAST ? op_names[op] : "?";
    const unsigned long long bytes = MSCCLPP_BOARD_ARGS_BYTES(call_args);

    if (coll_name != NULL) {
        snprintf(text, size, "%s of %llu bytes of type %s with %s, root %d", coll_name, bytes, dtype_name, op_name,
                 MSCCLPP_BOARD_ARGS_ROOT(call_args));
    } else {
        /* An all-reduce has no name in this list and no root. The message around this text names it. */
        snprintf(text, size, "%llu bytes of type %s with %s", bytes, dtype_name, op_name);
    }
}

mscclpp_status_t mscclpp_group_report_difference(const mscclpp_group_t *group, int rank, mscclpp_board_args_t call_args)
{
    char own_text[128], other_text[128];

    describe_call_args(group->call_args, own_text, sizeof(own_text));
    describe_call_args(call_args, other_text, sizeof(other_text));
    mscclpp_error("%s: %s call %llu: rank %d passed %s, and rank %d %s; they must be equal on all ranks",
                  group->oob.label, group->collective, (unsigned long long)group->call, group->members[group->rank],
                  own_text, group->members[rank], other_text);
    return MSCCLPP_ERR_INVALID;
}

/*
 * Compares this rank's arguments with those of all ranks of the node that are in the same call on device buffers.
 * Returns MSCCLPP_ERR_INVALID, which is logged, if they differ.
 */
static mscclpp_status_t check_arguments(const mscclpp_group_wait_t *wait)
{
    const mscclpp_group_t *group = wait->group;
    const uint64_t call_word = mscclpp_group_call_word(group, group->call, MSCCLPP_CALL_DEVICE);
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        const mscclpp_board_line_t *line = &group->board[rank];
        mscclpp_board_args_t call_args;

        if (mscclpp_board_load(&line->call) != call_word) {
            continue;
        }
        call_args = mscclpp_board_load(&line->call_args[group->call % 2]);
        /*
         * If that rank has entered a later call in the meantime, the word may hold the arguments of that call. So the
         * number of the call is read again.
         */
        if (call_args != group->call_args && mscclpp_board_load(&line->call) == call_word) {
            return mscclpp_group_report_difference(group, rank, call_args);
        }
    }
    return MSCCLPP_OK;
}

/*
 * Logs that a peer has failed with `status` in its call `call`. Returns the status with which this rank's call ends:
 * MSCCLPP_ERR_MIXED if the peer found mixed buffers in the same call, and MSCCLPP_ERR_PEER otherwise. From now on this
 * rank does not report its own failure to others, because the peer has told all ranks.
 */
static mscclpp_status_t report_peer_failure(const mscclpp_group_wait_t *wait, int rank, uint64_t call,
                                            mscclpp_status_t status)
{
    /*
     * The rank that failed first has logged the reason. Thousands of other ranks may log this line, so they log it as
     * information only. If all ranks are on one node, one of them logs it as an error, so that the errors in the log
     * also name the rank that failed.
     */
    const bool is_error =
        status == MSCCLPP_ERR_MIXED || (!wait->group->spans && mscclpp_group_claims_line(wait->group, true));

    wait->group->peer_failed = true;
    mscclpp_log(is_error ? MSCCLPP_LOG_ERROR : MSCCLPP_LOG_INFO,
                "%s: %s call %llu of %llu bytes (%s): rank %d failed in its call %llu: %s", wait->group->oob.label,
                wait->group->collective, (unsigned long long)wait->group->call, (unsigned long long)wait->bytes,
                wait->event_name, rank, (unsigned long long)call, mscclpp_status_string(status));
    /*
     * Mixed buffers are an error of the application, so all ranks return MSCCLPP_ERR_MIXED, whichever rank finds them.
     */
    return status == MSCCLPP_ERR_MIXED && call == wait->group->call ? MSCCLPP_ERR_MIXED : MSCCLPP_ERR_PEER;
}

/*
 * Looks for a peer that has failed in this call or an earlier one. After LATER_FAILURE_SECONDS, a failure in a later
 * call counts, too. Returns MSCCLPP_OK if there is none, and the status of report_peer_failure, which logs the failure,
 * otherwise. The board shows failures on this node, and `failed_notice` is the first notice about a failure on any
 * node.
 */
static mscclpp_status_t check_failures(const mscclpp_group_wait_t *wait, const mscclpp_group_notice_t *failed_notice,
                                       double now)
{
    const mscclpp_group_t *group = wait->group;
    const uint64_t last_call = now - wait->started < LATER_FAILURE_SECONDS ? group->call : UINT64_MAX;
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        uint64_t failure = mscclpp_board_load(&group->board[rank].failure);

        if (rank != group->rank && failure != 0 && failure / MSCCLPP_BOARD_FAILURE_BASE <= last_call) {
            return report_peer_failure(wait, group->members[rank], failure / MSCCLPP_BOARD_FAILURE_BASE,
                                       (mscclpp_status_t) - (int)(failure % MSCCLPP_BOARD_FAILURE_BASE));
        }
    }
    return failed_notice->rank < 0 || failed_notice->call > last_call
               ? MSCCLPP_OK
               : report_peer_failure(wait, failed_notice->rank, failed_notice->call, failed_notice->status);
}

/*
 * Returns true if this rank must name the late ranks now, and writes a list of them into `text`. `at_deadline` is true
 * for the message at the deadline, and false for the warning.
 *
 * If the group is on one node, each rank lists all late ranks, but only the first rank that asks logs the warning.
 * Between nodes, the function makes a step of the search for the rank that all others wait for. The search takes
 * several calls of this function, and one rank names the result. If the search finds no rank, that rank lists the late
 * ranks that it sees. The search ends with MSCCLPP_INQUIRY_TOLD only for the warning, so each rank reports the deadline
 * in the end.
 */
static bool may_name_late(mscclpp_group_wait_t *wait, bool at_deadline, double now, char *text, size_t size)
{
    int late_rank;

    if (!wait->group->spans) {
        mscclpp_group_list_late(wait, text, size);
        wait->has_warned = true;
        return at_deadline || mscclpp_group_claims_line(wait->group, false);
    }
    switch (mscclpp_group_inquire(wait->group, at_deadline, now, &late_rank)) {
    case MSCCLPP_INQUIRY_SEARCHING:
        return false;
    case MSCCLPP_INQUIRY_TOLD:
        wait->has_warned = true;
        return false;
    case MSCCLPP_INQUIRY_FOUND:
        break;
    }
    if (late_rank >= 0) {
        snprintf(text, size, "%d", late_rank);
    } else {
        mscclpp_group_list_late(wait, text, size);
    }
    return true;
}

/*
 * Reports that the wait ends at a deadline because of the ranks that `late_list` lists. Returns MSCCLPP_ERR_TIMEOUT. If
 * `logs_once` is set, one rank of the node logs the error and tells all ranks. The others log it as information.
 */
static mscclpp_status_t end_late(const mscclpp_group_wait_t *wait, const char *late_list, bool logs_once)
{
    mscclpp_group_t *group = wait->group;
    char call_text[128];

    describe_call(wait, true, call_text, sizeof(call_text));
    if (logs_once && !mscclpp_group_claims_line(group, true)) {
        mscclpp_info("%s: %s did not end on rank %d, either", group->oob.label, call_text, group->members[group->rank]);
        group->peer_failed = true; /* the rank that has the line tells all */
        return MSCCLPP_ERR_TIMEOUT;
    }
    mscclpp_report_deadline(group->oob.label, call_text, group->members[group->rank], group->timeout, late_list,
                            group->checks_calls);
    return MSCCLPP_ERR_TIMEOUT;
}

/*
 * Returns MSCCLPP_ERR_TIMEOUT, which is logged, if the wait must end before its deadline because a rank is gone. That
 * rank stopped in an earlier wait of the call, and the deadline of that wait has passed. If it is a rank of the node,
 * all ranks of the node see this at the same time, so they need no search. If the first rank of the next node is gone,
 * only this rank sees that, and tells all ranks.
 */
static mscclpp_status_t check_gone(const mscclpp_group_wait_t *wait, double waited)
{
    mscclpp_group_t *group = wait->group;
    char late_list[256];
    int gone_rank;
    const bool is_watched_gone = mscclpp_group_watch_next(group, group->call, &gone_rank) && wait->words == NULL;

    if (group->probing || waited >= group->timeout) {
        return MSCCLPP_OK;
    }
    if (mscclpp_group_list_gone(wait, late_list, sizeof(late_list))) {
        return end_late(wait, late_list, true);
    }
    if (is_watched_gone) {
        snprintf(late_list, sizeof(late_list), "%d", gone_rank);
        return end_late(wait, late_list, false);
    }
    return MSCCLPP_OK;
}

/*
 * Ends a wait whose deadline has passed: logs an error and returns MSCCLPP_ERR_TIMEOUT. If all ranks are on one node,
 * one of them logs the error, and the others log it as information. Between nodes, the search for the late rank comes
 * first and may take a few seconds; MSCCLPP_OK then means that the search goes on. In a trial at set-up, all ranks log
 * the timeout as information.
 */
static mscclpp_status_t end_at_deadline(mscclpp_group_wait_t *wait, double now)
{
    const mscclpp_group_t *group = wait->group;
    char late_list[256];

    if (group->probing) {
        mscclpp_info("%s: kernels of all ranks did not meet within %g s (%s)", group->oob.label, group->timeout,
                     wait->event_name);
        return MSCCLPP_ERR_TIMEOUT;
    }
    if (!may_name_late(wait, true, now, late_list, sizeof(late_list))) {
        return MSCCLPP_OK;
    }
    return end_late(wait, late_list, !group->spans);
}

/*
 * Checks how long the wait has lasted. Logs a warning once. Returns MSCCLPP_ERR_TIMEOUT, which is logged, at the
 * deadline or if a rank is gone.
 */
static mscclpp_status_t check_clock(mscclpp_group_wait_t *wait, double now)
{
    const mscclpp_group_t *group = wait->group;
    const double waited = now - wait->started;
    const mscclpp_status_t status = check_gone(wait, waited);
    char call_text[128], late_list[256];

    if (status != MSCCLPP_OK) {
        return status;
    }
    if (group->timeout > 0 && waited >= group->timeout) {
        return end_at_deadline(wait, now);
    }
    if (!wait->has_warned && group->warn_after > 0 && waited >= group->warn_after &&
        may_name_late(wait, false, now, late_list, sizeof(late_list))) {
        wait->has_warned = true;
        describe_call(wait, true, call_text, sizeof(call_text));
        mscclpp_report_late(group->oob.label, call_text, group->members[group->rank], waited, late_list);
    }
    return MSCCLPP_OK;
}

bool mscclpp_group_may_ask(const mscclpp_group_wait_t *wait)
{
    return (!wait->is_pumped && !wait->group->is_traced) ||
           (wait->started > 0 && mscclpp_now() - wait->started > PATIENT_SECONDS);
}

void mscclpp_group_progress(const mscclpp_group_t *group)
{
    if (!mscclpp_fiber_yield()) {
        group->oob.progress(group->oob.context);
    }
}

/*
 * Moves the start of the wait if the application stayed away from the runtime: only AWAY_SECONDS_MAX of that time
 * counts.
 */
static void discount_time_away(mscclpp_group_wait_t *wait, double now)
{
    if (wait->started > 0 && wait->last_turn > 0 && now - wait->last_turn > AWAY_SECONDS_MAX) {
        wait->started += now - wait->last_turn - AWAY_SECONDS_MAX;
    }
    wait->last_turn = now;
}

/*
 * Publishes what other ranks may ask about this wait: that this rank is alive, which nodes are silent, and the rank
 * that this rank waits for.
 */
static void publish_wait(const mscclpp_group_wait_t *wait, double now)
{
    mscclpp_group_t *group = wait->group;

    mscclpp_group_show_sign(group, group->call);
    mscclpp_group_read_signs(group, group->call, now);
    if (wait->awaits_votes) {
        mscclpp_board_store(&group->board[group->rank].absent, mscclpp_group_missing_votes(group));
    } else if (group->find_absent != NULL) {
        /* Stored for the ranks of this node that own no shard: they do not see which other nodes are silent. */
        mscclpp_board_store(&group->board[group->rank].absent,
                            group->find_absent(group->absent_context, mscclpp_group_may_ask(wait)));
    }
    if (now - wait->started >= TELL_AFTER_SECONDS) {
        mscclpp_group_tell_waiting(group);
    }
    if (group->spans) {
        mscclpp_group_note_late(group, mscclpp_group_first_late(wait));
    }
}

/*
 * Makes a round of checks, and returns the status of the first check that fails. The clock comes last, so that a known
 * cause is reported rather than a timeout. MSCCLPP_ERR_MIXED: a rank passed host buffers. MSCCLPP_ERR_INVALID:
 * arguments differ. MSCCLPP_ERR_PEER: a peer failed. MSCCLPP_ERR_TIMEOUT: the deadline has passed, or a rank is gone.
 * Other errors are those of the embedding runtime's check. The check that fails logs the reason.
 */
static mscclpp_status_t make_checks(mscclpp_group_wait_t *wait, double now)
{
    mscclpp_group_t *group = wait->group;
    mscclpp_group_notice_t failed_notice, host_notice;
    mscclpp_status_t status;

    mscclpp_group_read_notices(group, &failed_notice, &host_notice);
    status = check_mixture(wait, &host_notice);
    if (status == MSCCLPP_OK && !group->probing) {
        status = check_arguments(wait);
    }
    if (status == MSCCLPP_OK) {
        status = check_failures(wait, &failed_notice, now);
    }
    if (status == MSCCLPP_OK) {
        status = group->oob.check(group->oob.context);
    }
    if (status == MSCCLPP_OK) {
        status = check_clock(wait, now);
    }
    return status;
}

/*
 * Makes progress in every turn, and a round of checks at most once in CHECK_SECONDS. Returns the status of make_checks.
 *
 * The first turn that reads the clock only stores the time at which the wait began. In a fiber, every turn reads the
 * clock, because the application decides when the next turn comes.
 */
mscclpp_status_t mscclpp_group_wait_turn(mscclpp_group_wait_t *wait)
{
    mscclpp_group_t *group = wait->group;
    const bool in_fiber = mscclpp_fiber_inside();
    mscclpp_status_t status;
    double now;

    mscclpp_group_progress(group);
    if (mscclpp_fiber_is_apart()) {
        return MSCCLPP_OK; /* the checks below are for threads that may call the embedding runtime */
    }
    if (++wait->turns % (group->on_twin ? TWIN_CLOCK_TURNS : CLOCK_TURNS) != 0 && !in_fiber) {
        return MSCCLPP_OK;
    }
    now = mscclpp_now();
    if (in_fiber) {
        discount_time_away(wait, now);
    }
    if (wait->started <= 0) {
        wait->started = now;
        wait->next_check = now + CHECK_SECONDS;
        mscclpp_group_begin_signs(group, now);
        return MSCCLPP_OK;
    }
    if (now < wait->next_check) {
        return MSCCLPP_OK;
    }
    wait->next_check = now + CHECK_SECONDS;
    publish_wait(wait, now);
    status = make_checks(wait, now);
    if (status != MSCCLPP_OK) {
        mscclpp_group_end_watch(group);
    }
    return status;
}

/* A wait that ended before its first look at the clock has given no sign, so there is nothing to hide. */
void mscclpp_group_wait_end(mscclpp_group_wait_t *wait)
{
    if (wait->started > 0) {
        mscclpp_group_end_watch(wait->group);
    }
}

/*
 * Waits for the ranks one after the other, this rank included, so the caller has stored its own word before. Reads each
 * word several times in each turn, because a turn takes longer than a read.
 */
mscclpp_status_t mscclpp_group_wait_on(mscclpp_group_wait_t *wait, const uint64_t *own_word, uint64_t target)
{
    mscclpp_group_t *group = wait->group;
    int rank;

    wait->words = own_word;
    wait->target = target;
    for (rank = 0; rank < group->size; ++rank) {
        const uint64_t *rank_word = mscclpp_group_word_of(group, own_word, rank);
        uint32_t polls = 0;

        while (mscclpp_board_load(rank_word) < target) {
            mscclpp_status_t status;

            if (++polls % POLLS_PER_TURN != 0 && !group->on_twin) {
                continue;
            }
            status = mscclpp_group_wait_turn(wait);
            if (status != MSCCLPP_OK) {
                return status;
            }
        }
    }
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_group_wait_words(mscclpp_group_t *group, const char *event_name, uint64_t bytes,
                                          const uint64_t *own_word, uint64_t target)
{
    mscclpp_group_wait_t wait;
    mscclpp_status_t status;

    mscclpp_group_wait_init(&wait, group, event_name, bytes);
    status = mscclpp_group_wait_on(&wait, own_word, target);
    mscclpp_group_wait_end(&wait);
    return status;
}

/*
 * Writes to the board first, because sending the messages may take some time. Several ranks may have lost the same
 * peer, so only the one that names it sends messages (mscclpp_group_name_lost).
 *
 * If a peer caused the failure, it tells all ranks itself, so this rank sends nothing. But between nodes the peer's
 * messages may not reach all ranks: it may have no connection to some of them yet. So this rank notes on the board of
 * its node that it has been told.
 */
void mscclpp_group_fail(mscclpp_group_t *group, mscclpp_status_t status, const mscclpp_loss_t *loss)
{
    const int lost = status == MSCCLPP_ERR_PEER ? mscclpp_loss_peer(loss) : -1;
    mscclpp_board_line_t *line = &group->board[group->rank];

    if (group->peer_failed) {
        mscclpp_board_store(&line->told, group->call + 1);
        return;
    }
    mscclpp_board_store(&line->failure, group->call * MSCCLPP_BOARD_FAILURE_BASE + (uint64_t) - (int)status);
    if (lost < 0 || mscclpp_group_name_lost(group, lost, loss->text)) {
        mscclpp_group_tell_failure(group, status, lost);
    }
}
