/* Describes the buffers, counts and types of a call as the bytes that are moved. */
#include "mca/coll/mscclpp/native/native.h"

#include <stdint.h>
#include <stdlib.h>

#include "mca/coll/mscclpp/native/pieces.h"
#include "mca/common/base/log.h"

size_t mca_coll_mscclpp_packed_bytes(size_t count, const struct ompi_datatype_t *type)
{
    size_t size;

    ompi_datatype_type_size(type, &size);
    return count * size;
}

/*
 * Allocates the lists of a call with more ranks than `built_in` has room for. mca_coll_mscclpp_native_end frees them.
 * If there is no memory, it logs that and returns false.
 */
static bool allocate_lists(mca_coll_mscclpp_native_t *call)
{
    const size_t ranks = (size_t)call->ranks, size = ranks * 2 * (sizeof(*call->send) + sizeof(*call->send_runs));

    call->allocated = malloc(size);
    if (call->allocated == NULL) {
        mscclpp_error("%s: no memory for %zu bytes of lists of %zu ranks", mscclpp_coll_name(call->args.coll), size,
                      ranks);
        return false;
    }
    call->send = call->allocated;
    call->recv = call->send + ranks;
    call->send_runs = (mscclpp_dev_runs_t *)(void *)(call->recv + ranks);
    call->recv_runs = call->send_runs + ranks;
    return true;
}

int mca_coll_mscclpp_native_begin(mca_coll_mscclpp_native_t *call, mca_coll_mscclpp_module_t *module,
                                  mscclpp_coll_t coll)
{
    memset(&call->args, 0, sizeof(call->args));
    /* The lists are not cleared here: the functions below fill in each list that they pass to `args`. */
    call->args.coll = coll;
    call->args.is_size_known = true;
    call->args.dtype = MSCCLPP_DTYPE_UINT8;
    call->args.op = MSCCLPP_OP_SUM;
    call->buffers[0] = call->buffers[1] = NULL;
    call->passes_data = false;
    call->unserved = MCA_COLL_MSCCLPP_REASON_NONE;
    call->rc = OMPI_SUCCESS;
    call->bounds[0] = call->bounds[1] = (mca_coll_mscclpp_bounds_t){0, 0};
    call->module = module;
    call->more_packs[0] = call->more_packs[1] = NULL;
    call->ranks = ompi_comm_size(module->comm);
    call->allocated = NULL;
    if (call->ranks > MSCCLPP_DEV_MAX_RANKS) {
        return allocate_lists(call) ? OMPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    call->send = call->built_in.send;
    call->recv = call->built_in.recv;
    call->send_runs = call->built_in.send_runs;
    call->recv_runs = call->built_in.recv_runs;
    return OMPI_SUCCESS;
}

void mca_coll_mscclpp_native_end(mca_coll_mscclpp_native_t *call)
{
    free(call->allocated);
    free(call->more_packs[0]);
    free(call->more_packs[1]);
}

/* Adjacent elements of one type. Sizes and extents are in bytes. */
typedef struct {
    char *first_byte; /* the lowest byte of the first element's data */
    char *address;    /* the first element, from which the offsets of its type count */
    size_t count;
    size_t size; /* bytes of data in one element */
    ptrdiff_t extent;
    ptrdiff_t true_extent;
    bool is_dense; /* the data are one range of bytes, in the order in which MPI counts them */
    const struct ompi_datatype_t *type;
} elements_t;

/*
 * Returns true if the data of an element without holes are in the order of their addresses. A type may name them in
 * another order, as one that transposes a matrix does. If the list of pieces cannot be made, returns false; whoever
 * packs the elements then reports the error.
 */
static bool is_in_order(const struct ompi_datatype_t *type)
{
    const mscclpp_coll_piece_t *piece;
    size_t pieces;

    return ompi_datatype_is_predefined(type) ||
           (OMPI_SUCCESS == mca_coll_mscclpp_pieces_get(type, &piece, &pieces) && 1 == pieces && 1 == piece->count);
}

/*
 * Describes `count` elements of a datatype, the first of which is `offset` bytes after `buffer`. If the type has no
 * data, the count becomes 0. The addresses are computed as integers, since `buffer` may be MPI_BOTTOM.
 */
static elements_t elements_at(const void *buffer, ptrdiff_t offset, size_t count, const struct ompi_datatype_t *type)
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
    elements.first_byte = (char *)((uintptr_t)elements.address + (uintptr_t)true_lb);
    elements.is_dense = elements.true_extent == (ptrdiff_t)elements.size &&
                        (elements.count <= 1 || elements.extent == (ptrdiff_t)elements.size) &&
                        (0 == elements.count || is_in_order(type));
    return elements;
}

