/*
 * The host side of lingering kernels (device/kern/linger.h). A lingering kernel stays on the device after its
 * operation. The host starts the next operation by a doorbell in the mailbox ("rings") instead of a launch, which saves
 * some microseconds. A device has at most one lingering kernel of this process; it leaves when another team needs the
 * device.
 *
 * Each rank decides by itself whether its kernel lingers, because peers receive the same packets from either kind of
 * kernel.
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
    bool allowed;         /* the team's kernels may linger at all */
    bool always;          /* kernels linger, whatever the history says */
    uint64_t window_ns;   /* as in mscclpp_dev_linger_args_t */
    uint64_t idle_ns;     /* as in mscclpp_dev_linger_args_t */
    uint64_t max_bytes;   /* of an operation that a lingering kernel may serve */
    uint64_t single_max;  /* the most bytes that one block serves */
    uint32_t wide_blocks; /* blocks of a lingering kernel that has more than one, unless an operation needs more */
    uint32_t most_blocks; /* the most blocks that an operation may need */
    uint32_t nthreads;    /* of each block of a lingering kernel */
    bool may_cluster;     /* the blocks may form a cluster */
    uint64_t ringable;    /* number of the kernel that may be rung; 0: none. Other threads clear it. */
    uint64_t last_kernel; /* number of the last lingering kernel; 0: there was none */
    uint64_t rung;        /* number of the kernel that was rung for the current operation; 0: none, it was launched */
    uint32_t nblocks;     /* blocks of the last lingering kernel */
    double last_end;      /* when the last operation ended, in seconds of mscclpp_now; 0: none has */
    uint64_t rings;       /* operations served without a launch */
    mscclpp_linger_history_t history;
    bool is_unnoted;       /* the last lingering kernel's rings have not been given to the history yet */
    uint64_t rings_before; /* `rings` when that kernel was launched */

    /* The peers' buffers of the last zero-copy operations; kernels get all of these sets when they are launched. */
    mscclpp_dev_linger_set_t sets[MSCCLPP_DEV_LINGER_SETS];
    uint32_t oldest_set;     /* the one that is replaced next */
    uint32_t new_sets;       /* one bit per set: set if the last kernel was launched without it */
    uint32_t unknown_streak; /* successive zero-copy operations, up to the last one, whose buffers were in no set */

    const mscclpp_dev_plan_args_t *plan; /* that the last kernel was launched with; NULL: none */
} mscclpp_linger_t;

/*
 * Decides whether the team's kernels may linger, and of which size. Called before the team's first call. `takes_turns`:
 * processes take turns on a GPU of the team, so kernels do not linger. `spans`: the team spans nodes.
 */
void mscclpp_linger_init(mscclpp_runner_t *runner, const mscclpp_config_t *config, bool takes_turns, bool spans);

/* Tells the history that a blocking call begins. */
void mscclpp_linger_note_call(mscclpp_runner_t *runner);

/*
 * Starts an operation that the host will wait for: rings for a lingering kernel, or launches a kernel in the team's
 * stream. That kernel lingers if this is likely to save time. *reporting_blocks_p is the number of blocks that will
 * report the operation's end. On success the caller must call mscclpp_runner_note_launch. After an error no operation
 * has begun.
 */
mscclpp_status_t mscclpp_linger_start(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch,
                                      uint32_t *reporting_blocks_p);

/* True if the team's last lingering kernel has not left yet. */
bool mscclpp_linger_present(const mscclpp_runner_t *runner);

/* True if the kernel that was rung for the current operation has left without seeing the doorbell. */
bool mscclpp_linger_missed(const mscclpp_runner_t *runner);

/* Notes that the current operation has ended. Called by the host's wait for it. */
void mscclpp_linger_note_end(mscclpp_runner_t *runner);

/* Tells the kernel that lingers on the team's device to leave, whichever team it belongs to. Does not wait. */
void mscclpp_linger_clear(mscclpp_runner_t *runner);

/*
 * Tells the team's kernel to leave and waits until it has left. MSCCLPP_ERR_DEVICE if it does not leave. Must be called
 * before freeing anything that the kernel uses.
 */
mscclpp_status_t mscclpp_linger_end(mscclpp_runner_t *runner);

/*
 * Notes that a kernel is about to be queued in a stream of the application. From now on, kernels do not form clusters:
 * a cluster needs free adjacent multiprocessors, and the queued kernel may occupy them while it waits for another rank.
 * That rank may itself be waiting for this rank's cluster.
 */
void mscclpp_linger_note_enqueue(void);

/* The number of operations that were served without a launch. */
uint64_t mscclpp_linger_served(const mscclpp_runner_t *runner);

/* For tests whose ranks are threads of one process: teams do not make each other's kernels leave. */
void mscclpp_linger_share_devices(bool share);

#endif
