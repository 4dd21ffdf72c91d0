/*
 * All-gathers over a tree. Parts go up to rank 0 of the all-gather, which sends all parts together down again.
 *
 * Up to 64 ranks send to rank 0 directly. With more, the tree follows from the digits of the ranks' indices. The lowest
 * digit has base 8, the others base 32. An index whose lowest k digits are zero is the root of a subtree: of 8
 * consecutive indices with one zero, 256 with two, and so on. The root's children are the indices in which one of these
 * zeros is another digit. If the ranks of a node have the indices of a subtree, they send only one message to other
 * nodes. The bases are large so that the tree has few levels: where ranks share processors, each level waits until its
 * ranks are scheduled.
 *
 * Late ranks are named as follows. A rank that has waited for a while asks the neighbours in the tree that it still
 * waits for, and once more at the deadline. Every rank that is in the all-gather answers. A neighbour that does not
 * answer is late. It is named by its parent; rank 0, which has no parent, is named by rank 1. All other ranks wait in
 * silence. At the deadline, the rank that names a late one ends the all-gather for all ranks: it tells its neighbours,
 * and these tell theirs.
 */
#include "mca/coll/mscclpp/oob/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"

/* So many ranks make a tree of one level. */
#define TREE_FLAT 64

/* The base of the lowest digit if there are more ranks, and that of all other digits. */
#define TREE_FIRST_BASE 8
#define TREE_BASE 32
#define TREE_CHILDREN_MAX 193 /* 7 for the lowest digit, and 31 for each of the 6 others of the largest int */

/*
 * A rank asks its neighbours after it has waited for ASK_AFTER seconds. They have ANSWER_SECONDS to answer, and those
 * that have answered have AGAIN_SECONDS to answer again at the deadline: a busy machine may keep them from that.
 */
#define ASK_AFTER 0.5
#define ANSWER_SECONDS 1.0
#define AGAIN_SECONDS 3.0

/* A rank that knows of no late rank at the deadline waits this much longer to be told of one. */
#define TOLD_SECONDS 4.0

/* A neighbour in the tree, which this rank waits for. */
typedef struct {
    int index;           /* its index in the all-gather */
    bool has_data;       /* its data have come */
    bool has_answered;   /* it has answered the question, so it is in the all-gather */
    bool is_asked_again; /* it has answered once, and is to answer again */
    double asked_at;     /* when it was asked, by mscclpp_now; 0: not yet */
} neighbour_t;

/* The message to the children: all ranks' parts. */
typedef struct {
    mca_coll_mscclpp_oob_header_t header;
    char data[];
} whole_t;

/* The state of one all-gather on this rank. */
typedef struct {
    mca_coll_mscclpp_gather_t *gather;
    whole_t *whole;     /* the parts that have come so far */
    neighbour_t parent; /* the rank above; rank 0 has none, but 0 as its index */
    neighbour_t child[TREE_CHILDREN_MAX];
    int child_count;
    int missing_count;                           /* children whose parts have not come */
    bool has_own_part;                           /* this rank's own part is in `whole` */
    bool has_sent_up;                            /* the parts of this subtree have been sent to the parent */
    bool has_told_end;                           /* the neighbours have been told that the all-gather has ended */
    bool asks_again;                             /* neighbours have to answer a second time */
    bool is_complete;                            /* `whole` is complete, and is on its way to the children */
    double completed_at;                         /* when it became complete, by mscclpp_now */
    ompi_request_t *requests[TREE_CHILDREN_MAX]; /* sends of `whole`; NULL: not begun, or over */
} tree_t;

/* Returns the base of the digit that has this place value. */
static int64_t base_at(const mca_coll_mscclpp_gather_t *gather, int64_t place_value)
{
    return gather->count <= TREE_FLAT ? TREE_FLAT : 1 == place_value ? TREE_FIRST_BASE : TREE_BASE;
}

/*
 * Returns the number of ranks that the subtree of an index would have, including the index itself, if the all-gather
 * had an unlimited number of ranks. This is the place value of a digit.
 */
static int64_t full_subtree_size(const mca_coll_mscclpp_gather_t *gather, int index)
{
    int64_t size = 1;

    while (size < gather->count && 0 == index % (size * base_at(gather, size))) {
        size *= base_at(gather, size);
    }
    return size;
}

