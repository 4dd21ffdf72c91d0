/*
 * Staging: a collective on device buffers, served by the previous component on copies in pinned host memory. Each
 * collective describes which bytes of its two buffers it reads and writes on this rank; everything else is common to
 * all of them. Staging is local: nothing on the wire changes, so a rank may stage a call that its peers do not.
 */
#ifndef MCA_COLL_MSCCLPP_STAGE_STAGE_H
#define MCA_COLL_MSCCLPP_STAGE_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/coll/mscclpp/check/check.h"
#include "mca/coll/mscclpp/ompi/module.h"

/* How a layout's blocks follow one another. */
typedef enum {
    MCA_COLL_MSCCLPP_STAGE_NOTHING, /* no block */
    MCA_COLL_MSCCLPP_STAGE_REGULAR, /* `count` elements each, one behind the other */
    MCA_COLL_MSCCLPP_STAGE_VECTOR,  /* `counts` and `displs`, in extents of `type` */
    MCA_COLL_MSCCLPP_STAGE_TYPES,   /* `counts`, `types`, and `displs` in bytes */
    MCA_COLL_MSCCLPP_STAGE_OFFSETS  /* `counts`, `types`, and `offsets` in bytes */
} mca_coll_mscclpp_stage_kind_t;

/*
 * Bytes that a collective touches, as its arguments say it: blocks first .. first + blocks - 1. Points into the
 * arguments, which are not needed once a plan has been made.
 */
typedef struct {
    mca_coll_mscclpp_stage_kind_t kind;
    int first;
    int blocks;
    size_t count;
    mca_coll_mscclpp_counts_t counts;
    union {
        mca_coll_mscclpp_displs_t displs;
        const MPI_Aint *offsets;
    };
    union {
        struct ompi_datatype_t *type;
        struct ompi_datatype_t *const *types;
    };
} mca_coll_mscclpp_stage_layout_t;

/* One buffer of a call. Both layouts are empty for a buffer that is MPI_IN_PLACE or not significant on this rank. */
typedef struct {
    const void *address;
    mca_coll_mscclpp_stage_layout_t read;
    mca_coll_mscclpp_stage_layout_t write;
} mca_coll_mscclpp_stage_argument_t;

/* What one call does on this rank. */
typedef struct {
    mca_coll_mscclpp_stage_argument_t send;
    mca_coll_mscclpp_stage_argument_t recv;
    mca_coll_mscclpp_counted_t counted;
} mca_coll_mscclpp_stage_call_t;

/*
 * `count` runs of `length` bytes, the first at `offset` from the buffer's address and each `stride` bytes behind the
 * one before; and all of that `repeats` times, `extent` bytes apart. Distances may be negative. So what a regular
 * layout takes does not grow with its elements.
 */
typedef struct {
    ptrdiff_t offset;
    size_t length;
    size_t count;
    ptrdiff_t stride;
    size_t repeats;
    ptrdiff_t extent;
    bool together; /* all of that is known to be in one allocation */
} mca_coll_mscclpp_stage_piece_t;

/* A list of pieces. It may point into itself and so must stay where it was made. */
typedef struct {
    mca_coll_mscclpp_stage_piece_t *pieces;
    size_t used;
    size_t capacity;
    mca_coll_mscclpp_stage_piece_t own[2];
} mca_coll_mscclpp_stage_pieces_t;

/*
 * What is copied for one argument: all touched bytes lie in low .. high - 1, counted from the buffer's address. Exactly
 * the bytes that the collective writes are written back, however fine the layout is: the application may use what lies
 * between them even while the operation is under way, be it the interior of a grid whose halo is exchanged or the
 * blocks of another operation. What is read may include the holes between.
 */
typedef struct {
    ptrdiff_t low;
    ptrdiff_t high;
    mca_coll_mscclpp_stage_pieces_t in;  /* to the host before the call */
    mca_coll_mscclpp_stage_pieces_t out; /* to the device after it */
    size_t bytes;                        /* of both */
} mca_coll_mscclpp_stage_plan_t;

