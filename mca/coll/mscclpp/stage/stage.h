/*
 * Staging: the previous component serves a collective on copies of device buffers in pinned host memory. Each
 * collective describes which bytes of its two buffers it reads and writes on this rank. Everything else is common to
 * all collectives. Staging is local: the messages between ranks do not change, so a rank may stage a call that its
 * peers do not stage.
 */
#ifndef MCA_COLL_MSCCLPP_STAGE_STAGE_H
#define MCA_COLL_MSCCLPP_STAGE_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/coll/mscclpp/check/check.h"
#include "mca/coll/mscclpp/ompi/hold.h"
#include "mca/coll/mscclpp/ompi/module.h"

/* How a layout describes its blocks. */
typedef enum {
    MCA_COLL_MSCCLPP_STAGE_NOTHING, /* no block */
    MCA_COLL_MSCCLPP_STAGE_REGULAR, /* `count` elements in each block, the blocks without gaps */
    MCA_COLL_MSCCLPP_STAGE_VECTOR,  /* [block]: `counts`, and `displs` in extents of `type` */
    MCA_COLL_MSCCLPP_STAGE_TYPES,   /* [block]: `counts`, `types`, and `displs` in bytes */
    MCA_COLL_MSCCLPP_STAGE_OFFSETS  /* [block]: `counts`, `types`, and `offsets` in bytes */
} mca_coll_mscclpp_stage_kind_t;

/*
 * The bytes that a collective reads or writes, in terms of its arguments: blocks first .. first + blocks - 1. The
 * layout points into the arguments, which are no longer needed after a plan was made.
 */
typedef struct {
    mca_coll_mscclpp_stage_kind_t kind; /* determines which of the fields below are used */
    int first;                          /* index of the first block; `counts` and the other arrays begin at block 0 */
    int blocks;
    size_t count;                     /* elements of each block */
    mca_coll_mscclpp_counts_t counts; /* [block]: elements */
    union {
        mca_coll_mscclpp_displs_t displs;
        const MPI_Aint *offsets;
    };
    union {
        struct ompi_datatype_t *type;
        struct ompi_datatype_t *const *types;
    };
} mca_coll_mscclpp_stage_layout_t;

/* One buffer of a call. Both layouts are empty if the buffer is MPI_IN_PLACE or not significant on this rank. */
typedef struct {
    const void *address;
    mca_coll_mscclpp_stage_layout_t read;  /* the bytes that the collective reads */
    mca_coll_mscclpp_stage_layout_t write; /* the bytes that the collective writes */
} mca_coll_mscclpp_stage_argument_t;

/* The description of one call on this rank. */
typedef struct {
    mca_coll_mscclpp_stage_argument_t send;
    mca_coll_mscclpp_stage_argument_t recv;
    struct ompi_op_t *op;               /* NULL: the collective has none */
    mca_coll_mscclpp_counted_t counted; /* the counter of such calls */
    mca_coll_mscclpp_reason_t reason;   /* why the call is staged */
} mca_coll_mscclpp_stage_call_t;

/*
 * `count` runs of `length` bytes. The first run is at `offset` from the buffer's address, and each next run is `stride`
 * bytes further. This pattern is repeated `repeats` times, at distances of `extent` bytes. Distances may be negative.
 * The description has the same size for any number of elements.
 */
typedef struct {
    ptrdiff_t offset;
    size_t length;
    size_t count;
    ptrdiff_t stride;
    size_t repeats;
    ptrdiff_t extent;
    bool in_one_allocation; /* all bytes of the piece are known to be in one allocation */
} mca_coll_mscclpp_stage_piece_t;

/* A list of pieces. It may contain a pointer to itself, so it must not be moved. */
typedef struct {
    mca_coll_mscclpp_stage_piece_t *pieces;
    size_t used;                                /* number of pieces */
    size_t capacity;                            /* in pieces */
    mca_coll_mscclpp_stage_piece_t built_in[2]; /* memory of short lists */
} mca_coll_mscclpp_stage_pieces_t;