/* Returns the index after the last one in the subtree of `index`. */
static int subtree_end(const mca_coll_mscclpp_gather_t *gather, int index)
{
    const int64_t size = full_subtree_size(gather, index);

    return size > gather->count - index ? gather->count : (int)(index + size);
}

/* Returns a neighbour's rank in the communicator. */
static int rank_of(const tree_t *tree, const neighbour_t *neighbour)
{
    return mca_coll_mscclpp_gather_rank(tree->gather, neighbour->index);
}

/*
 * Finds this rank's neighbours in the tree: its parent, and its children in ascending order of their indices, and so of
 * their subtrees' sizes. The index has at most 7 digits, so `child` has room for all children.
 */
static void find_neighbours(tree_t *tree)
{
    const int self = tree->gather->self, end = subtree_end(tree->gather, self);
    const mca_coll_mscclpp_gather_t *gather = tree->gather;
    const int64_t full_size = full_subtree_size(gather, self);

    tree->parent.index = (int)(self - self % (full_size * base_at(gather, full_size)));
    for (int64_t place_value = 1; place_value < full_size; place_value *= base_at(gather, place_value)) {
        for (int digit = 1; digit < base_at(gather, place_value) && digit * place_value < end - self; ++digit) {
            tree->child[tree->child_count++].index = (int)(self + digit * place_value);
        }
    }
    tree->missing_count = tree->child_count;
}

/* Starts to send a copy of the data to a neighbour, in a message of this all-gather. */
static mscclpp_status_t post(tree_t *tree, const neighbour_t *to, mca_coll_mscclpp_oob_kind_t kind, const void *data,
                             size_t length)
{
    mca_coll_mscclpp_oob_t *oob = tree->gather->oob;

    return mca_coll_mscclpp_oob_post(oob, rank_of(tree, to), kind, tree->gather->number, oob->module->current_call,
                                     data, length);
}

/* Returns the neighbour whose rank in the communicator is `rank`, or NULL if no neighbour has this rank. */
static neighbour_t *find_neighbour(tree_t *tree, int rank)
{
    if (tree->gather->self != 0 && rank == rank_of(tree, &tree->parent)) {
        return &tree->parent;
    }
    for (int i = 0; i < tree->child_count; ++i) {
        if (rank == rank_of(tree, &tree->child[i])) {
            return &tree->child[i];
        }
    }
    return NULL;
}

/*
 * Tells all neighbours except rank `source` that the all-gather has ended. `source` is the rank that has told this one,
 * or -1 if this rank ends the all-gather. If a neighbour cannot be told, the neighbour waits until its own deadline.
 */
static void tell_end(tree_t *tree, mscclpp_status_t status, int culprit, int source)
{
    const mca_coll_mscclpp_gather_ending_t ending = {(int32_t)status, culprit};

    tree->has_told_end = true;
    if (tree->gather->self != 0 && rank_of(tree, &tree->parent) != source) {
        (void)post(tree, &tree->parent, MCA_COLL_MSCCLPP_OOB_END, &ending, sizeof(ending));
    }
    for (int i = 0; i < tree->child_count; ++i) {
        if (rank_of(tree, &tree->child[i]) != source) {
            (void)post(tree, &tree->child[i], MCA_COLL_MSCCLPP_OOB_END, &ending, sizeof(ending));
        }
    }
}

/*
 * Copies the parts of the ranks first .. end - 1 of the all-gather, which `from` has sent, to their places. Returns
 * MSCCLPP_ERR_PEER if the sender is unexpected (`from` is NULL), if it has sent its data before, or if the number of
 * bytes is wrong.
 */
static mscclpp_status_t accept_data(tree_t *tree, const mca_coll_mscclpp_oob_message_t *message, neighbour_t *from,
                                    int first, int end)
{
    const mca_coll_mscclpp_gather_t *gather = tree->gather;
    const size_t length = (size_t)(end - first) * gather->length;

    if (from == NULL || from->has_data || message->header.length != length) {
        mscclpp_error("%s: rank %d sent %llu bytes of set-up data instead of %zu; do all ranks load the same version?",
                      gather->oob->label, message->peer, (unsigned long long)message->header.length, length);
        return MSCCLPP_ERR_PEER;
    }
    if (length > 0) {
        memcpy(tree->whole->data + (size_t)first * gather->length, message->data, length);
    }
    from->has_data = true;
    return MSCCLPP_OK;
}