/*
 * Fills in an entry of the list of elements to pack. The packed data of the elements begins `offset` bytes into the
 * packed buffer. A failure becomes the call's error, and the entry then has no elements.
 */
static void add_pack(mca_coll_mscclpp_native_t *call, mscclpp_coll_pack_t *pack, const elements_t *elements,
                     uint64_t offset)
{
    int rc;

    pack->with_holes = elements->address;
    pack->elements = elements->count;
    pack->extent = elements->extent;
    pack->size = elements->size;
    pack->offset = offset;
    rc = mca_coll_mscclpp_pieces_get(elements->type, &pack->pieces, &pack->piece_count);
    if (OMPI_SUCCESS != rc) {
        call->rc = rc;
        pack->elements = 0;
    }
}

typedef mca_coll_mscclpp_bounds_t bounds_t;

/*
 * Widens the bounds so that they include the elements. There must be at least one element. The extent may be negative;
 * then the last element has the lowest address.
 */
static void include_elements(bounds_t *bounds, const elements_t *elements)
{
    const ptrdiff_t to_last = elements->extent * (ptrdiff_t)(elements->count - 1);
    uintptr_t low = (uintptr_t)elements->first_byte, high = low + (uintptr_t)elements->true_extent;

    if (to_last < 0) {
        low -= (uintptr_t)-to_last;
    } else {
        high += (uintptr_t)to_last;
    }
    bounds->low = low < bounds->low ? low : bounds->low;
    bounds->high = high > bounds->high ? high : bounds->high;
}

/*
 * Returns true if the data within the bounds may lie in several allocations, some of them perhaps in host memory. MPI
 * allows this for blocks with displacements in bytes, and for elements with holes. Returns false if the bounds are
 * within one allocation, or if the GPU library does not know the allocation that contains the lowest byte.
 */
static bool is_scattered(const bounds_t *bounds)
{
    mscclpp_mem_info_t info;

    mca_coll_mscclpp_state.gpu->query((const void *)bounds->low, &info);
    return 0 != info.length &&
           (bounds->low < (uintptr_t)info.base || bounds->high > (uintptr_t)info.base + info.length);
}

/* The two buffers, as indices of call->bounds. */
enum { SEND, RECV };

/*
 * Describes a buffer of consecutive elements. If they have holes, they become the only entry of `packs`, and
 * *scattered_p tells whether they may lie in several allocations. Otherwise *pack_count is 0, and *scattered_p is
 * unchanged. Returns the address that the call passes to kernels, or NULL if the elements have no data.
 */
static char *describe_elements(mca_coll_mscclpp_native_t *call, int side, const void *buffer, size_t count,
                               const struct ompi_datatype_t *type, mscclpp_coll_pack_t *packs, size_t *pack_count,
                               bool *scattered_p)
{
    const elements_t elements = elements_at(buffer, 0, count, type);
    bounds_t bounds = {.low = UINTPTR_MAX};

    *pack_count = 0;
    if (0 == elements.count) {
        return NULL;
    }
    call->passes_data = true;
    if (!elements.is_dense) {
        include_elements(&bounds, &elements);
        call->bounds[side] = bounds;
        *scattered_p = is_scattered(&bounds);
        add_pack(call, &packs[0], &elements, 0);
        *pack_count = 1;
    }
    return elements.first_byte;
}

void mca_coll_mscclpp_native_send(mca_coll_mscclpp_native_t *call, const void *buffer, size_t count,
                                  struct ompi_datatype_t *type)
{
    call->args.in_packs = call->in_packs;
    call->args.in = describe_elements(call, SEND, buffer, count, type, call->in_packs, &call->args.in_pack_count,
                                      &call->args.in_scattered);
    call->buffers[0] = call->args.in != NULL ? call->args.in : buffer;
}