/*
 * The copies for one argument. All bytes that the collective reads or writes are in low .. high - 1, relative to the
 * buffer's address. The copy back writes exactly the bytes that the collective writes, however fine the layout is,
 * because the application may use the holes between these bytes while the operation is in progress. A hole may be the
 * interior of a grid whose halo is exchanged, or a block of another operation. The copy in may include the holes.
 */
typedef struct {
    ptrdiff_t low;
    ptrdiff_t high;
    mca_coll_mscclpp_stage_pieces_t in;  /* pieces copied to the host before the call */
    mca_coll_mscclpp_stage_pieces_t out; /* pieces copied to the device after the call */
    size_t bytes;                        /* bytes of both lists together */
} mca_coll_mscclpp_stage_plan_t;

/* The most windows of address space for an argument whose parts are far apart. */
#define MCA_COLL_MSCCLPP_STAGE_WINDOWS 16

/* The mappings that contain the copies of one argument (reserve.c). */
typedef struct {
    int count; /* number of windows in use */
    struct {
        char *address;
        size_t size; /* bytes */
    } windows[MCA_COLL_MSCCLPP_STAGE_WINDOWS];
} mca_coll_mscclpp_stage_reservation_t;

/*
 * One argument of a call in progress. If the buffer is not device memory, nothing is copied: `memory` is NULL, and
 * `host` is the buffer's address.
 */
typedef struct {
    char *user;         /* the address that the application passed */
    void *host;         /* the address that the previous component gets in its place */
    void *memory;       /* host memory that contains the copies */
    size_t memory_size; /* bytes */
    bool is_reserved;   /* `memory` is the start of `reservation`, which may be mapped in parts only */
    mca_coll_mscclpp_stage_reservation_t reservation;
    mscclpp_gpu_stream_t *stream; /* stream of the device that owns the buffer; shared by all calls */
    mca_coll_mscclpp_stage_plan_t plan;
} mca_coll_mscclpp_stage_buffer_t;

/* One call in progress. It must not be moved. */
typedef struct {
    mca_coll_mscclpp_stage_buffer_t send;
    mca_coll_mscclpp_stage_buffer_t recv;
} mca_coll_mscclpp_stage_t;

/* ---- layout.c ---- */

/*
 * Searches for a byte that the collective reads or writes and for which `matches` is true. Returns true, with its
 * address in *address_p, if there is one; otherwise *address_p is arbitrary. If all bytes must be in one allocation,
 * the function tests one byte, or the first and the last byte of a block with holes. It tests more if the bytes may be
 * in several allocations. It tests no more bytes than necessary, because it also runs for calls on host buffers. A type
 * that cannot be described is logged, and counts as a type without a match.
 */
bool mca_coll_mscclpp_stage_find(const mca_coll_mscclpp_stage_argument_t *argument, bool (*matches)(const void *),
                                 const char **address_p);

/*
 * Determines which bytes have to be copied for an argument. The collective must read or write at least one byte of the
 * argument. Returns an MPI error code; only on success, *plan has to be released.
 */
int mca_coll_mscclpp_stage_plan_make(mca_coll_mscclpp_stage_plan_t *plan,
                                     const mca_coll_mscclpp_stage_argument_t *argument);
void mca_coll_mscclpp_stage_plan_release(mca_coll_mscclpp_stage_plan_t *plan);

/*
 * Makes a list of the pieces of one element of a type in the order of its type map, with offsets from the element.
 * Returns an MPI error code; only on success, the list has to be released. It must not be moved.
 */
int mca_coll_mscclpp_stage_element_pieces(mca_coll_mscclpp_stage_pieces_t *list, const struct ompi_datatype_t *type);
void mca_coll_mscclpp_stage_element_release(mca_coll_mscclpp_stage_pieces_t *list);

