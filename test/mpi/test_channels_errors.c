/*
 * Channels in kernels of the application: what must not be done, each with its message. Error messages go to standard
 * error, where run.sh looks for them.
 *
 * --late: a rank whose kernel is not launched. --range, --block, --size: kernels that ask for too much. --unaligned: a
 * kernel adds to what is no word. --handler: a handler that fails. --gone: a communicator that is freed before its
 * objects. --without: there is no component.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/mpi_channels.h"

#define BYTES 4096

static void check_class(int code, int expected, const char *what)
{
    MT_CHECK(mc_class_of(code) == expected, "%s: error class %d, not %d", what, mc_class_of(code), expected);
}

/* What the host finds wrong. The objects that are there go on working. */
static void arguments(void)
{
    int *const own_stack = mt_host_alloc(BYTES), peer = (mt_rank + 1) % mt_size, self[2] = {mt_rank, mt_rank};
    const int twice[2] = {peer, peer};
    MPIX_Mscclpp_memory memory, none = NULL;
    MPIX_Mscclpp_channels channels = NULL, ports, all;
    MPIX_Mscclpp_room room;
    MPIX_Mscclpp_fields item = {.to = BYTES - 4, .size = 8, .type = MPIX_PORT_DATA};
    mpix_memory_channel_t *handles = mt_host_alloc(sizeof(*handles) * 2 * (size_t)mt_size);
    mpix_port_channel_t *port_handles = mt_host_alloc(sizeof(*port_handles) * (size_t)mt_size);
    mpix_memory_t handle;
    mpix_room_t room_handle;
    void *base;

    (void)mc_memory(BYTES, &memory);
    mc_all_channels(memory, MPIX_MSCCLPP_CHANNEL_MEMORY, 2, &all, handles, sizeof(*handles));
    mc_all_channels(memory, MPIX_MSCCLPP_CHANNEL_PORT, 1, &ports, port_handles, sizeof(*port_handles));
    MT_MPI(MPIX_Mscclpp_room_create(MPI_COMM_WORLD, 2, 64, &room));

    check_class(MPIX_Mscclpp_memory_alloc(MPI_COMM_NULL, BYTES, &base, &none), MPI_ERR_COMM, "no communicator");
    check_class(MPIX_Mscclpp_memory_alloc(MPI_COMM_WORLD, 0 == mt_rank ? -1 : BYTES, &base, &none), MPI_ERR_ARG,
                "a negative size on rank 0");
    check_class(MPIX_Mscclpp_memory_register(MPI_COMM_WORLD, NULL, BYTES, &none), MPI_ERR_BUFFER, "NULL to register");
    check_class(MPIX_Mscclpp_memory_register(MPI_COMM_WORLD, own_stack, BYTES, &none), MPI_ERR_UNSUPPORTED_OPERATION,
                "memory that cannot be mapped");
    check_class(MPIX_Mscclpp_memory_get_device(NULL, MPIX_MSCCLPP_DEVICE_ABI, &handle, sizeof(handle)), MPI_ERR_ARG,
                "no memory");
    check_class(MPIX_Mscclpp_memory_get_device(memory, MPIX_MSCCLPP_DEVICE_ABI + 1, &handle, sizeof(handle)),
                MPI_ERR_UNSUPPORTED_OPERATION, "a future abi");
    check_class(MPIX_Mscclpp_memory_get_device(memory, MPIX_MSCCLPP_DEVICE_ABI, &handle, sizeof(handle) - 8),
                MPI_ERR_ARG, "a handle that is too small");
    check_class(MPIX_Mscclpp_memory_free(&memory), MPI_ERR_ARG, "memory that channels use");

    check_class(MPIX_Mscclpp_channels_create(memory, 7, 1, &peer, 1, &channels), MPI_ERR_ARG, "an unknown kind");
    check_class(MPIX_Mscclpp_channels_create(memory, 0, 1, self, 1, &channels), MPI_ERR_ARG, "a channel to itself");
    if (mt_size > 2) {
        check_class(MPIX_Mscclpp_channels_create(memory, 0, 2, twice, 1, &channels), MPI_ERR_ARG, "a peer named twice");
    }
    check_class(MPIX_Mscclpp_channels_create(memory, 0, mt_size, NULL, 1, &channels), MPI_ERR_ARG, "too many peers");
    check_class(MPIX_Mscclpp_channels_create(memory, 0, 0, NULL, 0, &channels), MPI_ERR_ARG, "no channels to each");
    check_class(MPIX_Mscclpp_channels_create(memory, 0 == mt_rank ? 1 : 2, 0, NULL, 1, &channels), MPI_ERR_ARG,
                "different kinds");
    /* Rank 0 names the last one, which names nobody. */
    self[0] = mt_size - 1;
    check_class(MPIX_Mscclpp_channels_create(memory, 0, 0 == mt_rank, self, 1, &channels), MPI_ERR_ARG,
                "a lonely rank");
    MT_CHECK(channels == NULL, "a call that failed made channels");
    check_class(MPIX_Mscclpp_channels_get_device(all, MPIX_MSCCLPP_DEVICE_ABI, handles, sizeof(*port_handles)),
                MPI_ERR_ARG, "handles of the wrong kind");

    check_class(MPIX_Mscclpp_channels_close(ports), MPI_ERR_ARG, "closing what is not open");
    check_class(MPIX_Mscclpp_channels_set_handler(all, 0, NULL, NULL), MPI_ERR_ARG, "a handler of a memory channel");
    check_class(MPIX_Mscclpp_channels_set_handler(ports, mt_size, NULL, NULL), MPI_ERR_ARG, "a handler of no channel");
    check_class(MPIX_Mscclpp_channels_set_list(ports, 0, 1, &item), MPI_ERR_ARG, "a list that does not fit");
    item = (MPIX_Mscclpp_fields){.type = MPIX_PORT_SIGNAL, .channel = (uint32_t)mt_size};
    check_class(MPIX_Mscclpp_channels_set_list(ports, 0, 1, &item), MPI_ERR_ARG, "a list for no channel");
    MT_MPI(MPIX_Mscclpp_channels_open(ports));
    check_class(MPIX_Mscclpp_channels_set_list(ports, 0, 0, NULL), MPI_ERR_ARG, "a list while channels are open");
    check_class(MPIX_Mscclpp_channels_free(&ports), MPI_ERR_ARG, "open channels are freed");
    MT_MPI(MPIX_Mscclpp_channels_close(ports));

    check_class(MPIX_Mscclpp_room_create(MPI_COMM_WORLD, 0, 64, (MPIX_Mscclpp_room[1]){NULL}), MPI_ERR_ARG,
                "a room of no blocks");
    check_class(MPIX_Mscclpp_room_create(MPI_COMM_WORLD, 1 + (0 == mt_rank), 64, (MPIX_Mscclpp_room[1]){NULL}),
                MPI_ERR_ARG, "different rooms");
    check_class(MPIX_Mscclpp_room_get_device(room, 0, &room_handle, sizeof(room_handle)), MPI_ERR_UNSUPPORTED_OPERATION,
                "abi 0");

    MT_MPI(MPIX_Mscclpp_room_free(&room));
    MT_MPI(MPIX_Mscclpp_channels_free(&ports));
    MT_MPI(MPIX_Mscclpp_channels_free(&all));
    check_class(MPIX_Mscclpp_channels_free(&all), MPI_ERR_ARG, "channels freed twice");
    MT_MPI(MPIX_Mscclpp_memory_free(&memory));
    free(own_stack);
    free(handles);
    free(port_handles);
}

