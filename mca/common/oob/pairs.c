#include "mca/common/oob/pairs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* How much data a rank sends. */
typedef struct {
    uint64_t count;   /* number of messages */
    uint64_t longest; /* bytes of the longest message */
} extent_t;

/* A parcel: one message with its receiver. A rank sends its messages as an array of parcels of equal size. */
typedef struct {
    int64_t peer; /* the receiving rank; -1: the parcel is unused */
    unsigned char bytes[];
} parcel_t;

/* Returns the parcel at an index in a list of parcels of `parcel_size` bytes. */
static parcel_t *parcel_at(char *parcels, size_t parcel_size, size_t index)
{
    return (parcel_t *)(void *)(parcels + index * parcel_size);
}

/*
 * Sets both numbers of `extent` to the largest of any rank. Collective. If a rank has no memory for the result, the
 * all-gather fails on all ranks.
 */
static mscclpp_status_t agree_on_extent(const mscclpp_oob_t *oob, extent_t *extent)
{
    extent_t *extents = calloc((size_t)oob->size, sizeof(*extents));
    const mscclpp_status_t status = oob->allgather(oob->context, extent, extents, sizeof(*extent));
    int rank;

    for (rank = 0; rank < oob->size && status == MSCCLPP_OK && extents != NULL; ++rank) {
        extent->count = extents[rank].count > extent->count ? extents[rank].count : extent->count;
        extent->longest = extents[rank].longest > extent->longest ? extents[rank].longest : extent->longest;
    }
    free(extents);
    return status;
}

/*
 * Exchanges the messages by an all-gather of all of them, for a runtime that cannot send to selected ranks.
 * 1. Every rank contributes the same number of parcels of the same size, as the rank with the most or longest messages
 *    needs. A shorter message is followed by zeros.
 * 2. Each rank looks for the parcels that are addressed to it. If a peer has sent none, that part of `received` is
 *    unchanged.
 *
 * Returns the error of an all-gather, which is equal on all ranks, also if a rank has no memory for the parcels.
 */
static mscclpp_status_t exchange_among_all(const mscclpp_oob_t *oob, const int *peers, int count, const void *sent,
                                           const size_t *lengths, void *received, size_t pitch)
{
    extent_t extent = {.count = (uint64_t)count};
    mscclpp_status_t status;
    size_t parcel_size, rank_bytes;
    char *all_parcels; /* the parcels of all ranks, followed by the parcels that this rank sends */
    int i;

    for (i = 0; i < count; ++i) {
        extent.longest = lengths[i] > extent.longest ? lengths[i] : extent.longest;
    }
    status = agree_on_extent(oob, &extent);
    if (status != MSCCLPP_OK || extent.count == 0) {
        return status;
    }
    parcel_size = (sizeof(parcel_t) + extent.longest + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
    rank_bytes = extent.count * parcel_size;
    all_parcels = calloc((size_t)oob->size + 1, rank_bytes);
    /* Without memory for the parcels, the all-gather fails on all ranks. */
    for (i = 0; all_parcels != NULL && i < (int)extent.count; ++i) {
        parcel_t *parcel = parcel_at(all_parcels + (size_t)oob->size * rank_bytes, parcel_size, (size_t)i);

        parcel->peer = i < count ? peers[i] : -1;
        if (i < count) {
            memcpy(parcel->bytes, (const char *)sent + (size_t)i * pitch, lengths[i]);
        }
    }
    status = oob->allgather(oob->context, all_parcels != NULL ? all_parcels + (size_t)oob->size * rank_bytes : NULL,
                            all_parcels, rank_bytes);
    for (i = 0; i < count && status == MSCCLPP_OK; ++i) {
        char *peers_parcels = all_parcels + (size_t)peers[i] * rank_bytes;
        size_t j = 0;

        while (j < extent.count && parcel_at(peers_parcels, parcel_size, j)->peer != oob->rank) {
            ++j;
        }
        if (j < extent.count) {
            memcpy((char *)received + (size_t)i * pitch, parcel_at(peers_parcels, parcel_size, j)->bytes,
                   extent.longest < pitch ? extent.longest : pitch);
        }
    }
    free(all_parcels);
    return status;
}

mscclpp_status_t mscclpp_oob_exchange(const mscclpp_oob_t *oob, const int *peers, int count, const void *sent,
                                      const size_t *lengths, void *received, size_t pitch)
{
    return oob->exchange != NULL
               ? oob->exchange(oob->context, peers, count, sent, lengths, received, pitch)
               : exchange_among_all(oob, peers, lengths != NULL ? count : 0, sent, lengths, received, pitch);
}
