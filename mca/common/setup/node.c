/*
 * Creates a team on one node, in these steps:
 * - Every rank prepares what it owns.
 * - One all-gather tells all ranks everything.
 * - Each rank maps its peers' scratch, and a vote decides.
 * - Kernels of all ranks meet. This proves that they make progress together, which neither an attribute that promises
 *   peer access nor a shared GPU guarantees.
 *
 * A rank that lacks something, even memory, still takes part in every exchange, so that all ranks return the same
 * status.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/coll.h"
#include "mca/common/algo/select.h"
#include "mca/common/base/log.h"
#include "mca/common/team/grow.h"
#include "mca/common/base/tool.h"
#include "mca/common/gpu/pool.h"
#include "mca/common/gpu/users.h"
#include "mca/common/oob/vote.h"
#include "mca/common/setup/facts.h"
#include "mca/common/setup/internal.h"

/*
 * If a meeting of kernels takes more seconds than this, staging is faster. The shortest of several meetings counts,
 * because processes that have just started delay some of them.
 */
#define PROBE_SECONDS_SLOW 150e-6
#define PROBE_ROUNDS 10

/* Threads of the kernels that meet, on a GPU. */
#define PROBE_THREADS 64

/*
 * Launches a kernel that waits for no other rank, and waits for its end. The first launch in a stream may allocate
 * memory, which may wait for other kernels on the GPU. It is done here, where no other kernel can be waiting for this
 * rank. All ranks do this, so their counters of operations stay equal. Returns the error of the GPU runtime.
 */
static mscclpp_status_t launch_first_kernel(mscclpp_team_t *team)
{
    mscclpp_dev_args_t args;
    mscclpp_dev_launch_t launch;
    mscclpp_status_t status;

    memset(&args, 0, sizeof(args));
    mscclpp_runner_fill_args(&team->runner, &args);
    args.rank = 0;
    args.nranks = 1;
    args.scratch[0] = team->runner.scratch;
    launch.kernel = MSCCLPP_KERNEL_BARRIER;
    launch.nblocks = 1;
    launch.nthreads = team->group.on_twin ? 1 : PROBE_THREADS;
    launch.args = &args;
    status = team->runner.gpu->launch(team->runner.stream, &launch);
    if (status != MSCCLPP_OK) {
        return status;
    }
    mscclpp_runner_note_launch(&team->runner, launch.nblocks);
    return team->runner.gpu->stream_sync(team->runner.stream);
}

/*
 * Creates the parts of the team that this rank owns: mailbox, scratch, a stream for the probe, on rank 0 the board,
 * and, if `nodes` is NULL, control messages. (A team over several nodes gets control messages later, in align.c.) Joins
 * the users of the GPU. Fills in the facts that peers need to reach these parts.
 *
 * Comes before the first exchange, because this function may wait for kernels, and after that exchange kernels may wait
 * for this rank. After an error, which has been logged, mscclpp_team_destroy frees what was created.
 */