/* A fault in a kernel. What comes after it in the kernel must do nothing. */
typedef struct {
    mpix_memory_channel_t channel;
    mpix_port_channel_t port;
    mpix_room_t room;
    char *base;
    const char *part;
    int first, later; /* what the functions returned */
} fault_t;

static void fault_kernel(mpix_group_t *block, void *argument)
{
    fault_t *fault = argument;
    double sums[64] = {0};

    if (0 == strcmp(fault->part, "--range")) {
        fault->first = mpix_put(block, &fault->channel, BYTES - 6, 0, 64);
    } else if (0 == strcmp(fault->part, "--block")) {
        fault->first = mpix_barrier(block, &fault->room);
    } else if (0 == strcmp(fault->part, "--size")) {
        fault->first = mpix_allreduce_small(block, &fault->room, sums, sums, 64, MPIX_FLOAT64, MPIX_SUM);
    } else if (0 == strcmp(fault->part, "--unaligned")) {
        fault->first = mpix_port_add(block, &fault->port, 12, 1);
    } else if (0 == strcmp(fault->part, "--handler")) {
        fault->first = mpix_port_push(block, &fault->port, 1 | MPIX_PORT_FLUSH, 1, 2, 3);
    } else {
        fault->first = mpix_wait(block, &fault->channel);
    }
    fault->later = mpix_put(block, &fault->channel, 0, 0, 64) + 10 * mpix_signal(block, &fault->channel) +
                   100 * mpix_wait(block, &fault->channel);
}

