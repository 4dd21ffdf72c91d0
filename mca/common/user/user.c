/*
 * The parts that all objects of a team share: words for kernels and the host, votes, copies to the device, and reports
 * of kernels. The end of a team is in end.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/oob/vote.h"
#include "mca/common/team/parts.h"
#include "mca/common/user/internal.h"

mscclpp_status_t mscclpp_user_agree(const mscclpp_user_t *user, mscclpp_status_t own_status, const char *action)
{
    mscclpp_vote_t vote;
    mscclpp_status_t status = mscclpp_vote(&user->oob, own_status, &vote);

    if (status == MSCCLPP_OK && vote.culprit >= 0) {
        if (vote.culprit != user->oob.rank) {
            mscclpp_error("%s: %s: rank %d: %s", user->oob.label, action, vote.culprit,
                          mscclpp_status_string(vote.status));
        }
        status = vote.status;
    }
    return status;
}

mscclpp_status_t mscclpp_user_upload(const mscclpp_user_t *user, void *to, const void *from, size_t size)
{
    mscclpp_gpu_stream_t *stream;
    mscclpp_status_t status = user->gpu->stream_create(user->device, &stream);

    if (status == MSCCLPP_OK) {
        status = user->gpu->copy(stream, to, from, size);
        if (status == MSCCLPP_OK) {
            status = user->gpu->stream_sync(stream);
        }
        user->gpu->stream_destroy(stream);
    }
    return status;
}

void mscclpp_user_watch(const mscclpp_user_t *user, mscclpp_dev_user_watch_t *watch)
{
    watch->rank = (uint32_t)user->oob.rank;
    watch->ranks = (uint32_t)user->oob.size;
    watch->abort = &user->device_words->mailbox.abort;
    watch->report = user->device_words->report;
    watch->timeout_ns = user->timeout_ns;
}

/*
 * Copies the node of each rank from the team. The team must have a fabric. MSCCLPP_ERR_NO_MEMORY is not logged. The
 * caller frees user->node_of.
 */
