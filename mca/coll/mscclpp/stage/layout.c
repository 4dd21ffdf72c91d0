/* Computes from the arguments of a collective which bytes it touches, and which bytes are copied. */
#include "mca/coll/mscclpp/stage/stage.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "mca/coll/mscclpp/stage/segments.h"
#include "mca/coll/mscclpp/stage/spare.h"
#include "mca/common/base/log.h"

#define PIECES_GROWTH 2

/* Number of an element's segments that are asked for at first, and the factor by which this number grows. */
#define SEGMENTS_FIRST 256
#define SEGMENTS_GROWTH 8

/* Holes of at most this many bytes, on average, are read with the data, because leaving a hole out costs a copy. */
#define HOLE_MAX 4096

/* One block of a layout. Sizes, offsets and bounds are in bytes. */
typedef struct {
    const struct ompi_datatype_t *type;
    ptrdiff_t offset; /* from the buffer's address to the first element */
    size_t count;
    size_t size; /* bytes of data in one element */
    ptrdiff_t extent;
    ptrdiff_t true_lb;
    ptrdiff_t true_ub;
} block_t;

/*
 * The places of the data of one element. The list is kept from block to block, because most blocks have the same type.
 */
typedef struct {
    const struct ompi_datatype_t *type; /* NULL: no type yet */
    mca_coll_mscclpp_stage_pieces_t list;
} element_t;

/* The state of making one plan. */
typedef struct {
    uintptr_t address;       /* address of the buffer */
    uintptr_t allocation;    /* start of the allocation about which the GPU's runtime was asked last */
    size_t allocation_bytes; /* its length; 0 if not known */
    element_t element;
} builder_t;

/*
 * Describes block `index` of a layout in *block. Returns false if it holds no data. MPI allows any displacement for
 * such a block and, with a count of 0, any type, so neither is read then.
 */
static bool get_block(const mca_coll_mscclpp_stage_layout_t *layout, int index, block_t *block)
{
    const struct ompi_datatype_t *type;
    ptrdiff_t lb;
    ptrdiff_t true_extent;

    block->count = MCA_COLL_MSCCLPP_STAGE_REGULAR == layout->kind
                       ? layout->count
                       : (size_t)mca_coll_mscclpp_count_at(layout->counts, index);
    if (0 == block->count) {
        return false;
    }
    type = MCA_COLL_MSCCLPP_STAGE_TYPES == layout->kind || MCA_COLL_MSCCLPP_STAGE_OFFSETS == layout->kind
               ? layout->types[index]
               : layout->type;
    ompi_datatype_type_size(type, &block->size);
    if (0 == block->size) {
        return false;
    }
    ompi_datatype_get_extent(type, &lb, &block->extent);
    ompi_datatype_get_true_extent(type, &block->true_lb, &true_extent);
    block->true_ub = block->true_lb + true_extent;
    block->type = type;
    switch (layout->kind) {
    case MCA_COLL_MSCCLPP_STAGE_VECTOR:
        block->offset = mca_coll_mscclpp_displ_at(layout->displs, index) * block->extent;
        break;
    case MCA_COLL_MSCCLPP_STAGE_TYPES:
        block->offset = mca_coll_mscclpp_displ_at(layout->displs, index);
        break;
    case MCA_COLL_MSCCLPP_STAGE_OFFSETS:
        block->offset = layout->offsets[index];
        break;
    default:
        block->offset = index * (ptrdiff_t)block->count * block->extent;
        break;
    }
    return true;
}

/* Returns the index after a layout's last block; for an empty layout, that of its first block. */
static int blocks_end(const mca_coll_mscclpp_stage_layout_t *layout)
{
    return MCA_COLL_MSCCLPP_STAGE_NOTHING == layout->kind ? layout->first : layout->first + layout->blocks;
}