void mca_coll_mscclpp_native_recv(mca_coll_mscclpp_native_t *call, void *buffer, size_t count,
                                  struct ompi_datatype_t *type)
{
    call->args.out_packs = call->out_packs;
    call->args.out = describe_elements(call, RECV, buffer, count, type, call->out_packs, &call->args.out_pack_count,
                                       &call->args.out_scattered);
    call->buffers[1] = call->args.out != NULL ? call->args.out : buffer;
}

/* Returns the number of elements of block `index`, which is 0 for the block that does not move. */
static size_t count_of_block(const mca_coll_mscclpp_blocks_t *blocks, int index)
{
    if (index == blocks->unmoved_block) {
        return 0;
    }
    return blocks->is_regular ? blocks->count : (size_t)mca_coll_mscclpp_count_at(blocks->counts, index);
}

/*
 * Returns the bytes from the buffer's address to block `index`. `extent` is the extent of the blocks' common type, or 1
 * if each block has its own type, since displacements are then in bytes.
 */
static ptrdiff_t offset_of_block(const mca_coll_mscclpp_blocks_t *blocks, int index, ptrdiff_t extent)
{
    if (blocks->offsets != NULL) {
        return blocks->offsets[index];
    }
    if (blocks->is_regular) {
        return index * blocks->distance * extent;
    }
    return mca_coll_mscclpp_displ_at(blocks->displs, index) * extent;
}

/* Returns the elements of block `index`: none if the block has no data or does not move. */
static elements_t elements_of_block(const mca_coll_mscclpp_blocks_t *blocks, int index)
{
    const size_t count = count_of_block(blocks, index);
    const struct ompi_datatype_t *type = blocks->types == NULL ? blocks->type : blocks->types[index];
    ptrdiff_t lb, extent = 1;

    /* An empty block may have any type and any displacement, so neither is read. */
    if (0 == count) {
        return (elements_t){.is_dense = true};
    }
    if (blocks->types == NULL) {
        ompi_datatype_get_extent(type, &lb, &extent);
    }
    return elements_at(blocks->address, offset_of_block(blocks, index, extent), count, type);
}

/* Returns the number of blocks of a buffer: one for each edge, or one for each rank. */
static int count_blocks(const mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks)
{
    return blocks->edges == NULL ? call->ranks : blocks->edges->count;
}

/* Sets *block to block number `position` in the order of ranks, and returns the rank that it is for, or from. */
static int get_block(const mca_coll_mscclpp_blocks_t *blocks, int position, elements_t *block)
{
    *block = elements_of_block(blocks, blocks->edges == NULL ? position : blocks->edges->edge[position].block);
    return blocks->edges == NULL ? position : blocks->edges->edge[position].peer;
}

/*
 * Returns a list of packs with room for `blocks` blocks: `built_in` if it is large enough, else a new list. The new
 * list is stored in *more_p and freed with the call. Without memory, sets the call's error and returns NULL.
 */
static mscclpp_coll_pack_t *ensure_packs(mca_coll_mscclpp_native_t *call, mscclpp_coll_pack_t *built_in,
                                         mscclpp_coll_pack_t **more_p, int blocks)
{
    if (blocks <= MSCCLPP_DEV_MAX_RANKS) {
        return built_in;
    }
    *more_p = malloc((size_t)blocks * sizeof((*more_p)[0]));
    if (*more_p == NULL) {
        mscclpp_error("out of memory for %d blocks with holes", blocks);
        call->rc = MPI_ERR_NO_MEM;
    }
    return *more_p;
}

/* The description of one buffer's blocks, and the memory that it is stored in. */
typedef struct {
    mscclpp_dev_block_t *list; /* by rank: place and size of its data */
    mscclpp_dev_runs_t *runs;  /* by rank: the runs that its block consists of; used if `is_strided` */
    bool is_strided; /* each rank has at most one block, and each block consists of runs of one length and distance */
    mscclpp_coll_pack_t *built_in_packs;
    mscclpp_coll_pack_t **more_packs; /* for a longer list, which is freed with the call */
    mscclpp_coll_pack_t *packs;       /* built_in_packs, or *more_packs if there are too many blocks for these */
    size_t pack_count;                /* number of entries of `packs` in use */
    bool is_scattered;                /* the blocks may lie in several allocations */
    bounds_t *bounds;                 /* set if the blocks may lie in several allocations */
} described_t;

