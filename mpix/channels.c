/*
 * Memory, channels and rooms for kernels of the application. This file checks the arguments on which no other rank
 * depends, and calls the component. The handles of this library contain the component's objects.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpix/handles.h"
#include "mpix/include/mpix_mscclpp_channels.h"
#include "mpix/internal.h"

typedef mca_coll_mscclpp_channel_api_t api_t;

/* The handles. `comm` is the communicator on which the object was made; the application may have freed it since. */
struct mpix_mscclpp_memory {
    MPI_Comm comm;
    struct mscclpp_user_memory *object;
};

struct mpix_mscclpp_room {
    MPI_Comm comm;
    struct mscclpp_user_room *object;
};

/* The application's handler of a channel. */
typedef struct {
    MPIX_Mscclpp_handler *call;
    void *context;
    uint32_t index; /* index of the channel */
} handler_t;

struct mpix_mscclpp_channels {
    MPI_Comm comm;
    struct mscclpp_user_channels *object;
    int is_port;
    int count;           /* number of channels */
    handler_t *handlers; /* [channel]; NULL: no handler has been set */
};

/*
 * Returns the component's table for channels. Returns NULL, with the error in *code_p, if the component is of another
 * version (MPI_ERR_OTHER), if `comm` is MPI_COMM_NULL (MPI_ERR_COMM), or if there is no component
 * (MPI_ERR_UNSUPPORTED_OPERATION). The error is reported on `comm`; for MPI_COMM_NULL, on MPI_COMM_WORLD.
 */
static const api_t *find_component(MPI_Comm comm, int *code_p)
{
    const mca_coll_mscclpp_api_t *component = mpix_component(code_p);

    if (*code_p == MPI_SUCCESS && comm == MPI_COMM_NULL) {
        *code_p = MPI_ERR_COMM;
    } else if (*code_p == MPI_SUCCESS && component == NULL) {
        (void)fprintf(stderr, "libmpix_mscclpp: Open MPI has not loaded the component coll/mscclpp, so kernels get no "
                              "channels\n");
        *code_p = MPI_ERR_UNSUPPORTED_OPERATION;
    }
    *code_p = mpix_report(comm, *code_p);
    return *code_p == MPI_SUCCESS ? component->channels : NULL;
}

/*
 * Returns the component's table for an object of the component. It needs no communicator, as find_component does: that
 * of the object may have been freed. *code_p is set, but never to an error.
 */
static const api_t *component_of_object(int *code_p)
{
    const mca_coll_mscclpp_api_t *component = mpix_component(code_p);

    return component->channels; /* not NULL, since the component made the object */
}

/* Prints that a handle is NULL. Returns the error code; without an object there is no error handler to call. */
static int refuse_null_handle(const char *function)
{
    (void)fprintf(stderr, "libmpix_mscclpp: %s: the handle is NULL\n", function);
    return MPI_ERR_ARG;
}

/*
 * Ends a function on an object: reports its error on the communicator, and returns the code. MPI_ERR_COMM means that
 * the communicator has been freed, so that error is only returned.
 */
static int end_call(MPI_Comm comm, int code)
{
    return code == MPI_SUCCESS || code == MPI_ERR_COMM ? code : mpix_report(comm, code);
}

/*
 * Allocates memory, or registers the memory at `base` if that is not NULL, and makes its handle. Collective. Errors
 * have been reported, and *memory is not set after an error. An error that is found before the component is called is
 * known to this rank only: other ranks then wait for this rank in the component.
 */
static int make_memory(MPI_Comm comm, void *base, MPI_Aint bytes, MPIX_Mscclpp_memory *memory)
{
    int code;
    const api_t *api = find_component(comm, &code);
    MPIX_Mscclpp_memory new_memory;

    if (api == NULL) {
        return code;
    }
    new_memory = calloc(1, sizeof(*new_memory));
    if (new_memory == NULL || memory == NULL) {
        free(new_memory);
        return mpix_report(comm, memory == NULL ? MPI_ERR_ARG : MPI_ERR_NO_MEM);
    }
    new_memory->comm = comm;
    /*
     * The call is collective, so a negative size is not refused here. Converted to uint64_t, it is larger than any
     * memory, and the component refuses it on all ranks.
     */
    code = api->memory_create(comm, base, (uint64_t)bytes, &new_memory->object);
    if (code != MPI_SUCCESS) {
        free(new_memory);
        return mpix_report(comm, code);
    }
    *memory = new_memory;
    return MPI_SUCCESS;
}

