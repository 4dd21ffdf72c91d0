/*
 * The fabric: the part of a team that connects its nodes. A rank that owns a shard has connections to the owners of the
 * same shard on other nodes. Over these it has port channels with a proxy, and an area for partial results. All
 * connections use one transport, which is the first one that all ranks support. No layer above depends on the choice of
 * the transport. If the transport lets kernels access the areas of other nodes, kernels store packets there themselves.
 *
 * Only the thread that is in a call of the team uses the fabric, except for mscclpp_fabric_progress_all.
 */
#ifndef MCA_COMMON_FABRIC_FABRIC_H
#define MCA_COMMON_FABRIC_FABRIC_H

#include "device/types/coll_nodes.h"
#include "device/types/port_channel.h"
#include "mca/common/algo/algo.h"
#include "mca/common/oob/oob.h"
#include "mca/common/oob/topology.h"
#include "mca/common/run/runner.h"
#include "mca/common/transport/transport.h"

typedef struct mscclpp_fabric mscclpp_fabric_t;

/*
 * A hint: how the nodes of an earlier communicator were connected. It is for another communicator of the same ranks.
 * `transport` and `has_packets` are equal on all ranks.
 */
typedef struct {
    const mscclpp_transport_ops_t *transport;
    bool has_packets; /* the transport carries packets */
    int *peers;       /* the ranks with which this rank was connected at set-up; from calloc */
    int peer_count;
} mscclpp_fabric_hint_t;

/* Fills in a hint for a later fabric. The caller frees the list of peers. MSCCLPP_ERR_NO_MEMORY is not logged. */
mscclpp_status_t mscclpp_fabric_take_hint(const mscclpp_fabric_t *fabric, mscclpp_fabric_hint_t *hint);

/*
 * Connects the nodes of a communicator. Collective over all ranks of the communicator. Each node has its group and
 * runner already. `config` is copied; its settings that must be equal on all nodes are equal already. `own_status` is
 * this rank's status so far, on which the ranks have not voted yet.
 *
 * If `hint` is not NULL, the ranks connect as it says, without a vote on the transport. If that fails, they try all
 * transports from that one on. The function takes over the contents of `nodes` and zeroes it, unless memory is short or
 * there are too many nodes. In every case the caller frees the rest of `nodes`. Returns the same status on all ranks:
 * MSCCLPP_OK, MSCCLPP_ERR_NOT_SUPPORTED with the reason logged, or the error of the exchange. After an error nothing is
 * left, and *fabric_p is not set.
 */
mscclpp_status_t mscclpp_fabric_create(mscclpp_runner_t *runner, const mscclpp_config_t *config, mscclpp_nodes_t *nodes,
                                       const mscclpp_fabric_hint_t *hint, mscclpp_status_t own_status,
                                       mscclpp_fabric_t **fabric_p);

/*
 * The same in three parts, for ranks that exchange cards ahead of an all-gather. All of them are local.
 *
 * 1. mscclpp_fabric_begin makes this rank's ends of the connections as the hint says, and fills in the messages in
 *    *ahead, whose id the caller has set. They are part of the fabric, until mscclpp_fabric_finish. It takes over the
 *    contents of `nodes` and zeroes it, unless memory is short. After an error nothing is left, and the caller calls
 *    mscclpp_fabric_decline, which fills in *ahead for a rank that sends none.
 * 2. mscclpp_fabric_connect connects the ends once the messages have come. It returns this rank's own status, as
 *    mscclpp_fabric_begin does.
 * 3. mscclpp_fabric_finish completes the fabric once all ranks are connected. If they are not, the caller destroys it.
 */
mscclpp_status_t mscclpp_fabric_begin(mscclpp_runner_t *runner, const mscclpp_config_t *config, mscclpp_nodes_t *nodes,
                                      const mscclpp_fabric_hint_t *hint, mscclpp_oob_ahead_t *ahead,
                                      mscclpp_fabric_t **fabric_p);
void mscclpp_fabric_decline(const mscclpp_fabric_hint_t *hint, mscclpp_oob_ahead_t *ahead);
mscclpp_status_t mscclpp_fabric_connect(mscclpp_fabric_t *fabric);
void mscclpp_fabric_finish(mscclpp_fabric_t *fabric);

/*
 * Gives up for all ranks, and returns the same status as mscclpp_fabric_create does on the others. A rank that cannot
 * take part calls it instead of mscclpp_fabric_create, with the same arguments. `own_status` is the reason.
 */