/* Sets *low_p .. *high_p - 1 to the bytes from the first to the last byte of a piece, including holes. */
void mca_coll_mscclpp_stage_piece_bounds(const mca_coll_mscclpp_stage_piece_t *piece, ptrdiff_t *low_p,
                                         ptrdiff_t *high_p);

/* ---- reserve.c ---- */

/*
 * Reserves memory for copies that are as far apart as the parts of the argument. Maps all the address space from low to
 * high. If that is large and there are few parts, maps only windows for the parts. The memory is pageable, so only
 * pages that are used take memory.
 *
 * *memory_p is aligned to a page, and the copy of plan->low begins `in_page` bytes after it. Up to `slack` bytes after
 * each part may be used, too. The function is thread-safe. The caller frees the memory with
 * mca_coll_mscclpp_stage_unreserve after the call. If the memory cannot be mapped, returns MSCCLPP_ERR_NO_MEMORY, and
 * there is nothing to free.
 */
mscclpp_status_t mca_coll_mscclpp_stage_reserve(const mca_coll_mscclpp_stage_plan_t *plan, size_t in_page, size_t slack,
                                                mca_coll_mscclpp_stage_reservation_t *reservation, void **memory_p);
void mca_coll_mscclpp_stage_unreserve(mca_coll_mscclpp_stage_reservation_t *reservation);

/* ---- op.c ---- */

/* Makes the operation that replaces MPI_SUM. Called once, before any call is staged. */
void mca_coll_mscclpp_stage_op_init(void);

/* Returns the operation to pass to the previous component in place of `op`, which may be `op` itself. */
struct ompi_op_t *mca_coll_mscclpp_stage_replace_op(struct ompi_op_t *op);

/* ---- stage.c ---- */

/* Returns true if the call reads or writes device memory and so has to be staged. Called for host buffers, too. */
bool mca_coll_mscclpp_stage_needed(const mca_coll_mscclpp_stage_call_t *call);

/*
 * Determines the bytes that the call copies, and allocates host memory for them, pinned if possible. May wait for
 * kernels (pool.h). Returns an MPI error code; only on success, the caller frees the memory with
 * mca_coll_mscclpp_stage_release. Releasing may be done in a progress loop.
 */
int mca_coll_mscclpp_stage_prepare(mca_coll_mscclpp_stage_t *stage, const mca_coll_mscclpp_stage_call_t *call);
void mca_coll_mscclpp_stage_release(mca_coll_mscclpp_stage_t *stage);

/*
 * Copies the bytes that the collective reads to the host, and waits for the copy. This copy and the copy out begin
 * after all work that the application's synchronous calls of the GPU runtime have left in progress. Returns an MPI
 * error code; after an error no copy is in progress.
 */
int mca_coll_mscclpp_stage_copy_in(mca_coll_mscclpp_stage_t *stage);

/*
 * Starts to copy the bytes that the collective wrote to the device. mca_coll_mscclpp_stage_end_copy_out tells when the
 * copies have ended. Returns an MPI error code; after an error no copy is in progress.
 */
int mca_coll_mscclpp_stage_copy_out(mca_coll_mscclpp_stage_t *stage);

/*
 * Sets *have_ended_p to whether all copies have ended. If `wait` is true, first waits until they have ended. Returns an
 * MPI error code. After an error *have_ended_p is not set, and no copy is in progress; for this, the function may wait
 * even without `wait`.
 */
int mca_coll_mscclpp_stage_end_copy_out(mca_coll_mscclpp_stage_t *stage, bool wait, bool *have_ended_p);

/*
 * Begin and end the staging of a blocking call. mca_coll_mscclpp_stage_begin prepares the stage, copies in and counts
 * the call. `result` is the MPI error code of the previous component. mca_coll_mscclpp_stage_end copies out and waits
 * for the copy, unless `result` is an error. Then it frees the memory, and trims the pool (pool.h). Both functions may
 * wait for kernels, and return an MPI error code; after an error of mca_coll_mscclpp_stage_begin there is nothing to
 * end.
 */