/*
 * Checks `base` before the collective part. Without it, this rank alone returns an error, and other ranks then wait for
 * it in that part.
 */
int MPIX_Mscclpp_memory_alloc(MPI_Comm comm, MPI_Aint bytes, void **base, MPIX_Mscclpp_memory *memory)
{
    int code;

    if (base == NULL) {
        return mpix_report(comm, MPI_ERR_ARG);
    }
    code = make_memory(comm, NULL, bytes, memory);
    if (code == MPI_SUCCESS) {
        *base = component_of_object(&code)->memory_base((*memory)->object);
    }
    return code;
}

int MPIX_Mscclpp_memory_register(MPI_Comm comm, void *base, MPI_Aint bytes, MPIX_Mscclpp_memory *memory)
{
    if (base == NULL && bytes > 0) {
        (void)fprintf(stderr, "libmpix_mscclpp: MPIX_Mscclpp_memory_register: NULL for %lld bytes\n", (long long)bytes);
        return mpix_report(comm, MPI_ERR_BUFFER);
    }
    return make_memory(comm, base, bytes, memory);
}

/* Frees the memory, also after an error. Only if channels still use it (MPI_ERR_ARG), it remains allocated. */
int MPIX_Mscclpp_memory_free(MPIX_Mscclpp_memory *memory)
{
    int code;

    if (memory == NULL || *memory == NULL) {
        return refuse_null_handle("MPIX_Mscclpp_memory_free");
    }
    code = end_call((*memory)->comm, component_of_object(&code)->memory_free((*memory)->object));
    if (code != MPI_ERR_ARG) {
        free(*memory);
        *memory = NULL;
    }
    return code;
}

/* Checks `size` first (mpix_check_handle), so that mpix_write_memory does not write beyond the end of the handle. */
int MPIX_Mscclpp_memory_get_device(MPIX_Mscclpp_memory memory, unsigned abi, void *handle, size_t size)
{
    mscclpp_dev_user_memory_t device_memory;
    int code;

    if (memory == NULL) {
        return refuse_null_handle("MPIX_Mscclpp_memory_get_device");
    }
    code =
        end_call(memory->comm, mpix_check_handle("memory_get_device", abi, handle, size, mpix_memory_handle_size(abi)));
    if (code == MPI_SUCCESS) {
        code = end_call(memory->comm, component_of_object(&code)->memory_view(memory->object, &device_memory));
    }
    if (code == MPI_SUCCESS) {
        mpix_write_memory(abi, &device_memory, handle);
    }
    return code;
}

/*
 * Leaves the check of the peers to the component, so that all ranks return the same error. If `peers` is NULL, the
 * component gets a list with one peer that is no rank. With n = 0 it does not read the list; otherwise it refuses this
 * peer before it reads another one.
 */
int MPIX_Mscclpp_channels_create(MPIX_Mscclpp_memory memory, int kind, int n, const int peers[], int per_peer,
                                 MPIX_Mscclpp_channels *channels)
{
    static const int no_peers[1] = {-1};
    MPIX_Mscclpp_channels new_channels;
    int code;

    if (memory == NULL) {
        return refuse_null_handle("MPIX_Mscclpp_channels_create");
    }
    if (channels == NULL || kind < MPIX_MSCCLPP_CHANNEL_AUTO || kind > MPIX_MSCCLPP_CHANNEL_PORT) {
        (void)fprintf(stderr,
                      "libmpix_mscclpp: MPIX_Mscclpp_channels_create: kind %d; MPIX_MSCCLPP_CHANNEL_AUTO (%d), _MEMORY "
                      "(%d) and _PORT (%d) are allowed, and a place for the result\n",
                      kind, MPIX_MSCCLPP_CHANNEL_AUTO, MPIX_MSCCLPP_CHANNEL_MEMORY, MPIX_MSCCLPP_CHANNEL_PORT);
        return end_call(memory->comm, MPI_ERR_ARG);
    }
    new_channels = calloc(1, sizeof(*new_channels));
    if (new_channels == NULL) {
        return end_call(memory->comm, MPI_ERR_NO_MEM);
    }
    new_channels->comm = memory->comm;
    code = component_of_object(&code)->channels_create(memory->object, kind, n, peers != NULL ? peers : no_peers,
                                                       per_peer, &new_channels->object);
    if (code != MPI_SUCCESS) {
        free(new_channels);
        return end_call(memory->comm, code);
    }
    new_channels->count = component_of_object(&code)->channels_count(new_channels->object);
    new_channels->is_port = component_of_object(&code)->channels_are_ports(new_channels->object);
    *channels = new_channels;
    return MPI_SUCCESS;
}

