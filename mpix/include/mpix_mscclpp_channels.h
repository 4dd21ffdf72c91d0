/*
 * Memory and channels for kernels of the application: the host's part. The kernels' part is mpix_mscclpp_device.h.
 * Link with -lmpix_mscclpp.
 *
 *     MPIX_Mscclpp_memory_alloc(comm, bytes, &base, &memory);
 *     MPIX_Mscclpp_channels_create(memory, MPIX_MSCCLPP_CHANNEL_MEMORY, 1, &peer, 1, &channels);
 *     MPIX_Mscclpp_channels_get_device(channels, MPIX_MSCCLPP_DEVICE_ABI, &channel, sizeof(channel));
 *     exchange<<<1, 256, 0, stream>>>(channel);
 *     cudaStreamSynchronize(stream);
 *     MPIX_Mscclpp_channels_free(&channels);
 *     MPIX_Mscclpp_memory_free(&memory);
 *
 * The functions `alloc`, `register`, `create` and `free` are collective: all ranks of the communicator call them in the
 * same order, each of them waits for the other ranks, and all ranks return the same. The first collective call of a
 * communicator makes the objects that channels need. These functions may also wait for running kernels, as cudaMalloc
 * and cudaFree do. All other functions are local and wait for no rank. Only one thread at a time may use the objects of
 * one communicator.
 *
 * Free objects before their communicator, channels before their memory, and each object only after the kernels that use
 * it have ended on all ranks. There must be 2 to 64 ranks, and each must have its own GPU or share one under MPS;
 * otherwise the collective calls return MPI_ERR_UNSUPPORTED_OPERATION on all ranks. Ranks may be on several nodes: port
 * channels connect any two ranks, over the transport that coll_mscclpp_transport names; memory channels, rooms and
 * mpix_peer_pointer are for ranks of one node.
 *
 * Functions return MPI error codes, through the communicator's error handler. For a wrong value they print a line that
 * names the value and the allowed values. MPIX_Mscclpp_get_async_error reports errors in kernels: a wait that ended
 * after the deadline (coll_mscclpp_timeout), an access beyond the end of memory, a failed handler.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_CHANNELS_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_CHANNELS_H

#include <stddef.h>
#include <stdint.h>

#include "mpix_mscclpp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Handles of objects. */
typedef struct mpix_mscclpp_memory *MPIX_Mscclpp_memory;
typedef struct mpix_mscclpp_channels *MPIX_Mscclpp_channels;
typedef struct mpix_mscclpp_room *MPIX_Mscclpp_room;

/*
 * Memory that other ranks can reach: kernels of ranks on the same node, and port channels of all ranks. Sizes may
 * differ between ranks, and may be 0. `alloc` allocates device memory and sets it to 0. `register` registers device
 * memory of the application, which has to be in one allocation that other processes can map (from cudaMalloc; on the
 * host twin only from MPIX_Mscclpp_memory_alloc). The application must not free this memory before it calls `free`.
 * `free` sets the handle to NULL, or returns MPI_ERR_ARG and frees nothing while channels use the memory.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_memory_alloc(MPI_Comm comm, MPI_Aint bytes, void **base,
                                                  MPIX_Mscclpp_memory *memory);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_memory_register(MPI_Comm comm, void *base, MPI_Aint bytes,
                                                     MPIX_Mscclpp_memory *memory);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_memory_free(MPIX_Mscclpp_memory *memory);

/*
 * Writes the handle that kernels use, an mpix_memory_t. `abi` is MPIX_MSCCLPP_DEVICE_ABI of the header with which the
 * kernels were compiled, and `size` is the size of the handle in that header. A library that does not know the abi
 * prints a message and returns MPI_ERR_UNSUPPORTED_OPERATION. The same holds for the handles of channels and rooms.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_memory_get_device(MPIX_Mscclpp_memory memory, unsigned abi, void *handle,
                                                       size_t size);

/*
 * Channels between pairs of ranks, over a memory of both ranks. `peers` names n other ranks, each once; rank i must
 * name rank j exactly if j names i. There are `per_peer` channels to each peer, so that several blocks can have one
 * channel each. Channel k to peers[p] has the index p * per_peer + k, and is connected to the peer's channel k to this
 * rank. `kind` and `per_peer` must be equal on all ranks. A rank may name no peers (n = 0).
 */
