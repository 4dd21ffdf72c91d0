/* From buffers, counts and types to the bytes that are moved. */
#include "mca/coll/mscclpp/native/native.h"

#include <limits.h>
#include <stdint.h>

#include "mca/coll/mscclpp/native/pieces.h"

size_t mca_coll_mscclpp_native_bytes(size_t count, const struct ompi_datatype_t *type)
{
    size_t size;

    ompi_datatype_type_size(type, &size);
    return count * size;
}

bool mca_coll_mscclpp_native_begin(mca_coll_mscclpp_native_t *call, mca_coll_mscclpp_module_t *module,
                                   mscclpp_coll_t coll)
{
    memset(&call->args, 0, sizeof(call->args));
    call->args.coll = coll;
    call->args.known = true;
    call->args.dtype = MSCCLPP_DTYPE_UINT8;
    call->args.op = MSCCLPP_OP_SUM;
    call->buffers[0] = call->buffers[1] = NULL;
    call->touches = false;
    call->staged = false;
    call->rc = OMPI_SUCCESS;
    call->ranks = ompi_comm_size(module->comm);
    return call->ranks <= MSCCLPP_DEV_MAX_RANKS;
}

/* Some elements of one type, in bytes. */
typedef struct {
    char *first; /* the first byte of data of the first element, if there is no hole */
    char *address;
    size_t count;
    size_t size; /* of the data of one */
    ptrdiff_t extent;
    ptrdiff_t true_extent;
    bool dense; /* no holes, within elements and between them */
    const struct ompi_datatype_t *type;
} elements_t;

static elements_t look_at(const void *buffer, ptrdiff_t offset, size_t count, const struct ompi_datatype_t *type)
{
    ptrdiff_t lb, true_lb;
    elements_t elements = {.count = count, .type = type};

    ompi_datatype_type_size(type, &elements.size);
    if (0 == elements.size) {
        elements.count = 0;
    }
    ompi_datatype_get_extent(type, &lb, &elements.extent);
    ompi_datatype_get_true_extent(type, &true_lb, &elements.true_extent);
    elements.address = (char *)((uintptr_t)buffer + (uintptr_t)offset);
    elements.first = (char *)((uintptr_t)elements.address + (uintptr_t)true_lb);
    elements.dense = elements.true_extent == (ptrdiff_t)elements.size &&
                     (elements.count <= 1 || elements.extent == (ptrdiff_t)elements.size);
    return elements;
}

/* Describes elements that are to be packed; an error is the call's. */
static void pack(mca_coll_mscclpp_native_t *call, mscclpp_coll_pack_t *to, const elements_t *elements, uint64_t offset)
{
    int rc;

    to->spread = elements->address;
    to->elements = elements->count;
    to->extent = elements->extent;
    to->size = elements->size;
    to->offset = offset;
    rc = mca_coll_mscclpp_pieces_of(elements->type, &to->piece, &to->pieces);
    if (OMPI_SUCCESS != rc) {
        call->rc = rc;
        to->elements = 0;
    }
}

/* Where the data of a buffer lies, holes included. */
typedef struct {
    uintptr_t low;
    uintptr_t high;
} bounds_t;

static void stretch(bounds_t *bounds, const elements_t *elements)
{
    const ptrdiff_t last = elements->extent * (ptrdiff_t)(elements->count - 1);
    uintptr_t low = (uintptr_t)elements->first, high = low + (uintptr_t)elements->true_extent;

    if (last < 0) {
        low -= (uintptr_t)-last;
    } else {
        high += (uintptr_t)last;
    }
    bounds->low = low < bounds->low ? low : bounds->low;
    bounds->high = high > bounds->high ? high : bounds->high;
}

/*
 * MPI lets blocks with displacements in bytes, and elements with holes, lie in several allocations, host memory among
 * them. True if they do, or if nothing is known of the allocation that the first byte is in.
 */
static bool is_scattered(const bounds_t *bounds)
{
    mscclpp_mem_info_t info;

    mca_coll_mscclpp_component.gpu->query((const void *)bounds->low, &info);
    return 0 != info.length &&
           (bounds->low < (uintptr_t)info.base || bounds->high > (uintptr_t)info.base + info.length);
}

/* Elements one behind the other; the address that the call is to use for them. NULL: there are none. */
static char *describe(mca_coll_mscclpp_native_t *call, const void *buffer, size_t count,
                      const struct ompi_datatype_t *type, mscclpp_coll_pack_t *packs, size_t *pack_count,
                      bool *scattered_p)
{
    const elements_t elements = look_at(buffer, 0, count, type);
    bounds_t bounds = {.low = UINTPTR_MAX};

    *pack_count = 0;
    if (0 == elements.count) {
        return NULL;
    }
    call->touches = true;
    if (!elements.dense) {
        stretch(&bounds, &elements);
        *scattered_p = is_scattered(&bounds);
        pack(call, &packs[0], &elements, 0);
        *pack_count = 1;
    }
    return elements.first;
}

void mca_coll_mscclpp_native_send(mca_coll_mscclpp_native_t *call, const void *buffer, size_t count,
                                  struct ompi_datatype_t *type)
{
    call->args.in_packs = call->in_packs;
    call->args.in =
        describe(call, buffer, count, type, call->in_packs, &call->args.in_pack_count, &call->args.in_scattered);
    call->buffers[0] = NULL != call->args.in ? call->args.in : buffer;
}

