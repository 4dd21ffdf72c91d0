/* One staged call: its pinned memory, and the copies in both directions. */
#include "mca/coll/mscclpp/stage/stage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "mca/coll/mscclpp/stage/pool.h"
#include "mca/common/base/log.h"

/*
 * A copy has the same offset within a cache line as its buffer, so that data that is aligned in the buffer is aligned
 * in the copy.
 */
#define ALIGNMENT 64

/*
 * The number of places that a copy can have in its memory, ALIGNMENT bytes apart. Up to two of the places may give
 * pointers that are not allowed, so one is always left: see choose_place.
 */
#define PLACES 3

/*
 * Memory that is too large for the pool is not pinned if the call copies less than 1 byte in SPARSE of it. Pinning
 * would make all of its pages present; without it, only those with data are.
 */
#define SPARSE 4

/* The most devices of a process that can be staged. */
#define DEVICES_MAX 64

/* The staging stream of each device; NULL: not made yet. The lock is held while one is made. */
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_gpu_stream_t *_Atomic streams[DEVICES_MAX];

/*
 * Sets *stream_p to the staging stream of a device, or of the current device if `device` is negative. Makes the stream
 * at the first use. Returns MSCCLPP_ERR_INVALID for a device number that is too large, or an error of the GPU library;
 * then the next call tries again.
 */
static mscclpp_status_t ensure_stream(int device, mscclpp_gpu_stream_t **stream_p)
{
    const mscclpp_gpu_ops_t *gpu = mca_coll_mscclpp_state.gpu;
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_gpu_stream_t *stream;

    if (device < 0) {
        status = gpu->current_device(&device);
        if (MSCCLPP_OK != status) {
            return status;
        }
    }
    if (device >= DEVICES_MAX) {
        mscclpp_error("device %d cannot be staged: at most %d devices are supported", device, DEVICES_MAX);
        return MSCCLPP_ERR_INVALID;
    }
    stream = atomic_load_explicit(&streams[device], memory_order_acquire);
    if (stream == NULL) {
        pthread_mutex_lock(&streams_lock);
        /* Read again, because another thread may have made the stream before this one got the lock. */
        stream = atomic_load_explicit(&streams[device], memory_order_relaxed);
        if (stream == NULL) {
            status = gpu->stream_create(device, &stream);
            if (MSCCLPP_OK == status) {
                atomic_store_explicit(&streams[device], stream, memory_order_release);
            }
        }
        pthread_mutex_unlock(&streams_lock);
    }
    if (MSCCLPP_OK == status) {
        *stream_p = stream;
    }
    return status;
}

void mca_coll_mscclpp_stage_open(int device)
{
    mscclpp_gpu_stream_t *stream;

    (void)ensure_stream(device, &stream);
}

/* Returns true, with the address of such a byte in *address_p, if the call touches device memory of an argument. */
static bool has_device_data(const mca_coll_mscclpp_stage_argument_t *argument, const char **address_p)
{
    return mca_coll_mscclpp_stage_find(argument, mca_coll_mscclpp_is_device, address_p);
}

bool mca_coll_mscclpp_stage_needed(const mca_coll_mscclpp_stage_call_t *call)
{
    const char *address;

    return has_device_data(&call->send, &address) || has_device_data(&call->recv, &address);
}

/*
 * Finds out what has to be copied of a buffer in device memory, and gets host memory for it. That memory is pinned,
 * unless the buffer's bytes are few and far apart. A buffer in host memory is used as it is; its `memory` is NULL.
 * Returns an MPI error code; after an error there is nothing to release.
 */
static int buffer_prepare(mca_coll_mscclpp_stage_buffer_t *buffer, const mca_coll_mscclpp_stage_argument_t *argument)
{
    const char *address;
    mscclpp_mem_info_t info;
    mscclpp_status_t status;
    uintptr_t lowest_address;
    int rc;

    buffer->user = (char *)argument->address;
    buffer->host = buffer->user;
    buffer->memory = NULL;
    if (!has_device_data(argument, &address)) {
        return OMPI_SUCCESS;
    }
    mca_coll_mscclpp_state.gpu->query(address, &info);
    status = ensure_stream(info.device, &buffer->stream);
    if (MSCCLPP_OK != status) {
        return mca_coll_mscclpp_status_to_ompi(status);
    }
    rc = mca_coll_mscclpp_stage_plan_make(&buffer->plan, argument);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    buffer->memory_size = (size_t)(buffer->plan.high - buffer->plan.low) + PLACES * ALIGNMENT;
    buffer->is_reserved = buffer->memory_size > MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MAX &&
                          buffer->memory_size / SPARSE > buffer->plan.bytes;
    lowest_address = (uintptr_t)buffer->user + (uintptr_t)buffer->plan.low;
    status = buffer->is_reserved ? MSCCLPP_OK : mca_coll_mscclpp_stage_pool_get(buffer->memory_size, &buffer->memory);
    /*
     * If there is no pinned memory, the call uses unpinned memory. This is slow, but an error would be worse, because
     * the peers will wait in the call.
     */
    buffer->is_reserved = buffer->is_reserved || MSCCLPP_OK != status;
    if (buffer->is_reserved) {
        status = mca_coll_mscclpp_stage_reserve(&buffer->plan, lowest_address % ALIGNMENT, PLACES * ALIGNMENT,
                                                &buffer->reservation, &buffer->memory);
    }
    if (MSCCLPP_OK != status) {
        mca_coll_mscclpp_stage_plan_release(&buffer->plan);
        return mca_coll_mscclpp_status_to_ompi(status);
    }
    buffer->host = (void *)((uintptr_t)buffer->memory + lowest_address % ALIGNMENT - (uintptr_t)buffer->plan.low);
    return OMPI_SUCCESS;
}

