/* Shares memory of each rank with the other ranks of its node, which map it. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/user/internal.h"

/* A description of a rank's memory, which the rank sends to all others. */
typedef struct {
    mscclpp_gpu_handle_t handle;
    uint64_t bytes;
    int64_t status; /* mscclpp_status_t of the rank's steps so far */
} card_t;

/*
 * Describes this rank's memory in its card: size and handle. Allocates the memory first if the application has passed
 * none. Also waits for work on the memory that synchronous calls of the GPU runtime have left in flight. Does nothing
 * for memory of 0 bytes, which no peer maps. Local. Returns MSCCLPP_ERR_NOT_SUPPORTED if the memory cannot be exported,
 * and MSCCLPP_ERR_INVALID if it ends after its allocation. After an error, memory that was allocated here is left for
 * release_own.
 */
static mscclpp_status_t describe_memory(const mscclpp_user_t *user, mscclpp_user_share_t *share,
                                        const char *memory_name, card_t *card)
{
    void *address;
    mscclpp_status_t status;

    card->bytes = share->bytes;
    if (share->bytes == 0) {
        return MSCCLPP_OK;
    }
    if (share->own_memory == NULL) {
        status = user->gpu->device_alloc(user->device, share->bytes, &address);
        if (status != MSCCLPP_OK) {
            return status;
        }
        share->own_memory = address;
        share->is_allocated = true;
    }
    status = user->gpu->export_memory(share->own_memory, &card->handle);
    if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
        mscclpp_error("%s: rank %d: %s at %p cannot be shared with other processes; memory that "
                      "MPIX_Mscclpp_memory_alloc or cudaMalloc allocates can",
                      user->oob.label, user->oob.rank, memory_name, (void *)share->own_memory);
    } else if (status == MSCCLPP_OK && card->handle.length - card->handle.offset < share->bytes) {
        mscclpp_error("%s: rank %d: %s: %llu bytes at %p, but the allocation has only %llu from there on",
                      user->oob.label, user->oob.rank, memory_name, (unsigned long long)share->bytes,
                      (void *)share->own_memory, (unsigned long long)(card->handle.length - card->handle.offset));
        status = MSCCLPP_ERR_INVALID;
    }
    return status == MSCCLPP_OK ? user->gpu->settle(share->own_memory) : status;
}

/*
 * Maps the memory of all peers. Also stores the sizes of all ranks' memory, and fills in the table for kernels: the
 * addresses, then the sizes. `cards` has the cards of all ranks, none of which has failed. Local. After an error the
 * caller frees the rest with `unmap`.
 */
static mscclpp_status_t map_all(const mscclpp_user_t *user, mscclpp_user_share_t *share, const card_t *cards)
{
    const size_t ranks = (size_t)user->oob.size;
    mscclpp_status_t status = MSCCLPP_OK;
    int rank;

    for (rank = 0; rank < user->oob.size && status == MSCCLPP_OK; ++rank) {
        share->sizes[rank] = cards[rank].bytes;
        if (rank == user->oob.rank) {
            share->bases[rank] = share->own_memory;
        } else if (cards[rank].bytes > 0 && mscclpp_user_is_on_node(user, rank)) {
            status = mscclpp_mapping_get(user->gpu, user->device, &cards[rank].handle, user->mapping_limit,
                                         &share->mappings[rank]);
            if (status == MSCCLPP_OK) {
                share->bases[rank] = (char *)mscclpp_mapping_base(share->mappings[rank]) + cards[rank].handle.offset;
            }
        }
    }
    if (status == MSCCLPP_OK) {
        status = user->gpu->device_alloc(user->device, ranks * (sizeof(char *) + sizeof(uint64_t)), &share->table);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_user_upload(user, share->table, share->bases, ranks * sizeof(char *));
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_user_upload(user, (char *)share->table + ranks * sizeof(char *), share->sizes,
                                     ranks * sizeof(uint64_t));
    }
    return status;
}

