/*
 * All-gathers over a tree: parts go up to the first rank, and the whole comes down again. With numbers in base 8, a
 * number that ends with k digits of 0 has those below it that differ in one of these digits, the others being 0. So
 * what is below it, and itself, are 8^k numbers that follow one another, and ranks of a node that do so send one
 * message to other nodes. The base is large because a message between ranks that share processors waits for its turn.
 *
 * Who is late: a rank that waits for some time asks those neighbours in the tree that it waits for, and every rank that
 * is in the all-gather answers. The one that does not answer is named by the rank above it; the first rank of all by
 * the one that is next to it. All others wait in silence. When the deadline has passed, the rank that named it ends the
 * all-gather for all: it tells its neighbours, and these theirs.
 */
#include "mca/coll/mscclpp/oob/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"

#define TREE_BASE 8
#define TREE_CHILDREN_MAX 77 /* for any number of ranks */

/* Seconds after which a rank asks its neighbours, and that these have for an answer. */
#define ASK_AFTER 0.5
#define ANSWER_SECONDS 1.0

/* Seconds beyond the deadline for which a rank waits to be told who is late. */
#define TOLD_SECONDS 4.0

/* A neighbour in the tree that this rank waits for. */
typedef struct {
    int number;
    bool done;
    bool answered;
    double asked; /* when it was asked; 0: it was not */
} neighbour_t;

/* The message to those below. */
typedef struct {
    mca_coll_mscclpp_oob_header_t header;
    char data[];
} whole_t;

/* What a rank tells its neighbours that ends the all-gather. */
typedef struct {
    int32_t status;
    int32_t culprit; /* rank in the communicator */
} end_t;

typedef struct {
    mca_coll_mscclpp_gather_t *gather;
    whole_t *whole;
    neighbour_t above;
    neighbour_t below[TREE_CHILDREN_MAX];
    int children;
    int missing; /* of those below */
    bool sent_up;
    bool complete; /* `whole` is complete, and is on its way to those below */
    ompi_request_t *requests[TREE_CHILDREN_MAX];
} tree_t;

/* How many numbers from `number` on are below it or itself. */
static int64_t extent_of(const mca_coll_mscclpp_gather_t *gather, int number)
{
    int64_t extent = 1;

    while (extent < gather->count && 0 == number % (extent * TREE_BASE)) {
        extent *= TREE_BASE;
    }
    return extent;
}

/* The end of these numbers. */
static int end_of(const mca_coll_mscclpp_gather_t *gather, int number)
{
    const int64_t extent = extent_of(gather, number);

    return extent > gather->count - number ? gather->count : (int)(number + extent);
}

static int rank_of(const tree_t *tree, const neighbour_t *neighbour)
{
    return mca_coll_mscclpp_gather_rank(tree->gather, neighbour->number);
}

static void find_neighbours(tree_t *tree)
{
    const int self = tree->gather->self, end = end_of(tree->gather, self);
    const int64_t extent = extent_of(tree->gather, self);

    tree->above.number = (int)(self - self % (extent * TREE_BASE));
    for (int64_t worth = 1; worth < extent; worth *= TREE_BASE) {
        for (int digit = 1; digit < TREE_BASE && digit * worth < end - self; ++digit) {
            tree->below[tree->children++].number = (int)(self + digit * worth);
        }
    }
    tree->missing = tree->children;
}

static mscclpp_status_t post(tree_t *tree, const neighbour_t *to, mca_coll_mscclpp_oob_kind_t kind, const void *data,
                             size_t length)
{
    mca_coll_mscclpp_oob_t *oob = tree->gather->oob;

    return mca_coll_mscclpp_oob_post(oob, rank_of(tree, to), kind, tree->gather->number, oob->module->in_hand, data,
                                     length);
}

/* The neighbour with this rank, or NULL. */
static neighbour_t *find_neighbour(tree_t *tree, int rank)
{
    if (tree->gather->self != 0 && rank == rank_of(tree, &tree->above)) {
        return &tree->above;
    }
    for (int i = 0; i < tree->children; ++i) {
        if (rank == rank_of(tree, &tree->below[i])) {
            return &tree->below[i];
        }
    }
    return NULL;
}