/* Frees a buffer's plan and gives its host memory back. Does nothing for a buffer that is used in its place. */
static void buffer_release(mca_coll_mscclpp_stage_buffer_t *buffer)
{
    if (buffer->memory != NULL) {
        mca_coll_mscclpp_stage_plan_release(&buffer->plan);
        if (buffer->is_reserved) {
            mca_coll_mscclpp_stage_unreserve(&buffer->reservation);
        } else {
            mca_coll_mscclpp_stage_pool_put(buffer->memory, buffer->memory_size);
        }
        buffer->memory = NULL;
    }
}

/*
 * Chooses the place of the copy in its memory. The pointer that the previous component gets is as far before the copy
 * as the user's pointer is before the data, so it can have any value. It must not equal one of MPI's constants, or the
 * pointer of the other buffer: to libnbc, two equal pointers mean MPI_IN_PLACE. At most one of the constants is among
 * the possible places, so the loop ends within PLACES.
 */
static void choose_place(mca_coll_mscclpp_stage_buffer_t *buffer, const void *other_host)
{
    while (buffer->memory != NULL &&
           (other_host == buffer->host || MPI_BOTTOM == buffer->host || MPI_IN_PLACE == buffer->host)) {
        buffer->host = (void *)((uintptr_t)buffer->host + ALIGNMENT);
    }
}

/* Prepares both buffers or, after an error, none, and chooses the places of their copies. */
int mca_coll_mscclpp_stage_prepare(mca_coll_mscclpp_stage_t *stage, const mca_coll_mscclpp_stage_call_t *call)
{
    int rc = buffer_prepare(&stage->send, &call->send);

    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = buffer_prepare(&stage->recv, &call->recv);
    if (OMPI_SUCCESS != rc) {
        buffer_release(&stage->send);
        return rc;
    }
    /*
     * The receive buffer's place is chosen second, and compared with the final pointer of the send buffer. So the two
     * differ, if either has a copy.
     */
    choose_place(&stage->send, stage->recv.host);
    choose_place(&stage->recv, stage->send.host);
    return OMPI_SUCCESS;
}

void mca_coll_mscclpp_stage_release(mca_coll_mscclpp_stage_t *stage)
{
    buffer_release(&stage->send);
    buffer_release(&stage->recv);
}

/*
 * Returns the address that is `offset` bytes after `address`. Computed as integers, since the result may be outside of
 * the object to which `address` points.
 */
static char *add_offset(void *address, ptrdiff_t offset)
{
    return (char *)((uintptr_t)address + (uintptr_t)offset);
}

/* Returns the pieces that are copied to the device (`to_device`), or from it. */
static const mca_coll_mscclpp_stage_pieces_t *pieces_of(const mca_coll_mscclpp_stage_buffer_t *buffer, bool to_device)
{
    return to_device ? &buffer->plan.out : &buffer->plan.in;
}

/*
 * Starts to copy `count` runs of the piece's length. The first run is `offset` bytes from the buffer's address, and the
 * runs are `step` bytes apart. `to_device` is the direction. If the runs are in one allocation and do not overlap, one
 * copy is enough for all. After an error of the GPU library, some copies may be in progress.
 */
static mscclpp_status_t copy_runs(mca_coll_mscclpp_stage_buffer_t *buffer, const mca_coll_mscclpp_stage_piece_t *piece,
                                  ptrdiff_t offset, size_t count, ptrdiff_t step, bool to_device)
{
    const mscclpp_gpu_ops_t *gpu = mca_coll_mscclpp_state.gpu;
    mscclpp_status_t status = MSCCLPP_OK;
    char *user, *host;

    if (step < 0) { /* the same runs in ascending order, because copy_rows needs a positive distance */
        offset += (ptrdiff_t)(count - 1) * step;
        step = -step;
    }
    user = add_offset(buffer->user, offset);
    host = add_offset(buffer->host, offset);
    if (piece->in_one_allocation && count > 1 && step >= (ptrdiff_t)piece->length) {
        return gpu->copy_rows(buffer->stream, to_device ? user : host, to_device ? host : user, (size_t)step,
                              piece->length, count);
    }
    for (size_t run = 0; run < count && MSCCLPP_OK == status; ++run) {
        user = add_offset(buffer->user, offset + (ptrdiff_t)run * step);
        host = add_offset(buffer->host, offset + (ptrdiff_t)run * step);
        status = gpu->copy(buffer->stream, to_device ? user : host, to_device ? host : user, piece->length);
    }
    return status;
}