/* Returns the range of a block's bytes, holes included. With a negative extent, the first element is highest. */
static mca_coll_mscclpp_stage_piece_t block_span(const block_t *block)
{
    ptrdiff_t to_last = block->extent * (ptrdiff_t)(block->count - 1);
    mca_coll_mscclpp_stage_piece_t span = {.count = 1, .repeats = 1};

    span.offset = block->offset + block->true_lb + (to_last < 0 ? to_last : 0);
    span.length = (size_t)(block->true_ub - block->true_lb) + (size_t)(to_last < 0 ? -to_last : to_last);
    return span;
}

static bool is_contiguous(const block_t *block)
{
    return block->true_ub - block->true_lb == (ptrdiff_t)block->size &&
           (1 == block->count || block->extent == (ptrdiff_t)block->size);
}

static void init_pieces(mca_coll_mscclpp_stage_pieces_t *list)
{
    list->pieces = list->built_in;
    list->used = 0;
    list->capacity = sizeof(list->built_in) / sizeof(list->built_in[0]);
}

/* Frees the pieces of the list. Leaves the list empty and usable. */
static void release_pieces(mca_coll_mscclpp_stage_pieces_t *list)
{
    if (list->pieces != list->built_in) {
        mca_coll_mscclpp_stage_spare_put(list->pieces);
    }
    init_pieces(list);
}

static bool is_single(const mca_coll_mscclpp_stage_piece_t *piece)
{
    return 1 == piece->count && 1 == piece->repeats;
}

/* Appends a copy of a piece. Returns an MPI error code; after an error the list is as before. */
static int push_piece(mca_coll_mscclpp_stage_pieces_t *list, const mca_coll_mscclpp_stage_piece_t *piece)
{
    if (list->used == list->capacity) {
        size_t capacity = PIECES_GROWTH * list->capacity;
        mca_coll_mscclpp_stage_piece_t *pieces = mca_coll_mscclpp_stage_spare_get(capacity * sizeof(*pieces));

        if (pieces == NULL) {
            mscclpp_error("out of memory for the list of the parts of a staged buffer");
            return MPI_ERR_NO_MEM;
        }
        for (size_t index = 0; index < list->used; ++index) {
            pieces[index] = list->pieces[index];
        }
        if (list->pieces != list->built_in) {
            mca_coll_mscclpp_stage_spare_put(list->pieces);
        }
        list->pieces = pieces;
        list->capacity = capacity;
    }
    list->pieces[list->used] = *piece;
    ++list->used;
    return OMPI_SUCCESS;
}

void mca_coll_mscclpp_stage_piece_bounds(const mca_coll_mscclpp_stage_piece_t *piece, ptrdiff_t *low_p,
                                         ptrdiff_t *high_p)
{
    ptrdiff_t to_last_run = (ptrdiff_t)(piece->count - 1) * piece->stride;
    ptrdiff_t to_last_repeat = (ptrdiff_t)(piece->repeats - 1) * piece->extent;

    *low_p = piece->offset + (to_last_run < 0 ? to_last_run : 0) + (to_last_repeat < 0 ? to_last_repeat : 0);
    *high_p = piece->offset + (ptrdiff_t)piece->length + (to_last_run > 0 ? to_last_run : 0) +
              (to_last_repeat > 0 ? to_last_repeat : 0);
}

/* Returns the bytes from an offset to its allocation's end; 0: not known. Asks the runtime only if it must. */
static size_t bytes_to_end(builder_t *builder, ptrdiff_t offset)
{
    uintptr_t address = builder->address + (uintptr_t)offset;

    if (address - builder->allocation >= builder->allocation_bytes) {
        mscclpp_mem_info_t info;

        mca_coll_mscclpp_state.gpu->query((const void *)address, &info);
        builder->allocation = (uintptr_t)info.base;
        builder->allocation_bytes = info.base == NULL ? 0 : info.length;
    }
    return address - builder->allocation < builder->allocation_bytes
               ? builder->allocation_bytes - (address - builder->allocation)
               : 0;
}

/*
 * Merges `piece` into `last` if it is inside `last`, or follows it in the same allocation or where none is known.
 * Returns true if merged, and false if one of the two is not a single range.
 */