/*
 * Handles data that have arrived: parts from the children and, after this rank has sent its own parts up, the whole
 * from the parent. Returns MSCCLPP_ERR_PEER if data are not as expected.
 */
static mscclpp_status_t receive(tree_t *tree)
{
    mca_coll_mscclpp_gather_t *gather = tree->gather;
    mca_coll_mscclpp_oob_message_t *message;
    mscclpp_status_t status = MSCCLPP_OK;

    while (MSCCLPP_OK == status && tree->missing_count > 0 &&
           (message = mca_coll_mscclpp_oob_take(gather->oob, MCA_COLL_MSCCLPP_OOB_GATHER, gather->number)) != NULL) {
        neighbour_t *from = find_neighbour(tree, message->peer);
        const int first = from != NULL ? from->index : 0; /* accept_data refuses unexpected senders, whatever this is */
        status = accept_data(tree, message, from == &tree->parent ? NULL : from, first, subtree_end(gather, first));
        tree->missing_count -= MSCCLPP_OK == status;
        free(message);
    }
    if (MSCCLPP_OK == status && tree->has_sent_up && !tree->is_complete &&
        (message = mca_coll_mscclpp_oob_take(gather->oob, MCA_COLL_MSCCLPP_OOB_WHOLE, gather->number)) != NULL) {
        status = accept_data(tree, message, find_neighbour(tree, message->peer), 0, gather->count);
        free(message);
    }
    return status;
}

/*
 * Starts to send the whole to all children, beginning with the largest subtrees. Returns MSCCLPP_ERR_PEER at the first
 * send that fails. All sends read the same memory, so this memory must stay until free_ended_sends returns true, even
 * after a failure.
 */
static mscclpp_status_t send_down(tree_t *tree)
{
    mca_coll_mscclpp_oob_t *oob = tree->gather->oob;
    const size_t size = sizeof(tree->whole->header) + tree->whole->header.length;

    tree->is_complete = true;
    tree->completed_at = mscclpp_now();
    for (int i = tree->child_count - 1; i >= 0; --i) {
        const int peer = rank_of(tree, &tree->child[i]);
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

/* Sends the parts of this rank's subtree to the parent. */
static mscclpp_status_t send_up(tree_t *tree)
{
    const mca_coll_mscclpp_gather_t *gather = tree->gather;
    const size_t offset = (size_t)gather->self * gather->length;
    const size_t length = (size_t)(subtree_end(gather, gather->self) - gather->self) * gather->length;

    tree->has_sent_up = true;
    return post(tree, &tree->parent, MCA_COLL_MSCCLPP_OOB_GATHER, tree->whole->data + offset, length);
}

/* Frees the requests of the sends of the whole that are complete. Returns true if none is left. */
static bool free_ended_sends(tree_t *tree)
{
    bool have_ended = true;

    for (int i = 0; i < tree->child_count; ++i) {
        if (tree->requests[i] != NULL && REQUEST_COMPLETE(tree->requests[i])) {
            (void)ompi_request_free(&tree->requests[i]);
            tree->requests[i] = NULL;
        }
        have_ended = have_ended && tree->requests[i] == NULL;
    }
    return have_ended;
}

/*
 * Answers a neighbour that has asked. Without memory, sends a message that needs none: this rank must not abstain,
 * since the others may have its part already and complete the all-gather.
 */
static mscclpp_status_t answer(tree_t *tree, const neighbour_t *to)
{
    const int peer = rank_of(tree, to);
    mscclpp_status_t status = post(tree, to, MCA_COLL_MSCCLPP_OOB_HERE, NULL, 0);

    if (MSCCLPP_ERR_NO_MEMORY == status) {
        mca_coll_mscclpp_oob_send_empty(tree->gather->oob->module, &peer, 1, MCA_COLL_MSCCLPP_OOB_HERE,
                                        tree->gather->number);
        status = MSCCLPP_OK;
    }
    return status;
}

/*
 * Answers the neighbours that ask, and notes the answers of those that this rank has asked. Drops messages of other
 * ranks, which send none unless they have another version. Returns MSCCLPP_ERR_PEER if Open MPI cannot send an answer.
 */
static mscclpp_status_t handle_questions(tree_t *tree)
{
    mca_coll_mscclpp_oob_t *oob = tree->gather->oob;
    mscclpp_status_t status = MSCCLPP_OK;
    mca_coll_mscclpp_oob_message_t *message;

    while (MSCCLPP_OK == status &&
           (message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_ASK, tree->gather->number)) != NULL) {
        const neighbour_t *from = find_neighbour(tree, message->peer);
        status = from != NULL ? answer(tree, from) : MSCCLPP_OK;
        free(message);
    }
    while ((message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_HERE, tree->gather->number)) != NULL) {
        neighbour_t *from = find_neighbour(tree, message->peer);
        if (from != NULL) {
            from->has_answered = true;
        }
        free(message);
    }
    return status;
}

