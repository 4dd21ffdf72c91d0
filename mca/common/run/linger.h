/*
 * The host's end of lingering kernels (device/kern/linger.h): ringing for an operation instead of launching it, and
 * seeing to it that a device has one such kernel of this process at most, which leaves when somebody else wants it.
 *
 * Only what a rank does by itself depends on any of this: the packets that it sends are those of a launched kernel.
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

/* Of one team; its fields are linger.c's own. */
typedef struct {
    bool allowed;
    bool always; /* a kernel stays whatever the history says */
    uint64_t window_ns;
    uint64_t idle_ns;
    uint64_t max_bytes;
    uint64_t single_max;  /* bytes up to which one block serves */
    uint32_t wide_blocks; /* of a kernel that has several, unless an operation wants more: */
    uint32_t most_blocks;
    uint32_t nthreads;
    bool cluster;     /* blocks may form one */
    uint64_t number;  /* of the kernel that may be rung for; 0: none. Other threads clear it. */
    uint64_t started; /* number of the last kernel launched */
    uint64_t rung;    /* number of the kernel that was rung for the operation in hand; 0: it was launched */
    uint32_t nblocks; /* of the last kernel launched */
    double ended;     /* when the last operation ended; 0: none has */
    uint64_t rings;   /* operations served without a launch */
    mscclpp_linger_history_t history;
    bool staying;       /* the history has not been told of the last kernel that stayed */
    uint64_t stayed_at; /* `rings` when that was launched */

    /* Buffers of the last zero-copy operations. */
    mscclpp_dev_linger_set_t sets[MSCCLPP_DEV_LINGER_SETS];
    uint32_t oldest_set;
    uint32_t new_sets; /* a bit each: the last kernel launched does not know it */
    uint32_t unknown;  /* zero-copy operations in a row whose buffers were in no set */
} mscclpp_linger_t;

/*
 * Before the team's first call. `turns`: processes take turns on a device of the team's. `spans`: the team is that of a
 * node, and there are others.
 */
void mscclpp_linger_init(mscclpp_runner_t *runner, const mscclpp_config_t *config, bool turns, bool spans);

/* A blocking call begins. */
void mscclpp_linger_note_call(mscclpp_runner_t *runner);

/*
 * Starts an operation that the host waits for: rings, or launches a kernel in the team's stream, which lingers where
 * that is likely to pay. *tellers_p: how many blocks tell of the operation's end. The caller notes the launch.
 */
mscclpp_status_t mscclpp_linger_start(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch,
                                      uint32_t *tellers_p);

/* A lingering kernel of the team has not left yet. */
bool mscclpp_linger_present(const mscclpp_runner_t *runner);

/* The kernel that was rung for the operation in hand left without having heard it. */
bool mscclpp_linger_missed(const mscclpp_runner_t *runner);

/* The operation in hand has ended. */
void mscclpp_linger_note_end(mscclpp_runner_t *runner);

/* Sends away whatever lingers on the team's device, this team's kernel or another's; returns at once. */
void mscclpp_linger_clear(mscclpp_runner_t *runner);

/*
 * Sends the team's kernel away and waits until it has left. MSCCLPP_ERR_DEVICE if it does not. To be called before
 * anything that it uses is freed.
 */
mscclpp_status_t mscclpp_linger_end(mscclpp_runner_t *runner);

/*
 * A kernel is about to be queued in a stream of the application. It may wait for a rank that first waits for a kernel
 * of this one, which then must not ask for processors side by side: from now on there are no clusters.
 */
void mscclpp_linger_note_enqueue(void);

/* How many operations of a team were served without a launch. */
uint64_t mscclpp_linger_served(const mscclpp_runner_t *runner);

/* Testing: teams of ranks that are threads of one process do not send one another's kernels away. */
void mscclpp_linger_share_devices(bool share);

#endif