static int failing_handler(void *context, const MPIX_Mscclpp_fields *fields)
{
    (void)context;
    return 1 == fields->to ? MPIX_MSCCLPP_HANDLER_ERROR : MPIX_MSCCLPP_HANDLER_DONE;
}

static void fault(const char *part)
{
    const bool faulty = 0 == mt_rank, late = 0 == strcmp(part, "--late");
    mpix_memory_channel_t *handles = mt_host_alloc(sizeof(*handles) * (size_t)mt_size);
    mpix_port_channel_t *ports = mt_host_alloc(sizeof(*ports) * (size_t)mt_size);
    fault_t fault = {.part = part};
    void *stream = mq_stream_make();
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_channels channels, port_channels;
    MPIX_Mscclpp_room room;
    char text[320] = "";
    int code;

    fault.base = mc_memory(BYTES, &memory);
    mc_all_channels(memory, MPIX_MSCCLPP_CHANNEL_MEMORY, 1, &channels, handles, sizeof(*handles));
    mc_all_channels(memory, MPIX_MSCCLPP_CHANNEL_PORT, 1, &port_channels, ports, sizeof(*ports));
    MT_MPI(MPIX_Mscclpp_room_create(MPI_COMM_WORLD, 4, 64, &room));
    MT_MPI(MPIX_Mscclpp_room_get_device(room, MPIX_MSCCLPP_DEVICE_ABI, &fault.room, sizeof(fault.room)));
    fault.channel = handles[mt_size - 2];
    fault.port = ports[0];
    memset(fault.base, mt_rank, BYTES);
    MT_MPI(MPIX_Mscclpp_channels_set_handler(port_channels, 0, failing_handler, NULL));
    MT_MPI(MPIX_Mscclpp_channels_open(port_channels));
    mt_barrier(MPI_COMM_WORLD);
    if (faulty) {
        if (0 == strcmp(part, "--block")) {
            fault.room.blocks = 0;
        }
        mc_run(stream, fault_kernel, &fault, 1, 2);
        MT_CHECK(1 == fault.first && 111 == fault.later, "%s: functions returned %d, then %d", part, fault.first,
                 fault.later);
    }
    MT_MPI(MPIX_Mscclpp_get_async_error(MPI_COMM_WORLD, &code, text, sizeof(text)));
    if (faulty) {
        fprintf(stderr, "%s\n", text);
        MT_CHECK(MPI_SUCCESS != code, "%s: no error", part);
        MT_CHECK(!late || mc_class_of(code) == mc_own_class(MPIX_MSCCLPP_ERR_TIMEOUT), "a late rank: error class %d",
                 mc_class_of(code));
    } else {
        MT_CHECK(MPI_SUCCESS == code, "%s: an error where there is none: %s", part, text);
        for (int i = 0; i < BYTES; ++i) {
            MT_CHECK((char)mt_rank == fault.base[i], "%s: byte %d was overwritten", part, i);
        }
    }
    mt_barrier(MPI_COMM_WORLD);
    code = MPIX_Mscclpp_channels_close(port_channels);
    MT_CHECK((faulty && 0 == strcmp(part, "--handler")) == (MPI_SUCCESS != code), "%s: closing returned %d", part,
             code);
    MT_MPI(MPIX_Mscclpp_channels_free(&port_channels));
    MT_MPI(MPIX_Mscclpp_room_free(&room));
    MT_MPI(MPIX_Mscclpp_channels_free(&channels));
    MT_MPI(MPIX_Mscclpp_memory_free(&memory));
    mq_stream_free(stream);
    free(handles);
    free(ports);
}

