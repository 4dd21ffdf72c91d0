/* Packs data with holes before a call, and unpacks it after the call, by a kernel in the call's stream. */
#include <string.h>

#include "mca/common/base/numbers.h"
#include "mca/common/task/coll_task.h"

/* The maximum number of blocks of a pack kernel: enough to keep memory busy. */
#define PACK_BLOCKS 128u

/* The maximum number of bytes that a thread moves at once. */
#define WIDTH_MAX 16u

/*
 * Returns the number of bytes that a thread can move at once: the largest power of two, up to WIDTH_MAX, that divides
 * all addresses and lengths of a piece. `packed_offset` is the piece's offset in each packed element, in bytes.
 */
static uint32_t find_width(const mscclpp_coll_pack_t *pack, const mscclpp_coll_piece_t *piece, const char *packed,
                           uint64_t packed_offset)
{
    uint64_t alignment_bits = (uint64_t)(uintptr_t)pack->with_holes | (uint64_t)(uintptr_t)packed | packed_offset |
                              (uint64_t)piece->offset | piece->length;
    uint32_t width = WIDTH_MAX;

    alignment_bits |= piece->count > 1 ? (uint64_t)piece->stride : 0;
    alignment_bits |= pack->elements > 1 ? (uint64_t)pack->extent | pack->size : 0;
    while (alignment_bits % width != 0) {
        width /= 2;
    }
    return width;
}

/* Launches the kernel that packs or unpacks, with a grid for `bytes` bytes. On the twin, the kernel has one thread. */
static mscclpp_status_t launch_pack(const mscclpp_coll_task_t *task, const mscclpp_dev_pack_args_t *args,
                                    uint64_t bytes)
{
    const mscclpp_team_t *team = task->team;
    const uint64_t wanted = bytes / ((uint64_t)MSCCLPP_DEV_MAX_THREADS * MSCCLPP_DEV_UNIT) + 1;
    mscclpp_dev_launch_t launch;

    launch.kernel = MSCCLPP_KERNEL_COLL_PACK;
    launch.nblocks = team->group.on_twin ? 1 : (uint32_t)mscclpp_min(wanted, PACK_BLOCKS);
    launch.nthreads = team->group.on_twin ? 1 : MSCCLPP_DEV_MAX_THREADS;
    launch.args = args;
    return team->runner.gpu->launch(task->stream, &launch);
}

/*
 * Queues the copy of one run in the team's stream. Waits for work on the run's allocation that synchronous calls of the
 * application may have left in progress.
 */
static mscclpp_status_t copy_run(mscclpp_team_t *team, char *user_run, char *packed_run, uint64_t bytes, bool unpack)
{
    mscclpp_status_t status = team->runner.gpu->settle(user_run);

    if (status != MSCCLPP_OK) {
        return status;
    }
    return unpack ? team->runner.gpu->copy(team->runner.stream, user_run, packed_run, bytes)
                  : team->runner.gpu->copy(team->runner.stream, packed_run, user_run, bytes);
}

/*
 * Copies one element run by run, for a buffer that kernels cannot access. `user_element` and `packed_run` are the
 * element's addresses in the two buffers. Stops at the first error.
 */
static mscclpp_status_t copy_element(mscclpp_team_t *team, const mscclpp_coll_pack_t *pack, char *user_element,
                                     char *packed_run, bool unpack)
{
    mscclpp_status_t status = MSCCLPP_OK;
    uint64_t run;
    size_t i;

    for (i = 0; i < pack->piece_count; ++i) {
        const mscclpp_coll_piece_t *piece = &pack->pieces[i];

        for (run = 0; run < piece->count && status == MSCCLPP_OK; ++run, packed_run += piece->length) {
            status = copy_run(team, user_element + piece->offset + (int64_t)run * piece->stride, packed_run,
                              piece->length, unpack);
        }
    }
    return status;
}

/* Copies all elements, as copy_element does. */
static mscclpp_status_t copy_elements(mscclpp_team_t *team, const mscclpp_coll_pack_t *pack, char *packed, bool unpack)
{
    mscclpp_status_t status = MSCCLPP_OK;
    uint64_t element;

    for (element = 0; element < pack->elements && status == MSCCLPP_OK; ++element) {
        status = copy_element(team, pack, pack->with_holes + (int64_t)element * pack->extent,
                              packed + element * pack->size, unpack);
    }
    return status;
}

/*
 * Packs or unpacks the elements of one pack. A launch takes up to MSCCLPP_DEV_PACK_PIECES pieces of each element, so
 * elements with more pieces take several launches.
 */
static mscclpp_status_t pack_one(const mscclpp_coll_task_t *task, const mscclpp_coll_pack_t *pack, char *packed,
                                 bool unpack)
{
    mscclpp_dev_pack_args_t args;
    mscclpp_status_t status = MSCCLPP_OK;
    uint64_t packed_offset = 0;
    size_t i;

    memset(&args, 0, sizeof(args));
    args.common.nranks = 1; /* the kernel does not wait for peers, so the twin needs processors for one rank only */
    args.spread = pack->with_holes;
    args.packed = packed;
    args.elements = pack->elements;
    args.extent = pack->extent;
    args.size = pack->size;
    args.unpack = unpack;
    for (i = 0; i < pack->piece_count && status == MSCCLPP_OK; ++i) {
        const mscclpp_coll_piece_t *piece = &pack->pieces[i];
        mscclpp_dev_piece_t *entry = &args.piece[args.pieces++];

        entry->offset = piece->offset;
        entry->length = piece->length;
        entry->count = piece->count;
        entry->stride = piece->stride;
        entry->packed = packed_offset;
        entry->width = find_width(pack, piece, packed, packed_offset);
        packed_offset += piece->length * piece->count;
        if (args.pieces == MSCCLPP_DEV_PACK_PIECES || i + 1 == pack->piece_count) {
            /* The grid fits the whole buffer, even if this launch moves only a part of each element. */
            status = launch_pack(task, &args, pack->elements * pack->size);
            args.pieces = 0;
        }
    }
    return status;
}

/* Waits only for copies of pageable memory. Stops at the first error. */
mscclpp_status_t mscclpp_coll_pack(mscclpp_coll_task_t *task, const mscclpp_coll_pack_t *packs, size_t count,
                                   char *packed, bool unpack, bool is_unreachable)
{
    mscclpp_status_t status = MSCCLPP_OK;
    size_t i;

    for (i = 0; i < count && status == MSCCLPP_OK; ++i) {
        if (packs[i].elements > 0 && is_unreachable) {
            status = copy_elements(task->team, &packs[i], packed + packs[i].offset, unpack);
        } else if (packs[i].elements > 0) {
            status = pack_one(task, &packs[i], packed + packs[i].offset, unpack);
        }
    }
    return status;
}