/* Ends the all-gather for all ranks but `source`, which has told this one. Without memory, their deadlines end it. */
static void tell_end(tree_t *tree, mscclpp_status_t status, int culprit, int source)
{
    const end_t end = {(int32_t)status, culprit};

    if (tree->gather->self != 0 && rank_of(tree, &tree->above) != source) {
        (void)post(tree, &tree->above, MCA_COLL_MSCCLPP_OOB_END, &end, sizeof(end));
    }
    for (int i = 0; i < tree->children; ++i) {
        if (rank_of(tree, &tree->below[i]) != source) {
            (void)post(tree, &tree->below[i], MCA_COLL_MSCCLPP_OOB_END, &end, sizeof(end));
        }
    }
}

/* Puts data of numbers from `first` on into place. */
static mscclpp_status_t accept_data(tree_t *tree, const mca_coll_mscclpp_oob_message_t *message, neighbour_t *from,
                                    int first, int end)
{
    const mca_coll_mscclpp_gather_t *gather = tree->gather;
    const size_t length = (size_t)(end - first) * gather->length;

    if (from == NULL || from->done || message->header.length != length) {
        mscclpp_error("%s: rank %d sent %llu bytes of set-up data instead of %zu; do all ranks load the same version?",
                      gather->oob->label, message->peer, (unsigned long long)message->header.length, length);
        return MSCCLPP_ERR_PEER;
    }
    if (length > 0) {
        memcpy(tree->whole->data + (size_t)first * gather->length, message->data, length);
    }
    from->done = true;
    return MSCCLPP_OK;
}

static mscclpp_status_t receive(tree_t *tree)
{
    mca_coll_mscclpp_gather_t *gather = tree->gather;
    mca_coll_mscclpp_oob_message_t *message;
    mscclpp_status_t status = MSCCLPP_OK;

    while (MSCCLPP_OK == status && tree->missing > 0 &&
           (message = mca_coll_mscclpp_oob_take(gather->oob, MCA_COLL_MSCCLPP_OOB_GATHER, gather->number)) != NULL) {
        neighbour_t *from = find_neighbour(tree, message->peer);
        const int first = from != NULL ? from->number : 0;
        status = accept_data(tree, message, from == &tree->above ? NULL : from, first, end_of(gather, first));
        tree->missing -= MSCCLPP_OK == status;
        free(message);
    }
    if (MSCCLPP_OK == status && tree->sent_up && !tree->complete &&
        (message = mca_coll_mscclpp_oob_take(gather->oob, MCA_COLL_MSCCLPP_OOB_WHOLE, gather->number)) != NULL) {
        status = accept_data(tree, message, find_neighbour(tree, message->peer), 0, gather->count);
        free(message);
    }
    return status;
}

/* Sends the whole to those below. */
static mscclpp_status_t send_down(tree_t *tree)
{
    mca_coll_mscclpp_oob_t *oob = tree->gather->oob;
    const size_t size = sizeof(tree->whole->header) + tree->whole->header.length;

    tree->complete = true;
    for (int i = tree->children - 1; i >= 0; --i) {
        const int peer = rank_of(tree, &tree->below[i]);
        const int rc = MCA_PML_CALL(isend(&tree->whole->header, size, &ompi_mpi_byte.dt, peer, MCA_COLL_MSCCLPP_TAG,
                                          MCA_PML_BASE_SEND_STANDARD, oob->comm, &tree->requests[i]));
        if (OMPI_SUCCESS != rc) {
            tree->requests[i] = NULL;
            mscclpp_error("%s: cannot send %zu bytes to rank %d (Open MPI error %d)", oob->label, size, peer, rc);
            return MSCCLPP_ERR_PEER;
        }
    }
    return MSCCLPP_OK;
}

