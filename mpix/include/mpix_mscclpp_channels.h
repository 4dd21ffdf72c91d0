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
 * Collective are `alloc`, `register`, `create` and `free`: all ranks of the communicator call them in the same order,
 * and each waits for the others and ends alike on all. The first one of a communicator makes what channels need. They
 * may also wait for running kernels, as cudaMalloc and cudaFree do. All other functions are local and wait for no rank.
 * Only one thread at a time may use the objects of one communicator.
 *
 * Objects are freed before their communicator, channels before their memory, and all after the kernels that use them
 * have ended on all ranks. There are 2 to 64 ranks, and each has a GPU to itself or shares it under MPS; otherwise the
 * collective calls return MPI_ERR_UNSUPPORTED_OPERATION on all ranks. Ranks may be on several nodes: port channels join
 * any two of them, over the transport that coll_mscclpp_transport names; memory channels, rooms and mpix_peer_pointer
 * are for ranks of one node.
 *
 * Functions return MPI error codes, through the communicator's error handler, and print a line that names a wrong value
 * and what is allowed. MPIX_Mscclpp_get_async_error tells what went wrong in kernels: a wait that ended by the deadline
 * (coll_mscclpp_timeout), an access beyond the end of memory, a failed handler.
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
 * Memory that other ranks can reach: the kernels of a node's ranks, and port channels of all. Sizes may differ between
 * ranks, and may be 0. `alloc` yields zeroed device memory. `register` takes device memory of the application, which
 * lies in one allocation that other processes can map (of cudaMalloc; on the host twin only of
 * MPIX_Mscclpp_memory_alloc) and stays until it is freed here. `free` sets the handle to NULL. It is refused with
 * MPI_ERR_ARG while channels use the memory.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_memory_alloc(MPI_Comm comm, MPI_Aint bytes, void **base,
                                                  MPIX_Mscclpp_memory *memory);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_memory_register(MPI_Comm comm, void *base, MPI_Aint bytes,
                                                     MPIX_Mscclpp_memory *memory);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_memory_free(MPIX_Mscclpp_memory *memory);

/*
 * Writes the handle that kernels use: a mpix_memory_t. `abi` is MPIX_MSCCLPP_DEVICE_ABI of the header that the kernels
 * were compiled with, and `size` the size of the handle there. A library that does not know the abi says so. The same
 * holds for the handles of channels and rooms.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_memory_get_device(MPIX_Mscclpp_memory memory, unsigned abi, void *handle,
                                                       size_t size);

/*
 * Channels between pairs of ranks, over a memory of both. `peers` names n other ranks, each once; rank i names j
 * exactly if j names i. There are `per_peer` channels to each, so that several blocks can have one each. Channel k to
 * peers[p] has the index p * per_peer + k, and is connected to that rank's channel k to this rank. `kind` and
 * `per_peer` are equal on all ranks. A rank may name none (n = 0).
 */
enum {
    MPIX_MSCCLPP_CHANNEL_AUTO,   /* memory channels if all ranks are on one node, else port channels */
    MPIX_MSCCLPP_CHANNEL_MEMORY, /* kernels load and store: mpix_memory_channel_t */
    MPIX_MSCCLPP_CHANNEL_PORT    /* kernels ask, and the CPU moves the bytes: mpix_port_channel_t */
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
 * Port channels carry out what kernels push between open and close, by a thread of the library. Open them before such a
 * kernel is launched. Over a network that thread also takes in what arrives, so a rank whose kernels only wait opens
 * them, too, and the thread works on until the channels are freed. These calls nest. The last close comes after the
 * kernels have ended; it waits until all that they pushed has been carried out. For memory channels neither is needed.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_open(MPIX_Mscclpp_channels channels);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_close(MPIX_Mscclpp_channels channels);

/* What a kernel has pushed with mpix_port_push, or an item of a list. */
typedef struct {
    uint64_t to;      /* 40 bits; in a list: offset in the peer's memory, bytes */
    uint64_t from;    /* 40 bits; in a list: offset in own memory, bytes */
    uint64_t value;   /* MPIX_PORT_ADD: what is added */
    uint32_t size;    /* bytes */
    uint32_t type;    /* MPIX_PORT_... of mpix_mscclpp/port.h, or, for a handler, any number from 1 to 7 */
    uint32_t channel; /* the channel's index */
    uint32_t reserved;
} MPIX_Mscclpp_fields;

/*
 * A handler carries out the triggers of one port channel of this rank in place of puts and signals. The library's
 * thread calls it in the order in which the triggers were pushed. Meanwhile other channels of the object wait, so it
 * must not block. It makes no call of this library or of MPI, and no call of CUDA that waits. It sees what the kernel
 * wrote before it pushed. AGAIN: it is called again with the same trigger, and later triggers of the channel wait.
 * ERROR: all channels of the object fail, and waits of kernels end. A trigger whose type contains MPIX_PORT_FLUSH lets
 * mpix_port_push return when the handler is done. NULL: puts and signals again. Set while the channels are closed.
 */
enum { MPIX_MSCCLPP_HANDLER_DONE, MPIX_MSCCLPP_HANDLER_AGAIN, MPIX_MSCCLPP_HANDLER_ERROR };
typedef int MPIX_Mscclpp_handler(void *context, const MPIX_Mscclpp_fields *fields);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_set_handler(MPIX_Mscclpp_channels channels, int index,
                                                          MPIX_Mscclpp_handler *handler, void *context);

/*
 * A prepared list: each trigger of the channel, whatever its fields, lets the CPU carry out all items in their order.
 * Each names a channel of the same object by its index, and has the type MPIX_PORT_DATA, MPIX_PORT_SIGNAL, both, or
 * MPIX_PORT_ADD. With MPIX_PORT_FLUSH in the trigger's type, mpix_port_push returns when the sources of all puts may be
 * overwritten. The list is copied. count 0: puts and signals again. Set while the channels are closed.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_channels_set_list(MPIX_Mscclpp_channels channels, int index, int count,
                                                       const MPIX_Mscclpp_fields items[]);

/*
 * A room: memory for barriers and small all-reduces inside kernels, in which block i of one rank works with block i of
 * all others. At most `blocks` blocks take part, and one of them reduces at most `bytes` bytes in a call. All ranks
 * must pass the same values. The room takes 4 * (number of ranks) * blocks * bytes of device memory. Kernels get a
 * mpix_room_t.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_room_create(MPI_Comm comm, int blocks, MPI_Aint bytes, MPIX_Mscclpp_room *room);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_room_get_device(MPIX_Mscclpp_room room, unsigned abi, void *handle, size_t size);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_room_free(MPIX_Mscclpp_room *room);

#ifdef __cplusplus
}
#endif

#endif