mscclpp_status_t mscclpp_fabric_give_up(const mscclpp_oob_t *oob, const mscclpp_config_t *config,
                                        const mscclpp_nodes_t *nodes, const mscclpp_fabric_hint_t *hint,
                                        mscclpp_status_t own_status);

/* The sizes of a rank's exchange area. The full one is coll_mscclpp_exchange_size. */
typedef enum { MSCCLPP_FABRIC_SMALL, MSCCLPP_FABRIC_MIDDLE, MSCCLPP_FABRIC_FULL } mscclpp_fabric_size_t;

/*
 * Makes the area grow to this size, or to the next one if this size is too small for the nodes. Collective over all
 * ranks, at the same point of a call, while no operation is in flight and no kernel lingers. Does nothing if the area
 * has this size already. If any rank fails, all keep their areas, which serve all sizes, though slowly; that is logged.
 * Returns only errors of a vote. The smaller area is freed with the fabric.
 */
mscclpp_status_t mscclpp_fabric_grow(mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size);

/*
 * Returns the bytes of the largest message that packets carry at once, in an area of this size or of the present one,
 * whichever is larger. If the nodes do not fit into that size, takes the next one into which they do. Returns 0 if
 * there are no packets, and UINT64_MAX for the full size, which cannot grow.
 */
uint64_t mscclpp_fabric_packet_bytes(const mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size);

/*
 * Fills in what the choice of algorithm will know about the area once it has this size: slot_size and packet_units. An
 * area that is larger already keeps its size.
 */
void mscclpp_fabric_describe_grown(const mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size,
                                   mscclpp_select_input_t *input);

/* Returns the transport that connects the nodes, which is the same on all ranks. */
const mscclpp_transport_ops_t *mscclpp_fabric_transport(const mscclpp_fabric_t *fabric);

/* Frees a fabric. Local. All kernels must have ended. NULL is allowed. */
void mscclpp_fabric_destroy(mscclpp_fabric_t *fabric);

/*
 * Returns true if all nodes are connected as an all-reduce with this algorithm needs them. The set-up connects all
 * nodes with one another if they are few. If they are many, it connects them only as small all-reduces need it, and the
 * first call that needs more connects them. The result is equal on all ranks.
 */
bool mscclpp_fabric_is_linked(const mscclpp_fabric_t *fabric, const mscclpp_algo_t *algo);

/*
 * Connects all nodes with one another, before calls during which nodes cannot be connected. Collective. An error has
 * been logged, and breaks the team.
 */
mscclpp_status_t mscclpp_fabric_link_all(mscclpp_fabric_t *fabric);

/* Fills in the inputs of the choice of an algorithm that depend on the fabric. */
void mscclpp_fabric_describe(const mscclpp_fabric_t *fabric, mscclpp_select_input_t *input);

/*
 * Runs an all-reduce. The caller has filled in `args`. Without a stream, returns when the kernel has ended and all data
 * for the peers has been sent. If the proxy or a kernel that the function waits for fails, the proxy is stopped, and
 * the fabric serves no further calls.
 *
 * With a stream of the application, returns when the kernel is queued. The first such call starts a thread for the
 * proxy. If the stream is recorded (runner->is_recording), that thread never sleeps for long from then on.
 */
mscclpp_status_t mscclpp_fabric_run(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                    const mscclpp_choice_t *choice, const mscclpp_dev_args_t *args);

/*
 * Runs the kernel of a collective other than all-reduce. The caller fills in the kernel in `launch`, and the fields of
 * `args` that do not depend on the fabric. If blocks differ, which a call with a stream does not allow, the caller also
 * fills in the lists of mscclpp_fabric_lists. `tiles` is the number of tiles that all blocks of the grid process
 * together; 0 means that the data is sent as packets of one epoch. Waits and fails as mscclpp_fabric_run does.
 */
mscclpp_status_t mscclpp_fabric_run_coll(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                         mscclpp_dev_launch_t *launch, mscclpp_dev_coll_nodes_args_t *args,
                                         uint64_t tiles, const char *operation_name);

/* Runs a kernel in which the kernels of all ranks meet. Waits and fails as mscclpp_fabric_run does. */
mscclpp_status_t mscclpp_fabric_meet(mscclpp_fabric_t *fabric, const mscclpp_protocol_t *protocol,
                                     mscclpp_gpu_stream_t *stream);

/* Returns which ranks are on which node. */
const mscclpp_nodes_t *mscclpp_fabric_nodes(const mscclpp_fabric_t *fabric);

/*
 * Returns true if memory of kernels, with its counters of signals, can be joined with the memory of other nodes
 * (below). This needs nodes of equal size, so that all ranks have connections, and memory of the right kind. With
 * `needs_packets`, kernels must also be able to receive packets in it. The result is equal on all ranks.
 */
