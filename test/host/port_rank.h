/* Ranks whose kernels talk over port channels round a ring: memory, transport, proxy and channels of one rank. */
#ifndef TEST_HOST_PORT_RANK_H
#define TEST_HOST_PORT_RANK_H

#include "mca/common/port/proxy.h"
#include "test/host/rank_threads.h"

#define PORT_BLOCKS_MAX 8

typedef struct {
    rank_t *rank;
    const mscclpp_gpu_ops_t *gpu;
    const mscclpp_transport_ops_t *ops;
    mscclpp_transport_t *transport;
    mscclpp_gpu_stream_t *stream;
    mscclpp_dev_mailbox_t *mailbox;
    mscclpp_dev_state_t *state;
    mscclpp_proxy_t *proxy;
    uint64_t *tokens;   /* two for block b: the previous rank signals token 2 b, the next rank token 2 b + 1 */
    uint64_t *expected; /* signals expected on each token */
    uint64_t *late;
    char *region;
    uint64_t slot_size;
    uint64_t region_size;
    mscclpp_region_t *registered;
    mscclpp_conn_t *conns[2]; /* to the next rank, to the previous one */
    mscclpp_remote_t *remotes[2];
    mscclpp_dev_port_channel_t *channels[2]; /* to the same ranks: one for each block, in device memory */
} port_rank_t;

/* Collective. Ends the process if anything fails, because the peers would wait. */
void port_rank_open(port_rank_t *port, rank_t *rank, const mscclpp_transport_ops_t *ops, uint64_t slot_size);

/* Collective. All kernels must have ended. */
void port_rank_close(port_rank_t *port);

/* Starts the ring's kernel, and does not wait for it unless it runs in this thread. */
mscclpp_status_t port_rank_launch(port_rank_t *port, const void *in, void *out, uint64_t bytes, uint32_t rounds,
                                  uint64_t add, bool combined, double timeout);

/* Makes the proxy progress until the stream is empty or `seconds` have passed. Returns the proxy's last status. */
mscclpp_status_t port_rank_wait(port_rank_t *port, double seconds);

/* True if no kernel runs. */
bool port_rank_is_idle(port_rank_t *port);

double port_rank_now(void);

#endif