static mscclpp_status_t copy_nodes(const mscclpp_team_t *team, mscclpp_user_t *user)
{
    const mscclpp_nodes_t *nodes = mscclpp_fabric_nodes(team->fabric);
    const size_t size = (size_t)user->oob.size * sizeof(*user->node_of);

    user->node_of = malloc(size);
    if (user->node_of == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    memcpy(user->node_of, nodes->node_of, size);
    user->one_host = nodes->one_host;
    return MSCCLPP_OK;
}

/*
 * Fills in the structure, which the caller has zeroed, from the team. The lists stay empty. Local.
 * MSCCLPP_ERR_NO_MEMORY is logged by the vote in mscclpp_user_create. After an error the rest is left for free_user.
 */
static mscclpp_status_t init_user(const mscclpp_team_t *team, const mscclpp_config_t *config, mscclpp_user_t *user)
{
    const mscclpp_group_t *group = &team->group;
    mscclpp_status_t status;
    void *host, *device;

    user->gpu = team->runner.gpu;
    user->device = team->runner.device;
    user->oob = group->oob;
    user->config = *config;
    user->config.proxy = "thread"; /* kernels of the application run when no call of ours makes progress */
    user->mapping_limit = team->runner.mapping_limit;
    user->epoch_limit = (uint32_t)team->protocol.epoch_limit;
    user->timeout_ns = group->timeout > 0 ? (uint64_t)(group->timeout * 1e9) : 0;
    status = team->fabric != NULL ? copy_nodes(team, user) : MSCCLPP_OK;
    if (status == MSCCLPP_OK) {
        status = user->gpu->host_alloc(sizeof(*user->words), &host, &device);
    }
    if (status == MSCCLPP_OK) {
        user->words = host;
        user->device_words = device;
    }
    return status;
}

/*
 * Frees the structure and the words that kernels report in. The structure need not be complete. After mscclpp_user_end
 * `words` is NULL. If objects were left then, their words are never freed, because kernels may still read them. NULL is
 * allowed.
 */
static void free_user(mscclpp_user_t *user)
{
    if (user != NULL && user->words != NULL) {
        user->gpu->host_free(user->words);
    }
    if (user != NULL) {
        free(user->node_of);
    }
    free(user);
}

/*
 * A rank cannot take part if it takes turns on its GPU, has no memory, or cannot allocate pinned memory. All ranks then
 * return MSCCLPP_ERR_NOT_SUPPORTED, and each logs which rank that is and why. After an error nothing is left.
 */
mscclpp_status_t mscclpp_user_create(mscclpp_team_t *team, const mscclpp_config_t *config, mscclpp_user_t **user_p)
{
    const mscclpp_oob_t *oob = &team->group.oob;
    mscclpp_user_t *user = calloc(1, sizeof(*user));
    mscclpp_status_t status;

    if (team->runner.takes_turns) {
        mscclpp_info("%s: rank %d takes turns on its GPU with other ranks, so its kernels cannot wait for theirs",
                     oob->label, oob->rank);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    } else if (user == NULL) {
        mscclpp_error("%s: no memory for channels", oob->label);
        status = MSCCLPP_ERR_NO_MEMORY;
    } else {
        status = init_user(team, config, user);
    }
    /* A rank that cannot take part votes, too, because the others would wait for its vote. */
    status = mscclpp_agree(oob, NULL, status, "channels for kernels of the application");
    if (status != MSCCLPP_OK) {
        free_user(user);
        return status;
    }
    *user_p = user;
    return MSCCLPP_OK;
}

/*
 * The indices of the words of a report (MSCCLPP_DEV_USER_REPORT_WORDS). The words after REPORT_MISUSE describe a
 * misuse.
 */
enum { REPORT_LATE, REPORT_MISUSE, REPORT_RANK, REPORT_OFFSET, REPORT_BYTES, REPORT_LIMIT };

/* Reads a word that kernels have written. 0: kernels have not reported anything in this word. */
static uint64_t report_word(const mscclpp_user_t *user, int word_index)
{
    return __atomic_load_n(&user->words->report[word_index], __ATOMIC_ACQUIRE);
}

/*
 * Writes what kernels have reported of a misuse into `text`. `misuse` is the kind of the misuse. Kernels write the kind
 * after the other words, and the caller has read it with acquire, so the other words are valid here.
 */
static mscclpp_status_t describe_misuse(const mscclpp_user_t *user, uint64_t misuse, char *text, size_t size)
{
    const unsigned long long rank = report_word(user, REPORT_RANK), offset = report_word(user, REPORT_OFFSET),
                             bytes = report_word(user, REPORT_BYTES), limit = report_word(user, REPORT_LIMIT);

    switch (misuse) {
    case MSCCLPP_DEV_USER_BLOCK:
        (void)snprintf(text, size, "%s: rank %llu: block %llu of a kernel used a room of %llu blocks", user->oob.label,
                       rank, offset, limit);
        break;
    case MSCCLPP_DEV_USER_SIZE:
        (void)snprintf(text, size,
                       "%s: rank %llu: a kernel called for a small all-reduce of %llu bytes, or of an unknown type or "
                       "operation; its room takes up to %llu bytes",
                       user->oob.label, rank, bytes, limit);
        break;
    case MSCCLPP_DEV_USER_ALIGNMENT:
        (void)snprintf(text, size,
                       "%s: a kernel of rank %d asked for an addition at offset %llu of rank %llu's memory; the offset "
                       "must be a multiple of 8",
                       user->oob.label, user->oob.rank, offset, rank);
        break;
    default:
        (void)snprintf(text, size,
                       "%s: a kernel of rank %d asked for %llu bytes at offset %llu of rank %llu's memory, which has "
                       "%llu",
                       user->oob.label, user->oob.rank, bytes, offset, rank, limit);
        break;
    }
    return MSCCLPP_ERR_INVALID;
}

/* Returns MSCCLPP_OK after the end of the team, because the words of the kernels are then gone. */
mscclpp_status_t mscclpp_user_find_failure(mscclpp_user_t *user, char *text, size_t size)
{
    uint64_t late_rank_plus_1, misuse;
    mscclpp_status_t status = MSCCLPP_OK;

    if (user->has_ended) {
        return MSCCLPP_OK;
    }
    /*
     * The kernels' reports are checked first, because they say more than the abort word, which is set after any
     * failure.
     */
    late_rank_plus_1 = report_word(user, REPORT_LATE);
    misuse = report_word(user, REPORT_MISUSE);
    if (misuse != 0) {
        status = describe_misuse(user, misuse, text, size);
    } else if (late_rank_plus_1 != 0) {
        (void)snprintf(text, size, "%s: a kernel of rank %d gave up waiting for rank %llu on a channel",
                       user->oob.label, user->oob.rank, (unsigned long long)late_rank_plus_1 - 1);
        status = MSCCLPP_ERR_TIMEOUT;
    } else if (__atomic_load_n(&user->words->mailbox.abort, __ATOMIC_ACQUIRE) != 0) {
        (void)snprintf(text, size, "%s: rank %d: a port channel failed, and all waits of kernels on channels end",
                       user->oob.label, user->oob.rank);
        status = MSCCLPP_ERR_PEER;
    }
    if (status != MSCCLPP_OK) {
        __atomic_store_n(&user->words->mailbox.abort, 1, __ATOMIC_RELAXED);
    }
    return status;
}

void mscclpp_user_leave(mscclpp_user_t *user)
{
    if (--user->unfreed == 0 && user->has_ended) {
        free_user(user);
    }
}