int mca_coll_mscclpp_stage_begin(mca_coll_mscclpp_stage_t *stage, const mca_coll_mscclpp_stage_call_t *call,
                                 mca_coll_mscclpp_module_t *module);
int mca_coll_mscclpp_stage_end(mca_coll_mscclpp_stage_t *stage, int result);

/*
 * Makes the stream of a device (negative: the current one) before the first call needs it. If this fails, which is
 * logged, the first call tries again.
 */
void mca_coll_mscclpp_stage_open(int device);

/* Frees the streams and the pinned memory that are kept between calls. */
void mca_coll_mscclpp_stage_close(void);

/* ---- request.c ---- */

/*
 * The application's request for a staged nonblocking or persistent operation. `inner` is the previous component's
 * request, which works on the copies.
 */
typedef struct mca_coll_mscclpp_stage_request_t {
    ompi_coll_base_nbc_request_t super;
    mca_coll_mscclpp_stage_t stage;
    ompi_request_t *inner;
    mca_coll_mscclpp_held_t held;       /* what the inner request of a persistent operation uses */
    mca_coll_mscclpp_module_t *module;  /* retained if the operation is persistent; otherwise NULL */
    mca_coll_mscclpp_counted_t counted; /* the counter of the starts of a persistent operation */
    mca_coll_mscclpp_reason_t reason;   /* why these starts are staged */
    bool is_staged;                     /* the call touches device memory */
    struct mca_coll_mscclpp_stage_request_t *next;
    bool is_copying; /* the inner request has ended, and the copy back is in progress */
    int polls;       /* how often the end of the copy back was tested */
} mca_coll_mscclpp_stage_request_t;

OBJ_CLASS_DECLARATION(mca_coll_mscclpp_stage_request_t);

/*
 * Returns true if a persistent request for this call refers to types or an operation that the application may free. MPI
 * allows the application to free them as soon as the request is made, but Open MPI's own requests keep no references.
 * If there is no memory for references, logs an error and returns false: the request is then made without them, because
 * the other ranks make it, too.
 */
bool mca_coll_mscclpp_stage_needs_hold(const mca_coll_mscclpp_stage_call_t *call);

/*
 * Makes a request and prepares its stage, which may wait for kernels. Keeps the communicator until the request is
 * freed. Unless the operation is persistent, copies in, and waits for the copy. Returns an MPI error code; after an
 * error nothing is left to free.
 */
int mca_coll_mscclpp_stage_request_new(const mca_coll_mscclpp_stage_call_t *call, mca_coll_mscclpp_module_t *module,
                                       struct ompi_communicator_t *comm, bool persistent,
                                       mca_coll_mscclpp_stage_request_t **request_p);

/*
 * Passes the outer request to the application after the previous component has returned `result` for the inner request.
 * On success *request_p is set, and progress on the outer request begins, unless it is persistent. On failure the
 * outer request is freed. Returns `result`.
 */
int mca_coll_mscclpp_stage_request_post(mca_coll_mscclpp_stage_request_t *request, int result,
                                        ompi_request_t **request_p);

/* ---- check.c ---- */

/* How data go from rank to rank. Together with the description, this determines what any two ranks exchange. */
typedef enum {
    MCA_COLL_MSCCLPP_STAGE_REDUCTION,          /* all ranks contribute the same number of elements */
    MCA_COLL_MSCCLPP_STAGE_REDUCTION_OF_PARTS, /* a reduction of which each rank gets a part of the result */
    MCA_COLL_MSCCLPP_STAGE_TO_ALL,             /* each rank sends the same data to all ranks */
    MCA_COLL_MSCCLPP_STAGE_TO_EACH,            /* each rank sends a block to each rank */
    MCA_COLL_MSCCLPP_STAGE_TO_ROOT,
    MCA_COLL_MSCCLPP_STAGE_FROM_ROOT, /* the root sends a block to each rank */
    MCA_COLL_MSCCLPP_STAGE_FROM_ROOT_TO_ALL,
    MCA_COLL_MSCCLPP_STAGE_NEIGHBOR_TO_ALL,
    MCA_COLL_MSCCLPP_STAGE_NEIGHBOR_TO_EACH
} mca_coll_mscclpp_stage_pattern_t;

