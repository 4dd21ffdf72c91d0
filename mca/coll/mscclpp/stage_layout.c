/* From the arguments of a collective to the bytes that are copied. */
#include "mca/coll/mscclpp/stage.h"

#include <stdlib.h>
#include <sys/uio.h>

#include "mca/common/log.h"

#define PIECES_MAX MCA_COLL_MSCCLPP_STAGE_PIECES_MAX

/* Lists that grow past what a call needs by this much at once. */
#define PIECES_GROWTH 2

/* Answers of the functions below that build lists; TOO_MANY is never an error. */
typedef enum { BUILT, TOO_MANY, NO_MEMORY } build_t;

/* One block of a layout, all in bytes. */
typedef struct {
    const struct ompi_datatype_t *type;
    ptrdiff_t offset; /* from the buffer's address to the first element's */
    size_t count;
    size_t size; /* of the data in one element */
    ptrdiff_t extent;
    ptrdiff_t true_lb;
    ptrdiff_t true_ub;
} block_t;

/* Where the data of one element lies. Kept from block to block, as these mostly have one type. */
typedef struct {
    const struct ompi_datatype_t *type; /* NULL: none yet */
    uint32_t used;                      /* 0: too many */
    struct iovec segments[PIECES_MAX];  /* the bases are offsets from the element's address */
} element_t;

/* False if the block holds no data. Only then are its type and displacement looked at: MPI lets them be anything. */
static bool block_at(const mca_coll_mscclpp_stage_layout_t *layout, int index, block_t *block)
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

static int blocks_end(const mca_coll_mscclpp_stage_layout_t *layout)
{
    return MCA_COLL_MSCCLPP_STAGE_NOTHING == layout->kind ? layout->first : layout->first + layout->blocks;
}

/* The whole block, holes included. An extent may be negative: the first element is then the highest. */
static mca_coll_mscclpp_stage_piece_t block_span(const block_t *block)
{
    ptrdiff_t last = block->extent * (ptrdiff_t)(block->count - 1);
    mca_coll_mscclpp_stage_piece_t span;

    span.offset = block->offset + block->true_lb + (last < 0 ? last : 0);
    span.length = (size_t)(block->true_ub - block->true_lb) + (size_t)(last < 0 ? -last : last);
    return span;
}

static bool layout_first_byte(const mca_coll_mscclpp_stage_layout_t *layout, ptrdiff_t *offset_p)
{
    block_t block;

    for (int index = layout->first; index < blocks_end(layout); ++index) {
        if (block_at(layout, index, &block)) {
            *offset_p = block.offset + block.true_lb;
            return true;
        }
    }
    return false;
}

bool mca_coll_mscclpp_stage_first_byte(const mca_coll_mscclpp_stage_argument_t *argument, ptrdiff_t *offset_p)
{
    return layout_first_byte(&argument->read, offset_p) || layout_first_byte(&argument->write, offset_p);
}

static void pieces_init(mca_coll_mscclpp_stage_pieces_t *list)
{
    list->pieces = list->own;
    list->used = 0;
    list->capacity = sizeof(list->own) / sizeof(list->own[0]);
}

static void pieces_release(mca_coll_mscclpp_stage_pieces_t *list)
{
    if (list->pieces != list->own) {
        free(list->pieces);
    }
    pieces_init(list);
}

/* Appends a piece, or makes it one with the last. */
static build_t pieces_add(mca_coll_mscclpp_stage_pieces_t *list, ptrdiff_t offset, size_t length)
{
    if (list->used > 0) {
        mca_coll_mscclpp_stage_piece_t *last = &list->pieces[list->used - 1];

        if (offset == last->offset + (ptrdiff_t)last->length) {
            last->length += length;
            return BUILT;
        }
        if (offset >= last->offset && offset + (ptrdiff_t)length <= last->offset + (ptrdiff_t)last->length) {
            return BUILT;
        }
    }
    if (list->used == list->capacity) {
        size_t capacity = PIECES_GROWTH * list->capacity;
        mca_coll_mscclpp_stage_piece_t *pieces = malloc(capacity * sizeof(*pieces));

        if (NULL == pieces) {
            return NO_MEMORY;
        }
        for (size_t index = 0; index < list->used; ++index) {
            pieces[index] = list->pieces[index];
        }
        if (list->pieces != list->own) {
            free(list->pieces);
        }
        list->pieces = pieces;
        list->capacity = capacity;
    }
    list->pieces[list->used].offset = offset;
    list->pieces[list->used].length = length;
    ++list->used;
    return BUILT;
}