int MPIX_Mscclpp_channels_kind(MPIX_Mscclpp_channels channels, int *kind)
{
    if (channels == NULL) {
        return refuse_null_handle("MPIX_Mscclpp_channels_kind");
    }
    if (kind == NULL) {
        return end_call(channels->comm, MPI_ERR_ARG);
    }
    *kind = channels->is_port ? MPIX_MSCCLPP_CHANNEL_PORT : MPIX_MSCCLPP_CHANNEL_MEMORY;
    return MPI_SUCCESS;
}

/* Frees the channels, also after an error. Only if they are open (MPI_ERR_ARG), they remain as they were. */
int MPIX_Mscclpp_channels_free(MPIX_Mscclpp_channels *channels)
{
    int code;

    if (channels == NULL || *channels == NULL) {
        return refuse_null_handle("MPIX_Mscclpp_channels_free");
    }
    code = end_call((*channels)->comm, component_of_object(&code)->channels_free((*channels)->object));
    if (code != MPI_ERR_ARG) {
        free((*channels)->handlers);
        free(*channels);
        *channels = NULL;
    }
    return code;
}

/* Stops at the first channel that fails; the handles of the channels before it have been written. */
int MPIX_Mscclpp_channels_get_device(MPIX_Mscclpp_channels channels, unsigned abi, void *array, size_t element)
{
    mscclpp_dev_user_channel_t device_channel;
    int code, index;

    if (channels == NULL) {
        return refuse_null_handle("MPIX_Mscclpp_channels_get_device");
    }
    /* If there are no channels, nothing is written, and the array may be NULL. */
    code =
        end_call(channels->comm, mpix_check_handle("channels_get_device", abi, channels->count > 0 ? array : channels,
                                                   element, mpix_channel_handle_size(abi, channels->is_port)));
    for (index = 0; index < channels->count && code == MPI_SUCCESS; ++index) {
        code = end_call(channels->comm,
                        component_of_object(&code)->channels_view(channels->object, index, &device_channel));
        if (code == MPI_SUCCESS) {
            mpix_write_channel(abi, &device_channel, (char *)array + (size_t)index * element);
        }
    }
    return code;
}

int MPIX_Mscclpp_channels_open(MPIX_Mscclpp_channels channels)
{
    int code;

    return channels == NULL ? refuse_null_handle("MPIX_Mscclpp_channels_open")
                            : end_call(channels->comm, component_of_object(&code)->channels_open(channels->object));
}

int MPIX_Mscclpp_channels_close(MPIX_Mscclpp_channels channels)
{
    int code;

    return channels == NULL ? refuse_null_handle("MPIX_Mscclpp_channels_close")
                            : end_call(channels->comm, component_of_object(&code)->channels_close(channels->object));
}

/*
 * Passes a kernel's request to the application's handler, and returns the answer of the handler,
 * MPIX_MSCCLPP_HANDLER_... The component's proxy calls this function while the channels are open. `context` is the
 * handler_t of the channel, which does not change during this time.
 */
static int call_handler(void *context, const mscclpp_dev_request_t *request)
{
    const handler_t *handler = context;
    const MPIX_Mscclpp_fields fields = {
        .to = request->to,
        .from = request->from,
        .value = request->value,
        .size = request->size,
        .type = request->type,
        .channel = handler->index,
    };

    return handler->call(handler->context, &fields);
}

_Static_assert(MPIX_MSCCLPP_CHANNEL_AUTO == 0 && MPIX_MSCCLPP_CHANNEL_MEMORY == 1 && MPIX_MSCCLPP_CHANNEL_PORT == 2,
               "as the component numbers kinds");
_Static_assert(MPIX_MSCCLPP_HANDLER_DONE == 0 && MPIX_MSCCLPP_HANDLER_AGAIN == 1, "as the component's handlers answer");

/*
 * Fills in the channel's handler_t, whose address the component stores. So the array of handlers is allocated once, and
 * is not freed before the channels. The handler_t may be filled in after the component has its address, because the
 * component accepts it only while the channels are closed, and nothing calls a handler then.
 */
