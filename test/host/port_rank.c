#include "test/host/port_rank.h"
#include "mca/common/base/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the ranks send each other: the addresses of both connections, and the region's key. */
typedef struct {
    unsigned char address[2][MSCCLPP_TRANSPORT_ADDRESS_MAX];
    size_t address_length[2];
    unsigned char key[MSCCLPP_TRANSPORT_KEY_MAX];
    size_t key_length;
} card_t;

static void must(const port_rank_t *port, mscclpp_status_t status, const char *what)
{
    if (status != MSCCLPP_OK) {
        fprintf(stderr, "FAIL rank %d: %s: %s\n", port->rank->rank, what, mscclpp_status_string(status));
        exit(1);
    }
}

static void *device_memory(const port_rank_t *port, size_t size)
{
    void *address;

    must(port, port->gpu->device_alloc(port->rank->device, size, &address), "device memory");
    return address;
}

double port_rank_now(void)
{
    return mscclpp_now();
}

static void progress(void *context)
{
    (void)mscclpp_proxy_progress(((port_rank_t *)context)->proxy);
}

/* Makes the port channels of each block to both neighbours of the ring. */
static void create_channels(port_rank_t *port)
{
    const int peers[2] = {(port->rank->rank + 1) % port->rank->size,
                          (port->rank->rank + port->rank->size - 1) % port->rank->size};
    uint32_t block, side;

    for (block = 0; block < PORT_BLOCKS_MAX; ++block) {
        for (side = 0; side < 2; ++side) {
            const mscclpp_port_params_t params = {.ops = port->ops,
                                                  .transport = port->transport,
                                                  .conn = port->conns[side],
                                                  .region = port->registered,
                                                  .region_size = port->region_size,
                                                  .remote = port->remotes[side],
                                                  .remote_size = port->region_size,
                                                  .token = 2 * block + side,
                                                  .peer = peers[side],
                                                  .inbound = &port->tokens[2 * block + 1 - side],
                                                  .expected = &port->expected[2 * block + 1 - side]};

            must(port, mscclpp_proxy_channel_create(port->proxy, &params, &port->channels[side][block]), "channel");
        }
    }
}

/* Exchanges what the neighbours need of each other, and connects them. */
static void connect_ring(port_rank_t *port)
{
    const int size = port->rank->size, me = port->rank->rank;
    const int peers[2] = {(me + 1) % size, (me + size - 1) % size};
    card_t *cards = calloc((size_t)size, sizeof(*cards)), *own = calloc(1, sizeof(*own));
    int side;

    if (cards == NULL || own == NULL) {
        perror("calloc");
        exit(1);
    }
    must(port, port->ops->region_key(port->registered, own->key, &own->key_length), "key");
    for (side = 0; side < 2; ++side) {
        must(port, port->ops->conn_create(port->transport, peers[side], &port->conns[side]), "connection");
        must(port, port->ops->conn_address(port->conns[side], own->address[side], &own->address_length[side]),
             "address");
    }
    must(port, port->rank->oob.allgather(port->rank->oob.context, own, cards, sizeof(*own)), "exchange");
    for (side = 0; side < 2; ++side) {
        const card_t *card = &cards[peers[side]];

        must(port, port->ops->conn_connect(port->conns[side], card->address[1 - side], card->address_length[1 - side]),
             "connect");
        must(port, port->ops->remote_create(port->conns[side], card->key, card->key_length, &port->remotes[side]),
             "remote");
    }
    free(own);
    free(cards);
}

