/* Packs data with holes before a call, and unpacks it afterwards, by a kernel in the call's stream. */
#include <string.h>

#include "mca/common/task/coll_task.h"

#define PACK_BLOCKS 128u

/* The largest item size that divides all addresses and lengths of a piece. */
static uint32_t width_of(const mscclpp_coll_pack_t *pack, const mscclpp_coll_piece_t *piece, const char *packed,
                         uint64_t at)
{
    uint64_t bits =
        (uint64_t)(uintptr_t)pack->spread | (uint64_t)(uintptr_t)packed | at | (uint64_t)piece->offset | piece->length;
    uint32_t width = 16;

    bits |= piece->count > 1 ? (uint64_t)piece->stride : 0;
    bits |= pack->elements > 1 ? (uint64_t)pack->extent | pack->size : 0;
    while (bits % width != 0) {
        width /= 2;
    }
    return width;
}

/* Launches the pack kernel with a grid for this many bytes. */
static mscclpp_status_t launch_pack(const mscclpp_coll_task_t *task, const mscclpp_dev_pack_args_t *args,
                                    uint64_t bytes)
{
    const mscclpp_team_t *team = task->team;
    const uint64_t wanted = bytes / ((uint64_t)MSCCLPP_DEV_MAX_THREADS * MSCCLPP_DEV_UNIT) + 1;
    mscclpp_dev_launch_t launch;

    launch.kernel = MSCCLPP_KERNEL_COLL_PACK;
    launch.nblocks = team->group.on_twin ? 1 : wanted < PACK_BLOCKS ? (uint32_t)wanted : PACK_BLOCKS;
    launch.nthreads = team->group.on_twin ? 1 : MSCCLPP_DEV_MAX_THREADS;
    launch.args = args;
    return team->runner.gpu->launch(task->stream, &launch);
}

/* Copies run by run, if kernels cannot access the buffer or parts of it. */
static mscclpp_status_t copy_runs(mscclpp_team_t *team, const mscclpp_coll_pack_t *pack, char *packed, bool unpack)
{
    mscclpp_status_t status = MSCCLPP_OK;
    uint64_t element, run;
    size_t i;

    for (element = 0; element < pack->elements; ++element) {
        char *to = packed + element * pack->size;

        for (i = 0; i < pack->pieces; ++i) {
            const mscclpp_coll_piece_t *piece = &pack->piece[i];

            for (run = 0; run < piece->count && status == MSCCLPP_OK; ++run, to += piece->length) {
                char *spread =
                    pack->spread + (int64_t)element * pack->extent + piece->offset + (int64_t)run * piece->stride;

                status = team->runner.gpu->settle(spread);
                if (status != MSCCLPP_OK) {
                    break;
                }
                status = unpack ? team->runner.gpu->copy(team->runner.stream, spread, to, piece->length)
                                : team->runner.gpu->copy(team->runner.stream, to, spread, piece->length);
            }
        }
    }
    return status;
}

/* Packs or unpacks one buffer. A layout of many pieces takes several launches. */
static mscclpp_status_t pack_one(const mscclpp_coll_task_t *task, const mscclpp_coll_pack_t *pack, char *packed,
                                 bool unpack)
{
    mscclpp_dev_pack_args_t args;
    mscclpp_status_t status = MSCCLPP_OK;
    uint64_t at = 0;
    size_t i;

    memset(&args, 0, sizeof(args));
    args.common.nranks = 1;
    args.spread = pack->spread;
    args.packed = packed;
    args.elements = pack->elements;
    args.extent = pack->extent;
    args.size = pack->size;
    args.unpack = unpack;
    for (i = 0; i < pack->pieces && status == MSCCLPP_OK; ++i) {
        const mscclpp_coll_piece_t *piece = &pack->piece[i];
        mscclpp_dev_piece_t *next = &args.piece[args.pieces++];

        next->offset = piece->offset;
        next->length = piece->length;
        next->count = piece->count;
        next->stride = piece->stride;
        next->packed = at;
        next->width = width_of(pack, piece, packed, at);
        at += piece->length * piece->count;
        if (args.pieces == MSCCLPP_DEV_PACK_PIECES || i + 1 == pack->pieces) {
            status = launch_pack(task, &args, pack->elements * pack->size);
            args.pieces = 0;
        }
    }
    return status;
}

mscclpp_status_t mscclpp_coll_pack(mscclpp_coll_task_t *task, const mscclpp_coll_pack_t *packs, size_t count,
                                   char *packed, bool unpack, bool far)
{
    mscclpp_status_t status = MSCCLPP_OK;
    size_t i;

    for (i = 0; i < count && status == MSCCLPP_OK; ++i) {
        if (packs[i].elements > 0 && far) {
            status = copy_runs(task->team, &packs[i], packed + packs[i].offset, unpack);
        } else if (packs[i].elements > 0) {
            status = pack_one(task, &packs[i], packed + packs[i].offset, unpack);
        }
    }
    return status;
}