static bool merge_piece(builder_t *builder, mca_coll_mscclpp_stage_piece_t *last,
                        const mca_coll_mscclpp_stage_piece_t *piece)
{
    ptrdiff_t end = last->offset + (ptrdiff_t)last->length;

    if (!is_single(last) || !is_single(piece) || last->in_one_allocation != piece->in_one_allocation) {
        return false;
    }
    if (piece->offset == end &&
        (!piece->in_one_allocation || bytes_to_end(builder, last->offset) >= last->length + piece->length)) {
        last->length += piece->length;
        return true;
    }
    return piece->offset >= last->offset && piece->offset + (ptrdiff_t)piece->length <= end;
}

/*
 * Appends a piece, or merges it with the last one. A contiguous piece that reaches from one allocation into the next
 * becomes several pieces, because the GPU's runtime refuses to copy it at once. In a type of absolute addresses,
 * neighbouring bytes may belong to two allocations. Returns an MPI error code.
 */
static int add_piece(mca_coll_mscclpp_stage_pieces_t *list, builder_t *builder,
                     const mca_coll_mscclpp_stage_piece_t *piece)
{
    mca_coll_mscclpp_stage_piece_t slice = *piece;
    size_t bytes_left = piece->length;
    ptrdiff_t low, high;
    int rc = OMPI_SUCCESS;

    mca_coll_mscclpp_stage_piece_bounds(piece, &low, &high);
    slice.in_one_allocation = bytes_to_end(builder, low) >= (size_t)(high - low);
    if (!is_single(piece)) {
        return push_piece(list, &slice);
    }
    for (; bytes_left > 0 && OMPI_SUCCESS == rc; bytes_left -= slice.length, slice.offset += (ptrdiff_t)slice.length) {
        size_t available = bytes_to_end(builder, slice.offset);

        slice.length = available > 0 && available < bytes_left ? available : bytes_left;
        slice.in_one_allocation = available > 0;
        if (0 == list->used || !merge_piece(builder, &list->pieces[list->used - 1], &slice)) {
            rc = push_piece(list, &slice);
        }
    }
    return rc;
}

/*
 * Appends segments to the element's pieces. Segments of one length at one distance from each other become one piece.
 * Returns an MPI error code.
 */
static int add_segments(element_t *element, const struct iovec *segments, uint32_t segment_count)
{
    int rc = OMPI_SUCCESS;

    for (uint32_t index = 0; index < segment_count && OMPI_SUCCESS == rc;) {
        mca_coll_mscclpp_stage_piece_t piece = {
            .offset = (ptrdiff_t)segments[index].iov_base, .length = segments[index].iov_len, .count = 1, .repeats = 1};
        ptrdiff_t length = (ptrdiff_t)piece.length;

        if (index + 1 < segment_count) {
            piece.stride = (ptrdiff_t)segments[index + 1].iov_base - piece.offset;
        }
        /* In a type that is only read, bytes may occur twice, but a piece never overlaps itself. */
        while ((piece.stride >= length || piece.stride <= -length) && index + piece.count < segment_count &&
               segments[index + piece.count].iov_len == piece.length &&
               (ptrdiff_t)segments[index + piece.count].iov_base ==
                   piece.offset + (ptrdiff_t)piece.count * piece.stride) {
            ++piece.count;
        }
        index += (uint32_t)piece.count;
        rc = push_piece(&element->list, &piece);
    }
    return rc;
}

/*
 * Finds where the `size` bytes of data of one element lie. Returns OMPI_SUCCESS, or MPI_ERR_NO_MEM, or MPI_ERR_TYPE if
 * Open MPI does not describe all bytes; an error has been logged. The element then has no type, and can be read again.
 */
