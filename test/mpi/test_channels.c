/*
 * Channels in kernels of the application (mpix/include/mpix_mscclpp_device.h): memory channels, port channels,
 * handlers, lists, barriers and small all-reduces. The kernels are those of the host twin. --nodes: ranks on several
 * nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_channels.h"

#define BLOCKS 3
#define THREADS 2
#define SLICE 5003 /* bytes of a block: no multiple of anything */
#define PITCH 5120
#define ROUNDS 20

static unsigned char value(int rank, unsigned block, unsigned round, unsigned i)
{
    return (unsigned char)(37 * (unsigned)rank + 11 * block + 5 * round + i + (i >> 8));
}

/* Each block sends a slice to the next rank in each round, and checks the one from the previous rank. */
typedef struct {
    char *base;
    mpix_memory_channel_t next[BLOCKS], previous[BLOCKS];
    unsigned how; /* 0: put and signal; 1: signal and get; 2: packets */
    unsigned wrong[BLOCKS * THREADS];
} ring_t;

#define SEND_AT 0
#define RECEIVE_AT (BLOCKS * PITCH)
#define PACKETS_AT (2 * BLOCKS * PITCH)
#define RING_BYTES (PACKETS_AT + 2 * BLOCKS * PITCH)

static void ring_kernel(mpix_group_t *block, void *argument)
{
    ring_t *ring = argument;
    const mpix_memory_channel_t *next = &ring->next[block->block], *previous = &ring->previous[block->block];
    const mpix_u64 send = SEND_AT + PITCH * block->block, receive = RECEIVE_AT + PITCH * block->block;
    const mpix_u64 packets = PACKETS_AT + 2 * PITCH * block->block;
    char *source = ring->base + send, *target = ring->base + receive;
    const int from = (mt_rank + mt_size - 1) % mt_size;

    for (unsigned round = 0; round < ROUNDS; ++round) {
        for (unsigned i = block->index; i < SLICE; i += block->size) {
            source[i] = (char)value(mt_rank, block->block, round, i);
        }
        mpix_sync(block);
        if (0 == ring->how) {
            (void)mpix_put(block, next, receive, send, SLICE);
            (void)mpix_signal(block, next);
            (void)mpix_wait(block, previous);
        } else if (1 == ring->how) {
            (void)mpix_signal(block, next);
            (void)mpix_wait(block, previous);
            (void)mpix_get(block, previous, receive, send, SLICE);
            mpix_sync(block);
        } else {
            (void)mpix_put_packets(block, next, packets, send, SLICE, round + 1);
            (void)mpix_get_packets(block, previous, target, packets, SLICE, round + 1);
        }
        for (unsigned i = block->index; i < SLICE; i += block->size) {
            ring->wrong[block->block * THREADS + block->index] +=
                (unsigned char)target[i] != value(from, block->block, round, i);
        }
        /* The next round begins when the neighbours have read this one. */
        (void)mpix_signal(block, previous);
        (void)mpix_signal(block, next);
        (void)mpix_wait(block, next);
        (void)mpix_wait(block, previous);
    }
    ring->wrong[block->block * THREADS + block->index] += mpix_failed(block) != 0;
}

/* A ring over memory channels. */
static void memory_channels(void *stream)
{
    mpix_memory_channel_t *handles = mt_host_alloc(sizeof(*handles) * 2 * BLOCKS * (size_t)mt_size);
    const int next = (mt_rank + 1) % mt_size, previous = (mt_rank + mt_size - 1) % mt_size;
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_channels channels;
    ring_t ring;

    ring.base = mc_memory(RING_BYTES, &memory);
    /* With two ranks, the next rank is the previous one, and needs channels of its own for each. */
    mc_all_channels(memory, MPIX_MSCCLPP_CHANNEL_AUTO, 2 * BLOCKS, &channels, handles, sizeof(*handles));
    for (int block = 0; block < BLOCKS; ++block) {
        const int forth = mt_size > 2 || 0 == mt_rank ? block : BLOCKS + block;

        ring.next[block] = handles[2 * BLOCKS * mc_peer_number(next) + forth];
        ring.previous[block] = handles[2 * BLOCKS * mc_peer_number(previous) + (mt_size > 2      ? block
                                                                                : forth == block ? BLOCKS + block
                                                                                                 : block)];
    }
    for (ring.how = 0; ring.how < 3; ++ring.how) {
        memset(ring.wrong, 0, sizeof(ring.wrong));
        mc_run(stream, ring_kernel, &ring, BLOCKS, THREADS);
        for (int i = 0; i < BLOCKS * THREADS; ++i) {
            MT_CHECK(0 == ring.wrong[i], "memory channels, way %u: thread %d saw %u wrong bytes", ring.how, i,
                     ring.wrong[i]);
        }
    }
    MT_MPI(MPIX_Mscclpp_channels_free(&channels));
    MT_CHECK(channels == NULL, "freed channels are not NULL");
    MT_MPI(MPIX_Mscclpp_memory_free(&memory));
    free(handles);
}