int MPIX_Mscclpp_channels_set_handler(MPIX_Mscclpp_channels channels, int index, MPIX_Mscclpp_handler *handler,
                                      void *context)
{
    int code;

    if (channels == NULL) {
        return refuse_null_handle("MPIX_Mscclpp_channels_set_handler");
    }
    if (channels->handlers == NULL) {
        /* One more than the number of channels, since for a size of 0 calloc may return NULL. */
        channels->handlers = calloc((size_t)channels->count + 1, sizeof(*channels->handlers));
        if (channels->handlers == NULL) {
            return end_call(channels->comm, MPI_ERR_NO_MEM);
        }
    }
    /* The component refuses a wrong index with its own message. */
    if (index < 0 || index >= channels->count) {
        return end_call(channels->comm,
                        component_of_object(&code)->channels_set_handler(channels->object, index, NULL, NULL));
    }
    code = component_of_object(&code)->channels_set_handler(
        channels->object, index, handler != NULL ? call_handler : NULL, &channels->handlers[index]);
    if (code == MPI_SUCCESS) {
        channels->handlers[index] = (handler_t){.call = handler, .context = context, .index = (uint32_t)index};
    }
    return end_call(channels->comm, code);
}

/* Converts the items into requests of the component, which checks them. */
int MPIX_Mscclpp_channels_set_list(MPIX_Mscclpp_channels channels, int index, int count,
                                   const MPIX_Mscclpp_fields items[])
{
    mscclpp_dev_request_t *requests;
    int code, i;

    if (channels == NULL) {
        return refuse_null_handle("MPIX_Mscclpp_channels_set_list");
    }
    if (items == NULL && count > 0) {
        return end_call(channels->comm, MPI_ERR_ARG);
    }
    /* The component refuses a negative count with its own message, and copies the requests. */
    requests = calloc(count > 0 ? (size_t)count : 1, sizeof(*requests));
    if (requests == NULL) {
        return end_call(channels->comm, MPI_ERR_NO_MEM);
    }
    for (i = 0; i < count; ++i) {
        requests[i].to = items[i].to;
        requests[i].from = items[i].from;
        requests[i].value = items[i].value;
        requests[i].size = items[i].size;
        requests[i].type = items[i].type;
        requests[i].channel = items[i].channel;
    }
    code = end_call(channels->comm,
                    component_of_object(&code)->channels_set_list(channels->object, index, count, requests));
    free(requests);
    return code;
}

/* Leaves the check of the numbers to the component, which refuses a negative one on all ranks, as in make_memory. */
int MPIX_Mscclpp_room_create(MPI_Comm comm, int blocks, MPI_Aint bytes, MPIX_Mscclpp_room *room)
{
    int code;
    const api_t *api = find_component(comm, &code);
    MPIX_Mscclpp_room new_room;

    if (api == NULL) {
        return code;
    }
    new_room = calloc(1, sizeof(*new_room));
    if (new_room == NULL || room == NULL) {
        free(new_room);
        return mpix_report(comm, room == NULL ? MPI_ERR_ARG : MPI_ERR_NO_MEM);
    }
    new_room->comm = comm;
    code = api->room_create(comm, blocks, (uint64_t)bytes, &new_room->object);
    if (code != MPI_SUCCESS) {
        free(new_room);
        return mpix_report(comm, code);
    }
    *room = new_room;
    return MPI_SUCCESS;
}

/* Frees the room even after an error, because nothing else uses it. */
int MPIX_Mscclpp_room_free(MPIX_Mscclpp_room *room)
{
    int code;

    if (room == NULL || *room == NULL) {
        return refuse_null_handle("MPIX_Mscclpp_room_free");
    }
    code = end_call((*room)->comm, component_of_object(&code)->room_free((*room)->object));
    free(*room);
    *room = NULL;
    return code;
}

/* Compares the sizes first (mpix_check_handle), so that mpix_write_room does not write beyond the end of `handle`. */
int MPIX_Mscclpp_room_get_device(MPIX_Mscclpp_room room, unsigned abi, void *handle, size_t size)
{
    mscclpp_dev_user_room_t device_room;
    int code;

    if (room == NULL) {
        return refuse_null_handle("MPIX_Mscclpp_room_get_device");
    }
    code = end_call(room->comm, mpix_check_handle("room_get_device", abi, handle, size, mpix_room_handle_size(abi)));
    if (code == MPI_SUCCESS) {
        code = end_call(room->comm, component_of_object(&code)->room_view(room->object, &device_room));
    }
    if (code == MPI_SUCCESS) {
        mpix_write_room(abi, &device_room, handle);
    }
    return code;
}
