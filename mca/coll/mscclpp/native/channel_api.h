/*
 * What the component offers to libmpix_mscclpp for kernels of the application: memory, channels and rooms. The table
 * may grow at its end. Functions return MPI error codes, after a line on standard error that says why. See
 * mca/common/user/user.h for what is collective.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_CHANNEL_API_H
#define MCA_COLL_MSCCLPP_NATIVE_CHANNEL_API_H

#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#include "device/types/user.h"

struct mscclpp_user_memory;
struct mscclpp_user_channels;
struct mscclpp_user_room;

typedef struct {
    uint32_t size; /* bytes of this structure */

    /*
     * Functions named _view yield the structure that kernels are given. memory_create and room_create return
     * MPI_ERR_UNSUPPORTED_OPERATION, on all ranks, if the communicator has no channels.
     */
    int (*memory_create)(MPI_Comm comm, void *base, uint64_t bytes, struct mscclpp_user_memory **memory_p);
    int (*memory_free)(struct mscclpp_user_memory *memory);
    void *(*memory_base)(const struct mscclpp_user_memory *memory);
    int (*memory_view)(const struct mscclpp_user_memory *memory, mscclpp_dev_user_memory_t *device_memory);

    /* kind: 0 for any, 1 for memory channels, 2 for port channels. */
    int (*channels_create)(struct mscclpp_user_memory *memory, int kind, int peer_count, const int *peers, int per_peer,
                           struct mscclpp_user_channels **channels_p);
    int (*channels_free)(struct mscclpp_user_channels *channels);
    int (*channels_count)(const struct mscclpp_user_channels *channels);
    bool (*channels_are_ports)(const struct mscclpp_user_channels *channels);
    int (*channels_view)(const struct mscclpp_user_channels *channels, int index,
                         mscclpp_dev_user_channel_t *device_channel);
    int (*channels_open)(struct mscclpp_user_channels *channels);
    int (*channels_close)(struct mscclpp_user_channels *channels);

    /* The handler returns 0 when it has finished, 1 to be called again, and a negative number for an error. */
    int (*channels_set_handler)(struct mscclpp_user_channels *channels, int index,
                                int (*handler)(void *context, const mscclpp_dev_request_t *request), void *context);
    int (*channels_set_list)(struct mscclpp_user_channels *channels, int index, int count,
                             const mscclpp_dev_request_t *items);

    int (*room_create)(MPI_Comm comm, int blocks, uint64_t bytes, struct mscclpp_user_room **room_p);
    int (*room_free)(struct mscclpp_user_room *room);
    int (*room_view)(const struct mscclpp_user_room *room, mscclpp_dev_user_room_t *device_room);
} mca_coll_mscclpp_channel_api_t;

#endif
