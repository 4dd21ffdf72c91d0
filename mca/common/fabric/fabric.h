/*
 * What a team whose ranks lie on several nodes has besides what each node's ranks share: connections over one transport
 * to the ranks of other nodes that own the same shard, port channels over them with their proxy, and the area that
 * partial results travel through. The transport is the first that all ranks have; nothing above this names one. Where
 * it lets kernels reach the other nodes' areas, they store packets there themselves.
 *
 * Used by the one thread that is in a call of the team, but for mscclpp_fabric_progress_all.
 */
#ifndef MCA_COMMON_FABRIC_FABRIC_H
#define MCA_COMMON_FABRIC_FABRIC_H

#include "device/types/coll_nodes.h"
#include "mca/common/algo/algo.h"
#include "mca/common/oob/topology.h"
#include "mca/common/run/runner.h"

typedef struct mscclpp_fabric mscclpp_fabric_t;

/*
 * Joins the nodes of a communicator, of which each has its group and runner. `config` is copied; what has to be equal
 * on all nodes is. Collective over all ranks of the communicator. Ends on all of them alike: MSCCLPP_OK,
 * MSCCLPP_ERR_NOT_SUPPORTED, with the reason logged, or the error of the exchange.
 */
mscclpp_status_t mscclpp_fabric_create(mscclpp_runner_t *runner, const mscclpp_config_t *config,
                                       const mscclpp_nodes_t *nodes, mscclpp_fabric_t **fabric_p);

/* Local; after all kernels have ended. NULL is allowed. */
void mscclpp_fabric_destroy(mscclpp_fabric_t *fabric);

/* What a choice of algorithm needs to know. */
void mscclpp_fabric_describe(const mscclpp_fabric_t *fabric, mscclpp_select_input_t *input);

/*
 * An all-reduce with the arguments filled in. Returns when it has ended and all that the peers need has left, or, with
 * a stream of an application, when it is queued there: the proxy then has a thread from the first such call on.
 */
mscclpp_status_t mscclpp_fabric_run(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                    const mscclpp_choice_t *choice, const mscclpp_dev_args_t *args);

/*
 * A collective other than all-reduce: `launch` has its kernel, and `args` its arguments, but for what the fabric knows.
 * `tiles` is what all blocks of the grid go through together; 0: it goes as packets of one epoch. Blocking.
 */
mscclpp_status_t mscclpp_fabric_run_coll(mscclpp_fabric_t *fabric, mscclpp_dev_launch_t *launch,
                                         mscclpp_dev_coll_nodes_args_t *args, uint64_t tiles, const char *what);

/*
 * Clears what has come from other nodes as packets, and meets all their ranks, so that flags may begin again. Called
 * once the node's own packets are cleared. `stream` is done with when it returns.
 */
mscclpp_status_t mscclpp_fabric_renew(mscclpp_fabric_t *fabric, const mscclpp_protocol_t *protocol,
                                      mscclpp_gpu_stream_t *stream);

/* Nothing is sent any more; kernels that wait give up. */
void mscclpp_fabric_stop(mscclpp_fabric_t *fabric);

/* The same, for good: kernels may still run, so all memory is left as it is. NULL is allowed. */
void mscclpp_fabric_abandon(mscclpp_fabric_t *fabric);

/*
 * Ranks of other nodes that have sent nothing in the call in hand, one bit each, as far as the host of this rank can
 * tell. Each stands for its node, whose other ranks may be the ones that it waits for. `may_ask`: the GPU's runtime may
 * be called.
 */
uint64_t mscclpp_fabric_absent(mscclpp_fabric_t *fabric, bool may_ask);

/*
 * Moves on what other ranks need of all fabrics of the process. To be called now and then, from any thread, while the
 * process is in the embedding runtime for other reasons.
 */
void mscclpp_fabric_progress_all(void);

#endif