/* Objects outlive their communicator as empty shells. A kernel that still waits gives up. */
static void gone(void)
{
    const int peers[2] = {(mt_rank + 1) % mt_size, (mt_rank + mt_size - 1) % mt_size}, n = mt_size > 2 ? 2 : 1;
    void *stream = mq_stream_make(), *base;
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_channels channels, ports;
    MPIX_Mscclpp_room room;
    mpix_memory_channel_t handles[2];
    fault_t fault = {.part = "--gone"};
    mpix_host_kernel_t kernel = {fault_kernel, &fault, 1, 1, 0};
    mpix_memory_t handle;
    MPI_Comm comm;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MT_MPI(MPIX_Mscclpp_memory_alloc(comm, BYTES, &base, &memory));
    MT_MPI(MPIX_Mscclpp_channels_create(memory, MPIX_MSCCLPP_CHANNEL_MEMORY, n, peers, 1, &channels));
    MT_MPI(MPIX_Mscclpp_channels_create(memory, MPIX_MSCCLPP_CHANNEL_PORT, n, peers, 1, &ports));
    MT_MPI(MPIX_Mscclpp_channels_open(ports));
    MT_MPI(MPIX_Mscclpp_room_create(comm, 1, 64, &room));
    MT_MPI(MPIX_Mscclpp_channels_get_device(channels, MPIX_MSCCLPP_DEVICE_ABI, handles, sizeof(handles[0])));
    fault.channel = handles[0];
    mc_launch(stream, &kernel);
    MT_MPI(MPI_Comm_free(&comm));
    MT_MPI(MPIX_Mscclpp_host_stream_sync(stream));
    MT_CHECK(1 == fault.first, "a wait on a freed communicator returned %d", fault.first);
    check_class(MPIX_Mscclpp_memory_get_device(memory, MPIX_MSCCLPP_DEVICE_ABI, &handle, sizeof(handle)), MPI_ERR_COMM,
                "a handle after the communicator was freed");
    check_class(MPIX_Mscclpp_channels_open(ports), MPI_ERR_COMM, "opening after the communicator was freed");
    MT_MPI(MPIX_Mscclpp_room_free(&room));
    MT_MPI(MPIX_Mscclpp_channels_free(&channels));
    MT_MPI(MPIX_Mscclpp_memory_free(&memory));
    MT_MPI(MPIX_Mscclpp_channels_free(&ports));
    mq_stream_free(stream);
}

static int without(int argc, char **argv)
{
    MPIX_Mscclpp_memory memory;
    void *base;
    int code, class = MPI_SUCCESS;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPIX_Mscclpp_memory_alloc(MPI_COMM_WORLD, BYTES, &base, &memory);
    MPI_Error_class(code, &class);
    MPI_Finalize();
    return MPI_ERR_UNSUPPORTED_OPERATION != class;
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";

    if (0 == strcmp(part, "--without")) {
        return without(argc, argv);
    }
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (mt_too_small(2)) {
        return MT_SKIPPED;
    }
    if (!mt_twin) {
        printf("skipped: the kernels of this test are those of the host twin\n");
        (void)mt_finish();
        return MT_SKIPPED;
    }
    if (0 == strcmp(part, "--gone")) {
        gone();
    } else if ('\0' != part[0]) {
        fault(part);
    } else {
        arguments();
    }
    return mt_finish();
}
