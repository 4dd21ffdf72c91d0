#include "mca/common/oob/pairs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A rank's numbers: of its messages, and the bytes of the longest. */
typedef struct {
    uint64_t count;
    uint64_t longest;
} extent_t;

/* One message, among those of its sender. */
typedef struct {
    int64_t peer; /* the receiver; -1: there is none */
    unsigned char bytes[];
} parcel_t;

static parcel_t *parcel_of(char *all, size_t size, size_t number)
{
    return (parcel_t *)(void *)(all + number * size);
}

/* The most of all ranks. */
static mscclpp_status_t agree_on_extent(const mscclpp_oob_t *oob, extent_t *extent)
{
    extent_t *all = calloc((size_t)oob->size, sizeof(*all));
    const mscclpp_status_t status = oob->allgather(oob->context, extent, all, sizeof(*extent));
    int rank;

    for (rank = 0; rank < oob->size && status == MSCCLPP_OK && all != NULL; ++rank) {
        extent->count = all[rank].count > extent->count ? all[rank].count : extent->count;
        extent->longest = all[rank].longest > extent->longest ? all[rank].longest : extent->longest;
    }
    free(all);
    return status;
}

/* By an all-gather of all messages, where the runtime cannot send to some ranks alone. */
static mscclpp_status_t exchange_among_all(const mscclpp_oob_t *oob, const int *peers, int count, const void *sent,
                                           const size_t *lengths, void *received, size_t pitch)
{
    extent_t extent = {.count = (uint64_t)count};
    mscclpp_status_t status;
    size_t size, each;
    char *all;
    int i;

    for (i = 0; i < count; ++i) {
        extent.longest = lengths[i] > extent.longest ? lengths[i] : extent.longest;
    }
    status = agree_on_extent(oob, &extent);
    if (status != MSCCLPP_OK || extent.count == 0) {
        return status;
    }
    size = (sizeof(parcel_t) + extent.longest + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
    each = extent.count * size;
    all = calloc((size_t)oob->size + 1, each);
    for (i = 0; all != NULL && i < (int)extent.count; ++i) {
        parcel_t *parcel = parcel_of(all + (size_t)oob->size * each, size, (size_t)i);

        parcel->peer = i < count ? peers[i] : -1;
        if (i < count) {
            memcpy(parcel->bytes, (const char *)sent + (size_t)i * pitch, lengths[i]);
        }
    }
    status = oob->allgather(oob->context, all != NULL ? all + (size_t)oob->size * each : NULL, all, each);
    for (i = 0; i < count && status == MSCCLPP_OK; ++i) {
        char *theirs = all + (size_t)peers[i] * each;
        size_t j = 0;

        while (j < extent.count && parcel_of(theirs, size, j)->peer != oob->rank) {
            ++j;
        }
        if (j < extent.count) {
            memcpy((char *)received + (size_t)i * pitch, parcel_of(theirs, size, j)->bytes,
                   extent.longest < pitch ? extent.longest : pitch);
        }
    }
    free(all);
    return status;
}

mscclpp_status_t mscclpp_oob_exchange(const mscclpp_oob_t *oob, const int *peers, int count, const void *sent,
                                      const size_t *lengths, void *received, size_t pitch)
{
    return oob->exchange != NULL ? oob->exchange(oob->context, peers, count, sent, lengths, received, pitch)
                                 : exchange_among_all(oob, peers, count, sent, lengths, received, pitch);
}
