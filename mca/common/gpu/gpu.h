/*
 * The GPU runtime behind one table of functions, with two implementations: mca/common/gpu/cuda (the CUDA runtime) and
 * mca/common/gpu/twin (the host twin: shared memory in place of device memory, CPU threads in place of blocks). Nothing
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
    MSCCLPP_MEM_HOST,    /* ordinary host memory: no kernel can touch it */
    MSCCLPP_MEM_PINNED,  /* host memory that kernels of the queried device can touch at the same address */
    MSCCLPP_MEM_MANAGED, /* migrates between host and devices by itself; never exportable */
    MSCCLPP_MEM_DEVICE
} mscclpp_mem_kind_t;

/* How kernels of a device reach some memory. */
typedef enum {
    MSCCLPP_REACH_NONE, /* they cannot touch it */
    MSCCLPP_REACH_FAR,  /* kernels reach it, but it is, or may be, in another place than the device's own memory */
    MSCCLPP_REACH_HOME  /* it is the device's own memory and stays there */
} mscclpp_reach_t;

/* What is known of the allocation behind an address. */
typedef struct {
    mscclpp_mem_kind_t kind;
    int device;         /* owner of DEVICE and MANAGED memory, else -1 */
    uint64_t buffer_id; /* unique in the process forever, so that reused addresses are not mistaken for the old
                           buffer; 0 if unknown */
    void *base;         /* start of the allocation; NULL if unknown */
    size_t length;      /* size of the allocation, bytes; 0 if unknown */
} mscclpp_mem_info_t;

/* What is known of a device. */
typedef struct {
    char name[64];
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE]; /* equal for two processes exactly if they use the same GPU */
    int sm_count;      /* number of multiprocessors; this many blocks run at once with one block on each */
    int compute_major; /* compute capability; 0.0 on the twin */
    int compute_minor;
    uint64_t server;     /* two processes with the same value, other than 0, run their kernels at the same time (MPS);
                            others take turns */
    char pci_bus_id[24]; /* "0000:1b:00.0"; empty if it is not known or does not exist */
} mscclpp_gpu_info_t;

/*
 * What another process (or this one) needs to map an allocation, as plain bytes to be sent. `offset` is the distance
 * from the mapping's first byte to the exported address.
 */
typedef struct {
    uint64_t buffer_id; /* number of the exporter's allocation */
    uint64_t offset;    /* bytes */
    uint64_t length;    /* size of the whole allocation, bytes */
    int64_t pid;        /* process id of the exporter */
    uint64_t token;     /* mscclpp_process_token of the exporter */
    uint64_t address;   /* start of the allocation in the exporter; an import in the same process yields this address */
    unsigned char opaque[MSCCLPP_GPU_HANDLE_SIZE];
} mscclpp_gpu_handle_t;

typedef struct mscclpp_gpu_stream mscclpp_gpu_stream_t;
typedef struct mscclpp_gpu_event mscclpp_gpu_event_t;
typedef struct mscclpp_gpu_prepared mscclpp_gpu_prepared_t;

typedef struct {
    void *to;
    const void *from;
    size_t size; /* bytes */
} mscclpp_gpu_copy_t;

/*
 * All functions may be called from any thread at any time unless they say otherwise. They leave the calling thread's
 * current device as they found it, and log the cause of a failure.
 */