/* Windows of the address space for an argument whose parts lie far apart. */
#define MCA_COLL_MSCCLPP_STAGE_WINDOWS 16

typedef struct {
    int count;
    struct {
        char *address;
        size_t size;
    } windows[MCA_COLL_MSCCLPP_STAGE_WINDOWS];
} mca_coll_mscclpp_stage_room_t;

/* One argument under way. `block` is NULL where the buffer is no device memory: `host` is then its own address. */
typedef struct {
    char *user;
    void *host; /* what the previous component gets */
    void *block;
    size_t block_size;
    bool reserved; /* `block` is the beginning of `room`, of which not all need be there */
    mca_coll_mscclpp_stage_room_t room;
    mscclpp_gpu_stream_t *stream; /* of the device that owns the buffer; shared by all calls */
    mca_coll_mscclpp_stage_plan_t plan;
} mca_coll_mscclpp_stage_buffer_t;

/* One call under way; stays where it was begun. */
typedef struct {
    mca_coll_mscclpp_stage_buffer_t send;
    mca_coll_mscclpp_stage_buffer_t recv;
} mca_coll_mscclpp_stage_t;

/* ---- layout.c ---- */

/*
 * Looks for a byte that the call touches and that `matches`. One byte is asked about where all bytes are in one
 * allocation, several where MPI lets them be in many: the call is on the path of host buffers. *address_p is where the
 * answer was true.
 */
bool mca_coll_mscclpp_stage_find(const mca_coll_mscclpp_stage_argument_t *argument, bool (*matches)(const void *),
                                 const char **address_p);

/* For an argument of which at least one byte is touched. An MPI error code; *plan is to be released if it is none. */
int mca_coll_mscclpp_stage_plan_make(mca_coll_mscclpp_stage_plan_t *plan,
                                     const mca_coll_mscclpp_stage_argument_t *argument);
void mca_coll_mscclpp_stage_plan_release(mca_coll_mscclpp_stage_plan_t *plan);

/*
 * The pieces of one element of a type in the order of its type map, with offsets from the element. An MPI error code;
 * the list is to be released if it is none, and stays where it was made.
 */
int mca_coll_mscclpp_stage_element_pieces(mca_coll_mscclpp_stage_pieces_t *list, const struct ompi_datatype_t *type);
void mca_coll_mscclpp_stage_element_release(mca_coll_mscclpp_stage_pieces_t *list);

/* All that a piece touches, holes included: *low_p .. *high_p - 1. */
void mca_coll_mscclpp_stage_piece_bounds(const mca_coll_mscclpp_stage_piece_t *piece, ptrdiff_t *low_p,
                                         ptrdiff_t *high_p);

/* ---- reserve.c ---- */

/*
 * Room for copies that lie as far apart as the parts of the argument: pageable memory, so that only pages that are
 * touched take any. What lies at plan->low comes to lie `in_page` bytes behind *block_p, which is aligned to a page,
 * and up to `slack` bytes behind each part may be used, too. All the address space between, or, where that is much
 * and the parts are few, windows for the parts alone. Any thread. To be given back after the call that it is for.
 */
mscclpp_status_t mca_coll_mscclpp_stage_reserve(const mca_coll_mscclpp_stage_plan_t *plan, size_t in_page, size_t slack,
                                                mca_coll_mscclpp_stage_room_t *room, void **block_p);
void mca_coll_mscclpp_stage_unreserve(mca_coll_mscclpp_stage_room_t *room);

/* ---- op.c ---- */

/* The operation to call the previous component with. After stage_op_init. */
struct ompi_op_t *mca_coll_mscclpp_stage_op(struct ompi_op_t *op);
void mca_coll_mscclpp_stage_op_init(void);

/* ---- stage.c ---- */

/* True if a byte that the call touches is device memory, so that the call has to be staged. */
bool mca_coll_mscclpp_stage_needed(const mca_coll_mscclpp_stage_call_t *call);