/*
 * Starts to copy a piece. The runs of a piece form a grid, of `count` by `repeats`. Calls copy_runs once for each line
 * along the longer dimension, which takes the fewest copies. Repeats that overlap are not used as lines, because
 * copy_runs would copy them one by one. After an error, some copies may be in progress.
 */
static mscclpp_status_t copy_piece(mca_coll_mscclpp_stage_buffer_t *buffer, const mca_coll_mscclpp_stage_piece_t *piece,
                                   bool to_device)
{
    ptrdiff_t length = (ptrdiff_t)piece->length;
    bool along_repeats = piece->repeats > piece->count && (piece->extent >= length || piece->extent <= -length);
    size_t line_count = along_repeats ? piece->count : piece->repeats;
    mscclpp_status_t status = MSCCLPP_OK;

    for (size_t line = 0; line < line_count && MSCCLPP_OK == status; ++line) {
        ptrdiff_t offset = piece->offset + (ptrdiff_t)line * (along_repeats ? piece->stride : piece->extent);

        status = copy_runs(buffer, piece, offset, along_repeats ? piece->repeats : piece->count,
                           along_repeats ? piece->extent : piece->stride, to_device);
    }
    return status;
}

/*
 * Makes the copies of a piece wait for the application's earlier synchronous copies (mscclpp_gpu_ops_t.settle). This
 * takes one call for each part that may be a separate allocation.
 */
static mscclpp_status_t settle_piece(const mca_coll_mscclpp_stage_buffer_t *buffer,
                                     const mca_coll_mscclpp_stage_piece_t *piece)
{
    size_t repeats = piece->in_one_allocation ? 1 : piece->repeats;
    size_t runs = piece->in_one_allocation ? 1 : piece->count;
    mscclpp_status_t status = MSCCLPP_OK;

    for (size_t index = 0; index < repeats * runs && MSCCLPP_OK == status; ++index) {
        ptrdiff_t offset =
            piece->offset + (ptrdiff_t)(index / runs) * piece->extent + (ptrdiff_t)(index % runs) * piece->stride;

        status = mca_coll_mscclpp_state.gpu->settle(add_offset(buffer->user, offset));
    }
    return status;
}

/*
 * Makes both copies of a buffer, in and out, wait for the synchronous copies that the application made before the call.
 */
static mscclpp_status_t settle_buffer(const mca_coll_mscclpp_stage_buffer_t *buffer)
{
    const mca_coll_mscclpp_stage_pieces_t *lists[] = {&buffer->plan.in, &buffer->plan.out};
    mscclpp_status_t status = MSCCLPP_OK;

    for (int list_index = 0; list_index < 2 && buffer->memory != NULL; ++list_index) {
        for (size_t index = 0; index < lists[list_index]->used && MSCCLPP_OK == status; ++index) {
            status = settle_piece(buffer, &lists[list_index]->pieces[index]);
        }
    }
    return status;
}

/*
 * Starts the copies between a device buffer and its host memory, to or from the device (`to_device`). Does nothing for
 * a buffer that is not staged. After an error, some copies may be in progress.
 */
static mscclpp_status_t start_copies(mca_coll_mscclpp_stage_buffer_t *buffer, bool to_device)
{
    const mca_coll_mscclpp_stage_pieces_t *list = pieces_of(buffer, to_device);
    mscclpp_status_t status = MSCCLPP_OK;

    if (buffer->memory == NULL) {
        return MSCCLPP_OK;
    }
    for (size_t index = 0; index < list->used && MSCCLPP_OK == status; ++index) {
        status = copy_piece(buffer, &list->pieces[index], to_device);
    }
    return status;
}

/*
 * Waits for a buffer's copies in one direction or, without `wait`, asks whether they have ended. Returns
 * MSCCLPP_IN_PROGRESS if they have not. A buffer that is not staged has none.
 */
static mscclpp_status_t end_copies(mca_coll_mscclpp_stage_buffer_t *buffer, bool to_device, bool wait)
{
    const mscclpp_gpu_ops_t *gpu = mca_coll_mscclpp_state.gpu;

    if (buffer->memory == NULL || 0 == pieces_of(buffer, to_device)->used) {
        return MSCCLPP_OK;
    }
    return wait ? gpu->stream_sync(buffer->stream) : gpu->stream_query(buffer->stream);
}