/*
 * Describes a block as runs of one length and one distance. Their offsets count from address `lowest`. Returns false if
 * the block does not consist of such runs, or if a failure has become the call's error. The block must not be empty.
 */
static bool find_runs(mca_coll_mscclpp_native_t *call, const elements_t *block, uintptr_t lowest,
                      mscclpp_dev_runs_t *runs)
{
    const mscclpp_coll_piece_t *piece;
    size_t pieces;
    int rc;

    *runs = (mscclpp_dev_runs_t){
        .offset = (int64_t)((uintptr_t)block->first_byte - lowest), .length = block->count * block->size, .count = 1};
    if (block->is_dense) {
        return true;
    }
    rc = mca_coll_mscclpp_pieces_get(block->type, &piece, &pieces);
    if (OMPI_SUCCESS != rc) {
        call->rc = rc; /* only set on failure, so that an earlier error of the call is kept */
    }
    if (OMPI_SUCCESS != rc || 1 != block->count || 1 != pieces) {
        return false;
    }
    *runs = (mscclpp_dev_runs_t){.offset = (int64_t)((uintptr_t)block->address + (uintptr_t)piece->offset - lowest),
                                 .length = piece->length,
                                 .count = piece->count,
                                 .stride = piece->stride};
    return true;
}

/* The addresses of the blocks of one buffer, and whether kernels can use the blocks in their place. */
typedef struct {
    bounds_t bounds;  /* bounds of all blocks, holes included */
    uintptr_t lowest; /* the lowest first byte of a block; UINTPTR_MAX: all blocks are empty */
    bool is_dense;    /* no block has holes and no rank several blocks: packed only if the blocks are scattered */
} placement_t;

/*
 * Adds up the bytes for each peer in described->list, and raises call->args.largest_block to the largest sum. Returns
 * the placement of the blocks. If a peer has several blocks, sets described->is_strided to false, because there is one
 * entry of described->runs for each peer.
 */
static placement_t measure_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks, int count,
                                  described_t *described)
{
    placement_t placement = {.bounds = {.low = UINTPTR_MAX}, .lowest = UINTPTR_MAX, .is_dense = true};
    elements_t block;

    for (int peer = 0; peer < call->ranks; ++peer) {
        described->list[peer] = (mscclpp_dev_block_t){0, 0};
        described->runs[peer] = (mscclpp_dev_runs_t){.count = 1};
    }
    for (int i = 0; i < count; ++i) {
        const int peer = get_block(blocks, i, &block);
        mscclpp_dev_block_t *total = &described->list[peer];

        placement.is_dense = placement.is_dense && block.is_dense;
        if (0 != block.count) {
            described->is_strided = described->is_strided && 0 == total->bytes;
            placement.lowest =
                (uintptr_t)block.first_byte < placement.lowest ? (uintptr_t)block.first_byte : placement.lowest;
            include_elements(&placement.bounds, &block);
        }
        total->bytes += block.count * block.size;
        call->args.largest_block = total->bytes > call->args.largest_block ? total->bytes : call->args.largest_block;
    }
    placement.is_dense = placement.is_dense && described->is_strided;
    return placement;
}

/* Returns true if elements of this type are adjacent bytes, in the order in which MPI counts them. */
static bool is_plain(const struct ompi_datatype_t *type)
{
    return ompi_datatype_is_predefined(type) && 0 != type->super.size &&
           type->super.true_ub - type->super.true_lb == (ptrdiff_t)type->super.size &&
           type->super.ub - type->super.lb == (ptrdiff_t)type->super.size;
}

/*
 * Describes one block for each rank, all of one plain type, as describe_blocks does, but in fewer steps. Such blocks
 * are small in many calls, whose time this counts in.
 */