/* Plans the call and takes its pinned memory. An MPI error code; on success to be undone by stage_release. */
int mca_coll_mscclpp_stage_prepare(mca_coll_mscclpp_stage_t *stage, const mca_coll_mscclpp_stage_call_t *call);
void mca_coll_mscclpp_stage_release(mca_coll_mscclpp_stage_t *stage);

/*
 * Copies what the collective reads to the host, and waits for it; both, and the copy out, come after what synchronous
 * calls of the GPU's runtime have left under way. An MPI error code.
 */
int mca_coll_mscclpp_stage_copy_in(mca_coll_mscclpp_stage_t *stage);

/* Starts to copy what the collective wrote to the device; stage_copied tells when it is there. */
int mca_coll_mscclpp_stage_copy_out(mca_coll_mscclpp_stage_t *stage);

/* OMPI_SUCCESS and *done_p once all copies have ended; never waits, or else always, as `wait` says. */
int mca_coll_mscclpp_stage_copied(mca_coll_mscclpp_stage_t *stage, bool wait, bool *done_p);

/* A blocking call: prepare, copy in and count; and, with the result of the previous component, copy out and release. */
int mca_coll_mscclpp_stage_begin(mca_coll_mscclpp_stage_t *stage, const mca_coll_mscclpp_stage_call_t *call,
                                 mca_coll_mscclpp_module_t *module);
int mca_coll_mscclpp_stage_end(mca_coll_mscclpp_stage_t *stage, int result);

/* Makes the device's stream now, not in the first call; a failure is tried again then. */
void mca_coll_mscclpp_stage_open(int device);

/* Gives up the streams and the pinned memory that are kept between calls. */
void mca_coll_mscclpp_stage_close(void);

/* ---- request.c ---- */

/*
 * A staged nonblocking or persistent operation: the request that the application holds. `inner` is the previous
 * component's request on the copies.
 */
typedef struct mca_coll_mscclpp_stage_request_t {
    ompi_coll_base_nbc_request_t super;
    mca_coll_mscclpp_stage_t stage;
    ompi_request_t *inner;
    mca_coll_mscclpp_module_t *module;  /* retained by a persistent operation, else NULL */
    mca_coll_mscclpp_counted_t counted; /* of that operation */
    struct mca_coll_mscclpp_stage_request_t *next;
    bool copying; /* the inner request has ended and the copy back is under way */
    int polls;
} mca_coll_mscclpp_stage_request_t;

OBJ_CLASS_DECLARATION(mca_coll_mscclpp_stage_request_t);

/* A request whose stage is prepared and, unless it is persistent, copied in. An MPI error code. */
int mca_coll_mscclpp_stage_request_new(const mca_coll_mscclpp_stage_call_t *call, mca_coll_mscclpp_module_t *module,
                                       struct ompi_communicator_t *comm, bool persistent,
                                       mca_coll_mscclpp_stage_request_t **request_p);

/*
 * Takes what the previous component returned for the inner request. Hands the outer one to the application on
 * success, under way unless it is persistent, and frees it otherwise. Returns `result` or an error of its own.
 */
int mca_coll_mscclpp_stage_request_post(mca_coll_mscclpp_stage_request_t *request, int result,
                                        ompi_request_t **request_p);

/* ---- check.c ---- */

/* Who sends what to whom, which together with the description tells what each two ranks exchange. */
typedef enum {
    MCA_COLL_MSCCLPP_STAGE_REDUCTION,          /* all contribute as much */
    MCA_COLL_MSCCLPP_STAGE_REDUCTION_OF_PARTS, /* likewise, and each gets a part */
    MCA_COLL_MSCCLPP_STAGE_TO_ALL,             /* the same to all */
    MCA_COLL_MSCCLPP_STAGE_TO_EACH,            /* a block to each */
    MCA_COLL_MSCCLPP_STAGE_TO_ROOT,
    MCA_COLL_MSCCLPP_STAGE_FROM_ROOT, /* a block to each */
    MCA_COLL_MSCCLPP_STAGE_FROM_ROOT_TO_ALL,
    MCA_COLL_MSCCLPP_STAGE_NEIGHBOR_TO_ALL,
    MCA_COLL_MSCCLPP_STAGE_NEIGHBOR_TO_EACH
} mca_coll_mscclpp_stage_pattern_t;

