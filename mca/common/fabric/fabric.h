/*
 * The fabric: what a team that spans nodes has besides the groups of the nodes. A rank that owns a shard has
 * connections to the owners of the same shard on other nodes, port channels over these connections with a proxy, and an
 * area for partial results. All connections use one transport, the first that all ranks support; no layer above depends
 * on which one. If the transport lets kernels reach the areas of other nodes, kernels store packets there themselves.
 *
 * Only the thread that is in a call of the team uses the fabric, except for mscclpp_fabric_progress_all.
 */
#ifndef MCA_COMMON_FABRIC_FABRIC_H
#define MCA_COMMON_FABRIC_FABRIC_H

#include "device/types/coll_nodes.h"
#include "device/types/port_channel.h"
#include "mca/common/algo/algo.h"
#include "mca/common/oob/topology.h"
#include "mca/common/run/runner.h"
#include "mca/common/transport/transport.h"

typedef struct mscclpp_fabric mscclpp_fabric_t;

/*
 * How an earlier communicator's nodes were connected, for another one of the same ranks. `transport` and `has_packets`
 * are equal on all ranks.
 */
typedef struct {
    const mscclpp_transport_ops_t *transport;
    bool has_packets; /* it carries packets */
    int *peers;       /* the ranks that this rank was connected with at first; from calloc */
    int peer_count;
} mscclpp_fabric_hint_t;

/* Fills in what a fabric gives a later one. The caller frees the peers. MSCCLPP_ERR_NO_MEMORY is not logged. */
mscclpp_status_t mscclpp_fabric_take_hint(const mscclpp_fabric_t *fabric, mscclpp_fabric_hint_t *hint);

/*
 * Connects the nodes of a communicator. Each node has its group and runner already. `config` is copied; the settings
 * that must be equal on all nodes are equal by now. `own_status` is this rank's status so far, on which the ranks have
 * not voted yet. With a hint (else NULL) the ranks connect as it says, without a vote on the transport before; if that
 * fails, they try all transports from that one on. Takes over what `nodes` holds, and
 * zeroes it, unless memory is short or there are too many nodes; the caller frees what is left in each case. Collective
 * over all ranks of the communicator. Returns the same status on all ranks: MSCCLPP_OK, MSCCLPP_ERR_NOT_SUPPORTED with
 * the reason logged, or the error of the exchange.
 */
mscclpp_status_t mscclpp_fabric_create(mscclpp_runner_t *runner, const mscclpp_config_t *config, mscclpp_nodes_t *nodes,
                                       const mscclpp_fabric_hint_t *hint, mscclpp_status_t own_status,
                                       mscclpp_fabric_t **fabric_p);

/*
 * In place of mscclpp_fabric_create on a rank that lacks something: `own_status`. Gives up for all ranks, and returns
 * as that function does on the others. The arguments are the same.
 */
mscclpp_status_t mscclpp_fabric_give_up(const mscclpp_oob_t *oob, const mscclpp_config_t *config,
                                        const mscclpp_nodes_t *nodes, const mscclpp_fabric_hint_t *hint,
                                        mscclpp_status_t own_status);

/* The sizes of a rank's exchange area. The full one is coll_mscclpp_exchange_size. */
typedef enum { MSCCLPP_FABRIC_SMALL, MSCCLPP_FABRIC_MIDDLE, MSCCLPP_FABRIC_FULL } mscclpp_fabric_size_t;

/*
 * Makes the area grow to this size, or to the next one if this size is too small for the nodes. Collective over all
 * ranks, at the same point of a call, while no operation is in flight and no kernel lingers. If any rank fails, all
 * keep their areas, which serve all sizes, though slowly; that is logged. Returns only errors of the exchange. The
 * smaller area is freed with the fabric.
 */
mscclpp_status_t mscclpp_fabric_grow(mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size);

/*
 * Returns the bytes of the largest message that packets carry at once in an area of this size, or the next one that is
 * not too small for the nodes; 0 if there are no packets. UINT64_MAX if that is the full size, which cannot grow.
 */
uint64_t mscclpp_fabric_packet_bytes(const mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size);

/* Fills in what the choice of algorithm will know about the area once it has this size. */
void mscclpp_fabric_describe_grown(const mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size,
                                   mscclpp_select_input_t *input);

/* Returns the transport that connects the nodes, which is the same on all ranks. */
const mscclpp_transport_ops_t *mscclpp_fabric_transport(const mscclpp_fabric_t *fabric);

/* Frees a fabric. Local. All kernels must have ended. NULL is allowed. */
void mscclpp_fabric_destroy(mscclpp_fabric_t *fabric);

/*
 * True if all nodes are connected as an all-reduce needs them. The set-up connects few nodes with one another, and many
 * only so far that small all-reduces run; the first call that needs more connects them. Equal on all ranks.
 */
bool mscclpp_fabric_is_linked(const mscclpp_fabric_t *fabric, const mscclpp_algo_t *algo);

/* Connects all nodes with one another, for calls during which nothing can be connected. Collective. */
mscclpp_status_t mscclpp_fabric_link_all(mscclpp_fabric_t *fabric);

/* Fills in what the choice of algorithm needs to know about the fabric. */
void mscclpp_fabric_describe(const mscclpp_fabric_t *fabric, mscclpp_select_input_t *input);

/*
 * Runs an all-reduce. The caller has filled in `args`. Returns when the kernel has ended and everything that the peers
 * need is sent. If a kernel that it waits for fails, or the proxy, the proxy is stopped, and the fabric serves no
 * further calls. With a stream of the application, returns when the kernel is queued; the first such call starts a
 * thread for the proxy. If the stream is recorded (runner->is_recording), that thread never sleeps for long from then
 * on.
 */
