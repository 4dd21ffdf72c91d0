/*
 * The GPU runtime behind one table of functions, with two implementations: mca/common/gpu/cuda (the CUDA runtime) and
 * mca/common/gpu/twin (the host twin: shared memory instead of device memory, CPU threads instead of blocks). No code
 * above this file calls a GPU API.
 */
#ifndef MCA_COMMON_GPU_GPU_H
#define MCA_COMMON_GPU_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/launch/launch.h"
#include "mca/common/base/status.h"

#define MSCCLPP_GPU_UUID_SIZE 16
#define MSCCLPP_GPU_HANDLE_SIZE 96

typedef enum {
    MSCCLPP_MEM_HOST,    /* ordinary host memory, which no kernel can access */
    MSCCLPP_MEM_PINNED,  /* host memory that kernels of the queried device can access at the same address */
    MSCCLPP_MEM_MANAGED, /* memory that the runtime moves between host and devices; never exportable */
    MSCCLPP_MEM_DEVICE
} mscclpp_mem_kind_t;

/* How kernels of a device access some memory. */
typedef enum {
    MSCCLPP_REACH_NONE, /* they cannot access it */
    MSCCLPP_REACH_FAR,  /* kernels can access it, but it is, or may be, outside the device's own memory */
    MSCCLPP_REACH_HOME  /* it is always in the device's own memory */
} mscclpp_reach_t;

/* The known properties of the allocation that contains an address. */
typedef struct {
    mscclpp_mem_kind_t kind;
    int device;         /* owner of DEVICE and MANAGED memory; otherwise -1 */
    uint64_t buffer_id; /* never used twice in the process, so that reused addresses are not mistaken for the old
                           buffer; 0 if unknown */
    void *base;         /* start of the allocation; NULL if unknown */
    size_t length;      /* size of the allocation, bytes; 0 if unknown */
} mscclpp_mem_info_t;

/* The properties of a device. */
typedef struct {
    char name[64];
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE]; /* equal for two processes if and only if they use the same GPU */
    int sm_count;      /* number of multiprocessors, and so of blocks that run at once with one block on each */
    int compute_major; /* compute capability; 0.0 on the twin */
    int compute_minor;
    uint64_t server;     /* two processes with the same value, other than 0, run their kernels at the same time (MPS);
                            other processes take turns */
    char pci_bus_id[24]; /* "0000:1b:00.0"; empty if it is unknown or does not exist */
} mscclpp_gpu_info_t;

/*
 * A handle: the data by which another process, or this one, maps an allocation. It is sent as plain bytes. `offset` is
 * the distance from the first byte of the mapping to the exported address.
 */
typedef struct {
    uint64_t buffer_id; /* number of the exporter's allocation */
    uint64_t offset;    /* in bytes */
    uint64_t length;    /* size of the whole allocation, bytes */
    int64_t pid;        /* process id of the exporter */
    uint64_t token;     /* mscclpp_process_token of the exporter */
    uint64_t address;   /* start of the allocation in the exporter; an import in the same process yields this address */
    unsigned char opaque[MSCCLPP_GPU_HANDLE_SIZE];
} mscclpp_gpu_handle_t;

typedef struct mscclpp_gpu_stream mscclpp_gpu_stream_t;
typedef struct mscclpp_gpu_event mscclpp_gpu_event_t;
typedef struct mscclpp_gpu_prepared mscclpp_gpu_prepared_t;

/*
 * A question about a stream. `context` is what the caller of `stream_ask` has passed, for example room for the answer.
 */
typedef mscclpp_status_t (*mscclpp_gpu_ask_fn_t)(mscclpp_gpu_stream_t *stream, void *context);

typedef struct {
    void *to;
    const void *from;
    size_t size; /* bytes */
} mscclpp_gpu_copy_t;

/*
 * All functions may be called from any thread at any time unless they say otherwise. They leave the current device of
 * the calling thread unchanged, and log the cause of a failure. Sizes are in bytes, and those of allocations above 0.
 * Results are valid only after success.
 */