static int read_element(element_t *element, const struct ompi_datatype_t *type, size_t size)
{
    struct iovec *segments = NULL;
    uint32_t segment_count = 0;
    size_t capacity = SEGMENTS_FIRST, asked = 0, described_bytes = 0;
    bool have_all = false;
    int rc;

    element->type = NULL;
    release_pieces(&element->list);
    /*
     * Asks for more and more segments. The loop ends when all of them have come, or when as many were asked for as
     * there are bytes of data, or UINT32_MAX of them.
     */
    while (!have_all && asked < size && asked < UINT32_MAX) {
        asked = capacity < UINT32_MAX ? capacity : UINT32_MAX;
        capacity *= SEGMENTS_GROWTH;
        mca_coll_mscclpp_stage_spare_put(segments);
        segments = mca_coll_mscclpp_stage_spare_get(asked * sizeof(*segments));
        if (segments == NULL) {
            mscclpp_error("out of memory for %zu segments of a datatype", asked);
            return MPI_ERR_NO_MEM;
        }
        segment_count = (uint32_t)asked;
        have_all = mca_coll_mscclpp_stage_segments_read(type, segments, &segment_count, &described_bytes);
    }
    if (have_all && described_bytes == size) {
        rc = add_segments(element, segments, mca_coll_mscclpp_stage_segments_merge(segments, segment_count));
    } else {
        mscclpp_error("a datatype of %zu bytes of data cannot be staged: Open MPI describes %zu bytes in %u segments",
                      size, described_bytes, (unsigned)segment_count);
        rc = MPI_ERR_TYPE;
    }
    mca_coll_mscclpp_stage_spare_put(segments);
    if (OMPI_SUCCESS == rc) {
        element->type = type;
    }
    return rc;
}

int mca_coll_mscclpp_stage_element_pieces(mca_coll_mscclpp_stage_pieces_t *list, const struct ompi_datatype_t *type)
{
    element_t element = {.type = NULL};
    size_t size;
    int rc;

    init_pieces(list);
    init_pieces(&element.list);
    ompi_datatype_type_size(type, &size);
    rc = read_element(&element, type, size);
    for (size_t index = 0; index < element.list.used && OMPI_SUCCESS == rc; ++index) {
        rc = push_piece(list, &element.list.pieces[index]);
    }
    release_pieces(&element.list);
    if (OMPI_SUCCESS != rc) {
        release_pieces(list);
    }
    return rc;
}

void mca_coll_mscclpp_stage_element_release(mca_coll_mscclpp_stage_pieces_t *list)
{
    release_pieces(list);
}

/*
 * Turns a piece of one element into a piece of `count` elements, which are `extent` bytes apart. Tries three ways in
 * this order: wider runs, if the runs adjoin and do not overlap then; more runs, if all have one stride; repeats.
 */
static void repeat_piece(mca_coll_mscclpp_stage_piece_t *piece, size_t count, ptrdiff_t extent)
{
    ptrdiff_t width = (ptrdiff_t)(piece->length * count);

    if (extent == (ptrdiff_t)piece->length &&
        (1 == piece->count || piece->stride >= width || piece->stride <= -width)) {
        piece->length = (size_t)width;
    } else if (1 == piece->count) {
        piece->count = count;
        piece->stride = extent;
    } else if (extent == (ptrdiff_t)piece->count * piece->stride) {
        piece->count *= count;
    } else {
        piece->repeats = count;
        piece->extent = extent;
    }
}

/*
 * Returns true if a block is to be read with its holes, which then have few bytes on average. builder->element has its
 * type.
 */
static bool is_read_whole(builder_t *builder, const block_t *block, const mca_coll_mscclpp_stage_piece_t *span)
{
    const size_t bytes = block->size * block->count;
    size_t runs = 0;

    for (size_t index = 0; index < builder->element.list.used; ++index) {
        runs += builder->element.list.pieces[index].count;
    }
    /* Elements that are sent may overlap, so that they have more bytes than their span. */
    return (bytes >= span->length || (span->length - bytes) / HOLE_MAX <= runs * block->count) &&
           bytes_to_end(builder, span->offset) >= span->length;
}