static mscclpp_status_t send_up(tree_t *tree)
{
    const mca_coll_mscclpp_gather_t *gather = tree->gather;
    const size_t at = (size_t)gather->self * gather->length;
    const size_t length = (size_t)(end_of(gather, gather->self) - gather->self) * gather->length;

    tree->sent_up = true;
    return post(tree, &tree->above, MCA_COLL_MSCCLPP_OOB_GATHER, tree->whole->data + at, length);
}

/* Frees what has been sent to those below. True if nothing is left. */
static bool has_sent(tree_t *tree)
{
    bool all = true;

    for (int i = 0; i < tree->children; ++i) {
        if (tree->requests[i] != NULL && REQUEST_COMPLETE(tree->requests[i])) {
            (void)ompi_request_free(&tree->requests[i]);
            tree->requests[i] = NULL;
        }
        all = all && tree->requests[i] == NULL;
    }
    return all;
}

/* Answers the neighbours that ask, and notes the answers of those that this rank has asked. */
static mscclpp_status_t answer(tree_t *tree)
{
    mca_coll_mscclpp_oob_t *oob = tree->gather->oob;
    mscclpp_status_t status = MSCCLPP_OK;
    mca_coll_mscclpp_oob_message_t *message;

    while (MSCCLPP_OK == status &&
           (message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_ASK, tree->gather->number)) != NULL) {
        const neighbour_t *from = find_neighbour(tree, message->peer);
        status = from != NULL ? post(tree, from, MCA_COLL_MSCCLPP_OOB_HERE, NULL, 0) : MSCCLPP_OK;
        free(message);
    }
    while ((message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_HERE, tree->gather->number)) != NULL) {
        neighbour_t *from = find_neighbour(tree, message->peer);
        if (from != NULL) {
            from->answered = true;
        }
        free(message);
    }
    return status;
}

/* Looks whether a rank has ended the all-gather, and passes it on. */
static mscclpp_status_t look_for_end(tree_t *tree)
{
    mca_coll_mscclpp_oob_t *oob = tree->gather->oob;
    int culprit = -1, source = -1;
    mscclpp_status_t status = mca_coll_mscclpp_gather_ended(tree->gather, &culprit);
    mca_coll_mscclpp_oob_message_t *message;

    if (MSCCLPP_OK == status &&
        (message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_END, tree->gather->number)) != NULL) {
        end_t end = {MSCCLPP_ERR_PEER, -1};
        if (sizeof(end) == message->header.length) {
            memcpy(&end, message->data, sizeof(end));
        }
        status = (mscclpp_status_t)end.status;
        culprit = end.culprit;
        source = message->peer;
        mscclpp_info("%s: rank %d has ended the set-up because of rank %d: %s", oob->label, source, culprit,
                     mscclpp_status_string(status));
        free(message);
    }
    if (MSCCLPP_OK != status) {
        tell_end(tree, status, culprit, source);
    }
    return status;
}