/*
 * Looks for a message by which another rank has ended the all-gather. If there is one, tells the neighbours, and
 * returns the status in the message, which is an error; otherwise returns MSCCLPP_OK. The rank that has ended the
 * all-gather has logged the cause.
 */
static mscclpp_status_t look_for_end(tree_t *tree)
{
    int culprit = -1, source = -1;
    mscclpp_status_t status = mca_coll_mscclpp_gather_ended(tree->gather, &culprit);

    if (MSCCLPP_OK == status) {
        status = mca_coll_mscclpp_gather_told(tree->gather, &culprit, &source);
    }
    if (MSCCLPP_OK != status) {
        tell_end(tree, status, culprit, source);
    }
    return status;
}

/* Puts this rank's part in its place once it is ready. Only then are parts sent on. */
static void add_own_part(tree_t *tree)
{
    const mca_coll_mscclpp_gather_t *gather = tree->gather;

    if (gather->is_ready && !tree->has_own_part) {
        if (gather->length > 0) {
            memcpy(tree->whole->data + (size_t)gather->self * gather->length, gather->sendbuf, gather->length);
        }
        tree->has_own_part = true;
    }
}

/* Tells a neighbour to hurry, unless it has told this rank. Without memory, by a message that needs none. */
static void tell_hurry(tree_t *tree, const neighbour_t *to, int source)
{
    const int peer = rank_of(tree, to);

    if (peer != source && MSCCLPP_ERR_NO_MEMORY == post(tree, to, MCA_COLL_MSCCLPP_OOB_HURRY, NULL, 0)) {
        mca_coll_mscclpp_oob_send_empty(tree->gather->oob->module, &peer, 1, MCA_COLL_MSCCLPP_OOB_HURRY,
                                        tree->gather->number);
    }
}

/* Looks for messages of the exchange ahead, and tells the neighbours to hurry if such a message asks for that. */
static void look_ahead(tree_t *tree)
{
    int source;

    if (!mca_coll_mscclpp_ahead_look(tree->gather, &source)) {
        return;
    }
    if (0 != tree->gather->self) {
        tell_hurry(tree, &tree->parent, source);
    }
    for (int i = 0; i < tree->child_count; ++i) {
        tell_hurry(tree, &tree->child[i], source);
    }
}

/*
 * Makes all progress that is possible without waiting: receives, sends, answers questions and looks for the end
 * (mca_coll_mscclpp_gather_step_fn_t). After the whole has arrived, this rank no longer looks for an end: only the
 * sends to its children have to complete.
 */