/* Closes the mappings of the peers' memory, and frees the table and the lists. The parts need not exist. */
static void unmap(const mscclpp_user_t *user, mscclpp_user_share_t *share)
{
    int rank;

    for (rank = 0; rank < user->oob.size && share->mappings != NULL; ++rank) {
        mscclpp_mapping_put(share->mappings[rank]);
    }
    if (share->table != NULL) {
        user->gpu->device_free(user->device, share->table);
    }
    free(share->bases);
    free(share->sizes);
    free(share->mappings);
    share->table = NULL;
    share->bases = NULL;
    share->sizes = NULL;
    share->mappings = NULL;
}

/*
 * Frees this rank's part of the shared memory. The application's memory is kept. No peer may have the memory mapped any
 * more.
 */
static void release_own(const mscclpp_user_t *user, mscclpp_user_share_t *share)
{
    if (share->is_allocated) {
        user->gpu->device_free(user->device, share->own_memory);
    }
    share->own_memory = NULL;
}

/*
 * Shares memory in three steps:
 * 1. Each rank exports its memory.
 * 2. All ranks exchange their cards.
 * 3. Each rank maps the memory of its node.
 *
 * Returns the first error of any rank, on all ranks. The rank that failed logs the reason, and the others log which
 * rank failed.
 */
mscclpp_status_t mscclpp_user_share_create(mscclpp_user_t *user, void *own_memory, uint64_t bytes,
                                           mscclpp_status_t own_status, const char *memory_name,
                                           mscclpp_user_share_t *share)
{
    const size_t ranks = (size_t)user->oob.size;
    card_t *cards = malloc(ranks * sizeof(*cards)), card;
    mscclpp_status_t status;
    bool may_be_mapped = false;
    int rank;

    memset(share, 0, sizeof(*share));
    memset(&card, 0, sizeof(card));
    share->own_memory = own_memory;
    share->bytes = bytes;
    share->bases = calloc(ranks, sizeof(*share->bases));
    share->sizes = calloc(ranks, sizeof(*share->sizes));
    share->mappings = calloc(ranks, sizeof(*share->mappings));
    if (own_status == MSCCLPP_OK && (share->bases == NULL || share->sizes == NULL || share->mappings == NULL)) {
        mscclpp_error("%s: no memory for %s", user->oob.label, memory_name);
        own_status = MSCCLPP_ERR_NO_MEMORY;
    }
    if (own_status == MSCCLPP_OK) {
        own_status = describe_memory(user, share, memory_name, &card);
    }
    card.status = own_status;
    /*
     * If a rank has no memory for the cards, the exchange fails on all ranks. Otherwise all ranks find the same first
     * failure in the cards, if there is one.
     */
    status = user->oob.allgather(user->oob.context, &card, cards, sizeof(card));
    for (rank = 0; rank < user->oob.size && status == MSCCLPP_OK; ++rank) {
        status = (mscclpp_status_t)cards[rank].status;
        if (status != MSCCLPP_OK && rank != user->oob.rank) {
            mscclpp_error("%s: %s: rank %d: %s", user->oob.label, memory_name, rank, mscclpp_status_string(status));
        }
    }
    if (status == MSCCLPP_OK) {
        may_be_mapped = true;
        status = mscclpp_user_agree(user, map_all(user, share, cards), memory_name);
    }
    free(cards);
    if (status != MSCCLPP_OK) {
        unmap(user, share);
        /*
         * After this vote all ranks have closed their mappings, so this rank's memory can be freed. If the vote fails,
         * the memory is never freed. If no rank has mapped memory yet, no vote is needed.
         */
        if (!may_be_mapped || mscclpp_user_agree(user, MSCCLPP_OK, memory_name) == MSCCLPP_OK) {
            release_own(user, share);
        } else {
            share->own_memory = NULL;
        }
    }
    return status;
}

mscclpp_status_t mscclpp_user_share_free(mscclpp_user_t *user, mscclpp_user_share_t *share)
{
    mscclpp_status_t status;

    unmap(user, share);
    status = mscclpp_user_agree(user, MSCCLPP_OK, "memory is freed");
    if (status == MSCCLPP_OK) {
        release_own(user, share);
    }
    return status;
}

void mscclpp_user_share_drop(mscclpp_user_t *user, mscclpp_user_share_t *share)
{
    unmap(user, share);
    share->own_memory = NULL;
}