enum {
    MPIX_MSCCLPP_CHANNEL_AUTO,   /* memory channels if all ranks are on one node, else port channels */
    MPIX_MSCCLPP_CHANNEL_MEMORY, /* kernels load and store: mpix_memory_channel_t */
    MPIX_MSCCLPP_CHANNEL_PORT    /* the CPU moves the bytes for kernels: mpix_port_channel_t */
};
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_create(MPIX_Mscclpp_memory memory, int kind, int n, const int peers[],
                                                     int per_peer, MPIX_Mscclpp_channels *channels);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_free(MPIX_Mscclpp_channels *channels);

/* Sets *kind to the kind of the channels, which AUTO may have chosen: MPIX_MSCCLPP_CHANNEL_MEMORY or _PORT. */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_kind(MPIX_Mscclpp_channels channels, int *kind);

/* Writes n * per_peer handles of `element` bytes each, in the order of their indices. */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_get_device(MPIX_Mscclpp_channels channels, unsigned abi, void *array,
                                                         size_t element);

/*
 * Between open and close, a thread of the library carries out the requests that kernels push into port channels. Open
 * the channels before such a kernel is launched. Over a network the thread also receives data, so a rank whose kernels
 * only wait has to open them, too, and the thread runs until the channels are freed. The two calls may be nested. Make
 * the last call of close after the kernels have ended; it waits until all their requests have been carried out. Memory
 * channels need neither of these calls.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_open(MPIX_Mscclpp_channels channels);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_close(MPIX_Mscclpp_channels channels);

/* A request that a kernel has pushed with mpix_port_push, or an item of a list. */
typedef struct {
    uint64_t to;      /* 39 bits; in a list: offset in the peer's memory, bytes */
    uint64_t from;    /* 39 bits; in a list: offset in own memory, bytes */
    uint64_t value;   /* MPIX_PORT_ADD: the value that is added */
    uint32_t size;    /* 30 bits; bytes */
    uint32_t type;    /* MPIX_PORT_... of mpix_mscclpp/port.h, or, for a handler, any number from 1 to 7 */
    uint32_t channel; /* the channel's index */
    uint32_t reserved;
} MPIX_Mscclpp_fields;

/*
 * A handler carries out the triggers of one port channel of this rank in place of puts and signals. The library's
 * thread calls the handler in the order in which the triggers were pushed. Meanwhile other channels of the object wait,
 * so a handler must not block. A handler must not call this library, MPI, or a function of CUDA that waits. The handler
 * sees everything that the kernel wrote before the push. If the handler returns AGAIN, it is called again with the same
 * trigger, and later triggers of the channel wait. If the handler returns ERROR, all channels of the object fail, and
 * waits of kernels end.
 * If a trigger's type contains MPIX_PORT_FLUSH, mpix_port_push returns when the handler is done. With NULL as handler,
 * the channel carries out puts and signals again. Set handlers only while the channels are closed.
 */
enum { MPIX_MSCCLPP_HANDLER_DONE, MPIX_MSCCLPP_HANDLER_AGAIN, MPIX_MSCCLPP_HANDLER_ERROR };
typedef int MPIX_Mscclpp_handler(void *context, const MPIX_Mscclpp_fields *fields);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_set_handler(MPIX_Mscclpp_channels channels, int index,
                                                          MPIX_Mscclpp_handler *handler, void *context);

/*
 * A prepared list: each trigger of the channel, whatever its fields, makes the CPU carry out all items in their order.
 * Each item names a channel of the same object by its index, and has the type MPIX_PORT_DATA, MPIX_PORT_SIGNAL, both,
 * or MPIX_PORT_ADD. If a trigger's type contains MPIX_PORT_FLUSH, mpix_port_push returns when the sources of all puts
 * may be overwritten. The list is copied. With the count 0, the channel carries out puts and signals again. Set lists
 * only while the channels are closed.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_set_list(MPIX_Mscclpp_channels channels, int index, int count,
                                                       const MPIX_Mscclpp_fields items[]);

/*
 * A room: memory for barriers and small all-reduces inside kernels, in which block i of one rank works together with
 * block i of all other ranks. At most `blocks` blocks take part, and each block reduces at most `bytes` bytes in a
 * call. All ranks must pass the same values. The room needs 4 * (number of ranks) * blocks * bytes of device memory.
 * The handle for kernels is an mpix_room_t.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_room_create(MPI_Comm comm, int blocks, MPI_Aint bytes, MPIX_Mscclpp_room *room);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_room_get_device(MPIX_Mscclpp_room room, unsigned abi, void *handle, size_t size);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_room_free(MPIX_Mscclpp_room *room);

#ifdef __cplusplus
}
#endif

#endif