/* Adds the elements of a block with holes. builder->element describes its type. Returns an MPI error code. */
static int add_elements(mca_coll_mscclpp_stage_pieces_t *list, builder_t *builder, const block_t *block)
{
    int rc = OMPI_SUCCESS;

    for (size_t index = 0; index < builder->element.list.used && OMPI_SUCCESS == rc; ++index) {
        mca_coll_mscclpp_stage_piece_t piece = builder->element.list.pieces[index];

        piece.offset += block->offset;
        repeat_piece(&piece, block->count, block->extent);
        rc = add_piece(list, builder, &piece);
    }
    return rc;
}

/*
 * Adds the data of each block; if `may_add_holes`, also holes that are cheaper to copy than to leave out. Returns an
 * MPI error code.
 */
static int add_blocks(mca_coll_mscclpp_stage_pieces_t *list, builder_t *builder,
                      const mca_coll_mscclpp_stage_layout_t *layout, bool may_add_holes)
{
    block_t block;
    int rc = OMPI_SUCCESS;

    for (int index = layout->first; index < blocks_end(layout) && OMPI_SUCCESS == rc; ++index) {
        mca_coll_mscclpp_stage_piece_t span;

        if (!get_block(layout, index, &block)) {
            continue;
        }
        span = block_span(&block);
        if (is_contiguous(&block)) {
            rc = add_piece(list, builder, &span);
            continue;
        }
        if (builder->element.type != block.type) {
            rc = read_element(&builder->element, block.type, block.size);
        }
        if (OMPI_SUCCESS == rc) {
            rc = may_add_holes && is_read_whole(builder, &block, &span) ? add_piece(list, builder, &span)
                                                                        : add_elements(list, builder, &block);
        }
    }
    return rc;
}

/*
 * Looks for a run of the element at `address` for whose first byte `matches` is true. Sets *address_p to the byte that
 * was asked about last.
 */
static bool find_run(const element_t *element, uintptr_t address, bool (*matches)(const void *), const char **address_p)
{
    for (size_t index = 0; index < element->list.used; ++index) {
        const mca_coll_mscclpp_stage_piece_t *piece = &element->list.pieces[index];

        for (size_t run = 0; run < piece->count; ++run) {
            *address_p = (const char *)(address + (uintptr_t)(piece->offset + (ptrdiff_t)run * piece->stride));
            if (matches(*address_p)) {
                return true;
            }
        }
    }
    return false;
}

/*
 * Looks for a byte of a block for which `matches` is true. Asks about one byte of each run of each element, because the
 * elements of MPI_BOTTOM may be anywhere. If the type cannot be described, which is logged, returns false.
 */
static bool find_in_elements(const block_t *block, element_t *element, uintptr_t address, bool (*matches)(const void *),
                             const char **address_p)
{
    if (element->type != block->type && OMPI_SUCCESS != read_element(element, block->type, block->size)) {
        return false;
    }
    for (size_t item = 0; item < block->count; ++item) {
        const ptrdiff_t offset = block->offset + (ptrdiff_t)item * block->extent;

        if (find_run(element, address + (uintptr_t)offset, matches, address_p)) {
            return true;
        }
    }
    return false;
}

/*
 * Returns true if the argument may reach into several allocations. MPI allows this only for MPI_BOTTOM, but
 * applications do the same with blocks whose displacements are in bytes.
 */
static bool may_span_allocations(const mca_coll_mscclpp_stage_argument_t *argument,
                                 const mca_coll_mscclpp_stage_layout_t *layout)
{
    return MPI_BOTTOM == argument->address || MCA_COLL_MSCCLPP_STAGE_TYPES == layout->kind ||
           MCA_COLL_MSCCLPP_STAGE_OFFSETS == layout->kind;
}

/*
 * Looks for a byte of a layout for which `matches` is true. Returns true, with its address in *address_p, if there is
 * one. *is_settled_p becomes true if no other byte of the argument needs to be asked about, because all of them are in
 * one allocation.
 */