static char *describe_plain_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks,
                                   described_t *described)
{
    const size_t size = blocks->type->super.size;
    const uintptr_t start = (uintptr_t)blocks->address + (uintptr_t)blocks->type->super.true_lb;
    uintptr_t lowest = UINTPTR_MAX;
    uint64_t largest = call->args.largest_block;

    for (int peer = 0; peer < call->ranks; ++peer) {
        const uint64_t bytes =
            peer == blocks->unmoved_block ? 0 : (uint64_t)mca_coll_mscclpp_count_at(blocks->counts, peer) * size;
        uintptr_t first = 0; /* the displacement of an empty block is not read */

        if (0 != bytes) {
            first = start + (uintptr_t)mca_coll_mscclpp_displ_at(blocks->displs, peer) * size;
            lowest = first < lowest ? first : lowest;
            largest = bytes > largest ? bytes : largest;
        }
        described->list[peer] = (mscclpp_dev_block_t){.offset = first, .bytes = bytes};
    }
    described->is_strided = true;
    for (int peer = 0; peer < call->ranks; ++peer) {
        mscclpp_dev_block_t *block = &described->list[peer];

        block->offset = 0 != block->bytes ? block->offset - lowest : 0;
        described->runs[peer] =
            (mscclpp_dev_runs_t){.offset = (int64_t)block->offset, .length = block->bytes, .count = 1};
    }
    if (UINTPTR_MAX == lowest) {
        return NULL;
    }
    call->passes_data = true;
    call->args.largest_block = largest;
    described->packs = described->built_in_packs;
    return (char *)lowest;
}

/*
 * Describes the blocks of one buffer. Blocks without holes are used in their place. All blocks are described as packed
 * without gaps if any block has holes, if a rank has several blocks, or if the blocks may lie in several allocations.
 * Where possible they are described as runs, too, so that nothing has to be packed if the blocks of all ranks are runs.
 *
 * Returns the address from which offsets count, or NULL if all blocks are empty. A failure becomes the call's error;
 * the description is then incomplete and must not be used.
 */
static char *describe_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks,
                             described_t *described)
{
    const int count = count_blocks(call, blocks);
    uint64_t packed_bytes = 0;
    placement_t placement;
    elements_t block;
    int last_peer = -1;

    if (blocks->edges == NULL && blocks->types == NULL && !blocks->is_regular && blocks->offsets == NULL &&
        is_plain(blocks->type)) {
        return describe_plain_blocks(call, blocks, described);
    }
    described->is_strided = true;
    placement = measure_blocks(call, blocks, count, described);
    if (UINTPTR_MAX == placement.lowest) {
        return NULL;
    }
    call->passes_data = true;
    if (!placement.is_dense || blocks->types != NULL) {
        *described->bounds = placement.bounds;
        described->is_scattered = is_scattered(&placement.bounds);
    }
    placement.is_dense = placement.is_dense && !described->is_scattered;
    described->packs = placement.is_dense ? described->built_in_packs
                                          : ensure_packs(call, described->built_in_packs, described->more_packs, count);
    for (int i = 0; i < count && described->packs != NULL; ++i) {
        const int peer = get_block(blocks, i, &block);

        if (0 == block.count) {
            continue;
        }
        described->is_strided = described->is_strided && !described->is_scattered &&
                                find_runs(call, &block, placement.lowest, &described->runs[peer]);
        if (placement.is_dense) {
            described->list[peer].offset = (uintptr_t)block.first_byte - placement.lowest;
            continue;
        }
        add_pack(call, &described->packs[described->pack_count++], &block, packed_bytes);
        /* The blocks of one peer follow one another in `blocks`, so this is the peer's first one. */
        if (peer != last_peer) {
            described->list[peer].offset = packed_bytes;
        }
        packed_bytes += block.count * block.size;
        last_peer = peer;
    }
    return (char *)placement.lowest;
}

/*
 * If all blocks are empty, args.in is NULL, and buffers[0] is the buffer that the application passed. If there is no
 * memory for the list of packs, args.in_packs is NULL, args.in_pack_count is 0, and call->rc is the error.
 */