bool mscclpp_fabric_can_join(const mscclpp_fabric_t *fabric, bool needs_packets);

typedef struct mscclpp_fabric_join mscclpp_fabric_join_t;

/* A port channel from this rank to a rank of another node. */
typedef struct {
    int peer;       /* rank at the other end; -1: there is no channel */
    uint32_t token; /* number of the peer's word to which the signals of this channel are added */
} mscclpp_fabric_port_t;

/* A rank's memory to be joined, and its ports. */
typedef struct {
    void *memory; /* device memory; begins with the words to which signals are added */
    uint64_t bytes;
    size_t tokens;     /* number of these words */
    const bool *peers; /* by rank of the communicator: a port leads from or to that rank */
    const mscclpp_fabric_port_t *ports;
    uint32_t port_count;
} mscclpp_fabric_memory_params_t;

/*
 * Allows ranks of other nodes to put data into a memory, and this rank to put data into theirs, over separate
 * connections. Collective over all ranks of the communicator. `own_status` is this rank's status so far, and
 * *own_status_p its status afterwards, on which the ranks have not voted. Fills in channels[i], for kernels, for each
 * port i that has a peer. Returns an error only if the exchange itself fails. After any error *join_p is not set, and
 * nothing is left to free.
 */
mscclpp_status_t mscclpp_fabric_join(mscclpp_fabric_t *fabric, const mscclpp_fabric_memory_params_t *params,
                                     mscclpp_status_t own_status, mscclpp_dev_port_channel_t *channels,
                                     mscclpp_fabric_join_t **join_p, mscclpp_status_t *own_status_p);

/*
 * Ends a join. Local. Waits at most a second for data in flight. No kernel may use the ports any more. NULL is allowed.
 */
void mscclpp_fabric_leave(mscclpp_fabric_join_t *join);

/*
 * Runs a kernel that uses ports of joined memory. Returns when the kernel has ended and all data for the peers has been
 * sent. With a stream of the application, queues the kernel there and does not wait.
 */
mscclpp_status_t mscclpp_fabric_run_joined(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                           const mscclpp_dev_launch_t *launch, uint64_t bytes,
                                           const char *operation_name);

/*
 * Returns the lists of the blocks that this rank sends and receives in the next call of mscclpp_fabric_run_coll. The
 * caller fills them in; each has one entry for each rank. The first call allocates the lists, and the fabric owns them.
 * If memory is short, logs that, and sets neither.
 */
mscclpp_status_t mscclpp_fabric_lists(mscclpp_fabric_t *fabric, mscclpp_dev_block_t **send_p,
                                      mscclpp_dev_block_t **recv_p);

/*
 * Clears the packets that have come from other nodes, so that packet flags may start again. The ranks of all nodes meet
 * before and after that. Must be called after the node's own packets have been cleared. Returns when the work in
 * `stream` has ended.
 */
mscclpp_status_t mscclpp_fabric_renew(mscclpp_fabric_t *fabric, const mscclpp_protocol_t *protocol,
                                      mscclpp_gpu_stream_t *stream);

/* Stops the fabric: it sends nothing more, and waiting kernels give up. */
void mscclpp_fabric_stop(mscclpp_fabric_t *fabric);

/* Returns the description of the first peer whose connection was lost. It is valid as long as the fabric. */
const mscclpp_loss_t *mscclpp_fabric_loss(const mscclpp_fabric_t *fabric);

/* Stops the fabric permanently. Kernels may still run, so no memory is freed. NULL is allowed. */
void mscclpp_fabric_abandon(mscclpp_fabric_t *fabric);

/*
 * Abandons the fabric once the data that ended kernels have sent has reached the peers, but waits for at most a second.
 * It is for fabrics whose kernels are still in graphs: the last replay of a graph may have ended before its data has
 * left.
 */
void mscclpp_fabric_retire(mscclpp_fabric_t *fabric);

/*
 * Returns the ranks of other nodes whose data this rank still awaits in the current call (mscclpp_board_add_absent), as
 * far as its host can tell. Each of these ranks represents its node, since it may itself wait for other ranks of that
 * node. Unless `may_ask` is set, the GPU runtime must not be called, and fewer ranks can be found.
 */
uint64_t mscclpp_fabric_absent(mscclpp_fabric_t *fabric, bool may_ask);

/*
 * Makes progress on all fabrics of the process, since other ranks may depend on it. Any thread must call it regularly
 * while the process is in the embedding runtime for other reasons.
 */
void mscclpp_fabric_progress_all(void);

#endif