static bool find_in_layout(const mca_coll_mscclpp_stage_argument_t *argument,
                           const mca_coll_mscclpp_stage_layout_t *layout, element_t *element,
                           bool (*matches)(const void *), const char **address_p, bool *is_settled_p)
{
    uintptr_t address = (uintptr_t)argument->address;
    block_t block;

    *is_settled_p = false;
    for (int index = layout->first; index < blocks_end(layout) && !*is_settled_p; ++index) {
        mca_coll_mscclpp_stage_piece_t span;

        if (!get_block(layout, index, &block)) {
            continue;
        }
        *is_settled_p = !may_span_allocations(argument, layout);
        span = block_span(&block);
        *address_p = (const char *)(address + (uintptr_t)span.offset);
        if (matches(*address_p)) {
            return true;
        }
        if (is_contiguous(&block)) {
            continue;
        }
        if (MPI_BOTTOM == argument->address) {
            if (find_in_elements(&block, element, address, matches, address_p)) {
                return true;
            }
            continue;
        }
        *address_p += span.length - 1; /* a block with holes may reach into another allocation */
        if (matches(*address_p)) {
            return true;
        }
    }
    return false;
}

bool mca_coll_mscclpp_stage_find(const mca_coll_mscclpp_stage_argument_t *argument, bool (*matches)(const void *),
                                 const char **address_p)
{
    element_t element;
    bool is_settled, is_found;

    element.type = NULL;
    init_pieces(&element.list);
    is_found = find_in_layout(argument, &argument->read, &element, matches, address_p, &is_settled) ||
               (!is_settled && find_in_layout(argument, &argument->write, &element, matches, address_p, &is_settled));
    release_pieces(&element.list);
    return is_found;
}

/* Returns the sum of the sizes of all pieces in a list. */
static size_t sum_bytes(const mca_coll_mscclpp_stage_pieces_t *list)
{
    size_t bytes = 0;

    for (size_t index = 0; index < list->used; ++index) {
        const mca_coll_mscclpp_stage_piece_t *piece = &list->pieces[index];

        bytes += piece->length * piece->count * piece->repeats;
    }
    return bytes;
}

/* Widens the plan's bounds to include a layout. */
static void widen_bounds(mca_coll_mscclpp_stage_plan_t *plan, const mca_coll_mscclpp_stage_layout_t *layout)
{
    block_t block;

    for (int index = layout->first; index < blocks_end(layout); ++index) {
        if (get_block(layout, index, &block)) {
            mca_coll_mscclpp_stage_piece_t span = block_span(&block);
            ptrdiff_t high = span.offset + (ptrdiff_t)span.length;

            plan->low = span.offset < plan->low ? span.offset : plan->low;
            plan->high = high > plan->high ? high : plan->high;
        }
    }
}

int mca_coll_mscclpp_stage_plan_make(mca_coll_mscclpp_stage_plan_t *plan,
                                     const mca_coll_mscclpp_stage_argument_t *argument)
{
    builder_t builder;
    int rc;

    init_pieces(&plan->in);
    init_pieces(&plan->out);
    builder.address = (uintptr_t)argument->address;
    builder.allocation = 0;
    builder.allocation_bytes = 0;
    builder.element.type = NULL;
    init_pieces(&builder.element.list);
    plan->low = PTRDIFF_MAX;
    plan->high = PTRDIFF_MIN;
    widen_bounds(plan, &argument->read);
    widen_bounds(plan, &argument->write);
    if (plan->low > plan->high) { /* there are no data */
        plan->low = plan->high = 0;
    }

    /* Holes may be read with the data, but only bytes that the collective writes may be copied back. */
    rc = add_blocks(&plan->in, &builder, &argument->read, true);
    if (OMPI_SUCCESS == rc) {
        rc = add_blocks(&plan->out, &builder, &argument->write, false);
    }
    release_pieces(&builder.element.list);
    plan->bytes = sum_bytes(&plan->in) + sum_bytes(&plan->out);
    if (OMPI_SUCCESS != rc) {
        mca_coll_mscclpp_stage_plan_release(plan);
    }
    return rc;
}

void mca_coll_mscclpp_stage_plan_release(mca_coll_mscclpp_stage_plan_t *plan)
{
    release_pieces(&plan->in);
    release_pieces(&plan->out);
}