typedef struct {
    const char *name; /* "cuda" or "host" */
    bool twin;        /* kernels run on CPU threads, on memory of the host */

    /*
     * Counts the devices that this process can use. MSCCLPP_ERR_NOT_SUPPORTED, silently, if there is no driver or no
     * device.
     */
    mscclpp_status_t (*probe)(int *device_count_p);

    /*
     * True if this process is likely to find a device, as far as can be told at next to no cost. In that case
     * `is_device` and `current_device` work before any call of `probe`: they probe once the application has begun to
     * use devices. May be NULL if probing is cheap.
     */
    bool (*is_likely)(void);

    /* Gives the calling thread's current device, without creating a context. */
    mscclpp_status_t (*current_device)(int *device_p);

    /* Describes a device. */
    mscclpp_status_t (*device_info)(int device, mscclpp_gpu_info_t *info_p);

    /*
     * True if one store instruction of a warp on `device`, of 128 aligned bytes, should reach the memory of the device
     * with that UUID as a whole, as far as the runtime can tell. False if it does not know that device. NULL: always
     * true.
     */
    bool (*keeps_lines)(int device, const unsigned char *peer_uuid);

    /* Loads every kernel on the device, because loading one while another spins can deadlock. Idempotent. */
    mscclpp_status_t (*preload)(int device);

    /*
     * True if the address is MANAGED or DEVICE memory. This is the only function that calls on host buffers need. It
     * takes a few nanoseconds for the buffers of small calls (mca/common/base/host_memory.h); about others it asks the
     * driver. The caller must own the byte. *allocation_p, unless NULL, is set to what `reach` needs to know of the
     * memory, or to 0 if that was not asked.
     */
    bool (*is_device)(const void *address, uint64_t *allocation_p);

    /* Describes the allocation behind an address. Never fails: unknown memory is MSCCLPP_MEM_HOST. */
    void (*query)(const void *address, mscclpp_mem_info_t *info_p);

    /*
     * Tells how kernels of `device` reach an address. Gives the same answer as `query`, but faster, because every call
     * needs it. Calls `settle` for the memory first. `allocation` is what `is_device` has set for the address in the
     * same call of the application, which may not free the memory in between; or 0, and the driver is asked again.
     */
    mscclpp_status_t (*reach)(int device, const void *address, uint64_t allocation, mscclpp_reach_t *reach_p);

    /*
     * Orders the work that the caller starts next, in any stream, after the application's synchronous calls (those
     * without a stream, such as cudaMemcpy and cudaMemset) that read or write the allocation of an address. Those calls
     * return before the device has done their work.
     *
     * May wait for that work, and so for the application's work in streams that the default stream waits for. Once an
     * allocation is known, its synchronous calls wait by themselves, and `settle` costs only a lookup. Any address is
     * allowed; host memory needs nothing.
     */
    mscclpp_status_t (*settle)(const void *address);

    /* Allocates zeroed device memory that can be exported. `device_free` may wait for the device's running kernels. */
    mscclpp_status_t (*device_alloc)(int device, size_t size, void **address_p);
    void (*device_free)(int device, void *address);

    /*
     * Allocates device memory for this process alone, with undefined contents. Only work that is put into the stream
     * between the two calls may use it. It comes from a pool where the runtime has one.
     */
    mscclpp_status_t (*temp_alloc)(mscclpp_gpu_stream_t *stream, size_t size, void **address_p);
    void (*temp_free)(mscclpp_gpu_stream_t *stream, void *address);

    /* Allocates zeroed pinned host memory; *device_address_p is where kernels see it. */
    mscclpp_status_t (*host_alloc)(size_t size, void **host_address_p, void **device_address_p);
    void (*host_free)(void *host_address);

    /*
     * Pins host memory that somebody else allocated, from the start of a page. `host_unregister` of the same address
     * undoes it, and must come before the memory is freed. *device_address_p is where kernels see the memory. The
     * reason for a failure is logged at the info level only, as some callers can do without.
     */
    mscclpp_status_t (*host_register)(void *host_address, size_t size, void **device_address_p);
    void (*host_unregister)(void *host_address);

    /*
     * Makes a handle by which peers map the allocation that `address` lies in. MSCCLPP_ERR_NOT_SUPPORTED for memory
     * that cannot be exported.
     */
    mscclpp_status_t (*export_memory)(const void *address, mscclpp_gpu_handle_t *handle_p);

    /*
     * Maps the allocation of a handle for kernels of `device`. *base_p is the mapping's first byte; the exported
     * address is at base + handle->offset. MSCCLPP_ERR_NOT_SUPPORTED if the device cannot reach the memory. Each import
     * is undone by one close with the same handle and base.
     */
    mscclpp_status_t (*import_memory)(int device, const mscclpp_gpu_handle_t *handle, void **base_p);
    void (*close_memory)(int device, const mscclpp_gpu_handle_t *handle, void *base);

    /*
     * Exports the device memory [address, address + length) as a dma-buf, which other devices can register. The caller
     * closes *fd_p; `address` lies *offset_p bytes after the start of the dma-buf. MSCCLPP_ERR_NOT_SUPPORTED where the
     * runtime, the driver or the kernel cannot do this. May be NULL.
     */
    mscclpp_status_t (*export_dmabuf)(const void *address, size_t length, int *fd_p, uint64_t *offset_p);

    /* Makes a stream that neither waits for nor delays the application's default stream. */
    mscclpp_status_t (*stream_create)(int device, mscclpp_gpu_stream_t **stream_p);
    void (*stream_destroy)(mscclpp_gpu_stream_t *stream);

    /*
     * Makes a stream of ours from one that the application owns (a cudaStream_t). `stream_destroy` then frees only the
     * wrapper.
     */
    mscclpp_status_t (*stream_wrap)(int device, void *native, mscclpp_gpu_stream_t **stream_p);

    /* True if work that is put into the stream is recorded in a graph instead of carried out. */
    bool (*is_capturing)(mscclpp_gpu_stream_t *stream);

    /*
     * Calls `release` when the graph that the stream is captured in, and all that is made of it, are destroyed and no
     * longer run. Call this after a launch in that stream. Any thread may call `release`, so it must not call the
     * runtime. MSCCLPP_ERR_NOT_SUPPORTED if the runtime cannot tell; then `release` is never called.
     */
    mscclpp_status_t (*retain)(mscclpp_gpu_stream_t *stream, void (*release)(void *object), void *object);

    /*
     * Tells whether all work in the stream is done: MSCCLPP_OK, MSCCLPP_IN_PROGRESS, or the error of work that failed.
     */
    mscclpp_status_t (*stream_query)(mscclpp_gpu_stream_t *stream);

    /* Waits for all work in the stream. */
    mscclpp_status_t (*stream_sync)(mscclpp_gpu_stream_t *stream);

    /* Copies between any two kinds of memory, in the stream's order. Pageable host memory makes the call wait. */
    mscclpp_status_t (*copy)(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size);

    /*
     * Copies `rows` rows of `width` bytes. On both sides, each row begins `pitch` bytes after the one before; `pitch`
     * is at least `width`. All rows of a side lie in one allocation.
     */
    mscclpp_status_t (*copy_rows)(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t pitch, size_t width,
                                  size_t rows);

    /*
     * Makes several copies, which do not overlap, in no particular order. Where the runtime has a call for this, they
     * are made by one call and in parallel.
     */
    mscclpp_status_t (*copy_batch)(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count);

    /*
     * Copies by a copy engine between device memories, of any devices that reach each other, in the stream's order. The
     * host never waits for the copy.
     */
    mscclpp_status_t (*put)(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size);

    /* An event marks a place in a stream's order. One thread at a time uses it. */
    mscclpp_status_t (*event_create)(int device, mscclpp_gpu_event_t **event_p);
    void (*event_destroy)(mscclpp_gpu_event_t *event);

    /* Moves the event's mark behind all work that is in the stream now. An earlier mark is forgotten. */
    mscclpp_status_t (*event_record)(mscclpp_gpu_event_t *event, mscclpp_gpu_stream_t *stream);

    /*
     * Tells whether everything before the event's mark has ended: MSCCLPP_OK, MSCCLPP_IN_PROGRESS, or the error of work
     * that failed. After MSCCLPP_OK, work that is started on any device sees the data of all puts before the mark.
     */
    mscclpp_status_t (*event_query)(mscclpp_gpu_event_t *event);

    /* Puts a kernel into the stream. Its arguments are copied. See device/launch/launch.h. */
    mscclpp_status_t (*launch)(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch);

    /*
     * Prepares a launch that will be repeated with the same arguments, so that starting it costs less than `launch`.
     * Start it again, or destroy it, only after the kernel of its last start has ended. Preparing takes some 100 us.
     * `launch_prepare` may be NULL if the runtime cannot prepare launches.
     */
    mscclpp_status_t (*launch_prepare)(int device, const mscclpp_dev_launch_t *launch,
                                       mscclpp_gpu_prepared_t **prepared_p);
    mscclpp_status_t (*launch_prepared)(mscclpp_gpu_stream_t *stream, mscclpp_gpu_prepared_t *prepared);
    void (*prepared_destroy)(mscclpp_gpu_prepared_t *prepared);

    /* Like mscclpp_gpu_twin_set_progress. NULL if no kernel of this runtime runs in the caller's thread. */
    void (*set_progress)(void (*progress)(void *context), void *context);
} mscclpp_gpu_ops_t;