typedef struct {
    const char *name; /* "cuda" or "host" */
    bool twin;        /* kernels run on CPU threads, on memory of the host */

    /*
     * Counts the devices that this process can use. Returns MSCCLPP_ERR_NOT_SUPPORTED, which is not logged, if there is
     * no driver or no device.
     */
    mscclpp_status_t (*probe)(int *device_count_p);

    /*
     * Returns true if this process is likely to find a device, as far as this can be determined at almost no cost. In
     * that case `is_device` and `current_device` work before any call of `probe`: they call it once the application has
     * begun to use devices. May be NULL if probing is cheap.
     */
    bool (*is_likely)(void);

    /* Stores the calling thread's current device in *device_p, without creating a context. */
    mscclpp_status_t (*current_device)(int *device_p);

    /* Describes a device. */
    mscclpp_status_t (*device_info)(int device, mscclpp_gpu_info_t *info_p);

    /*
     * Returns true if a warp on `device` can store 128 aligned bytes, with one instruction, as a whole to the memory of
     * the device with that UUID. The answer is as far as the runtime can tell. Returns false if it does not know that
     * device. NULL: always true.
     */
    bool (*keeps_lines)(int device, const unsigned char *peer_uuid);

    /*
     * Loads all kernels on the device, because loading a kernel while another one spins can deadlock. May be called
     * repeatedly.
     */
    mscclpp_status_t (*preload)(int device);

    /*
     * Returns true if the address is MANAGED or DEVICE memory. This is the only function that calls on host buffers
     * need. It takes a few nanoseconds for the buffers of small calls (mca/common/base/host_memory.h); about others it
     * asks the driver. The caller must own the byte. *allocation_p, unless NULL, is set to what `reach` needs to know
     * of the memory, or to 0 if that was not asked.
     */
    bool (*is_device)(const void *address, uint64_t *allocation_p);

    /* Describes the allocation that contains an address. Never fails: unknown memory is MSCCLPP_MEM_HOST. */
    void (*query)(const void *address, mscclpp_mem_info_t *info_p);

    /*
     * Tells how kernels of `device` reach an address. Gives the same answer as `query`, but faster, because every call
     * needs it. Calls `settle` for the memory first; *reach_p is valid even if that fails. `allocation` is what
     * `is_device` has set for the address in the same call of the application, which may not free the memory in
     * between; or 0, and the driver is asked again.
     */
    mscclpp_status_t (*reach)(int device, const void *address, uint64_t allocation, mscclpp_reach_t *reach_p);

    /*
     * Orders the work that the caller starts next, in any stream, after the application's synchronous calls that read
     * or write the allocation of an address. Synchronous calls are those without a stream, such as cudaMemcpy and
     * cudaMemset. They return before the device has done their work.
     *
     * May wait for that work, and so for the application's work in streams for which the default stream waits. Once an
     * allocation is known, its synchronous calls wait themselves, and `settle` costs only a lookup. Any address is
     * allowed; for host memory nothing has to be done.
     */
    mscclpp_status_t (*settle)(const void *address);

    /* Allocates zeroed device memory that can be exported. `device_free` may wait for the device's running kernels. */
    mscclpp_status_t (*device_alloc)(int device, size_t size, void **address_p);
    void (*device_free)(int device, void *address);

    /*
     * Allocates device memory for this process only, with undefined contents. Only work that is put into the stream
     * between the two calls may use it. The memory comes from a pool if the runtime has one.
     */
    mscclpp_status_t (*temp_alloc)(mscclpp_gpu_stream_t *stream, size_t size, void **address_p);
    void (*temp_free)(mscclpp_gpu_stream_t *stream, void *address);

    /* Allocates zeroed pinned host memory; *device_address_p is its address for kernels. */
    mscclpp_status_t (*host_alloc)(size_t size, void **host_address_p, void **device_address_p);
    void (*host_free)(void *host_address);

    /*
     * Pins host memory that other code has allocated, from the start of a page. *device_address_p is its address for
     * kernels. `host_unregister` of the same address undoes this, and must be called before the memory is freed. The
     * reason for a failure is logged at the info level only, because some callers can do without pinned memory.
     */
    mscclpp_status_t (*host_register)(void *host_address, size_t size, void **device_address_p);
    void (*host_unregister)(void *host_address);

    /*
     * Creates a handle by which peers map the allocation that contains `address`. Returns MSCCLPP_ERR_NOT_SUPPORTED for
     * memory that cannot be exported.
     */
    mscclpp_status_t (*export_memory)(const void *address, mscclpp_gpu_handle_t *handle_p);

    /*
     * Returns the number of the allocation that contains `address`, as export_memory puts it into the handle. 0 if the
     * number is not known; then the memory cannot be exported, either. Takes far less time than export_memory.
     */
    uint64_t (*identify)(const void *address);

    /*
     * Maps the allocation of a handle for kernels of `device`. *base_p is the first byte of the mapping; the exported
     * address is at base + handle->offset. Returns MSCCLPP_ERR_NOT_SUPPORTED if the device cannot access the memory.
     * Each import is undone by one call of close_memory with the same handle and base.
     */
    mscclpp_status_t (*import_memory)(int device, const mscclpp_gpu_handle_t *handle, void **base_p);
    void (*close_memory)(int device, const mscclpp_gpu_handle_t *handle, void *base);

    /*
     * Exports the device memory [address, address + length) as a dma-buf, which other devices can register. The caller
     * closes *fd_p; `address` is *offset_p bytes after the start of the dma-buf. Returns MSCCLPP_ERR_NOT_SUPPORTED if
     * the runtime, the driver or the kernel of the operating system cannot do this. May be NULL.
     */
    mscclpp_status_t (*export_dmabuf)(const void *address, size_t length, int *fd_p, uint64_t *offset_p);

    /* Creates a stream that neither waits for nor delays the application's default stream. */
    mscclpp_status_t (*stream_create)(int device, mscclpp_gpu_stream_t **stream_p);
    void (*stream_destroy)(mscclpp_gpu_stream_t *stream);

    /*
     * Creates a wrapper of a stream that the application owns (a cudaStream_t). `stream_destroy` then frees only the
     * wrapper.
     */
    mscclpp_status_t (*stream_wrap)(int device, void *native, mscclpp_gpu_stream_t **stream_p);

    /*
     * Calls `use` with a wrapper that exists during this call only, and returns what `use` returns. Needs no memory.
     * May only be used to ask about the stream (is_capturing, stream_query).
     */
    mscclpp_status_t (*stream_ask)(int device, void *native, mscclpp_gpu_ask_fn_t use, void *context);

    /*
     * Returns true if work that is put into the stream is recorded in a graph, or if no work may be put into it now.
     */
    bool (*is_capturing)(mscclpp_gpu_stream_t *stream);

    /*
     * Makes the runtime call `release` when the graph in which the stream is captured, and all objects made from it,
     * are destroyed and no longer run. Must be called after a launch in that stream. Any thread may call `release`, so
     * `release` must not call the runtime. Returns MSCCLPP_ERR_NOT_SUPPORTED if the runtime cannot tell; then `release`
     * is never called.
     */
    mscclpp_status_t (*retain)(mscclpp_gpu_stream_t *stream, void (*release)(void *object), void *object);

    /*
     * Returns MSCCLPP_OK if all work in the stream is done, MSCCLPP_IN_PROGRESS if not, or the error of work that
     * failed.
     */
    mscclpp_status_t (*stream_query)(mscclpp_gpu_stream_t *stream);

    /* Waits for all work in the stream. */
    mscclpp_status_t (*stream_sync)(mscclpp_gpu_stream_t *stream);

    /*
     * Copies between any two kinds of memory, in the stream's order. With pageable host memory the call waits for the
     * copy.
     */
    mscclpp_status_t (*copy)(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size);

    /*
     * Copies `rows` rows of `width` bytes. On both sides, each row begins `pitch` bytes after the previous row; `pitch`
     * is at least `width`. All rows of a side are in one allocation.
     */
    mscclpp_status_t (*copy_rows)(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t pitch, size_t width,
                                  size_t rows);

    /*
     * Makes several copies, which do not overlap, in no particular order. If the runtime has a call for this, one call
     * makes all of them in parallel.
     */
    mscclpp_status_t (*copy_batch)(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count);

    /*
     * Copies by a copy engine between device memories, in the stream's order. The memories may be on any devices that
     * can access each other. The host never waits for the copy.
     */
    mscclpp_status_t (*put)(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size);

    /* An event marks a position in a stream's order. One thread at a time uses an event. */
    mscclpp_status_t (*event_create)(int device, mscclpp_gpu_event_t **event_p);
    void (*event_destroy)(mscclpp_gpu_event_t *event);

    /* Moves the event's mark behind all work that is in the stream now. The previous mark is forgotten. */
    mscclpp_status_t (*event_record)(mscclpp_gpu_event_t *event, mscclpp_gpu_stream_t *stream);

    /*
     * Returns MSCCLPP_OK if all work before the event's mark has ended, MSCCLPP_IN_PROGRESS if not, or the error of
     * work that failed. After MSCCLPP_OK, work that is started on any device sees the data of all puts before the mark.
     */
    mscclpp_status_t (*event_query)(mscclpp_gpu_event_t *event);

    /* Puts a kernel into the stream. Its arguments are copied. See device/launch/launch.h. */
    mscclpp_status_t (*launch)(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch);

    /*
     * Prepares a launch that will be repeated with the same arguments, so that it starts faster than with `launch`. A
     * prepared launch must not be started again or destroyed before the kernel of its last start has ended. Preparing
     * takes about 100 us. `launch_prepare` may be NULL if the runtime cannot prepare launches.
     */
    mscclpp_status_t (*launch_prepare)(int device, const mscclpp_dev_launch_t *launch,
                                       mscclpp_gpu_prepared_t **prepared_p);
    mscclpp_status_t (*launch_prepared)(mscclpp_gpu_stream_t *stream, mscclpp_gpu_prepared_t *prepared);
    void (*prepared_destroy)(mscclpp_gpu_prepared_t *prepared);

    /* Does what mscclpp_gpu_twin_set_progress does. NULL if no kernel of this runtime runs in the caller's thread. */
    void (*set_progress)(void (*progress)(void *context), void *context);
} mscclpp_gpu_ops_t;