/* The properties of a call that a comparison needs besides the bytes that the call reads and writes. */
typedef struct {
    mca_coll_mscclpp_stage_pattern_t pattern;
    struct ompi_op_t *op; /* NULL: the collective has no operation */
    bool has_root;        /* the collective has a root */
    int root;
    mca_coll_mscclpp_counts_t counts; /* REDUCTION_OF_PARTS: the number of elements of each rank's part */
} mca_coll_mscclpp_stage_view_t;

/*
 * Compares the call on all ranks (check/check.h), before it is served. Returns an MPI error code; after an error the
 * call is not to be served.
 */
int mca_coll_mscclpp_stage_check(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_check_function_t function,
                                 const mca_coll_mscclpp_stage_call_t *call, const mca_coll_mscclpp_stage_view_t *view);

/*
 * Sets *in_p and *out_p to the numbers of edges into and out of this rank, including edges of absent neighbours
 * (neighbor.c).
 */
void mca_coll_mscclpp_stage_count_edges(struct ompi_communicator_t *comm, int *in_p, int *out_p);

/* ---- layouts, for the descriptions of the collectives ---- */

/*
 * Describes `count` elements. This function and the next ones write the layout in place. They run in every call, also
 * on host buffers, where it would cost more to build and copy a structure than everything else that this component does
 * for the call.
 */
static inline void mca_coll_mscclpp_stage_elements(mca_coll_mscclpp_stage_layout_t *layout, size_t count,
                                                   struct ompi_datatype_t *type)
{
    layout->kind = MCA_COLL_MSCCLPP_STAGE_REGULAR;
    layout->blocks = 1;
    layout->count = count;
    layout->type = type;
}

/* Describes blocks with their own counts and displacements, as in MPI_Allgatherv. */
static inline void mca_coll_mscclpp_stage_counted_blocks(mca_coll_mscclpp_stage_layout_t *layout, int blocks,
                                                         mca_coll_mscclpp_counts_t counts,
                                                         mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *type)
{
    layout->kind = MCA_COLL_MSCCLPP_STAGE_VECTOR;
    layout->blocks = blocks;
    layout->counts = counts;
    layout->displs = displs;
    layout->type = type;
}

/* Describes blocks with their own types, too, as in MPI_Alltoallw. */
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

/* Describes blocks with their own types, and displacements in bytes, as in MPI_Neighbor_alltoallw. */
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

/* Reduces a layout to its block `index`. */
static inline void mca_coll_mscclpp_stage_select_block(mca_coll_mscclpp_stage_layout_t *layout, int index)
{
    layout->first = index;
    layout->blocks = 1;
}

/* The functions of all slots: each copies device buffers to pinned host memory, and calls the previous function. */
#define MCA_COLL_MSCCLPP_STAGE_DECLARE(name_) extern const mca_coll_mscclpp_fn_t(name_) mca_coll_mscclpp_stage_##name_;
MCA_COLL_MSCCLPP_ALL(MCA_COLL_MSCCLPP_STAGE_DECLARE)
#undef MCA_COLL_MSCCLPP_STAGE_DECLARE

/*
 * Start and end the callback of opal_progress that completes staged nonblocking and persistent operations (request.c).
 */
int mca_coll_mscclpp_stage_init(void);
void mca_coll_mscclpp_stage_fini(void);

#endif