/* A graph: each launch of it passes a number on, which each rank increments. */
typedef struct {
    mpix_memory_channel_t next, previous;
    uint64_t *own;
} relay_t;

static void relay_kernel(mpix_group_t *block, void *argument)
{
    relay_t *relay = argument;

    if (0 == mt_rank) {
        relay->own[0] = relay->own[1] + 1;
        (void)mpix_put(block, &relay->next, 8, 0, 8);
        (void)mpix_signal(block, &relay->next);
        (void)mpix_wait(block, &relay->previous);
    } else {
        (void)mpix_wait(block, &relay->previous);
        relay->own[0] = relay->own[1] + 1;
        (void)mpix_put(block, &relay->next, 8, 0, 8);
        (void)mpix_signal(block, &relay->next);
    }
}

static void graphs(void *stream)
{
    mpix_memory_channel_t *handles = mt_host_alloc(sizeof(*handles) * 2 * (size_t)mt_size);
    const int next = mc_peer_number((mt_rank + 1) % mt_size),
              previous = mc_peer_number((mt_rank + mt_size - 1) % mt_size);
    relay_t relay;
    mpix_host_kernel_t kernel = {relay_kernel, &relay, 1, 1, 0};
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_channels channels;
    void *graph;

    relay.own = (uint64_t *)(void *)mc_memory(16, &memory);
    mc_all_channels(memory, MPIX_MSCCLPP_CHANNEL_MEMORY, 2, &channels, handles, sizeof(*handles));
    relay.next = handles[2 * next + (mt_size == 2 && 1 == mt_rank)];
    relay.previous = handles[2 * previous + (mt_size == 2 && 0 == mt_rank)];
    mq_capture_begin(stream);
    mc_launch(stream, &kernel);
    graph = mq_capture_end(stream);
    for (int i = 0; i < 10; ++i) {
        mq_graph_launch(graph, stream);
        mc_launch(stream, &kernel);
    }
    MT_MPI(MPIX_Mscclpp_host_stream_sync(stream));
    if (0 == mt_rank) {
        MT_CHECK((uint64_t)20 * (unsigned)mt_size == relay.own[1], "a number was incremented %llu times",
                 (unsigned long long)relay.own[1]);
    }
    MT_MPI(MPIX_Mscclpp_host_graph_destroy(graph));
    MT_MPI(MPIX_Mscclpp_channels_free(&channels));
    MT_MPI(MPIX_Mscclpp_memory_free(&memory));
    free(handles);
}

/* Every block sends a part of its slice to every rank by the CPU, adds to a counter there, and waits for theirs. */
typedef struct {
    char *base;
    mpix_port_channel_t *channels; /* BLOCKS to each peer */
    unsigned wrong[BLOCKS * THREADS];
} ports_t;

#define PART 700
#define FROM_AT(block_, rank_) (((size_t)(block_) * (size_t)mt_size + (size_t)(rank_)) * PART)
#define TO_AT(block_, rank_) (FROM_AT(BLOCKS, 0) + FROM_AT(block_, rank_))
#define COUNT_AT(block_) ((TO_AT(BLOCKS, 0) + 7) / 8 * 8 + 8 * (size_t)(block_))
#define PORT_BYTES COUNT_AT(BLOCKS)