static mscclpp_status_t tree_step(void *state)
{
    tree_t *tree = state;
    mca_coll_mscclpp_oob_t *oob = tree->gather->oob;
    /* Up to one message with data from each neighbour and peer, and one that asks, answers or ends. */
    mscclpp_status_t status = mca_coll_mscclpp_oob_advance(oob, tree->child_count + tree->gather->ahead_missing + 2);

    if (MSCCLPP_OK == status) {
        look_ahead(tree);
        add_own_part(tree);
        status = receive(tree);
    }
    if (MSCCLPP_OK == status && 0 == tree->missing_count && tree->has_own_part && 0 != tree->gather->self &&
        !tree->has_sent_up) {
        status = send_up(tree);
    }
    if (MSCCLPP_OK == status && !tree->is_complete && 0 == tree->missing_count && tree->has_own_part &&
        (0 == tree->gather->self || tree->parent.has_data)) {
        status = send_down(tree);
    }
    if (MSCCLPP_OK == status) {
        status = handle_questions(tree);
    }
    if (MSCCLPP_OK == status && !tree->is_complete) {
        status = look_for_end(tree);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    return tree->is_complete && free_ended_sends(tree) && oob->sends.first == NULL ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
}

/*
 * Asks a neighbour that this rank waits for, the first time that this is called. Returns true if the neighbour has had
 * the time to answer and has not answered. This includes a question that could not be sent.
 */
static bool ask_if_late(tree_t *tree, neighbour_t *neighbour, double now)
{
    if (neighbour->has_data || neighbour->has_answered) {
        return false;
    }
    if (0 == neighbour->asked_at) {
        neighbour->asked_at = now;
        mca_coll_mscclpp_oob_lock(tree->gather->oob);
        (void)post(tree, neighbour, MCA_COLL_MSCCLPP_OOB_ASK, NULL, 0);
        pthread_mutex_unlock(&tree->gather->oob->lock);
    }
    return now - neighbour->asked_at > (neighbour->is_asked_again ? AGAIN_SECONDS : ANSWER_SECONDS);
}

/* At the deadline, asks those that have answered once more: a rank may have died since. */
static void ask_again(tree_t *tree)
{
    neighbour_t *neighbour = &tree->parent;

    tree->asks_again = true;
    for (int i = 0; i <= tree->child_count; neighbour = &tree->child[i++]) {
        neighbour->is_asked_again = neighbour->has_answered;
        neighbour->asked_at = neighbour->has_answered ? 0 : neighbour->asked_at;
        neighbour->has_answered = false;
    }
}

/*
 * Writes the late ranks that this rank has to name into `text`, after it has asked its neighbours. *first_p is the
 * first of them, or -1 if there is none.
 */
static void list_late(tree_t *tree, double now, char *text, size_t size, int *first_p)
{
    size_t used = 0;

    *first_p = -1;
    text[0] = '\0';
    for (int i = 0; i < tree->child_count && used < size; ++i) {
        if (ask_if_late(tree, &tree->child[i], now)) {
            const int rank = rank_of(tree, &tree->child[i]);
            int length = snprintf(text + used, size - used, "%s%d", 0 == used ? "" : ", ", rank);
            used += length > 0 ? (size_t)length : 0;
            *first_p = *first_p < 0 ? rank : *first_p;
        }
    }
    /*
     * Every rank asks its parent once it has sent its parts there. But a late parent is named by its own parent. Only
     * rank 0, which has no parent, is named by a child: rank 1.
     */
    if (0 == tree->missing_count && 0 != tree->gather->self && ask_if_late(tree, &tree->parent, now) &&
        1 == tree->gather->self) {
        *first_p = rank_of(tree, &tree->parent);
        (void)snprintf(text, size, "%d", *first_p);
    }
}

/*
 * Watches the sends of the whole to the children. At the deadline, logs the children that have not taken it, and
 * returns MSCCLPP_ERR_TIMEOUT, which ends the all-gather.
 */
static mscclpp_status_t watch_sends(const tree_t *tree, double now)
{
    const double timeout = mca_coll_mscclpp_state.config.timeout;
    char ranks[128] = "none, but messages to some are still on their way";
    size_t used = 0;

    if (timeout <= 0 || now - tree->completed_at < timeout) {
        return MSCCLPP_OK;
    }
    for (int i = 0; i < tree->child_count && used < sizeof(ranks); ++i) {
        if (tree->requests[i] != NULL) {
            int length = snprintf(ranks + used, sizeof(ranks) - used, "%s%d", 0 == used ? "" : ", ",
                                  rank_of(tree, &tree->child[i]));
            used += length > 0 ? (size_t)length : 0;
        }
    }
    mca_coll_mscclpp_gather_report(tree->gather, true, ranks);
    return MSCCLPP_ERR_TIMEOUT;
}

/*
 * Logs late ranks (mca_coll_mscclpp_gather_watch_fn_t): once as a warning, and at the deadline as an error. After the
 * error, tells the neighbours, so that the all-gather ends on all ranks, and returns MSCCLPP_ERR_TIMEOUT. A rank that
 * has no late rank to name waits TOLD_SECONDS longer for another rank to end the all-gather, and then ends it itself. A
 * rank that has the whole waits only for its own sends, for as long once more.
 */
static mscclpp_status_t tree_watch(void *state)
{
    tree_t *tree = state;
    mca_coll_mscclpp_gather_t *gather = tree->gather;
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    const double now = mscclpp_now(), waited = now - gather->started;
    const bool is_past_deadline = config->timeout > 0 && waited > config->timeout;
    char ranks[128];
    int first_late;

    if (tree->is_complete) {
        return watch_sends(tree, now);
    }
    if (waited < ASK_AFTER) {
        return MSCCLPP_OK;
    }
    if (is_past_deadline && !tree->asks_again) {
        ask_again(tree);
    }
    list_late(tree, now, ranks, sizeof(ranks), &first_late);
    /* The rank that names the late rank should have ended the all-gather before this time. */
    if (is_past_deadline && first_late < 0 && waited > config->timeout + TOLD_SECONDS) {
        first_late = rank_of(tree, &tree->parent);
        (void)snprintf(ranks, sizeof(ranks), "none that this rank knows of");
    }
    if (first_late < 0 ||
        !(is_past_deadline || (!gather->warned && config->warn_after > 0 && waited > config->warn_after))) {
        return MSCCLPP_OK;
    }
    gather->warned = true;
    mca_coll_mscclpp_gather_report(gather, is_past_deadline, ranks);
    if (is_past_deadline) {
        mca_coll_mscclpp_oob_lock(gather->oob);
        tell_end(tree, MSCCLPP_ERR_TIMEOUT, first_late, -1);
        pthread_mutex_unlock(&gather->oob->lock);
    }
    return is_past_deadline ? MSCCLPP_ERR_TIMEOUT : MSCCLPP_OK;
}

/*
 * Collects the parts in `whole`, which together with its header is also the message to the children. Returns
 * MSCCLPP_ERR_NO_MEMORY, with no data sent, if there is no memory for `whole` or for the message to the parent; the
 * caller then tells the other ranks.
 */
mscclpp_status_t mca_coll_mscclpp_gather_tree(mca_coll_mscclpp_gather_t *gather)
{
    const size_t length = (size_t)gather->count * gather->length;
    tree_t tree = {.gather = gather, .whole = malloc(sizeof(*tree.whole) + length)};
    mscclpp_status_t status;

    if (tree.whole == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    tree.whole->header = (mca_coll_mscclpp_oob_header_t){.magic = MCA_COLL_MSCCLPP_OOB_MAGIC,
                                                         .kind = MCA_COLL_MSCCLPP_OOB_WHOLE,
                                                         .number = gather->number,
                                                         .call = gather->oob->module->current_call,
                                                         .length = length};
    find_neighbours(&tree);
    status = mca_coll_mscclpp_gather_run(gather, &tree, tree_step, tree_watch);
    /* Without a message, the other ranks would wait until their deadline. */
    if (mca_coll_mscclpp_gather_must_tell(status) && !tree.has_told_end) {
        mca_coll_mscclpp_oob_lock(gather->oob);
        tell_end(&tree, status, mca_coll_mscclpp_gather_rank(gather, gather->self), -1);
        pthread_mutex_unlock(&gather->oob->lock);
    }
    if (MSCCLPP_OK == status && length > 0) {
        memcpy(gather->recvbuf, tree.whole->data, length);
    }
    if (free_ended_sends(&tree)) {
        free(tree.whole);
    } else {
        /* The memory is not freed: sends cannot be cancelled, so they may still read it. */
        for (int i = 0; i < tree.child_count; ++i) {
            if (tree.requests[i] != NULL) {
                (void)ompi_request_free(&tree.requests[i]);
            }
        }
    }
    return status;
}
