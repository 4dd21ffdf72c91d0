/*
 * The GPU runtime behind one table of operations, with two implementations: gpu_cuda (the CUDA runtime) and gpu_host
 * (the host twin: shared memory for device memory, CPU threads for blocks). Nothing above this file calls a GPU API.
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
    MSCCLPP_MEM_MANAGED, /* migrates by itself; never exportable */
    MSCCLPP_MEM_DEVICE
} mscclpp_mem_kind_t;

/* How kernels of a device come to some memory. */
typedef enum {
    MSCCLPP_REACH_NONE,
    MSCCLPP_REACH_FAR, /* it lies, or may lie, elsewhere */
    MSCCLPP_REACH_HOME /* it is the device's own and stays there */
} mscclpp_reach_t;

/* What is known of the allocation behind an address. */
typedef struct {
    mscclpp_mem_kind_t kind;
    int device;         /* owner of DEVICE and MANAGED memory, else -1 */
    uint64_t buffer_id; /* unique in the process for ever, so that a reused address is not taken for the old buffer; 0
                           if unknown */
    void *base;         /* of the allocation; NULL if unknown */
    size_t length;      /* of the allocation in bytes; 0 if unknown */
} mscclpp_mem_info_t;

typedef struct {
    char name[64];
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE]; /* equal for two processes exactly if they use the same GPU */
    int sm_count;                              /* how many blocks run at once at one block a multiprocessor */
    int compute_major;
    int compute_minor;
    uint64_t server;     /* equal and not 0: kernels of both processes make progress together; else they take turns */
    char pci_bus_id[24]; /* "0000:1b:00.0"; empty if it has none or it is not known */
} mscclpp_gpu_info_t;

/*
 * A way for another process (or for this one) to map an allocation. Plain bytes, to be sent as they are. `offset` is
 * where the exported address lies behind the mapping's first byte.
 */