static mscclpp_status_t tree_step(void *state)
{
    tree_t *tree = state;
    mca_coll_mscclpp_oob_t *oob = tree->gather->oob;
    mscclpp_status_t status = mca_coll_mscclpp_oob_advance(oob, tree->children + 2);

    if (MSCCLPP_OK == status) {
        status = receive(tree);
    }
    if (MSCCLPP_OK == status && 0 == tree->missing && 0 != tree->gather->self && !tree->sent_up) {
        status = send_up(tree);
    }
    if (MSCCLPP_OK == status && !tree->complete && 0 == tree->missing &&
        (0 == tree->gather->self || tree->above.done)) {
        status = send_down(tree);
    }
    if (MSCCLPP_OK == status) {
        status = answer(tree);
    }
    if (MSCCLPP_OK == status && !tree->complete) {
        status = look_for_end(tree);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    return tree->complete && has_sent(tree) && oob->sends.first == NULL ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
}

/* Asks a neighbour once. True if it has had time to answer and has not, so that it is late. */
static bool is_late(tree_t *tree, neighbour_t *neighbour, double now)
{
    if (neighbour->done || neighbour->answered) {
        return false;
    }
    if (0 == neighbour->asked) {
        neighbour->asked = now;
        mca_coll_mscclpp_oob_lock(tree->gather->oob);
        (void)post(tree, neighbour, MCA_COLL_MSCCLPP_OOB_ASK, NULL, 0);
        pthread_mutex_unlock(&tree->gather->oob->lock);
    }
    return now - neighbour->asked > ANSWER_SECONDS;
}

/* Lists the late ranks that this one has to name. *any_p: the first of them. */
static void list_late(tree_t *tree, double now, char *text, size_t size, int *any_p)
{
    size_t used = 0;

    *any_p = -1;
    text[0] = '\0';
    for (int i = 0; i < tree->children && used < size; ++i) {
        if (is_late(tree, &tree->below[i], now)) {
            const int rank = rank_of(tree, &tree->below[i]);
            int length = snprintf(text + used, size - used, "%s%d", 0 == used ? "" : ", ", rank);
            used += length > 0 ? (size_t)length : 0;
            *any_p = *any_p < 0 ? rank : *any_p;
        }
    }
    if (0 == tree->missing && 0 != tree->gather->self && is_late(tree, &tree->above, now) && 1 == tree->gather->self) {
        *any_p = rank_of(tree, &tree->above);
        (void)snprintf(text, size, "%d", *any_p);
    }
}

static mscclpp_status_t tree_watch(void *state)
{
    tree_t *tree = state;
    mca_coll_mscclpp_gather_t *gather = tree->gather;
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    const double now = mscclpp_now(), waited = now - gather->started;
    const bool over = config->timeout > 0 && waited > config->timeout;
    char ranks[128];
    int late;

    if (waited < ASK_AFTER || tree->complete) {
        return MSCCLPP_OK;
    }
    list_late(tree, now, ranks, sizeof(ranks), &late);
    if (over && late < 0 && waited > config->timeout + TOLD_SECONDS) {
        late = rank_of(tree, &tree->above);
        (void)snprintf(ranks, sizeof(ranks), "none that this rank knows of");
    }
    if (late < 0 || !(over || (!gather->warned && config->warn_after > 0 && waited > config->warn_after))) {
        return MSCCLPP_OK;
    }
    gather->warned = true;
    mca_coll_mscclpp_gather_report(gather, over, ranks);
    if (over) {
        mca_coll_mscclpp_oob_lock(gather->oob);
        tell_end(tree, MSCCLPP_ERR_TIMEOUT, late, -1);
        pthread_mutex_unlock(&gather->oob->lock);
    }
    return over ? MSCCLPP_ERR_TIMEOUT : MSCCLPP_OK;
}

mscclpp_status_t mca_coll_mscclpp_gather_tree(mca_coll_mscclpp_gather_t *gather)
{
    const size_t length = (size_t)gather->count * gather->length;
    tree_t tree = {.gather = gather, .whole = malloc(sizeof(*tree.whole) + length)};
    mscclpp_status_t status;

    if (tree.whole == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    tree.whole->header = (mca_coll_mscclpp_oob_header_t){MCA_COLL_MSCCLPP_OOB_MAGIC, MCA_COLL_MSCCLPP_OOB_WHOLE,
                                                         gather->number, gather->oob->module->in_hand, length};
    if (gather->length > 0) {
        memcpy(tree.whole->data + (size_t)gather->self * gather->length, gather->sendbuf, gather->length);
    }
    find_neighbours(&tree);
    status = mca_coll_mscclpp_gather_run(gather, &tree, tree_step, tree_watch);
    if (MSCCLPP_OK == status && length > 0) {
        memcpy(gather->recvbuf, tree.whole->data, length);
    }
    if (has_sent(&tree)) {
        free(tree.whole);
    } else {
        /* A peer that never receives it may still read it. */
        for (int i = 0; i < tree.children; ++i) {
            if (tree.requests[i] != NULL) {
                (void)ompi_request_free(&tree.requests[i]);
            }
        }
    }
    return status;
}