static mscclpp_status_t create_own_parts(mscclpp_team_t *team, const mscclpp_team_params_t *params,
                                         const mscclpp_nodes_t *nodes, mscclpp_facts_t *own_facts)
{
    mscclpp_gpu_info_t info;
    mscclpp_status_t status;
    size_t length = sizeof(own_facts->address);
    void *host, *device;

    if ((status = team->runner.gpu->device_info(team->runner.device, &info)) != MSCCLPP_OK ||
        (status = team->runner.gpu->preload(team->runner.device)) != MSCCLPP_OK ||
        (status = mscclpp_runner_take_stream(&team->runner)) != MSCCLPP_OK ||
        (status = team->runner.gpu->host_alloc(sizeof(*team->runner.mailbox), &host, &device)) != MSCCLPP_OK) {
        return status;
    }
    team->runner.mailbox = host;
    team->runner.device_mailbox = device;
    mscclpp_team_lay_out(team, params->config->scratch_size, params->oob.size,
                         nodes != NULL ? nodes->largest_node : team->group.size);
    status = mscclpp_pool_alloc(team->runner.gpu, team->runner.device, team->runner.stream, team->runner.layout.total,
                                (void **)&team->runner.scratch);
    if (status != MSCCLPP_OK ||
        (status = team->runner.gpu->export_memory(team->runner.scratch, &own_facts->scratch)) != MSCCLPP_OK ||
        (status = launch_first_kernel(team)) != MSCCLPP_OK) {
        return status;
    }
    if (team->group.rank == 0) {
        status = mscclpp_shmseg_create(mscclpp_board_size(team->group.size), &team->group.board_segment);
        if (status != MSCCLPP_OK) {
            return status;
        }
        mscclpp_shmseg_describe(team->group.board_segment, &own_facts->board);
    }
    /*
     * Without control messages, or without an address for them, failures are still reported through the board, and the
     * address has length 0. For a team that spans nodes, align.c creates control messages.
     */
    if (nodes == NULL) {
        status = mscclpp_ctrl_create(params->config->ucx, &team->group.oob, &team->group.ctrl);
        if (status == MSCCLPP_OK) {
            status = mscclpp_ctrl_address(team->group.ctrl, own_facts->address, &length);
        }
        if (status == MSCCLPP_OK) {
            own_facts->address_length = length;
        } else if (status != MSCCLPP_ERR_NOT_SUPPORTED) {
            return status;
        }
    }
    memcpy(own_facts->uuid, info.uuid, sizeof(own_facts->uuid));
    memcpy(team->uuid, info.uuid, sizeof(team->uuid));
    own_facts->server = info.server;
    team->server = info.server;
    own_facts->sm_count = (uint32_t)info.sm_count;
    own_facts->users = team->group.on_twin ? 1 : mscclpp_gpu_users_join(info.uuid, info.server, &own_facts->strangers);
    team->gpu_users = own_facts->users;
    team->gpu_strangers = own_facts->strangers;
    return MSCCLPP_OK;
}

/*
 * Maps the memory that the peers own: the board, which rank 0 has already created and mapped, and their scratch.
 * Connects control messages, if there are any. Returns this rank's own status, on which the ranks have not voted. After
 * a failure, part_ranks closes the mappings made so far.
 */
static mscclpp_status_t map_peers(mscclpp_team_t *team, const mscclpp_facts_t *facts)
{
    mscclpp_status_t status = MSCCLPP_OK;
    char *base;
    int rank;

    if (team->group.board_segment == NULL) {
        status = mscclpp_shmseg_attach(&facts[0].board, &team->group.board_segment);
        if (status != MSCCLPP_OK) {
            return status;
        }
    }
    team->group.board = mscclpp_shmseg_base(team->group.board_segment);
    for (rank = 0; rank < team->group.size; ++rank) {
        if (rank == team->group.rank) {
            team->runner.peer_scratch[rank] = team->runner.scratch;
            continue;
        }
        status = mscclpp_mapping_share(team->runner.gpu, team->runner.device, &facts[rank].scratch,
                                       &team->runner.peer_mapping[rank]);
        if (status != MSCCLPP_OK) {
            return status;
        }
        base = mscclpp_mapping_base(team->runner.peer_mapping[rank]);
        team->runner.peer_scratch[rank] = base + facts[rank].scratch.offset;
    }
    if (team->group.ctrl == NULL) {
        return MSCCLPP_OK;
    }
    status = mscclpp_ctrl_connect(team->group.ctrl, team->group.id, facts[0].address, sizeof(*facts));
    if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
        /* The ranks have no carrier of control messages in common. This is equal on all ranks. */
        mscclpp_ctrl_destroy(team->group.ctrl);
        team->group.ctrl = NULL;
        status = MSCCLPP_OK;
    }
    return status;
}

/* Votes with the ranks of the node (mscclpp_agree). `event_name` is for the message. */
static mscclpp_status_t agree(const mscclpp_team_t *team, mscclpp_status_t own_status, const char *event_name)
{
    return mscclpp_agree(&team->group.oob, team->group.members, own_status, event_name);
}

/*
 * Lets kernels of all ranks meet, which proves that they can run at the same time. If processes share a GPU, also
 * checks that a meeting is fast enough to be useful. All ranks return the same status: the first condition depends on
 * equal facts, and the ranks vote on the rest. *own_status_p is this rank's own result.
 */