void mca_coll_mscclpp_native_recv(mca_coll_mscclpp_native_t *call, void *buffer, size_t count,
                                  struct ompi_datatype_t *type)
{
    call->args.out_packs = call->out_packs;
    call->args.out =
        describe(call, buffer, count, type, call->out_packs, &call->args.out_pack_count, &call->args.out_scattered);
    call->buffers[1] = NULL != call->args.out ? call->args.out : buffer;
}

/* Block `peer` of some. */
static elements_t block_at(const mca_coll_mscclpp_blocks_t *blocks, int peer)
{
    const size_t count = peer == blocks->stays ? 0 : (size_t)mca_coll_mscclpp_count_at(blocks->counts, peer);
    const struct ompi_datatype_t *type = NULL == blocks->types ? blocks->type : blocks->types[peer];
    ptrdiff_t lb, extent = 1;

    /* MPI lets type and displacement of an empty block be anything. */
    if (0 == count) {
        return (elements_t){.dense = true};
    }
    if (NULL == blocks->types) {
        ompi_datatype_get_extent(type, &lb, &extent);
    }
    return look_at(blocks->address, mca_coll_mscclpp_displ_at(blocks->displs, peer) * extent, count, type);
}

/*
 * Blocks without holes are used where they lie, as distances from the lowest. Where any has holes, all of them are
 * packed one behind the other.
 */
static char *describe_blocks(mca_coll_mscclpp_native_t *call, int peers, const mca_coll_mscclpp_blocks_t *blocks,
                             mscclpp_dev_block_t *list, mscclpp_coll_pack_t *packs, size_t *pack_count,
                             bool *scattered_p)
{
    bounds_t bounds = {.low = UINTPTR_MAX};
    uintptr_t lowest = UINTPTR_MAX;
    uint64_t packed = 0;
    bool dense = true;

    *pack_count = 0;

    for (int peer = 0; peer < peers; ++peer) {
        const elements_t block = block_at(blocks, peer);

        list[peer].bytes = block.count * block.size;
        list[peer].offset = (uintptr_t)block.first;
        dense = dense && block.dense;
        if (0 != block.count) {
            lowest = (uintptr_t)block.first < lowest ? (uintptr_t)block.first : lowest;
            stretch(&bounds, &block);
        }
        if (list[peer].bytes > call->args.most) {
            call->args.most = list[peer].bytes;
        }
    }
    if (UINTPTR_MAX == lowest) {
        for (int peer = 0; peer < peers; ++peer) {
            list[peer].offset = 0;
        }
        return NULL;
    }
    call->touches = true;
    if (!dense || NULL != blocks->types) {
        *scattered_p = is_scattered(&bounds);
        dense = dense && !*scattered_p;
    }
    for (int peer = 0; peer < peers; ++peer) {
        if (0 == list[peer].bytes) {
            list[peer].offset = 0;
        } else if (dense) {
            list[peer].offset -= lowest;
        } else {
            const elements_t block = block_at(blocks, peer);

            pack(call, &packs[*pack_count], &block, packed);
            ++*pack_count;
            list[peer].offset = packed;
            packed += list[peer].bytes;
        }
    }
    return (char *)lowest;
}

void mca_coll_mscclpp_native_send_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks)
{
    call->args.send = call->send;
    call->args.in_packs = call->in_packs;
    call->args.in = describe_blocks(call, call->ranks, blocks, call->send, call->in_packs, &call->args.in_pack_count,
                                    &call->args.in_scattered);
    call->buffers[0] = NULL != call->args.in ? call->args.in : blocks->address;
}

void mca_coll_mscclpp_native_recv_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks)
{
    call->args.recv = call->recv;
    call->args.out_packs = call->out_packs;
    call->args.out = describe_blocks(call, call->ranks, blocks, call->recv, call->out_packs, &call->args.out_pack_count,
                                     &call->args.out_scattered);
    call->buffers[1] = NULL != call->args.out ? call->args.out : blocks->address;
}

/* The same bytes for one peer, or for all. */
static void fill(const mca_coll_mscclpp_native_t *call, mscclpp_dev_block_t *list, int peer, uint64_t bytes)
{
    for (int rank = 0; rank < call->ranks; ++rank) {
        list[rank].offset = 0;
        list[rank].bytes = peer < 0 || peer == rank ? bytes : 0;
    }
}

void mca_coll_mscclpp_native_send_one(mca_coll_mscclpp_native_t *call, const void *buffer, size_t count,
                                      struct ompi_datatype_t *type, int peer)
{
    const uint64_t bytes = mca_coll_mscclpp_native_bytes(count, type);

    mca_coll_mscclpp_native_send(call, buffer, count, type);
    call->args.send = call->send;
    fill(call, call->send, peer, bytes);
    call->args.most = bytes > call->args.most ? bytes : call->args.most;
}

void mca_coll_mscclpp_native_recv_one(mca_coll_mscclpp_native_t *call, void *buffer, size_t count,
                                      struct ompi_datatype_t *type, int peer)
{
    const uint64_t bytes = mca_coll_mscclpp_native_bytes(count, type);

    mca_coll_mscclpp_native_recv(call, buffer, count, type);
    call->args.recv = call->recv;
    fill(call, call->recv, peer, bytes);
    call->args.most = bytes > call->args.most ? bytes : call->args.most;
}
