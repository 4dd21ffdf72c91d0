/*
 * The C interface that starts kernels, on CUDA (cuda.cu) or on CPU threads (twin.c). Kernels may wait for their peers.
 * So all blocks of a launch must run at the same time, and launch sizes do not exceed the capacity of the device.
 */
#ifndef MSCCLPP_DEVICE_LAUNCH_LAUNCH_H
#define MSCCLPP_DEVICE_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/types/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A launch: a kernel, its grid and its arguments. */
typedef struct {
    mscclpp_dev_kernel_t kernel;
    uint32_t nblocks;  /* 1 to MSCCLPP_DEV_MAX_BLOCKS, equal on all ranks */
    uint32_t nthreads; /* a block, 1 to MSCCLPP_DEV_MAX_THREADS, equal on all ranks; on CUDA a multiple of 32 */
    const void *args;  /* the structure that the kernel's identifier names */
} mscclpp_dev_launch_t;

/* Returns the size of a kernel's arguments in bytes. */
size_t mscclpp_dev_args_size(mscclpp_dev_kernel_t kernel);

/* Returns true if kernels can combine elements of this type with this operation, on the twin or on GPUs. */
bool mscclpp_dev_supports(mscclpp_dtype_t dtype, mscclpp_op_t op, bool on_twin);

/* Returns the bytes of one element, from its first byte to the first byte of the next; 0 for an unknown type. */
size_t mscclpp_dev_dtype_extent(mscclpp_dtype_t dtype);

/* Returns the bytes of one element without the padding after its last member. */
size_t mscclpp_dev_dtype_true_extent(mscclpp_dtype_t dtype);

/*
 * A queue of the twin, in place of a CUDA stream. Its launches and copies run one after another on the queue's own
 * threads, which sleep when it is empty. If the queue is empty, a launch of a single thread runs at once in the
 * caller's thread, unless its kernel waits for what the caller does next.
 */
typedef struct mscclpp_dev_twin_queue mscclpp_dev_twin_queue_t;

/*
 * Makes an empty queue without threads. Returns 0, or an errno value after an error, which leaves *queue_p unchanged.
 */
int mscclpp_dev_twin_queue_create(mscclpp_dev_twin_queue_t **queue_p);

/*
 * Waits until everything in the queue has ended, and frees it, together with a graph that is being recorded. NULL is
 * allowed.
 */
void mscclpp_dev_twin_queue_destroy(mscclpp_dev_twin_queue_t *queue);

/*
 * Copies a launch with its arguments into a queue. May instead run it at once (see above); that cannot fail. Returns 0,
 * or an errno value with nothing queued.
 */
int mscclpp_dev_twin_launch(mscclpp_dev_twin_queue_t *queue, const mscclpp_dev_launch_t *launch);

/* A copy in a queue. */
typedef struct {
    void *to;
    const void *from;
    size_t size;
} mscclpp_dev_twin_copy_t;

/* Puts a copy of memory into a queue. It always runs on a thread of the queue. Returns 0 or an errno value. */
int mscclpp_dev_twin_copy(mscclpp_dev_twin_queue_t *queue, const mscclpp_dev_twin_copy_t *copy);

/*
 * Forbids that launches of a queue run in the caller's thread. For queues that applications see. Called before anything
 * is queued.
 */
void mscclpp_dev_twin_queue_set_apart(mscclpp_dev_twin_queue_t *queue);

/* Puts a call of a host function into a queue. It runs on a thread of the queue. Returns 0 or an errno value. */
int mscclpp_dev_twin_call(mscclpp_dev_twin_queue_t *queue, void (*function)(void *argument), void *argument);

/*
 * These functions record work in a graph, as CUDA captures a stream.
 *
 *   begin_record   begins to record: whatever is put into the queue is not carried out. EBUSY if it records already.
 *   end_record     ends it, and sets *graph_p to the graph, which the caller has to destroy. EINVAL if nothing has been
 *                  begun; *graph_p is then NULL.
 *   replay         puts a copy of all jobs into a queue. After an error, a part of them may be there.
 *   graph_destroy  frees a graph. NULL is allowed.
 *
 * All but the last return 0 or an errno value.
 */
typedef struct mscclpp_dev_twin_graph mscclpp_dev_twin_graph_t;
int mscclpp_dev_twin_begin_record(mscclpp_dev_twin_queue_t *queue);
int mscclpp_dev_twin_end_record(mscclpp_dev_twin_queue_t *queue, mscclpp_dev_twin_graph_t **graph_p);
int mscclpp_dev_twin_replay(const mscclpp_dev_twin_graph_t *graph, mscclpp_dev_twin_queue_t *queue);
void mscclpp_dev_twin_graph_destroy(mscclpp_dev_twin_graph_t *graph);

/*
 * Puts a loop into a queue, or records one. The loop carries out what `body` has recorded as long as *condition is not
 * 0, which it checks before each turn. The body is copied; *condition must last as long as the loop. Returns 0 or an
 * errno value.
 */
int mscclpp_dev_twin_loop(mscclpp_dev_twin_queue_t *queue, const mscclpp_dev_twin_graph_t *body,
                          const uint64_t *condition);

/*
 * Puts a copy of what `added` has recorded behind what `graph` has. Returns 0, or ENOMEM; only a part of it may then be
 * there.
 */
int mscclpp_dev_twin_append(mscclpp_dev_twin_graph_t *graph, const mscclpp_dev_twin_graph_t *added);

/*
 * Calls release(object) when the job that was recorded last, and all its copies, have been freed. That is when the
 * graph is destroyed and no launch of it is under way. The call may come from a thread of a queue. Returns 0 or an
 * errno value: EINVAL if no job has been recorded, or if the job has such a function already. After an error, `release`
 * is never called.
 */
int mscclpp_dev_twin_keep(mscclpp_dev_twin_queue_t *queue, void (*release)(void *object), void *object);

/* Returns true between `begin_record` and `end_record`. */
bool mscclpp_dev_twin_queue_is_recorded(mscclpp_dev_twin_queue_t *queue);

/* Returns true if all launches and copies have ended. */
bool mscclpp_dev_twin_queue_is_idle(mscclpp_dev_twin_queue_t *queue);

/*
 * `mark_end` returns a mark behind everything that is in the queue now. `has_passed` returns true if everything before
 * a mark has ended.
 */
uint64_t mscclpp_dev_twin_queue_mark_end(mscclpp_dev_twin_queue_t *queue);
bool mscclpp_dev_twin_queue_has_passed(mscclpp_dev_twin_queue_t *queue, uint64_t mark);

/* Sets a function that launches in this thread call while they wait. NULL: none. Other threads have their own. */
void mscclpp_dev_twin_set_progress(void (*progress)(void *context), void *context);

#ifdef MSCCLPP_HAVE_CUDA
/*
 * Launches a kernel in `stream`, a cudaStream_t of `device`, which is current. This function and the next one return a
 * cudaError_t as int.
 */
int mscclpp_dev_cuda_launch(int device, void *stream, const mscclpp_dev_launch_t *launch);

/*
 * Loads every kernel into the context of `device`, and lets the driver reserve memory for their stacks. Either could
 * later wait for a running kernel, and that kernel for this rank. The device is current, and launches use no other
 * context there. `driver_launch` is the driver's cuLaunchKernelEx, or NULL if the runtime has to launch. One thread
 * calls this for each device, before the first launch there. Stops at the first error, after which no kernel may be
 * launched.
 */
int mscclpp_dev_cuda_preload(int device, void *driver_launch);
#endif

#ifdef __cplusplus
}
#endif

#endif
