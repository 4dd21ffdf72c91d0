#include "mca/common/team/lease.h"

#include <pthread.h>
#include <stdlib.h>

#include "mca/common/base/log.h"
#include "mca/common/run/linger.h"

/* The word `recall` of the board: the number of a use times 4, and what is said of it. */
enum { PROPOSED, GRANTED, REFUSED };
#define RECALL_WORD(use_, state_) ((use_)*4 + (state_))
#define USE_OF(word_) ((word_) / 4)
#define STATE_OF(word_) ((word_) % 4)

/* A chunk of device memory that teams lend one another. */
typedef struct chunk {
    struct chunk *next;
    const mscclpp_gpu_ops_t *gpu;
    int device;
    uint64_t size; /* bytes */
    char *base;
    mscclpp_team_t *holder; /* NULL: the chunk is free */
    bool is_retired;        /* the holder ends */
    uint64_t taken_in_use;  /* the holder's use in which it has got the chunk */
    int users;              /* teams whose peers may map the chunk, the holder included */
    uint64_t epochs;        /* flags of packets that are in the chunk are at most this */
} chunk_t;

/* The lock is never held while device memory is allocated or freed, which may wait for kernels of other ranks. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static chunk_t *chunks; /* the one that was taken last is the last one */

/*
 * Returns the word of the board by which a chunk is called back. The word lies in rank 0's line, because one word must
 * decide for all ranks.
 */
static uint64_t *recall_word_of(const mscclpp_team_t *team)
{
    return &team->group.board[0].recall;
}

/*
 * Returns true if all ranks of the team have ended use number `use`, and none of them has begun a later one. Loads in
 * sequentially consistent order, because try_recall relies on one order of these loads and its own store.
 */
static bool is_at_rest(const mscclpp_team_t *team, uint64_t use)
{
    const mscclpp_board_line_t *board = team->group.board;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        if (__atomic_load_n(&board[rank].lease_ended, __ATOMIC_SEQ_CST) != use ||
            __atomic_load_n(&board[rank].lease_begun, __ATOMIC_SEQ_CST) != use) {
            return false;
        }
    }
    return true;
}

/*
 * Tries to recall the chunks of a chunk's holder, on all ranks of that team at once. Returns true if the team's last
 * use has ended on all ranks, and its next use will begin without the chunks; then its lingering kernel has also left
 * this rank. Returns false if the team is not at rest, or if the kernel could not be ended.
 *
 * The caller holds the lock. The holder takes the lock before it gives up its chunk or ends, so it exists as long as
 * this function runs.
 */
