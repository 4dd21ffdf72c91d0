/*
 * The host side of lingering kernels (device/kern/linger.h). A lingering kernel stays on the device after its
 * operation. The host starts the next operation by writing to a doorbell in the mailbox ("rings") instead of launching
 * a kernel. This saves some microseconds. A device has at most one lingering kernel of this process. The kernel leaves
 * when another team needs the device.
 *
 * Each rank decides independently whether its kernel lingers, because peers receive the same packets from both kinds of
 * kernels.
 */
#ifndef MCA_COMMON_RUN_LINGER_H
#define MCA_COMMON_RUN_LINGER_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/linger.h"
#include "mca/common/base/config.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/run/linger_history.h"
#include "mca/common/base/status.h"

typedef struct mscclpp_runner mscclpp_runner_t;

/* State of one team's lingering kernels. Only linger.c uses the fields. */
typedef struct {
    bool is_allowed;              /* the team's kernels may linger */
    bool is_always;               /* kernels linger, whatever the history says */
    uint64_t window_ns;           /* as in mscclpp_dev_linger_args_t */
    uint64_t idle_ns;             /* as in mscclpp_dev_linger_args_t */
    uint64_t max_bytes;           /* the maximum size of an operation that a lingering kernel may serve */
    uint64_t one_block_max_bytes; /* the maximum size of an operation that one block serves alone */
    uint32_t wide_blocks;         /* number of blocks of a kernel with several blocks, unless an operation needs more */
    uint32_t max_blocks;          /* the maximum number of blocks that an operation may need */
    uint32_t nthreads;            /* threads in each block of a lingering kernel */
    bool may_cluster;             /* the blocks may form a cluster */
    uint64_t ringable;            /* number of the kernel that may be rung; 0: none. Other threads clear it. */
    uint64_t last_kernel;         /* number of the last lingering kernel; 0: there was none */
    uint64_t rung;    /* number of the kernel that was rung for the current operation; 0: no kernel was rung */
    uint32_t nblocks; /* number of blocks of the last lingering kernel */
    double last_end;  /* when the last operation ended, in seconds of mscclpp_now; 0: no operation has ended */
    uint64_t rings;   /* number of operations served without a launch */
    mscclpp_linger_history_t history;
    bool has_unnoted_rings; /* the rings of the last lingering kernel have not been added to the history yet */
    uint64_t rings_before;  /* `rings` when that kernel was launched */

    /* The peers' buffers of the last zero-copy operations; kernels get all of these sets when they are launched. */
    mscclpp_dev_linger_set_t sets[MSCCLPP_DEV_LINGER_SETS];
    uint32_t oldest_set;     /* index of the set that is replaced next */
    uint32_t new_sets;       /* one bit per set: set if the last kernel was launched without it */
    uint32_t unknown_streak; /* number of successive zero-copy operations, up to the last one, whose buffers were in no
                                set */

    const mscclpp_dev_plan_args_t *plan; /* plan with which the last kernel was launched; NULL: none */
} mscclpp_linger_t;

/*
 * Decides whether the team's kernels may linger, and how many blocks they have. Called before the team's first call. If
 * processes take turns on a GPU of the team (`takes_turns`), kernels do not linger. `spans` says that the team spans
 * nodes.
 */
void mscclpp_linger_init(mscclpp_runner_t *runner, const mscclpp_config_t *config, bool takes_turns, bool spans);

/* Tells the history that a blocking call begins. */
void mscclpp_linger_note_call(mscclpp_runner_t *runner);

/*
 * Starts an operation that the host will wait for: rings the lingering kernel, or launches a kernel in the team's
 * stream. The launched kernel lingers if this is likely to save time. Sets *reporting_blocks_p to the number of blocks
 * that will report the end of the operation; on success the caller passes it to mscclpp_runner_note_launch. After an
 * error no operation has begun.
 */
mscclpp_status_t mscclpp_linger_start(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch,
                                      uint32_t *reporting_blocks_p);

/* Returns true if the team's last lingering kernel has not left yet. */
bool mscclpp_linger_is_present(const mscclpp_runner_t *runner);

/*
 * Returns true if the kernel that was rung for the current operation has left without seeing the doorbell. Its idle
 * time may have ended, or another thread may have told it to leave, while this thread rang.
 */
bool mscclpp_linger_has_missed(const mscclpp_runner_t *runner);

/* Notes that the current operation has ended. Called by the thread that has waited for the operation. */
void mscclpp_linger_note_end(mscclpp_runner_t *runner);

/* Tells the team's lingering kernel and the kernel of the device's owner to leave. Does not wait. */
void mscclpp_linger_clear(mscclpp_runner_t *runner);

/*
 * Tells the team's kernel to leave and waits until the kernel has left. Must be called before memory that the kernel
 * uses is freed. Returns MSCCLPP_ERR_DEVICE, with an error logged, if the kernel does not leave within some seconds.
 */
mscclpp_status_t mscclpp_linger_end(mscclpp_runner_t *runner);

/*
 * Makes kernels form no clusters from now on, because a kernel is about to be queued in a stream of the application. A
 * cluster needs free adjacent multiprocessors. The queued kernel may occupy them while it waits for another rank, and
 * that rank may itself wait for this rank's cluster.
 */
void mscclpp_linger_note_enqueue(void);

/* Returns the number of operations that were served without a launch. */
uint64_t mscclpp_linger_count_served(const mscclpp_runner_t *runner);

/*
 * With `share`, kernels of several teams may linger on a device side by side: a team no longer makes the kernels of
 * others leave. For tests whose ranks are threads of one process.
 */
void mscclpp_linger_share_devices(bool share);

#endif
