#include "test/host/storm_call.h"

#include <string.h>

#include "device/types/coll.h"
#include "test/host/elements.h"

/* True if a rank has one block for all ranks, so that its size depends on nothing else. */
static bool sends_one(const storm_t *storm)
{
    return !MSCCLPP_DEV_COLL_SENDS_MANY(mscclpp_coll_pattern(storm->coll));
}

/* How many integers the block of `from` for `to` has. All contributions to one result have the same number. */
static int storm_count(const storm_t *storm, int from, int to)
{
    if (storm->coll == MSCCLPP_COLL_REDUCE_SCATTER_BLOCK) {
        from = 0;
    } else if (sends_one(storm)) {
        to = 0;
    }
    return storm->varied ? (int)(random_mix(storm->end.call, (uint64_t)(from * RANKS_MAX + to + 7)) %
                                 (uint64_t)(storm->count + 1))
                         : storm->count;
}

int32_t storm_value(const storm_t *storm, int from, int to, int i)
{
    return (int32_t)(random_mix(random_mix(storm->end.call, (uint64_t)(from * RANKS_MAX + to)), (uint64_t)i) & 0xfffff);
}

/* The sum of element `i` of the blocks of ranks `begin` to `end` - 1 for `to`. */
static int32_t sum_of(const storm_t *storm, int begin, int end, int to, int i)
{
    int32_t sum = 0;

    for (; begin < end; ++begin) {
        sum += storm_value(storm, begin, to, i);
    }
    return sum;
}

bool storm_expect(const storm_t *storm, int b, int i, int32_t *value_p)
{
    const int me = storm->end.rank->rank, n = storm->end.rank->size;
    const bool many = MSCCLPP_DEV_COLL_RECVS_MANY(mscclpp_coll_pattern(storm->coll));

    if (i >= storm_count(storm, many ? b : storm->root, me)) {
        return false; /* behind the end of a smaller block */
    }
    switch (storm->coll) {
    case MSCCLPP_COLL_BCAST:
        *value_p = storm_value(storm, storm->root, 0, i);
        return b == 0 && me != storm->root;
    case MSCCLPP_COLL_ALLGATHER:
        *value_p = storm_value(storm, b, 0, i);
        return true;
    case MSCCLPP_COLL_ALLTOALL:
        *value_p = storm_value(storm, b, me, i);
        return true;
    case MSCCLPP_COLL_GATHER:
        *value_p = storm_value(storm, b, 0, i);
        return me == storm->root;
    case MSCCLPP_COLL_SCATTER:
        *value_p = storm_value(storm, storm->root, me, i);
        return b == 0;
    case MSCCLPP_COLL_REDUCE:
        *value_p = sum_of(storm, 0, n, 0, i);
        return b == 0 && me == storm->root;
    case MSCCLPP_COLL_SCAN:
        *value_p = sum_of(storm, 0, me + 1, 0, i);
        return b == 0;
    case MSCCLPP_COLL_EXSCAN:
        *value_p = sum_of(storm, 0, me, 0, i);
        return b == 0 && me > 0;
    default:
        *value_p = sum_of(storm, 0, n, me, i);
        return b == 0;
    }
}

void storm_list_blocks(storm_t *storm, mscclpp_coll_args_t *args)
{
    const mscclpp_dev_pattern_t pattern = mscclpp_coll_pattern(storm->coll);
    const uint64_t room = (uint64_t)storm->count * sizeof(int32_t);
    const int me = storm->end.rank->rank, n = storm->end.rank->size;

    memset(storm->send, 0, sizeof(storm->send));
    memset(storm->recv, 0, sizeof(storm->recv));
    for (int peer = 0; peer < n; ++peer) {
        if (MSCCLPP_DEV_COLL_SENDS(pattern, (uint32_t)storm->root, (uint32_t)me, (uint32_t)peer)) {
            storm->send[peer].offset = sends_one(storm) ? 0 : (uint64_t)peer * room;
            storm->send[peer].bytes = (uint64_t)storm_count(storm, me, peer) * sizeof(int32_t);
        }
        if (MSCCLPP_DEV_COLL_SENDS(pattern, (uint32_t)storm->root, (uint32_t)peer, (uint32_t)me)) {
            storm->recv[peer].offset = MSCCLPP_DEV_COLL_RECVS_MANY(pattern) ? (uint64_t)peer * room : 0;
            storm->recv[peer].bytes = (uint64_t)storm_count(storm, peer, me) * sizeof(int32_t);
        }
    }
    args->varied = true;
    args->send = storm->send;
    args->recv = storm->recv;
    args->largest_block = room;
    for (int peer = 0; peer < n; ++peer) {
        storm->send[peer].offset += storm->distance;
        storm->recv[peer].offset += MSCCLPP_DEV_COMBINES(pattern) ? 0 : storm->distance;
    }
    args->in = args->in != NULL ? (const char *)args->in - storm->distance : NULL;
    args->out = MSCCLPP_DEV_COMBINES(pattern) ? args->out : (char *)args->out - storm->distance;
}