/*
 * Waits for the copies of both buffers or, without `wait`, tests whether they have ended (*have_ended_p). Returns an
 * MPI error code. After an error *have_ended_p is not set, and no copy is in progress, because the caller frees the
 * memory. For this, it waits for the copy of the other buffer, even without `wait`.
 */
static int end_both(mca_coll_mscclpp_stage_t *stage, bool to_device, bool wait, bool *have_ended_p)
{
    mscclpp_status_t send = end_copies(&stage->send, to_device, wait);
    mscclpp_status_t recv = end_copies(&stage->recv, to_device, wait);

    if (send < MSCCLPP_OK || recv < MSCCLPP_OK) {
        if (MSCCLPP_IN_PROGRESS == send || MSCCLPP_IN_PROGRESS == recv) {
            (void)end_copies(MSCCLPP_IN_PROGRESS == send ? &stage->send : &stage->recv, to_device, true);
        }
        return mca_coll_mscclpp_status_to_ompi(send < MSCCLPP_OK ? send : recv);
    }
    *have_ended_p = MSCCLPP_OK == send && MSCCLPP_OK == recv;
    return OMPI_SUCCESS;
}

/*
 * Starts the copies of both buffers. Returns an MPI error code. After an error no copy is in progress, so the memory
 * can be freed.
 */
static int start_both(mca_coll_mscclpp_stage_t *stage, bool to_device)
{
    mscclpp_status_t status = start_copies(&stage->send, to_device);
    bool have_ended;

    if (MSCCLPP_OK == status) {
        status = start_copies(&stage->recv, to_device);
    }
    if (MSCCLPP_OK != status) {
        (void)end_both(stage, to_device, true, &have_ended);
        return mca_coll_mscclpp_status_to_ompi(status);
    }
    return OMPI_SUCCESS;
}

/*
 * Settles both buffers first, which also orders the copies out. After an error no copy is in progress. `have_ended` is
 * not needed, because end_both waits here.
 */
int mca_coll_mscclpp_stage_copy_in(mca_coll_mscclpp_stage_t *stage)
{
    mscclpp_status_t status = settle_buffer(&stage->send);
    bool have_ended;
    int rc;

    if (MSCCLPP_OK == status) {
        status = settle_buffer(&stage->recv);
    }
    if (MSCCLPP_OK != status) {
        return mca_coll_mscclpp_status_to_ompi(status);
    }
    rc = start_both(stage, false);
    return OMPI_SUCCESS == rc ? end_both(stage, false, true, &have_ended) : rc;
}

int mca_coll_mscclpp_stage_copy_out(mca_coll_mscclpp_stage_t *stage)
{
    return start_both(stage, true);
}

int mca_coll_mscclpp_stage_end_copy_out(mca_coll_mscclpp_stage_t *stage, bool wait, bool *have_ended_p)
{
    return end_both(stage, true, wait, have_ended_p);
}

/* Counts the call last, so that a call that fails here is not counted. After an error no memory is kept. */
int mca_coll_mscclpp_stage_begin(mca_coll_mscclpp_stage_t *stage, const mca_coll_mscclpp_stage_call_t *call,
                                 mca_coll_mscclpp_module_t *module)
{
    int rc = mca_coll_mscclpp_stage_prepare(stage, call);

    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = mca_coll_mscclpp_stage_copy_in(stage);
    if (OMPI_SUCCESS != rc) {
        mca_coll_mscclpp_stage_release(stage);
        return rc;
    }
    mca_coll_mscclpp_count_staged(module, call->counted, call->reason);
    return OMPI_SUCCESS;
}

/*
 * Gives the memory back even after an error, which is safe because no copy is in progress then (see start_both and
 * end_both).
 */
int mca_coll_mscclpp_stage_end(mca_coll_mscclpp_stage_t *stage, int result)
{
    if (OMPI_SUCCESS == result) {
        result = mca_coll_mscclpp_stage_copy_out(stage);
        if (OMPI_SUCCESS == result) {
            bool have_ended;

            result = mca_coll_mscclpp_stage_end_copy_out(stage, true, &have_ended);
        }
    }
    mca_coll_mscclpp_stage_release(stage);
    mca_coll_mscclpp_stage_pool_trim();
    return result;
}

void mca_coll_mscclpp_stage_close(void)
{
    for (int device = 0; device < DEVICES_MAX; ++device) {
        mscclpp_gpu_stream_t *stream = atomic_exchange(&streams[device], NULL);

        if (stream != NULL) {
            mca_coll_mscclpp_state.gpu->stream_destroy(stream);
        }
    }
    mca_coll_mscclpp_stage_pool_drain();
}