extern const mscclpp_gpu_ops_t mscclpp_gpu_twin_ops;
#if MSCCLPP_HAVE_CUDA
extern const mscclpp_gpu_ops_t mscclpp_gpu_cuda_ops;
#endif

/*
 * Picks the runtime for the value of the parameter `device`: "auto" (CUDA where a device can be used), "cuda" or
 * "host". MSCCLPP_ERR_NOT_SUPPORTED, silently, if "auto" finds none; logged as an error if "cuda" does.
 */
mscclpp_status_t mscclpp_gpu_open(const char *device, const mscclpp_gpu_ops_t **ops_p);

/*
 * Like mscclpp_gpu_open, for a process that may never use a device: "auto" accepts a device that is only likely to
 * exist, and probing is left to the first functions that are called.
 */
mscclpp_status_t mscclpp_gpu_open_later(const char *device, const mscclpp_gpu_ops_t **ops_p);

/*
 * Kernels of the host twin may run in the caller's own thread. From now on, those of this thread call `progress` while
 * they wait, so that messages which the peers need keep moving. NULL removes the function.
 */
void mscclpp_gpu_twin_set_progress(void (*progress)(void *context), void *context);

/*
 * For tests: the twin treats addresses of the application as ordinary host memory if `is_host` returns true. NULL:
 * none.
 */
void mscclpp_gpu_twin_set_filter(bool (*is_host)(const void *address));

/*
 * For tests: tells the twin the bounds of the allocation behind an address of the application's device memory. `bounds`
 * leaves its results alone if it knows nothing. NULL: all bounds are unknown. With known bounds, peers can map memory
 * that another copy of this library in the process has allocated.
 */
void mscclpp_gpu_twin_set_bounds(void (*bounds)(const void *address, void **base_p, size_t *length_p));

#endif
