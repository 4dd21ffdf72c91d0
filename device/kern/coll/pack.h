/* Packs or unpacks data with holes, as MPI's derived types describe them. */
#ifndef MSCCLPP_DEVICE_KERN_COLL_PACK_H
#define MSCCLPP_DEVICE_KERN_COLL_PACK_H

#include "device/types/coll.h"
#include "device/lib/unit.h"

/* The maximum number of threads that share a run. A power of 2. */
#define MSCCLPP_DEV_PACK_LANES 256u

/* Copies one item of `width` bytes, between addresses that are multiples of `width`. */
MSCCLPP_DEV void mscclpp_dev_coll_copy_item(char *to, const char *from, uint32_t width)
{
    switch (width) {
    case 16:
        mscclpp_dev_st_vec(to, mscclpp_dev_ld_vec(from));
        break;
    case 8:
        ((mscclpp_dev_word_t *)to)[0] = ((const mscclpp_dev_word_t *)from)[0];
        ((mscclpp_dev_word_t *)to)[1] = ((const mscclpp_dev_word_t *)from)[1];
        break;
    case 4:
        *(mscclpp_dev_word_t *)to = *(const mscclpp_dev_word_t *)from;
        break;
    case 2:
        *(mscclpp_dev_half_t *)to = *(const mscclpp_dev_half_t *)from;
        break;
    default:
        *to = *from;
        break;
    }
}

/*
 * Packs or unpacks all runs of one piece in all elements. A thread moves one item of `width` bytes at a time, and
 * adjacent threads move adjacent items. The number of threads that share a run is the number of the run's items,
 * rounded down to a power of 2. It is at most MSCCLPP_DEV_PACK_LANES, and at most the number of threads in the grid.
 * The last threads of the grid do nothing if they are too few for one more run.
 */
MSCCLPP_DEV void mscclpp_dev_coll_pack_piece(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_pack_args_t *args,
                                             const mscclpp_dev_piece_t *piece)
{
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t items = piece->length / piece->width, runs = args->elements * piece->count;
    uint64_t lanes = 1, run, item;

    while (2 * lanes <= items && 2 * lanes <= threads && lanes < MSCCLPP_DEV_PACK_LANES) {
        lanes *= 2;
    }
    if (thread >= threads / lanes * lanes) {
        return;
    }
    for (run = thread / lanes; run < runs; run += threads / lanes) {
        const uint64_t element = run / piece->count, run_in_element = run % piece->count;
        char *with_holes =
            args->spread + (int64_t)element * args->extent + piece->offset + (int64_t)run_in_element * piece->stride;
        char *packed = args->packed + element * args->size + piece->packed + run_in_element * piece->length;

        for (item = thread % lanes; item < items; item += lanes) {
            const uint64_t item_offset = item * piece->width;

            if (args->unpack != 0) {
                mscclpp_dev_coll_copy_item(with_holes + item_offset, packed + item_offset, piece->width);
            } else {
                mscclpp_dev_coll_copy_item(packed + item_offset, with_holes + item_offset, piece->width);
            }
        }
    }
}

/* Runs the kernel: packs or unpacks all pieces. The kernel waits for no other rank, and does not report its end. */
MSCCLPP_DEV void mscclpp_dev_coll_pack(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_pack_args_t *args)
{
    uint32_t i;

    for (i = 0; i < args->pieces; ++i) {
        mscclpp_dev_coll_pack_piece(ctx, args, &args->piece[i]);
    }
}

#endif