/* What the description leaves out and a comparison of calls needs. */
typedef struct {
    mca_coll_mscclpp_stage_pattern_t pattern;
    struct ompi_op_t *op; /* NULL: none */
    bool rooted;
    int root;
    mca_coll_mscclpp_counts_t counts; /* of the parts */
} mca_coll_mscclpp_stage_view_t;

/* Compares the call on all ranks. An MPI error code. */
int mca_coll_mscclpp_stage_check(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_check_function_t function,
                                 const mca_coll_mscclpp_stage_call_t *call, const mca_coll_mscclpp_stage_view_t *view);

/* neighbor.c: the edges that lead to this rank and from it, absent neighbours included. */
void mca_coll_mscclpp_stage_degrees(struct ompi_communicator_t *comm, int *in_p, int *out_p);

/* ---- layouts, for the descriptions of the collectives ---- */

/*
 * They are written in place: this happens in every call, on host buffers, too, and a structure that is put together and
 * then copied costs more than all else that such a call pays for.
 */
static inline void mca_coll_mscclpp_stage_elements(mca_coll_mscclpp_stage_layout_t *layout, size_t count,
                                                   struct ompi_datatype_t *type)
{
    layout->kind = MCA_COLL_MSCCLPP_STAGE_REGULAR;
    layout->blocks = 1;
    layout->count = count;
    layout->type = type;
}

static inline void mca_coll_mscclpp_stage_vector(mca_coll_mscclpp_stage_layout_t *layout, int blocks,
                                                 mca_coll_mscclpp_counts_t counts, mca_coll_mscclpp_displs_t displs,
                                                 struct ompi_datatype_t *type)
{
    layout->kind = MCA_COLL_MSCCLPP_STAGE_VECTOR;
    layout->blocks = blocks;
    layout->counts = counts;
    layout->displs = displs;
    layout->type = type;
}

static inline void mca_coll_mscclpp_stage_types(mca_coll_mscclpp_stage_layout_t *layout, int blocks,
                                                mca_coll_mscclpp_counts_t counts, mca_coll_mscclpp_displs_t displs,
                                                struct ompi_datatype_t *const *types)
{
    layout->kind = MCA_COLL_MSCCLPP_STAGE_TYPES;
    layout->blocks = blocks;
    layout->counts = counts;
    layout->displs = displs;
    layout->types = types;
}

static inline void mca_coll_mscclpp_stage_offsets(mca_coll_mscclpp_stage_layout_t *layout, int blocks,
                                                  mca_coll_mscclpp_counts_t counts, const MPI_Aint *offsets,
                                                  struct ompi_datatype_t *const *types)
{
    layout->kind = MCA_COLL_MSCCLPP_STAGE_OFFSETS;
    layout->blocks = blocks;
    layout->counts = counts;
    layout->offsets = offsets;
    layout->types = types;
}

/* Only the one block `index` of a layout. */
static inline void mca_coll_mscclpp_stage_only(mca_coll_mscclpp_stage_layout_t *layout, int index)
{
    layout->first = index;
    layout->blocks = 1;
}

/* stage_*.c: every slot's function, which copies device buffers to pinned host memory and calls the previous one. */
#define MCA_COLL_MSCCLPP_STAGE_DECLARE(name_) extern const mca_coll_mscclpp_fn_t(name_) mca_coll_mscclpp_stage_##name_;
MCA_COLL_MSCCLPP_ALL(MCA_COLL_MSCCLPP_STAGE_DECLARE)
#undef MCA_COLL_MSCCLPP_STAGE_DECLARE

/* stage/request.c: completes staged nonblocking and persistent operations; a callback of opal_progress. */
int mca_coll_mscclpp_stage_init(void);
void mca_coll_mscclpp_stage_fini(void);

#endif