/* Each block as one piece, holes included. */
static build_t add_spans(mca_coll_mscclpp_stage_pieces_t *list, const mca_coll_mscclpp_stage_layout_t *layout)
{
    block_t block;

    for (int index = layout->first; index < blocks_end(layout); ++index) {
        if (block_at(layout, index, &block)) {
            mca_coll_mscclpp_stage_piece_t span = block_span(&block);

            if (BUILT != pieces_add(list, span.offset, span.length)) {
                return NO_MEMORY;
            }
        }
    }
    return BUILT;
}

/* Asks Open MPI where the data of one element lies. What does not add up to the type's size counts as too many. */
static void element_read(element_t *element, const struct ompi_datatype_t *type, size_t size)
{
    opal_convertor_t convertor;
    uint32_t used = PIECES_MAX;
    size_t length = 0;
    bool whole = false;

    element->type = type;
    element->used = 0;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    if (OPAL_SUCCESS ==
        opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, 1, NULL, 0, &convertor)) {
        whole = 1 == opal_convertor_raw(&convertor, element->segments, &used, &length) && length == size;
    }
    OBJ_DESTRUCT(&convertor);
    if (whole) {
        element->used = used;
    }
}

/* Each block as the bytes of its data alone, up to PIECES_MAX pieces. */
static build_t add_exactly(mca_coll_mscclpp_stage_pieces_t *list, const mca_coll_mscclpp_stage_layout_t *layout,
                           element_t *element)
{
    block_t block;

    for (int index = layout->first; index < blocks_end(layout); ++index) {
        if (!block_at(layout, index, &block)) {
            continue;
        }
        if (block.true_ub - block.true_lb == (ptrdiff_t)block.size &&
            (1 == block.count || block.extent == (ptrdiff_t)block.size)) {
            if (BUILT != pieces_add(list, block.offset + block.true_lb, block.count * block.size)) {
                return NO_MEMORY;
            }
            continue;
        }
        if (element->type != block.type) {
            element_read(element, block.type, block.size);
        }
        if (0 == element->used || block.count > PIECES_MAX || block.count * element->used > PIECES_MAX) {
            return TOO_MANY;
        }
        for (size_t item = 0; item < block.count; ++item) {
            ptrdiff_t offset = block.offset + (ptrdiff_t)item * block.extent;

            for (uint32_t segment = 0; segment < element->used; ++segment) {
                const struct iovec *at = &element->segments[segment];

                if (BUILT != pieces_add(list, offset + (ptrdiff_t)at->iov_base, at->iov_len)) {
                    return NO_MEMORY;
                }
            }
        }
        if (list->used > PIECES_MAX) {
            return TOO_MANY;
        }
    }
    return BUILT;
}

static bool widen(mca_coll_mscclpp_stage_plan_t *plan, const mca_coll_mscclpp_stage_layout_t *layout, bool any)
{
    block_t block;

    for (int index = layout->first; index < blocks_end(layout); ++index) {
        if (block_at(layout, index, &block)) {
            mca_coll_mscclpp_stage_piece_t span = block_span(&block);
            ptrdiff_t high = span.offset + (ptrdiff_t)span.length;

            plan->low = any && plan->low < span.offset ? plan->low : span.offset;
            plan->high = any && plan->high > high ? plan->high : high;
            any = true;
        }
    }
    return any;
}

int mca_coll_mscclpp_stage_plan_make(mca_coll_mscclpp_stage_plan_t *plan,
                                     const mca_coll_mscclpp_stage_argument_t *argument)
{
    element_t element;
    build_t built;

    pieces_init(&plan->in);
    pieces_init(&plan->out);
    widen(plan, &argument->write, widen(plan, &argument->read, false));

    built = add_spans(&plan->in, &argument->read);
    if (BUILT == built) {
        element.type = NULL;
        built = add_exactly(&plan->out, &argument->write, &element);
    }
    if (TOO_MANY == built) {
        pieces_release(&plan->out);
        built = add_spans(&plan->out, &argument->write);
        if (BUILT == built) {
            built = add_spans(&plan->in, &argument->write);
        }
    }
    if (BUILT != built) {
        mca_coll_mscclpp_stage_plan_release(plan);
        mscclpp_error("out of memory for the list of the parts of a staged buffer");
        return MPI_ERR_NO_MEM;
    }
    return OMPI_SUCCESS;
}

void mca_coll_mscclpp_stage_plan_release(mca_coll_mscclpp_stage_plan_t *plan)
{
    pieces_release(&plan->in);
    pieces_release(&plan->out);
}