static bool try_recall(const chunk_t *chunk)
{
    mscclpp_team_t *team = chunk->holder;
    uint64_t *recall_word = recall_word_of(team);
    uint64_t current = __atomic_load_n(recall_word, __ATOMIC_SEQ_CST), proposal;
    const uint64_t use = __atomic_load_n(&team->group.board[team->group.rank].lease_ended, __ATOMIC_SEQ_CST);
    /*
     * Another rank may have recalled the chunks already. A grant up to use `taken_in_use` was about a chunk that the
     * team had before.
     */
    bool is_granted = STATE_OF(current) == GRANTED && USE_OF(current) > chunk->taken_in_use;

    if (!is_granted) {
        proposal = RECALL_WORD(use + 1, PROPOSED);
        if (!is_at_rest(team, use) ||
            !__atomic_compare_exchange_n(recall_word, &current, proposal, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            return false;
        }
        /*
         * A rank that begins the use first writes that to its line, and then reads the word. So either this check sees
         * that the use has begun, or that rank sees the proposal.
         */
        is_granted = is_at_rest(team, use);
        if (!__atomic_compare_exchange_n(recall_word, &proposal, RECALL_WORD(use + 1, is_granted ? GRANTED : REFUSED),
                                         false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            is_granted = STATE_OF(proposal) == GRANTED; /* another rank was first; its word is in `proposal` now */
        }
    }
    return is_granted && mscclpp_linger_end(&team->runner) == MSCCLPP_OK;
}

/*
 * Makes the team the holder of chunk *link, and moves the chunk to the end of the list. The previous holder, if there
 * is one, still counts as a user until its peers have unmapped the chunk. The caller holds the lock.
 */
static void give_to(chunk_t **link, mscclpp_team_t *team)
{
    chunk_t *chunk = *link;

    chunk->holder = team;
    chunk->taken_in_use = team->uses;
    ++chunk->users;
    *link = chunk->next;
    chunk->next = NULL;
    for (link = &chunks; *link != NULL; link = &(*link)->next) {
    }
    *link = chunk;
}

/*
 * Finds a chunk of this size for the team. A free chunk will do or, if `may_recall` is set, a chunk of a team at rest.
 * The list is in the order in which chunks were taken, so the team that has had its chunk for longest loses it. If
 * there is none, returns NULL, and *count_p is the number of all chunks of this size and device. The caller holds the
 * lock.
 */
static chunk_t *find_chunk(mscclpp_team_t *team, uint64_t size, bool may_recall, int *count_p)
{
    const mscclpp_runner_t *runner = &team->runner;
    chunk_t **link, *chunk;

    *count_p = 0;
    for (link = &chunks; (chunk = *link) != NULL; link = &chunk->next) {
        if (chunk->gpu != runner->gpu || chunk->device != runner->device || chunk->size != size) {
            continue;
        }
        ++*count_p;
        if (chunk->holder != NULL && (!may_recall || chunk->is_retired || !try_recall(chunk))) {
            continue;
        }
        /*
         * A holder normally stores its flags when it gives up its chunk. This holder does not know yet that it has lost
         * it.
         */
        if (chunk->holder != NULL && chunk->holder->runner.epochs > chunk->epochs) {
            chunk->epochs = chunk->holder->runner.epochs;
        }
        give_to(link, team);
        return chunk;
    }
    return NULL;
}

/*
 * Makes a new chunk, of which the team becomes the holder. Allocates without the lock, because that may wait for
 * kernels. Errors are logged.
 */
static mscclpp_status_t make_chunk(mscclpp_team_t *team, uint64_t size, chunk_t **chunk_p)
{
    chunk_t *chunk = calloc(1, sizeof(*chunk)), **link;
    mscclpp_status_t status;
    void *base;

    if (chunk == NULL) {
        mscclpp_error("%s: no memory for the description of scratch", team->group.oob.label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    status = team->runner.gpu->device_alloc(team->runner.device, size, &base);
    if (status != MSCCLPP_OK) {
        free(chunk);
        return status;
    }
    *chunk = (chunk_t){.gpu = team->runner.gpu, .device = team->runner.device, .size = size, .base = base};
    pthread_mutex_lock(&lock);
    chunk->next = chunks;
    chunks = chunk;
    link = &chunks;
    give_to(link, team);
    pthread_mutex_unlock(&lock);
    *chunk_p = chunk;
    return MSCCLPP_OK;
}

/*
 * Tries in this order: a free chunk; another team's chunk, if the process has enough chunks; a new chunk; and without
 * memory, any other team's chunk.
 */
mscclpp_status_t mscclpp_lease_take(mscclpp_team_t *team, uint64_t size, char **memory_p, uint64_t *epochs_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    chunk_t *chunk;
    int count;

    pthread_mutex_lock(&lock);
    chunk = find_chunk(team, size, false, &count);
    if (chunk == NULL && count >= MSCCLPP_LEASE_CHUNKS) {
        chunk = find_chunk(team, size, true, &count);
    }
    pthread_mutex_unlock(&lock);
    if (chunk == NULL) {
        status = make_chunk(team, size, &chunk);
    }
    /* Without memory, a chunk of another team is taken, however few chunks there are. */
    if (status != MSCCLPP_OK) {
        pthread_mutex_lock(&lock);
        chunk = find_chunk(team, size, true, &count);
        pthread_mutex_unlock(&lock);
    }
    if (chunk == NULL) {
        return status;
    }
    *memory_p = chunk->base;
    *epochs_p = chunk->epochs;
    return MSCCLPP_OK;
}

/*
 * Stores the number of epochs used. Packets may remain in the chunk, so the flags of its next holder must differ from
 * theirs.
 */
void mscclpp_lease_leave(mscclpp_team_t *team)
{
    chunk_t *chunk;

    pthread_mutex_lock(&lock);
    for (chunk = chunks; chunk != NULL; chunk = chunk->next) {
        if (chunk->holder == team) {
            chunk->epochs = team->runner.epochs > chunk->epochs ? team->runner.epochs : chunk->epochs;
            chunk->holder = NULL;
            chunk->is_retired = false;
        }
    }
    pthread_mutex_unlock(&lock);
}

void mscclpp_lease_retire(const mscclpp_team_t *team)
{
    chunk_t *chunk;

    pthread_mutex_lock(&lock);
    for (chunk = chunks; chunk != NULL; chunk = chunk->next) {
        chunk->is_retired = chunk->is_retired || chunk->holder == team;
    }
    pthread_mutex_unlock(&lock);
}

/*
 * The list has chunks of GPUs and of the twin, whose addresses may be equal. So the search compares the kind of device
 * as well.
 */
bool mscclpp_lease_give(const mscclpp_team_t *team, void *memory)
{
    chunk_t **link = &chunks, *chunk, *unused = NULL;

    pthread_mutex_lock(&lock);
    while ((chunk = *link) != NULL && (chunk->base != memory || chunk->gpu != team->runner.gpu)) {
        link = &chunk->next;
    }
    if (chunk != NULL && --chunk->users == 0) {
        unused = chunk;
        *link = chunk->next;
    }
    pthread_mutex_unlock(&lock);
    /* The chunk is no longer in the list, so no team can take it. */
    if (unused != NULL) {
        unused->gpu->device_free(unused->device, unused->base);
        free(unused);
    }
    return chunk != NULL;
}

/*
 * Begins the team's next use. Replaces a proposal to recall the chunks from this use on by a refusal, unless another
 * rank has decided it first. Then that decision, a grant or a refusal, counts.
 */
bool mscclpp_lease_begin(mscclpp_team_t *team)
{
    uint64_t *recall_word = recall_word_of(team), current;

    /*
     * First the line, then the word. A rank that recalls the chunks accesses these two in the opposite order
     * (try_recall).
     */
    __atomic_store_n(&team->group.board[team->group.rank].lease_begun, ++team->uses, __ATOMIC_SEQ_CST);
    current = __atomic_load_n(recall_word, __ATOMIC_SEQ_CST);
    if (current == RECALL_WORD(team->uses, PROPOSED) &&
        __atomic_compare_exchange_n(recall_word, &current, RECALL_WORD(team->uses, REFUSED), false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
        return false;
    }
    return current == RECALL_WORD(team->uses, GRANTED); /* the team has already acted on an older grant */
}

void mscclpp_lease_end(mscclpp_team_t *team)
{
    __atomic_store_n(&team->group.board[team->group.rank].lease_ended, team->uses, __ATOMIC_SEQ_CST);
}