static void port_kernel(mpix_group_t *block, void *argument)
{
    ports_t *ports = argument;
    const unsigned b = block->block;
    unsigned *wrong = &ports->wrong[b * THREADS + block->index];

    for (unsigned round = 0; round < ROUNDS; ++round) {
        for (int rank = 0; rank < mt_size; ++rank) {
            for (unsigned i = block->index; i < PART; i += block->size) {
                ports->base[FROM_AT(b, rank) + i] = (char)value(mt_rank, b + (unsigned)rank, round, i);
            }
        }
        for (int peer = 0; peer < mt_size - 1; ++peer) {
            const mpix_port_channel_t *channel = &ports->channels[BLOCKS * peer + (int)b];

            (void)mpix_port_add(block, channel, COUNT_AT(b), 3);
            if (0 != round % 2) {
                (void)mpix_port_put_signal_flush(block, channel, TO_AT(b, mt_rank), FROM_AT(b, channel->peer), PART);
            } else {
                (void)mpix_port_put(block, channel, TO_AT(b, mt_rank), FROM_AT(b, channel->peer), PART - 1);
                (void)mpix_port_put(block, channel, TO_AT(b, mt_rank) + PART - 1, FROM_AT(b, channel->peer) + PART - 1,
                                    1);
                (void)mpix_port_signal(block, channel);
                (void)mpix_port_flush(block, channel);
            }
        }
        for (int peer = 0; peer < mt_size - 1; ++peer) {
            const mpix_port_channel_t *channel = &ports->channels[BLOCKS * peer + (int)b];

            (void)mpix_port_wait(block, channel);
            for (unsigned i = block->index; i < PART; i += block->size) {
                *wrong += (unsigned char)ports->base[TO_AT(b, channel->peer) + i] !=
                          value((int)channel->peer, b + (unsigned)mt_rank, round, i);
            }
        }
        /* All have read. */
        for (int peer = 0; peer < mt_size - 1; ++peer) {
            (void)mpix_port_signal(block, &ports->channels[BLOCKS * peer + (int)b]);
        }
        for (int peer = 0; peer < mt_size - 1; ++peer) {
            (void)mpix_port_wait(block, &ports->channels[BLOCKS * peer + (int)b]);
        }
    }
    *wrong += mpix_failed(block) != 0;
}

/* A ring over port channels. */
static void port_channels(void *stream)
{
    mpix_port_channel_t *handles = mt_host_alloc(sizeof(*handles) * BLOCKS * (size_t)mt_size);
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_channels channels;
    ports_t ports = {.channels = handles};

    ports.base = mc_memory((MPI_Aint)PORT_BYTES, &memory);
    mc_all_channels(memory, MPIX_MSCCLPP_CHANNEL_PORT, BLOCKS, &channels, handles, sizeof(*handles));
    MT_MPI(MPIX_Mscclpp_channels_open(channels));
    mc_run(stream, port_kernel, &ports, BLOCKS, THREADS);
    MT_MPI(MPIX_Mscclpp_channels_close(channels));
    for (int i = 0; i < BLOCKS * THREADS; ++i) {
        MT_CHECK(0 == ports.wrong[i], "port channels: thread %d saw %u wrong bytes", i, ports.wrong[i]);
    }
    mt_barrier(MPI_COMM_WORLD);
    for (int block = 0; block < BLOCKS; ++block) {
        const uint64_t *count = (const uint64_t *)(const void *)(ports.base + COUNT_AT(block));

        MT_CHECK(*count == (uint64_t)3 * ROUNDS * (unsigned)(mt_size - 1), "port channels added up to %llu",
                 (unsigned long long)*count);
    }
    MT_MPI(MPIX_Mscclpp_channels_free(&channels));
    MT_MPI(MPIX_Mscclpp_memory_free(&memory));
    free(handles);
}

/* A handler that is called again twice for each trigger, and a list that signals all peers. */
typedef struct {
    int turns;
    uint64_t sum, last;
    bool disordered;
} handled_t;

static int handle(void *context, const MPIX_Mscclpp_fields *fields)
{
    handled_t *handled = context;

    if (++handled->turns % 3 != 0) {
        return MPIX_MSCCLPP_HANDLER_AGAIN;
    }
    handled->disordered |= fields->to != handled->last + 1 || fields->type != (5 | MPIX_PORT_FLUSH);
    handled->last = fields->to;
    handled->sum += fields->from * fields->size;
    return MPIX_MSCCLPP_HANDLER_DONE;
}

typedef struct {
    mpix_port_channel_t *channels; /* three to each peer */
    handled_t *handled;
    uint64_t *base;
    unsigned wrong;
} lists_t;

