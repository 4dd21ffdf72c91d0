/*
 * Decides whether LL128 packets (device/lib/packet.h) may be used, by what the GPU runtime says about the links and by
 * a trial.
 */
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/setup/internal.h"
#include "mca/common/oob/vote.h"

/*
 * Rounds of the trial. In each round, every warp sends four lines to each peer. On links that are worth LL128, the
 * trial sends tens of thousands of lines in less than a millisecond. If threads or kernels take turns, each round may
 * cost a time slice. Then there are only FEW_ROUNDS, one for each half of the packets' memory: they find only links
 * that always tear lines.
 */
#define ROUNDS 512u
#define FEW_ROUNDS 2u

/* Threads of a warp, which sends a line together. */
#define WARP_THREADS 32u

/*
 * Returns true if the GPU runtime promises that lines arrive as a whole, and logs the first link for which it does not.
 * If the user asks for LL128, or if the runtime cannot tell, the trial alone decides, and the result is true.
 */
static bool links_promise(const mscclpp_team_t *team, const unsigned char *uuids, size_t stride)
{
    int peer;

    if (team->protocol.packet_width == 128 || team->runner.gpu->keeps_lines == NULL) {
        return true;
    }
    for (peer = 0; peer < team->group.size; ++peer) {
        if (!team->runner.gpu->keeps_lines(team->runner.device, uuids + (size_t)peer * stride)) {
            mscclpp_info("%s: rank %d: no NVLink to the GPU of rank %d, or it is not visible: no packets of 128 bytes",
                         team->group.oob.label, team->group.members[team->group.rank], team->group.members[peer]);
            return false;
        }
    }
    return true;
}

/*
 * Sends lines between all ranks by a kernel. Returns MSCCLPP_ERR_NOT_SUPPORTED, which is logged, if a line did not
 * arrive here as a whole, or the error of the kernel. If ranks may have to take turns on a GPU (`may_take_turns`), the
 * trial is short. Each round uses one epoch, the same number on all ranks.
 */
static mscclpp_status_t run_trial(mscclpp_team_t *team, bool may_take_turns)
{
    const uint64_t capacity = MSCCLPP_DEV_LL128_CAPACITY(team->runner.layout.packet_half, team->group.size);
    const uint32_t lanes = team->group.on_twin ? 1 : WARP_THREADS;
    const uint32_t max_threads = team->group.on_twin ? 1 : MSCCLPP_DEV_MAX_THREADS;
    mscclpp_dev_ll128_probe_args_t args;
    mscclpp_status_t status;
    double seconds;

    memset(&args, 0, sizeof(args));
    args.rounds = team->group.on_twin || may_take_turns ? FEW_ROUNDS : ROUNDS;
    team->runner.epochs += args.rounds;
    status = mscclpp_setup_probe(team, MSCCLPP_KERNEL_LL128_PROBE,
                                 capacity * lanes < max_threads ? (uint32_t)capacity * lanes : max_threads,
                                 &args.common, 1, &seconds);
    if (status == MSCCLPP_OK && team->runner.mailbox->torn != 0) {
        mscclpp_log(team->protocol.packet_width == 128 ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_INFO,
                    "%s: rank %d: stores of 128 bytes arrived in parts: no packets of 128 bytes", team->group.oob.label,
                    team->group.members[team->group.rank]);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return status;
}

/*
 * Tries packets of 128 bytes. They are used only if every rank has received all lines as a whole, and every link
 * promises this. A failure of the format is not an error: the ranks vote on it with the flag of the same vote. Any
 * other error ends the set-up on all ranks.
 */
mscclpp_status_t mscclpp_setup_ll128(mscclpp_team_t *team, const unsigned char *uuids, size_t stride,
                                     bool may_take_turns, mscclpp_status_t *own_status_p)
{
    const bool is_asked_for = team->protocol.packet_width == 128; /* by the user */
    const bool is_excluded = team->protocol.packet_width != 0 && !is_asked_for;
    mscclpp_status_t own_status, status;
    mscclpp_vote_t vote;

    /*
     * Nothing is tried in these cases, which are equal on all ranks: a single rank; another format that the user asks
     * for; ranks that take turns on a GPU, unless the user asks for LL128; a packet area that is too small.
     */
    if (team->group.size == 1 || is_excluded || (may_take_turns && !is_asked_for) ||
        MSCCLPP_DEV_LL128_CAPACITY(team->runner.layout.packet_half, team->group.size) == 0) {
        return MSCCLPP_OK;
    }
    /*
     * This rank takes part in the trial even without the promise, because the peers' kernels wait for this rank's
     * kernel.
     */
    own_status = run_trial(team, may_take_turns);
    if (own_status == MSCCLPP_OK && !links_promise(team, uuids, stride)) {
        own_status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *own_status_p = own_status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_OK : own_status;
    status = mscclpp_vote_with(&team->group.oob, *own_status_p, own_status == MSCCLPP_OK, &vote);
    if (status == MSCCLPP_OK) {
        status = mscclpp_vote_outcome(&team->group.oob, team->group.members, &vote, "trial of packets of 128 bytes");
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    team->ll128 = vote.all;
    mscclpp_debug("%s: packets of 128 bytes %s", team->group.oob.label, team->ll128 ? "may be used" : "are not used");
    return MSCCLPP_OK;
}