static mscclpp_status_t check_progress(mscclpp_team_t *team, mscclpp_status_t *own_status_p)
{
    mscclpp_dev_args_t args;
    mscclpp_status_t status;
    double seconds;

    if (team->runner.shares_gpu && team->protocol.shared_gpu == MSCCLPP_SHARED_GPU_STAGE) {
        mscclpp_info("%s: processes share a GPU and coll_mscclpp_shared_gpu is stage: device buffers are staged",
                     team->group.oob.label);
        *own_status_p = MSCCLPP_ERR_NOT_SUPPORTED;
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memset(&args, 0, sizeof(args));
    status = mscclpp_setup_probe(team, MSCCLPP_KERNEL_BARRIER, team->group.on_twin ? 1 : PROBE_THREADS, &args,
                                 team->runner.shares_gpu ? PROBE_ROUNDS : 1, &seconds);
    if (status == MSCCLPP_OK && team->runner.shares_gpu && team->protocol.shared_gpu == MSCCLPP_SHARED_GPU_AUTO &&
        seconds > PROBE_SECONDS_SLOW) {
        mscclpp_info("%s: processes share a GPU and kernels take %.0f us to meet: device buffers are staged",
                     team->group.oob.label, 1e6 * seconds);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *own_status_p = status;
    return agree(team, status, "meeting of kernels");
}

/*
 * Fills in the parts of a new team that depend only on its parameters. `nodes` is NULL if the team is on one node. The
 * team is in zeroed memory with room for the two arrays behind it.
 */
static void init_team(mscclpp_team_t *team, const mscclpp_team_params_t *params, const mscclpp_oob_t *oob,
                      const mscclpp_nodes_t *nodes)
{
    /* Threads on the twin take no slots, unless a test passes an admission. Their calls may overlap. */
    const bool calls_may_overlap = params->concurrent && params->gpu->twin && params->admission == NULL;
    int i;

    team->group.far_votes = (uint64_t(*)[2])(void *)(team + 1);
    team->group.leaders = (int *)(void *)(team->group.far_votes + (nodes != NULL ? nodes->count : 0));
    mscclpp_group_notices_init(&team->group);
    team->group.oob = *oob;
    team->group.rank = oob->rank;
    team->group.size = oob->size;
    for (i = 0; i < team->group.size; ++i) {
        team->group.members[i] = nodes != NULL ? nodes->members[i] : i;
    }
    team->group.on_twin = params->gpu->twin;
    team->group.timeout = params->config->timeout;
    team->group.warn_after = params->config->warn_after;
    team->group.checks_calls = params->config->check_calls;
    team->group.collective = mscclpp_coll_name(MSCCLPP_COLL_LAST);
    team->group.is_traced = !team->group.on_twin && mscclpp_tool_traces_kernels();
    team->group.admission = params->admission != NULL ? params->admission : mscclpp_admission_process();
    /* Teams share engine memory only if one team of the process at a time makes a call. */
    team->calls_one_at_a_time = params->own_process && !calls_may_overlap;
    team->runner.group = &team->group;
    team->runner.gpu = params->gpu;
    team->runner.device = params->device;
    team->runner.mapping_limit = mscclpp_mapping_limit(params->config);
    team->last_algorithm = "none";
}

/*
 * Creates the parts that this rank owns, and fills in the facts that it sends. Returns the status of the creation. The
 * facts are filled in even after an error, because the rank sends them in any case.
 */
static mscclpp_status_t prepare_and_fill_facts(mscclpp_team_t *team, const mscclpp_team_params_t *params,
                                               const mscclpp_nodes_t *nodes, mscclpp_facts_t *own_facts)
{
    const mscclpp_status_t status = create_own_parts(team, params, nodes, own_facts);
    const uint32_t size = (uint32_t)team->group.size;

    mscclpp_protocol_t *protocol = &team->protocol;

    mscclpp_facts_fill_protocol(protocol, params->config);
    memcpy(protocol->figures, mscclpp_rules_find_figures(params->rules), sizeof(protocol->figures));
    if (nodes == NULL) {
        protocol->rules = *mscclpp_rules_find(params->rules, size, team->group.on_twin);
        protocol->coll_rules = *mscclpp_rules_find_coll(params->rules, size, team->group.on_twin);
    }
    own_facts->protocol_digest = mscclpp_facts_digest(protocol);
    own_facts->version = MSCCLPP_FACTS_VERSION;
    own_facts->ready = status == MSCCLPP_OK;
    own_facts->on_twin = team->group.on_twin;
    /*
     * Kernels of the twin run in their callers' threads and block no other thread, so threads count only if a test asks
     * for it.
     */
    own_facts->concurrent = params->concurrent && (!team->group.on_twin || params->admission != NULL);
    own_facts->plans = params->plans != NULL;
    own_facts->blocking = !team->group.on_twin && mscclpp_tool_blocks_launches();
    own_facts->team_id = mscclpp_facts_new_id(team);
    return status;
}

/*
 * Returns true if ranks must meet before each launch, so that kernels start only once all ranks have arrived.
 *
 * A kernel that waits for a late rank blocks other uses of its GPU: those by other threads of its process, such as an
 * allocation, and those by other processes, also under MPS. For example, a cooperative kernel of the late rank needs
 * all multiprocessors, so it would wait forever for the kernel that waits for that rank.
 *
 * So ranks meet if there are such threads or processes. Kernels of the twin block no other thread, but they meet, too,
 * if threads start them and a test asks for it.
 */
static bool must_meet_first(const mscclpp_team_t *team)
{
    return team->group.any_concurrent || team->runner.shares_gpu;
}

/* Gives the team rank 0's protocol in place of this rank's own. Fails, on all ranks, as the exchange does. */
static mscclpp_status_t share_protocol(mscclpp_team_t *team, const mscclpp_oob_t *oob, const mscclpp_facts_t *facts)
{
    const mscclpp_protocol_t own_protocol = team->protocol;
    const mscclpp_status_t status =
        mscclpp_facts_share_protocol(oob, &facts[0].protocol_digest, sizeof(*facts), &team->protocol);

    if (status == MSCCLPP_OK) {
        mscclpp_facts_compare_rules(team, &own_protocol, &team->protocol);
    }
    return status;
}

/*
 * Sets the parts of the team that follow from the facts of all ranks and from the protocol. All ranks compute the same
 * values, except `concurrent`.
 */
static void apply_facts(mscclpp_team_t *team, const mscclpp_facts_t *facts, bool is_whole)
{
    mscclpp_team_note_choices(team);
    team->group.id = facts[0].team_id;
    team->group.concurrent = facts[team->group.rank].concurrent;
    team->runner.block_limit = mscclpp_facts_block_limit(team, facts, is_whole);
    team->runner.shares_gpu = mscclpp_facts_share_gpu(team, facts);
    team->runner.takes_turns = mscclpp_facts_take_turns(team, facts);
    team->group.any_concurrent = mscclpp_facts_any_concurrent(team, facts);
    team->group.meet_first = must_meet_first(team);
    team->one_gpu = team->runner.shares_gpu && team->group.size > 1 &&
                    mscclpp_facts_ranks_on_gpu(team, facts, 0) == (uint32_t)team->group.size;
    /*
     * Conditions for copy engines, in the order of the terms below:
     *
     * - Several GPUs, none of them shared: within one GPU, kernels are faster.
     * - All ranks on one node: the engines reach no further.
     * - No launches that wait for their kernels: copies would wait for one another.
     *
     * Other threads are allowed. Neither the copies nor the kernels that reduce chunks wait for another rank on the
     * GPU, so they end whatever other threads do. Some steps wait for all kernels of the process, such as the
     * allocation of the engines' memory. They wait for one kernel of another team at most, and all ranks have arrived
     * in that kernel.
     */
    team->may_use_engines = !team->runner.shares_gpu && is_whole && !mscclpp_facts_any_blocking(team, facts);
}

/*
 * Maps the peers' memory, lets the kernels of all ranks meet unless they have met before (`have_met`), and tries the
 * optional features of a team on one node. The name of the board is removed once the vote says that all ranks have
 * mapped the board. The returned status is equal on all ranks; *own_status_p is this rank's own.
 */
static mscclpp_status_t join_ranks(mscclpp_team_t *team, const mscclpp_team_params_t *params,
                                   const mscclpp_facts_t *facts, bool is_whole, bool have_met,
                                   mscclpp_status_t *own_status_p)
{
    mscclpp_status_t status;

    *own_status_p = map_peers(team, facts);
    status = agree(team, *own_status_p, "what peers share");
    if (status == MSCCLPP_OK) {
        mscclpp_shmseg_hide(team->group.board_segment);
        status = have_met ? MSCCLPP_OK : check_progress(team, own_status_p);
    }
    if (status == MSCCLPP_OK && is_whole) {
        status = mscclpp_setup_ll128(team, facts[0].uuid, sizeof(*facts), team->runner.shares_gpu, own_status_p);
    }
    if (status == MSCCLPP_OK && is_whole && team->group.size > 1) {
        status = mscclpp_setup_plans(team, params, mscclpp_facts_any_plans(team, facts), own_status_p);
    }
    return status;
}

/*
 * Undoes join_ranks after it has failed with `status`. Once all ranks have met here, no rank maps another's scratch, so
 * it can be freed without the board. If they cannot meet, a peer may still map it, so the team is never freed.
 */
static void part_ranks(mscclpp_team_t *team, mscclpp_status_t status)
{
    mscclpp_runner_close_peers(&team->runner);
    if (status != MSCCLPP_ERR_NOT_SUPPORTED || agree(team, MSCCLPP_OK, "letting go") != MSCCLPP_OK) {
        team->runner.stuck = true;
    }
    team->group.board = NULL;
}

/* Takes part in the exchange of facts without memory for those of the others, so it fails on all ranks. */
static mscclpp_status_t fail_for_memory(const mscclpp_oob_t *oob)
{
    mscclpp_facts_t none;
    mscclpp_status_t status;

    mscclpp_error("%s: no memory for a team of %d ranks", oob->label, oob->size);
    memset(&none, 0, sizeof(none));
    status = oob->allgather(oob->context, &none, NULL, sizeof(none));
    return status == MSCCLPP_OK ? MSCCLPP_ERR_NO_MEMORY : status;
}

/*
 * Takes the steps described at the top of this file. After a failure, the team is destroyed, or kept forever if peers
 * may still map its memory (part_ranks).
 */
mscclpp_status_t mscclpp_setup_node(const mscclpp_team_params_t *params, const mscclpp_oob_t *oob,
                                    const mscclpp_nodes_t *nodes, bool have_met, mscclpp_status_t *own_status_p,
                                    mscclpp_team_t **team_p)
{
    const bool is_whole = nodes == NULL;
    const size_t node_count = is_whole ? 0 : (size_t)nodes->count;
    mscclpp_team_t *team =
        calloc(1, sizeof(*team) + node_count * (sizeof(*team->group.far_votes) + sizeof(*team->group.leaders)));
    mscclpp_facts_t *facts = calloc((size_t)oob->size + 1, sizeof(*facts)); /* the last one is sent */
    mscclpp_status_t status;

    *own_status_p = team != NULL && facts != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;
    if (*own_status_p != MSCCLPP_OK) {
        free(team);
        free(facts);
        return fail_for_memory(oob);
    }
    init_team(team, params, oob, nodes);
    *own_status_p = prepare_and_fill_facts(team, params, nodes, &facts[oob->size]);
    status = oob->allgather(oob->context, &facts[oob->size], facts, sizeof(*facts));
    if (status == MSCCLPP_OK && !mscclpp_facts_check(team, facts, *own_status_p)) {
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (status == MSCCLPP_OK) {
        status = share_protocol(team, oob, facts);
    }
    if (status != MSCCLPP_OK) {
        goto err_destroy;
    }
    apply_facts(team, facts, is_whole);
    status = join_ranks(team, params, facts, is_whole, have_met, own_status_p);
    if (status != MSCCLPP_OK) {
        goto err_part;
    }
    if (is_whole) {
        mscclpp_linger_init(&team->runner, params->config, team->runner.takes_turns, false);
    }
    mscclpp_log(is_whole ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_DEBUG,
                "%s: rank %d of %d ready on %s device %d, control messages over %s", oob->label, team->group.rank,
                team->group.size, team->runner.gpu->name, team->runner.device,
                team->group.ctrl != NULL ? mscclpp_ctrl_name(team->group.ctrl) : "shared memory");
    mscclpp_runner_give_stream(&team->runner);
    free(facts);
    *team_p = team;
    return MSCCLPP_OK;

err_part:
    part_ranks(team, status);

err_destroy:
    mscclpp_team_destroy(team);
    free(facts);
    return status;
}