static void list_kernel(mpix_group_t *block, void *argument)
{
    lists_t *lists = argument;

    for (unsigned i = 1; i <= ROUNDS; ++i) {
        (void)mpix_port_push(block, &lists->channels[0], 5 | MPIX_PORT_FLUSH, i, 2, i);
        lists->wrong += lists->handled->last != i; /* the flush has waited for the handler */
        lists->base[0] = 1000 * i + (unsigned)mt_rank;
        (void)mpix_port_push(block, &lists->channels[1], MPIX_PORT_SIGNAL | (i % 2 ? MPIX_PORT_FLUSH : 0), 0, 0, 0);
        for (int peer = 0; peer < mt_size - 1; ++peer) {
            const mpix_port_channel_t *channel = &lists->channels[3 * peer + 2];

            (void)mpix_port_wait(block, channel);
            lists->wrong += lists->base[1 + channel->peer] != 1000 * i + channel->peer;
            (void)mpix_port_signal(block, channel);
        }
        for (int peer = 0; peer < mt_size - 1; ++peer) {
            (void)mpix_port_wait(block, &lists->channels[3 * peer + 2]);
        }
    }
    lists->wrong += mpix_failed(block) != 0;
}

static void handlers(void *stream)
{
    mpix_port_channel_t *handles = mt_host_alloc(sizeof(*handles) * 3 * (size_t)mt_size);
    MPIX_Mscclpp_fields *items = mt_host_alloc(sizeof(*items) * 2 * (size_t)mt_size);
    handled_t handled = {0, 0, 0, false};
    lists_t lists = {.channels = handles, .handled = &handled};
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_channels channels;

    lists.base = (uint64_t *)(void *)mc_memory(8 * (mt_size + 1), &memory);
    mc_all_channels(memory, MPIX_MSCCLPP_CHANNEL_PORT, 3, &channels, handles, sizeof(*handles));
    for (int peer = 0; peer < mt_size - 1; ++peer) {
        items[2 * peer] = (MPIX_Mscclpp_fields){.to = 8 + 8 * (uint64_t)mt_rank,
                                                .from = 0,
                                                .size = 8,
                                                .type = MPIX_PORT_DATA,
                                                .channel = (uint32_t)(3 * peer + 2)};
        items[2 * peer + 1] = (MPIX_Mscclpp_fields){.type = MPIX_PORT_SIGNAL, .channel = (uint32_t)(3 * peer + 2)};
    }
    MT_MPI(MPIX_Mscclpp_channels_set_handler(channels, 0, handle, &handled));
    MT_MPI(MPIX_Mscclpp_channels_set_list(channels, 1, 2 * (mt_size - 1), items));
    MT_MPI(MPIX_Mscclpp_channels_open(channels));
    MT_MPI(MPIX_Mscclpp_channels_open(channels));
    MT_MPI(MPIX_Mscclpp_channels_close(channels));
    mc_run(stream, list_kernel, &lists, 1, 1);
    MT_MPI(MPIX_Mscclpp_channels_close(channels));
    MT_CHECK(0 == lists.wrong && !handled.disordered, "lists and handlers: %u faults%s", lists.wrong,
             handled.disordered ? ", triggers out of order" : "");
    MT_CHECK(ROUNDS * (ROUNDS + 1) == handled.sum, "a handler added up to %llu", (unsigned long long)handled.sum);
    MT_MPI(MPIX_Mscclpp_channels_free(&channels));
    MT_MPI(MPIX_Mscclpp_memory_free(&memory));
    free(items);
    free(handles);
}

/* Barriers, and sums whose values and counts change from one to the next. */
typedef struct {
    mpix_room_t room;
    char *words; /* a word for each block, read by all peers between two barriers */
    mpix_memory_t memory;
    unsigned wrong[BLOCKS * THREADS];
    int rounds;
    double in[BLOCKS][64], out[BLOCKS][64];
} room_t;