void mca_coll_mscclpp_native_send_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks)
{
    described_t described = {.list = call->send,
                             .runs = call->send_runs,
                             .built_in_packs = call->in_packs,
                             .more_packs = &call->more_packs[0],
                             .bounds = &call->bounds[SEND]};

    call->args.in = describe_blocks(call, blocks, &described);
    call->args.send = call->send;
    call->args.send_runs = described.is_strided ? call->send_runs : NULL;
    call->args.in_packs = described.packs;
    call->args.in_pack_count = described.pack_count;
    call->args.in_scattered = described.is_scattered;
    call->buffers[0] = call->args.in != NULL ? call->args.in : blocks->address;
}

/* Describes the receive buffer in the same way as mca_coll_mscclpp_native_send_blocks describes the send buffer. */
void mca_coll_mscclpp_native_recv_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks)
{
    described_t described = {.list = call->recv,
                             .runs = call->recv_runs,
                             .built_in_packs = call->out_packs,
                             .more_packs = &call->more_packs[1],
                             .bounds = &call->bounds[RECV]};

    call->args.out = describe_blocks(call, blocks, &described);
    call->args.recv = call->recv;
    call->args.recv_runs = described.is_strided ? call->recv_runs : NULL;
    call->args.out_packs = described.packs;
    call->args.out_pack_count = described.pack_count;
    call->args.out_scattered = described.is_scattered;
    call->buffers[1] = call->args.out != NULL ? call->args.out : blocks->address;
}

/* Fills `list` with one block of `bytes` bytes at offset 0, for `peer` or MCA_COLL_MSCCLPP_ALL_PEERS. */
static void fill_list(const mca_coll_mscclpp_native_t *call, mscclpp_dev_block_t *list, int peer, uint64_t bytes)
{
    for (int rank = 0; rank < call->ranks; ++rank) {
        list[rank].offset = 0;
        list[rank].bytes = MCA_COLL_MSCCLPP_ALL_PEERS == peer || peer == rank ? bytes : 0;
    }
}

void mca_coll_mscclpp_native_send_one(mca_coll_mscclpp_native_t *call, const void *buffer, size_t count,
                                      struct ompi_datatype_t *type, int peer)
{
    const uint64_t bytes = mca_coll_mscclpp_packed_bytes(count, type);

    mca_coll_mscclpp_native_send(call, buffer, count, type);
    call->args.send = call->send;
    fill_list(call, call->send, peer, bytes);
    call->args.largest_block = bytes > call->args.largest_block ? bytes : call->args.largest_block;
}

void mca_coll_mscclpp_native_recv_one(mca_coll_mscclpp_native_t *call, void *buffer, size_t count,
                                      struct ompi_datatype_t *type, int peer)
{
    const uint64_t bytes = mca_coll_mscclpp_packed_bytes(count, type);

    mca_coll_mscclpp_native_recv(call, buffer, count, type);
    call->args.recv = call->recv;
    fill_list(call, call->recv, peer, bytes);
    call->args.largest_block = bytes > call->args.largest_block ? bytes : call->args.largest_block;
}

/* Returns true if one of the blocks, one for each rank, has data. `blocks` NULL: there are none. */
static bool has_data(const mscclpp_dev_block_t *blocks, int ranks)
{
    bool any_has_data = false;

    for (int peer = 0; peer < ranks && blocks != NULL; ++peer) {
        any_has_data = any_has_data || 0 != blocks[peer].bytes;
    }
    return any_has_data;
}

void mca_coll_mscclpp_native_drop_empty(mca_coll_mscclpp_native_t *call)
{
    if (!has_data(call->args.send, call->ranks)) {
        call->args.in = NULL;
    }
    if (!call->args.in_place && !has_data(call->args.recv, call->ranks)) {
        call->args.out = NULL;
    }
}

bool mca_coll_mscclpp_native_is_outdated(const mca_coll_mscclpp_native_t *call)
{
    return OMPI_SUCCESS != call->rc ||
           (0 != call->bounds[SEND].high && is_scattered(&call->bounds[SEND]) != call->args.in_scattered) ||
           (0 != call->bounds[RECV].high && is_scattered(&call->bounds[RECV]) != call->args.out_scattered);
}
