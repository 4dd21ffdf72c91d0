/* The functions of channel_api.h, on the communicator's object for channels (mca/common/user/user.h). */
#include "mca/coll/mscclpp/native/channels.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll/mscclpp/native/gate.h"
#include "mca/coll/mscclpp/native/lane.h"
#include "mca/coll/mscclpp/native/request.h"
#include "mca/common/base/log.h"
#include "mca/common/user/user.h"

/*
 * Makes the communicator's object for channels in *context, once there is a team (`prepare` of
 * mca_coll_mscclpp_lane_make).
 */
static mscclpp_status_t open_user(mscclpp_team_t *team, void *context)
{
    return mscclpp_user_create(team, &mca_coll_mscclpp_state.config, context);
}

/*
 * Sets *user_p to the communicator's object for channels. The first call makes the object and its team, and waits for
 * all ranks. `base` is an address on the device to use. If the communicator can have no such object, returns
 * MPI_ERR_UNSUPPORTED_OPERATION on all ranks. If making the team fails, returns another MPI error code. After an error
 * *user_p is NULL.
 */
static int ensure_user(MPI_Comm comm, const void *base, mscclpp_user_t **user_p)
{
    const void *const buffers[2] = {base, base};
    mca_coll_mscclpp_module_t *module = mca_coll_mscclpp_module_of(comm);
    mca_coll_mscclpp_lane_t *lane;
    uint64_t largest_block = 0; /* not needed here */
    int rc = OMPI_SUCCESS;

    *user_p = NULL;
    if (!mca_coll_mscclpp_may_serve(module) || ompi_comm_size(module->comm) > MSCCLPP_DEV_MAX_RANKS) {
        mscclpp_error("the component does not serve this communicator, so its kernels get no channels");
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    mca_coll_mscclpp_request_await(module);
    if (module->user == NULL) {
        rc = mca_coll_mscclpp_lane_make(module, buffers, true, &largest_block, open_user, &module->user, &lane);
        if (OMPI_SUCCESS == rc && lane == NULL) {
            mscclpp_error("%s: kernels of the application get no channels: ranks take turns on a GPU, or no "
                          "transport joins their nodes, or there are too many persistent requests",
                          mca_coll_mscclpp_comm_name(module->comm));
            module->user = NULL;
            rc = MPI_ERR_UNSUPPORTED_OPERATION;
        } else if (OMPI_SUCCESS == rc) {
            module->user_lane = lane;
        }
    }
    *user_p = module->user;
    return rc;
}

void mca_coll_mscclpp_channels_end(mca_coll_mscclpp_module_t *module)
{
    mscclpp_user_end(module->user);
    module->user = NULL;
}

mscclpp_status_t mca_coll_mscclpp_channels_find_failure(const mca_coll_mscclpp_module_t *module, char *text,
                                                        size_t size)
{
    return module->user == NULL ? MSCCLPP_OK : mscclpp_user_find_failure(module->user, text, size);
}

/*
 * Returns the MPI error code for a status. The functions below are those of the table (channel_api.h). They call the
 * functions of mca/common/user/user.h of the same names.
 */
static int mpi_code(mscclpp_status_t status)
{
    if (MSCCLPP_ERR_NOT_SUPPORTED == status) {
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    return MSCCLPP_ERR_REVOKED == status ? MPI_ERR_COMM : mca_coll_mscclpp_status_to_ompi(status);
}

static int memory_create(MPI_Comm comm, void *base, uint64_t bytes, mscclpp_user_memory_t **memory_p)
{
    mscclpp_user_t *user;
    const int rc = ensure_user(comm, base, &user);

    return OMPI_SUCCESS != rc ? rc : mpi_code(mscclpp_user_memory_create(user, base, bytes, memory_p));
}

static int memory_free(mscclpp_user_memory_t *memory)
{
    return mpi_code(mscclpp_user_memory_free(memory));
}

static int memory_view(const mscclpp_user_memory_t *memory, mscclpp_dev_user_memory_t *device_memory)
{
    return mpi_code(mscclpp_user_memory_view(memory, device_memory));
}

static int channels_create(mscclpp_user_memory_t *memory, int kind, int peer_count, const int *peers, int per_peer,
                           mscclpp_user_channels_t **channels_p)
{
    return mpi_code(
        mscclpp_user_channels_create(memory, (mscclpp_user_kind_t)kind, peer_count, peers, per_peer, channels_p));
}

static int channels_free(mscclpp_user_channels_t *channels)
{
    return mpi_code(mscclpp_user_channels_free(channels));
}

static int channels_view(const mscclpp_user_channels_t *channels, int index, mscclpp_dev_user_channel_t *device_channel)
{
    return mpi_code(mscclpp_user_channels_view(channels, index, device_channel));
}

static int channels_open(mscclpp_user_channels_t *channels)
{
    return mpi_code(mscclpp_user_channels_open(channels));
}

static int channels_close(mscclpp_user_channels_t *channels)
{
    return mpi_code(mscclpp_user_channels_close(channels));
}

static int channels_set_handler(mscclpp_user_channels_t *channels, int index,
                                int (*handler)(void *context, const mscclpp_dev_request_t *request), void *context)
{
    return mpi_code(mscclpp_user_channels_set_handler(channels, index, handler, context));
}

static int channels_set_list(mscclpp_user_channels_t *channels, int index, int count,
                             const mscclpp_dev_request_t *items)
{
    return mpi_code(mscclpp_user_channels_set_list(channels, index, count, items));
}

static int room_create(MPI_Comm comm, int blocks, uint64_t bytes, mscclpp_user_room_t **room_p)
{
    mscclpp_user_t *user;
    const int rc = ensure_user(comm, NULL, &user);

    return OMPI_SUCCESS != rc ? rc : mpi_code(mscclpp_user_room_create(user, blocks, bytes, room_p));
}

static int room_free(mscclpp_user_room_t *room)
{
    return mpi_code(mscclpp_user_room_free(room));
}

static int room_view(const mscclpp_user_room_t *room, mscclpp_dev_user_room_t *device_room)
{
    return mpi_code(mscclpp_user_room_view(room, device_room));
}

const mca_coll_mscclpp_channel_api_t mca_coll_mscclpp_channel_api = {
    .size = sizeof(mca_coll_mscclpp_channel_api_t),
    .memory_create = memory_create,
    .memory_free = memory_free,
    .memory_base = mscclpp_user_memory_base,
    .memory_view = memory_view,
    .channels_create = channels_create,
    .channels_free = channels_free,
    .channels_count = mscclpp_user_channels_count,
    .channels_are_ports = mscclpp_user_channels_are_ports,
    .channels_view = channels_view,
    .channels_open = channels_open,
    .channels_close = channels_close,
    .channels_set_handler = channels_set_handler,
    .channels_set_list = channels_set_list,
    .room_create = room_create,
    .room_free = room_free,
    .room_view = room_view,
};