static void room_kernel(mpix_group_t *block, void *argument)
{
    room_t *room = argument;
    const unsigned b = block->block;
    unsigned *wrong = &room->wrong[b * THREADS + block->index];
    double *in = room->in[b], *out = room->out[b];

    for (int round = 0; round < room->rounds; ++round) {
        const unsigned count = 1 + (unsigned)round * 7 % 64;

        for (unsigned i = block->index; i < count; i += block->size) {
            in[i] = mt_rank + round + 0.5 * i;
        }
        (void)mpix_allreduce_small(block, &room->room, in, round % 2 ? in : out, count, MPIX_FLOAT64, MPIX_SUM);
        mpix_sync(block);
        for (unsigned i = block->index; i < count; i += block->size) {
            *wrong += (round % 2 ? in : out)[i] != mt_size * (mt_size - 1) / 2 + mt_size * (round + 0.5 * i);
        }
        mpix_sync(block);
        if (0 == block->index) {
            ((int *)(void *)mpix_peer_pointer(&room->memory, (mpix_u32)mt_rank, 0))[b] = round;
        }
        (void)mpix_barrier(block, &room->room);
        for (int rank = 0; rank < mt_size; ++rank) {
            *wrong += ((const int *)(const void *)mpix_peer_pointer(&room->memory, (mpix_u32)rank, 0))[b] != round;
        }
        (void)mpix_barrier(block, &room->room);
    }
    *wrong += mpix_failed(block) != 0;
}

static void rooms(void *stream)
{
    room_t room;
    MPIX_Mscclpp_room handle;
    MPIX_Mscclpp_memory memory;

    memset(&room, 0, sizeof(room));
    room.rounds = 40;
    (void)mc_memory(4 * BLOCKS, &memory);
    MT_MPI(MPIX_Mscclpp_memory_get_device(memory, MPIX_MSCCLPP_DEVICE_ABI, &room.memory, sizeof(room.memory)));
    MT_MPI(MPIX_Mscclpp_room_create(MPI_COMM_WORLD, BLOCKS, sizeof(room.in[0]), &handle));
    MT_MPI(MPIX_Mscclpp_room_get_device(handle, MPIX_MSCCLPP_DEVICE_ABI, &room.room, sizeof(room.room)));
    /* All blocks, then some, then all: each counts for itself. */
    mc_run(stream, room_kernel, &room, BLOCKS, THREADS);
    mc_run(stream, room_kernel, &room, 1, 1);
    mc_run(stream, room_kernel, &room, BLOCKS, THREADS);
    for (int i = 0; i < BLOCKS * THREADS; ++i) {
        MT_CHECK(0 == room.wrong[i], "a room: thread %d saw %u faults", i, room.wrong[i]);
    }
    MT_MPI(MPIX_Mscclpp_room_free(&handle));
    MT_MPI(MPIX_Mscclpp_memory_free(&memory));
}

/* Ranks on several nodes: what is for one node is refused, and AUTO means port channels. */
static void nodes(void *stream)
{
    MPIX_Mscclpp_channels channels;
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_room room;
    int peers[64], kind;

    (void)mc_memory(4096, &memory);
    for (int rank = 0, n = 0; rank < mt_size; ++rank) {
        if (rank != mt_rank) {
            peers[n++] = rank;
        }
    }
    MT_CHECK(MPIX_Mscclpp_channels_create(memory, MPIX_MSCCLPP_CHANNEL_MEMORY, mt_size - 1, peers, 1, &channels) !=
                 MPI_SUCCESS,
             "memory channels between nodes are not refused");
    MT_CHECK(MPIX_Mscclpp_room_create(MPI_COMM_WORLD, 1, 64, &room) != MPI_SUCCESS,
             "a room for several nodes is not refused");
    MT_MPI(MPIX_Mscclpp_channels_create(memory, MPIX_MSCCLPP_CHANNEL_AUTO, mt_size - 1, peers, 1, &channels));
    MT_MPI(MPIX_Mscclpp_channels_kind(channels, &kind));
    MT_CHECK(kind == MPIX_MSCCLPP_CHANNEL_PORT, "between nodes the kind is %d", kind);
    MT_MPI(MPIX_Mscclpp_channels_free(&channels));
    MT_MPI(MPIX_Mscclpp_memory_free(&memory));
    port_channels(stream);
    port_channels(stream);
    handlers(stream);
}

int main(int argc, char **argv)
{
    const bool several_nodes = argc > 1 && 0 == strcmp(argv[1], "--nodes");
    void *stream;
    int code;
    char text[200];

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
    stream = mq_stream_make();
    if (several_nodes) {
        nodes(stream);
    } else {
        memory_channels(stream);
        graphs(stream);
        port_channels(stream);
        handlers(stream);
        rooms(stream);
    }
    MT_MPI(MPIX_Mscclpp_get_async_error(MPI_COMM_WORLD, &code, text, sizeof(text)));
    MT_CHECK(MPI_SUCCESS == code, "an error where there is none: %d, %s", code, text);
    mq_stream_free(stream);
    return mt_finish();
}