extern const mscclpp_gpu_ops_t mscclpp_gpu_twin_ops;
#if MSCCLPP_HAVE_CUDA
extern const mscclpp_gpu_ops_t mscclpp_gpu_cuda_ops;
#endif

/*
 * Selects the runtime for the value of the parameter `device`: "auto" (CUDA if a device can be used), "cuda" or "host".
 * If there is no such runtime, returns MSCCLPP_ERR_NOT_SUPPORTED, which is logged as an error for "cuda" and not logged
 * for "auto". Any other word is an error: MSCCLPP_ERR_INVALID, which is logged. *ops_p is set only on success.
 */
mscclpp_status_t mscclpp_gpu_open(const char *device, const mscclpp_gpu_ops_t **ops_p);

/*
 * Selects the runtime, for a process that may never use a device: "auto" accepts a device that is only likely to exist,
 * and the first functions that are called do the probing. Fails as mscclpp_gpu_open does.
 */
mscclpp_status_t mscclpp_gpu_open_later(const char *device, const mscclpp_gpu_ops_t **ops_p);

/*
 * Sets the function `progress` for the calling thread. Kernels of the host twin may run in the caller's own thread.
 * From now on, kernels of this thread call `progress` while they wait, so that messages that the peers need are still
 * sent and received. NULL removes the function.
 */
void mscclpp_gpu_twin_set_progress(void (*progress)(void *context), void *context);

/*
 * Makes the twin treat an address of the application as ordinary host memory if `is_host` returns true. NULL removes
 * the function. For tests.
 */
void mscclpp_gpu_twin_set_filter(bool (*is_host)(const void *address));

/*
 * Gives the twin a function that finds the bounds of the allocation that contains an address of the application's
 * device memory. `bounds` leaves its results unchanged if it does not know the address. NULL: all bounds are unknown.
 * With known bounds, peers can map memory that another copy of this library in the process has allocated. For tests.
 */
void mscclpp_gpu_twin_set_bounds(void (*bounds)(const void *address, void **base_p, size_t *length_p));

#endif