typedef struct {
    uint64_t buffer_id; /* of the exporter's allocation */
    uint64_t offset;    /* bytes */
    uint64_t length;    /* of the whole allocation, bytes */
    int64_t pid;        /* of the exporter */
    uint64_t token;     /* mscclpp_process_token of the exporter */
    uint64_t address;   /* of the allocation in the exporter: what an import in the same process yields */
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
 * All functions may be called from any thread at any time unless they say otherwise, leave the calling thread's
 * current device as they found it, and log the cause of a failure.
 */
typedef struct {
    const char *name; /* "cuda" or "host" */
    bool twin;        /* kernels run on CPU threads, on memory of the host */

    /* How many devices this process can use. MSCCLPP_ERR_NOT_SUPPORTED, silently, without a driver or a device. */
    mscclpp_status_t (*probe)(int *device_count_p);

    /*
     * True if this process is likely to find a device, as far as can be told at next to no cost. Where it is,
     * `is_device` and `current_device` work without `probe`: they probe when the application has begun to use devices.
     * May be NULL: there is nothing dear about probing.
     */
    bool (*is_likely)(void);

    /* The calling thread's current device, without creating a context. */
    mscclpp_status_t (*current_device)(int *device_p);
    mscclpp_status_t (*device_info)(int device, mscclpp_gpu_info_t *info_p);

    /*
     * True if stores of 128 aligned bytes by one instruction of a warp on `device` should reach the memory of the
     * device of that UUID whole, as far as the runtime can tell; false if it does not know that device. May be NULL:
     * always.
     */
    bool (*keeps_lines)(int device, const unsigned char *peer_uuid);

    /* Loads every kernel on the device, since loading one while another spins can deadlock. Idempotent. */
    mscclpp_status_t (*preload)(int device);

    /*
     * True if the address is MANAGED or DEVICE memory. The only call on the path of host buffers: a few nanoseconds for
     * those of small calls (mca/common/base/host_memory.h), a question to the driver for others. The byte must be the
     * caller's to use.
     */
    bool (*is_device)(const void *address);

    /* Never fails: an unknown address is MSCCLPP_MEM_HOST. */
    void (*query)(const void *address, mscclpp_mem_info_t *info_p);

    /* What `query` would say, but fast: on the path of every call. Settles the memory first, as below. */
    mscclpp_status_t (*reach)(int device, const void *address, mscclpp_reach_t *reach_p);

    /*
     * Orders what the caller starts next, in whatever stream, behind the runtime's synchronous calls (those without a
     * stream, such as cudaMemcpy and cudaMemset) that read or write the allocation of an address: they return before
     * the device has done their work. May wait for that, and with it for the application's work in streams that the
     * default stream waits for. Costs a lookup once the allocation is known, since synchronous calls then wait by
     * themselves. Any address is allowed; host memory needs nothing.
     */
    mscclpp_status_t (*settle)(const void *address);

    /* Device memory that can be exported, zeroed. `device_free` may wait for the device's running kernels. */
    mscclpp_status_t (*device_alloc)(int device, size_t size, void **address_p);
    void (*device_free)(int device, void *address);

    /* Device memory for local use, ordered in the stream (a pool allocation where the runtime has one). */
    mscclpp_status_t (*temp_alloc)(mscclpp_gpu_stream_t *stream, size_t size, void **address_p);
    void (*temp_free)(mscclpp_gpu_stream_t *stream, void *address);

    /* Zeroed pinned host memory; *device_address_p is where kernels see it. */
    mscclpp_status_t (*host_alloc)(size_t size, void **host_address_p, void **device_address_p);
    void (*host_free)(void *host_address);

    /*
     * Pins memory of the host that somebody else allocated, from the beginning of a page on, until `host_unregister`
     * of the same address, before it is freed; *device_address_p is where kernels see it. Why it cannot be pinned is
     * logged at the info level: some callers do without.
     */
    mscclpp_status_t (*host_register)(void *host_address, size_t size, void **device_address_p);
    void (*host_unregister)(void *host_address);

    /* Makes a handle for [address, address + 1). MSCCLPP_ERR_NOT_SUPPORTED for memory that cannot be exported. */
    mscclpp_status_t (*export_memory)(const void *address, mscclpp_gpu_handle_t *handle_p);

    /*
     * Maps the allocation of a handle for kernels of `device`; *base_p is the mapping's first byte (the exported
     * address is at base + handle->offset). Each import is undone by one close with the same handle and base.
     */
    mscclpp_status_t (*import_memory)(int device, const mscclpp_gpu_handle_t *handle, void **base_p);
    void (*close_memory)(int device, const mscclpp_gpu_handle_t *handle, void *base);

    /*
     * A dma-buf of the device memory [address, address + length), which other devices can register: *fd_p is the
     * caller's to close, and `address` lies *offset_p bytes behind its start. MSCCLPP_ERR_NOT_SUPPORTED where the
     * runtime, the driver or the kernel has none. May be NULL.
     */
    mscclpp_status_t (*export_dmabuf)(const void *address, size_t length, int *fd_p, uint64_t *offset_p);

    /* A stream that neither waits for nor delays the application's default stream. */
    mscclpp_status_t (*stream_create)(int device, mscclpp_gpu_stream_t **stream_p);
    void (*stream_destroy)(mscclpp_gpu_stream_t *stream);

    /* Wraps a stream that the application owns (a cudaStream_t); destroy frees only the wrapper. */
    mscclpp_status_t (*stream_wrap)(int device, void *native, mscclpp_gpu_stream_t **stream_p);

    /* MSCCLPP_OK if all work is done, MSCCLPP_IN_PROGRESS, or the error of the failed work. */
    mscclpp_status_t (*stream_query)(mscclpp_gpu_stream_t *stream);

    /* Waits for all work in the stream. */
    mscclpp_status_t (*stream_sync)(mscclpp_gpu_stream_t *stream);

    /* Copies between any two kinds of memory, in the stream's order. Pageable host memory makes the call wait. */
    mscclpp_status_t (*copy)(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size);

    /*
     * The same for `rows` rows of `width` bytes, each `pitch` >= `width` bytes behind the one before on both sides. All
     * rows of a side lie in one allocation.
     */
    mscclpp_status_t (*copy_rows)(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t pitch, size_t width,
                                  size_t rows);

    /*
     * Several copies, in no order among themselves: by one call of the runtime, and side by side, where that has a call
     * for it. They do not overlap.
     */
    mscclpp_status_t (*copy_batch)(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count);

    /*
     * A copy by a copy engine between device memories of any devices that reach each other, in the stream's order and
     * never waited for by the host.
     */
    mscclpp_status_t (*put)(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size);

    /* A place in a stream's order. An event is used by one thread at a time. */
    mscclpp_status_t (*event_create)(int device, mscclpp_gpu_event_t **event_p);
    void (*event_destroy)(mscclpp_gpu_event_t *event);

    /* Behind all that is in the stream now; a place that the event had before is forgotten. */
    mscclpp_status_t (*event_record)(mscclpp_gpu_event_t *event, mscclpp_gpu_stream_t *stream);

    /*
     * MSCCLPP_OK once everything before the place has ended, MSCCLPP_IN_PROGRESS, or the error of failed work. What
     * puts before it brought is then seen by all that is started later, on any device, by whoever learns of it.
     */
    mscclpp_status_t (*event_query)(mscclpp_gpu_event_t *event);

    /* Starts a kernel in the stream's order; `args` is copied. See device/launch/launch.h. */
    mscclpp_status_t (*launch)(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch);

    /*
     * Makes ready a launch that is to be repeated, with the arguments as they are; starting it costs less than
     * `launch`. It is started again, and destroyed, only once the kernel of its last start has ended. Takes some 100
     * us. `launch_prepare` may be NULL: there is none of this.
     */
    mscclpp_status_t (*launch_prepare)(int device, const mscclpp_dev_launch_t *launch,
                                       mscclpp_gpu_prepared_t **prepared_p);
    mscclpp_status_t (*launch_prepared)(mscclpp_gpu_stream_t *stream, mscclpp_gpu_prepared_t *prepared);
    void (*prepared_destroy)(mscclpp_gpu_prepared_t *prepared);

    /* See mscclpp_gpu_twin_set_progress. NULL: no kernel runs in the caller's thread. */
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
 * The same for a process that may never use a device: "auto" is content with one that is likely, and leaves probing to
 * the functions that are called first.
 */
mscclpp_status_t mscclpp_gpu_open_later(const char *device, const mscclpp_gpu_ops_t **ops_p);

/*
 * Lets kernels of the host twin that run in the caller's own thread call `progress` while they wait, so that messages
 * which the peers need keep moving. NULL stops it. Set per thread.
 */
void mscclpp_gpu_twin_set_progress(void (*progress)(void *context), void *context);

/*
 * Testing: the twin looks upon addresses of the application as ordinary host memory for which `is_host` answers true.
 * NULL: none.
 */
void mscclpp_gpu_twin_set_filter(bool (*is_host)(const void *address));

/*
 * Testing: what the twin tells of the allocation behind an address of the application's device memory. `bounds` leaves
 * its results alone where it knows nothing. NULL: all bounds are unknown. With it peers can map such memory that
 * another copy of this library in the process has allocated.
 */
void mscclpp_gpu_twin_set_bounds(void (*bounds)(const void *address, void **base_p, size_t *length_p));

#endif