mscclpp_status_t mscclpp_fabric_run(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                    const mscclpp_choice_t *choice, const mscclpp_dev_args_t *args);

/*
 * Like mscclpp_fabric_run, for a collective other than all-reduce. The caller fills in the kernel in `launch`, and in
 * `args` all that does not depend on the fabric; if blocks differ, which a call with a stream does not allow, also the
 * lists that mscclpp_fabric_lists yields. `tiles` is the number of tiles that all blocks of the grid process together;
 * 0: the data are packets of one epoch.
 */
mscclpp_status_t mscclpp_fabric_run_coll(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                         mscclpp_dev_launch_t *launch, mscclpp_dev_coll_nodes_args_t *args,
                                         uint64_t tiles, const char *what);

/* Like mscclpp_fabric_run, for a barrier of the kernels of all ranks. */
mscclpp_status_t mscclpp_fabric_meet(mscclpp_fabric_t *fabric, const mscclpp_protocol_t *protocol,
                                     mscclpp_gpu_stream_t *stream);

/* Returns which ranks are on which node. */
const mscclpp_nodes_t *mscclpp_fabric_nodes(const mscclpp_fabric_t *fabric);

/*
 * True if memory of kernels, with its counters of signals, can be joined with that of other nodes (below). This takes
 * nodes of one size, so that all ranks have connections, and memory of the right kind. With `needs_packets`, kernels
 * are to find packets there. Equal on all ranks.
 */
bool mscclpp_fabric_can_join(const mscclpp_fabric_t *fabric, bool needs_packets);

typedef struct mscclpp_fabric_join mscclpp_fabric_join_t;

/* A port channel from this rank to one of another node. */
typedef struct {
    int peer;       /* -1: there is none */
    uint32_t token; /* the peer's word that its signals are added to */
} mscclpp_fabric_port_t;

/* A rank's memory that is to be joined, and its ports. */
typedef struct {
    void *memory; /* device memory, which begins with the words that signals are added to */
    uint64_t bytes;
    size_t tokens;     /* number of these words */
    const bool *peers; /* by rank of the communicator: a port leads from or to it */
    const mscclpp_fabric_port_t *ports;
    uint32_t port_count;
} mscclpp_fabric_memory_params_t;

/*
 * Lets ranks of other nodes put into a memory, and this rank into theirs, over connections of their own. Collective
 * over all ranks of the communicator, each with its status so far in `own_status`. *own_status_p is its status
 * afterwards, on which the ranks have not voted. Fills in channels[i], for kernels, for each port i that has a peer.
 * Returns an error only if the exchange itself fails. After any error *join_p is not set, and nothing is left to free.
 */
mscclpp_status_t mscclpp_fabric_join(mscclpp_fabric_t *fabric, const mscclpp_fabric_memory_params_t *params,
                                     mscclpp_status_t own_status, mscclpp_dev_port_channel_t *channels,
                                     mscclpp_fabric_join_t **join_p, mscclpp_status_t *own_status_p);

/* Ends a join. Local. Waits at most a second for data under way. No kernel may use the ports. NULL is allowed. */
void mscclpp_fabric_leave(mscclpp_fabric_join_t *join);

/*
 * Runs a kernel that uses ports of joined memory. Returns when it has ended and everything that the peers need is sent.
 * With a stream of the application, queues it there and does not wait.
 */
mscclpp_status_t mscclpp_fabric_run_joined(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                           const mscclpp_dev_launch_t *launch, uint64_t bytes, const char *what);

/*
 * Returns the lists of the blocks that this rank sends and receives in the next call of mscclpp_fabric_run_coll, for
 * the caller to fill in: one entry for each rank. The first call allocates them; the fabric owns them.
 */
mscclpp_status_t mscclpp_fabric_lists(mscclpp_fabric_t *fabric, mscclpp_dev_block_t **send_p,
                                      mscclpp_dev_block_t **recv_p);

/*
 * Clears the packets that have come from other nodes, so that packet flags may begin again. The ranks of all nodes meet
 * before and after that. To be called after the node's own packets are cleared. Returns when the work in `stream` has
 * ended.
 */
mscclpp_status_t mscclpp_fabric_renew(mscclpp_fabric_t *fabric, const mscclpp_protocol_t *protocol,
                                      mscclpp_gpu_stream_t *stream);

/* Stops the fabric: it sends nothing more, and waiting kernels give up. */
void mscclpp_fabric_stop(mscclpp_fabric_t *fabric);

/* The first peer that the connections have lost. Valid as long as the fabric. */
const mscclpp_loss_t *mscclpp_fabric_loss(const mscclpp_fabric_t *fabric);

/* Stops the fabric for good. Kernels may still run, so no memory is freed. NULL is allowed. */
void mscclpp_fabric_abandon(mscclpp_fabric_t *fabric);

/*
 * Waits until the peers have what kernels that ended have sent, at most a second, and then abandons the fabric. For
 * fabrics whose kernels graphs still hold: their last replay may have ended before its data have left.
 */
void mscclpp_fabric_retire(mscclpp_fabric_t *fabric);

/*
 * Returns the ranks of other nodes that have sent nothing in the current call (mscclpp_board_add_absent), as far as
 * this rank's host can tell. Each of them stands for its node, since it may itself be waiting for other ranks of that
 * node. Unless `may_ask` is set, the GPU runtime must not be called, and less can be told.
 */
uint64_t mscclpp_fabric_absent(mscclpp_fabric_t *fabric, bool may_ask);

/*
 * Progresses all fabrics of the process, since other ranks may depend on it. Call it regularly, from any thread,
 * whenever the process is in the embedding runtime for other reasons.
 */
void mscclpp_fabric_progress_all(void);

#endif