void port_rank_open(port_rank_t *port, rank_t *rank, const mscclpp_transport_ops_t *ops, uint64_t slot_size)
{
    mscclpp_transport_params_t transport;
    mscclpp_proxy_params_t proxy;
    void *host, *device;
    uint32_t flags;
    int side;

    memset(port, 0, sizeof(*port));
    port->rank = rank;
    port->gpu = rank->gpu;
    port->ops = ops;
    port->slot_size = (slot_size + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT;
    port->region_size = 2 * port->slot_size + PORT_BLOCKS_MAX * sizeof(uint64_t);
    port->region = device_memory(port, port->region_size);
    port->tokens = device_memory(port, 2 * PORT_BLOCKS_MAX * sizeof(uint64_t));
    port->expected = device_memory(port, 2 * PORT_BLOCKS_MAX * sizeof(uint64_t));
    port->late = device_memory(port, PORT_BLOCKS_MAX * sizeof(uint64_t));
    port->state = device_memory(port, sizeof(*port->state));
    for (side = 0; side < 2; ++side) {
        port->channels[side] = device_memory(port, PORT_BLOCKS_MAX * sizeof(*port->channels[side]));
    }
    must(port, port->gpu->host_alloc(sizeof(*port->mailbox), &host, &device), "mailbox");
    port->mailbox = host;
    must(port, port->gpu->stream_create(rank->device, &port->stream), "stream");

    memset(&transport, 0, sizeof(transport));
    transport.config = rank->config;
    transport.gpu = port->gpu;
    transport.device = rank->device;
    transport.rank = rank->rank;
    transport.size = rank->size;
    transport.label = "test";
    transport.tokens = port->tokens;
    transport.token_count = (size_t)2 * PORT_BLOCKS_MAX;
    must(port, ops->create(&transport, &flags, &port->transport), "transport");
    must(port, ops->region_create(port->transport, port->region, port->region_size, &port->registered), "region");
    connect_ring(port);

    memset(&proxy, 0, sizeof(proxy));
    proxy.config = rank->config;
    proxy.gpu = port->gpu;
    proxy.device = rank->device;
    proxy.label = "test";
    proxy.mailbox = port->mailbox;
    must(port, mscclpp_proxy_create(&proxy, &port->proxy), "proxy");
    create_channels(port);
    mscclpp_gpu_twin_set_progress(progress, port);
    meet(rank);
}

void port_rank_close(port_rank_t *port)
{
    const int device = port->rank->device;
    int side;

    mscclpp_gpu_twin_set_progress(NULL, NULL);
    mscclpp_proxy_destroy(port->proxy);
    meet(port->rank);
    for (side = 0; side < 2; ++side) {
        port->ops->remote_destroy(port->remotes[side]);
        port->ops->conn_destroy(port->conns[side]);
    }
    port->ops->region_destroy(port->registered);
    port->ops->destroy(port->transport);
    meet(port->rank);
    port->gpu->stream_destroy(port->stream);
    port->gpu->host_free(port->mailbox);
    for (side = 0; side < 2; ++side) {
        port->gpu->device_free(device, port->channels[side]);
    }
    port->gpu->device_free(device, port->state);
    port->gpu->device_free(device, port->late);
    port->gpu->device_free(device, port->expected);
    port->gpu->device_free(device, port->tokens);
    port->gpu->device_free(device, port->region);
}

mscclpp_status_t port_rank_launch(port_rank_t *port, const void *in, void *out, uint64_t bytes, uint32_t rounds,
                                  uint64_t add, bool combined, double timeout)
{
    mscclpp_dev_port_ring_args_t args;
    mscclpp_dev_launch_t launch;

    memset(&args, 0, sizeof(args));
    args.common.in = in;
    args.common.out = out;
    args.common.bytes = bytes;
    args.common.rank = (uint32_t)port->rank->rank;
    args.common.nranks = (uint32_t)port->rank->size;
    args.common.timeout_ns = (uint64_t)(timeout * 1e9);
    args.common.state = port->state;
    args.common.mailbox = port->mailbox;
    args.next = port->channels[0];
    args.previous = port->channels[1];
    args.region = port->region;
    args.slot_size = port->slot_size;
    args.add = add;
    args.late = port->late;
    args.rounds = rounds;
    args.combined = combined;
    args.overwrite = 1;
    launch.kernel = MSCCLPP_KERNEL_PORT_RING;
    launch.nblocks = (uint32_t)port->rank->config->twin_blocks;
    launch.nthreads = (uint32_t)port->rank->config->twin_threads;
    launch.args = &args;
    return port->gpu->launch(port->stream, &launch);
}

bool port_rank_is_idle(port_rank_t *port)
{
    return port->gpu->stream_query(port->stream) != MSCCLPP_IN_PROGRESS;
}

mscclpp_status_t port_rank_wait(port_rank_t *port, double seconds)
{
    const double deadline = port_rank_now() + seconds;
    mscclpp_status_t status;

    do {
        status = mscclpp_proxy_progress(port->proxy);
        sched_yield();
    } while (!port_rank_is_idle(port) && port_rank_now() < deadline);
    return status;
}
