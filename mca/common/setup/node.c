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
#include <sys/random.h>

#include "mca/common/algo/coll.h"
#include "mca/common/algo/select.h"
#include "mca/common/base/log.h"
#include "mca/common/team/grow.h"
#include "mca/common/base/tool.h"
#include "mca/common/gpu/pool.h"
#include "mca/common/gpu/users.h"
#include "mca/common/oob/vote.h"
#include "mca/common/setup/internal.h"

/* Change this number whenever the data that ranks exchange change, in memory or in messages. */
#define PROTOCOL_VERSION 14u

/*
 * If a meeting of kernels takes more seconds than this, staging is faster. The shortest of several meetings counts,
 * because processes that have just started delay some of them.
 */
#define PROBE_SLOW 150e-6
#define PROBE_ROUNDS 10

typedef struct {
    uint32_t version;
    uint32_t ready; /* the sender has everything that it owns itself */
    uint64_t team_id;
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE];
    uint64_t server; /* mscclpp_gpu_info_t */
    uint32_t on_twin;
    uint32_t concurrent; /* other threads' kernels may wait for this team's, or keep them waiting */
    uint32_t threaded;   /* other threads may be in calls of other teams */
    uint32_t blocking;   /* launches wait for kernels to end */
    uint32_t sm_count;
    uint32_t users;     /* processes on the same GPU that the sender knows of, of any team */
    uint32_t strangers; /* how many of these processes use another server */
    uint32_t plans;     /* the sender has been given execution plans */
    uint32_t reserved;  /* 0 */
    mscclpp_protocol_t protocol;
    mscclpp_gpu_handle_t scratch;
    mscclpp_shmseg_descriptor_t board; /* only rank 0's is used */
    uint64_t address_length;
    unsigned char address[MSCCLPP_CTRL_ADDRESS_MAX];
} rank_facts_t;

/* Fills in the settings that all ranks take from rank 0, from this rank's configuration. */
static void fill_protocol(mscclpp_protocol_t *protocol, const mscclpp_config_t *config)
{
    memset(protocol, 0, sizeof(*protocol));
    protocol->algorithm = mscclpp_algo_find(config->algorithm);
    if (strcmp(config->algorithm, "stage") == 0) {
        protocol->algorithm = -2;
    }
#define FILL_COLL(id_, name_, pattern_)                                                                                \
    protocol->coll_algorithm[MSCCLPP_COLL_##id_] = mscclpp_coll_algo_find(config->name_##_algorithm);
    MSCCLPP_COLLS(FILL_COLL)
#undef FILL_COLL
    protocol->packet_width = strcmp(config->packet, "ll8") == 0     ? 8
                             : strcmp(config->packet, "ll16") == 0  ? 16
                             : strcmp(config->packet, "ll128") == 0 ? 128
                                                                    : 0;
    protocol->max_blocks = (uint32_t)config->max_blocks;
    protocol->max_threads = (uint32_t)config->max_threads;
    protocol->twin_blocks = (uint32_t)config->twin_blocks;
    protocol->twin_threads = (uint32_t)config->twin_threads;
    protocol->linger_max = strcmp(config->linger, "off") != 0 ? config->linger_max : 0;
    protocol->linger_blocks = (uint32_t)config->linger_blocks;
    protocol->zerocopy = config->zerocopy;
    protocol->shared_gpu = strcmp(config->shared_gpu, "kernels") == 0 ? MSCCLPP_SHARED_GPU_KERNELS
                           : strcmp(config->shared_gpu, "stage") == 0 ? MSCCLPP_SHARED_GPU_STAGE
                                                                      : MSCCLPP_SHARED_GPU_AUTO;
    protocol->oneshot_max = config->oneshot_max;
    protocol->nodes_fanout = (uint32_t)config->nodes_fanout;
    protocol->nodes_packets_max = config->nodes_packets_max;
    protocol->nodes_split_min = config->nodes_split_min;
    protocol->nodes_ring_min = config->nodes_ring_min;
    protocol->twophase_max = config->twophase_max;
    protocol->put_max = config->put_max;
    protocol->lines_min = config->lines_min;
    protocol->engine_min = config->engine_min;
    protocol->engine_chunk = config->engine_chunk;
    protocol->engine_scratch = config->engine_scratch;
    protocol->scratch_size = config->scratch_size;
    protocol->epoch_limit = config->epoch_limit;
}

/*
 * Launches a kernel that waits for no other rank, and waits for its end. The first launch in a stream may allocate
 * memory, and so wait for other kernels on the GPU, which therefore must not wait for this one. All ranks do this, so
 * their counters of operations stay equal.
 */
static mscclpp_status_t warm_up(mscclpp_team_t *team)
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
    launch.nthreads = team->group.on_twin ? 1 : 64;
    launch.args = &args;
    status = team->runner.gpu->launch(team->runner.stream, &launch);
    if (status != MSCCLPP_OK) {
        return status;
    }
    mscclpp_runner_note_launch(&team->runner, launch.nblocks);
    return team->runner.gpu->stream_sync(team->runner.stream);
}

/*
 * Creates what this rank owns: scratch, mailbox, a stream for the probe, and on rank 0 the board. This comes before the
 * first exchange, because it may wait for kernels, and after that exchange kernels may wait for this rank.
 */
static mscclpp_status_t prepare(mscclpp_team_t *team, const mscclpp_team_params_t *params, bool whole,
                                rank_facts_t *fact)
{
    mscclpp_gpu_info_t info;
    mscclpp_status_t status;
    size_t length = sizeof(fact->address);
    void *host, *device;

    if ((status = team->runner.gpu->device_info(team->runner.device, &info)) != MSCCLPP_OK ||
        (status = team->runner.gpu->preload(team->runner.device)) != MSCCLPP_OK ||
        (status = mscclpp_runner_take_stream(&team->runner)) != MSCCLPP_OK ||
        (status = team->runner.gpu->host_alloc(sizeof(*team->runner.mailbox), &host, &device)) != MSCCLPP_OK) {
        return status;
    }
    team->runner.mailbox = host;
    team->runner.device_mailbox = device;
    mscclpp_team_lay_out(team, params->config->scratch_size, params->oob.size);
    status = mscclpp_pool_alloc(team->runner.gpu, team->runner.device, team->runner.stream, team->runner.layout.total,
                                (void **)&team->runner.scratch);
    if (status != MSCCLPP_OK ||
        (status = team->runner.gpu->export_memory(team->runner.scratch, &fact->scratch)) != MSCCLPP_OK ||
        (status = warm_up(team)) != MSCCLPP_OK) {
        return status;
    }
    if (team->group.rank == 0) {
        status = mscclpp_shmseg_create(mscclpp_board_size(team->group.size), &team->group.board_segment);
        if (status != MSCCLPP_OK) {
            return status;
        }
        mscclpp_shmseg_describe(team->group.board_segment, &fact->board);
    }
    /*
     * If there are no control messages, failures are still reported through the board. For a team that spans nodes,
     * align.c creates control messages.
     */
    if (whole) {
        status = mscclpp_ctrl_create(params->config->ucx, &team->group.oob, &team->group.ctrl);
        if (status == MSCCLPP_OK && mscclpp_ctrl_address(team->group.ctrl, fact->address, &length) == MSCCLPP_OK) {
            fact->address_length = length;
        } else if (status != MSCCLPP_OK && status != MSCCLPP_ERR_NOT_SUPPORTED) {
            return status;
        }
    }
    memcpy(fact->uuid, info.uuid, sizeof(fact->uuid));
    memcpy(team->uuid, info.uuid, sizeof(team->uuid));
    fact->server = info.server;
    team->server = info.server;
    fact->sm_count = (uint32_t)info.sm_count;
    fact->users = team->group.on_twin ? 1 : mscclpp_gpu_users_join(info.uuid, info.server, &fact->strangers);
    team->gpu_users = fact->users;
    team->gpu_strangers = fact->strangers;
    return MSCCLPP_OK;
}

/*
 * Checks that all ranks are ready and that what must be equal is. Every rank logs the first rank that differs. `mine`
 * is this rank's own error.
 */
static bool check_facts(const mscclpp_team_t *team, const rank_facts_t *facts, mscclpp_status_t mine)
{
    const mscclpp_protocol_t *own = &facts[team->group.rank].protocol, *first = &facts[0].protocol;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        const rank_facts_t *fact = &facts[rank];

        if (fact->version != PROTOCOL_VERSION || fact->on_twin != facts[0].on_twin) {
            mscclpp_log(team->group.rank == 0 ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_INFO,
                        "%s: rank %d runs protocol %u on the %s, rank %d protocol %u on the %s: device buffers are "
                        "staged",
                        team->group.oob.label, team->group.members[rank], fact->version,
                        fact->on_twin ? "host twin" : "GPU", team->group.members[0], facts[0].version,
                        facts[0].on_twin ? "host twin" : "GPU");
            return false;
        }
        if (!fact->ready && rank == team->group.rank && mscclpp_status_is_shortage(mine)) {
            mscclpp_warn("%s: rank %d: what a team needs, %llu bytes of device memory among it: %s: device buffers are "
                         "staged",
                         team->group.oob.label, team->group.members[rank],
                         (unsigned long long)team->runner.layout.total, mscclpp_status_string(mine));
            return false;
        }
        if (!fact->ready) {
            mscclpp_info("%s: rank %d cannot take part (its own message says why): device buffers are staged",
                         team->group.oob.label, team->group.members[rank]);
            return false;
        }
    }
    if (memcmp(&own->rules, &first->rules, sizeof(own->rules)) != 0 ||
        memcmp(&own->coll_rules, &first->coll_rules, sizeof(own->coll_rules)) != 0) {
        mscclpp_warn("%s: coll_mscclpp_rules: the rules of rank %d for %d ranks differ from those of rank 0, which "
                     "count on all ranks (%llu rules)",
                     team->group.oob.label, team->group.members[team->group.rank], team->group.size,
                     (unsigned long long)(first->rules.count + first->coll_rules.count));
    }
    return true;
}

/* Maps what the peers own: the board and their scratch. Connects control messages. */
static mscclpp_status_t map_peers(mscclpp_team_t *team, const rank_facts_t *facts)
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
        /* The ranks have no way in common to send control messages; this is equal on all ranks. */
        mscclpp_ctrl_destroy(team->group.ctrl);
        team->group.ctrl = NULL;
        status = MSCCLPP_OK;
    }
    return status;
}

static mscclpp_status_t agree(const mscclpp_team_t *team, mscclpp_status_t mine, const char *what)
{
    return mscclpp_agree(&team->group.oob, team->group.members, mine, what);
}

/* Counts the ranks of the team that use the same GPU as `rank`. */
static uint32_t count_ranks_on_gpu(const mscclpp_team_t *team, const rank_facts_t *facts, int rank)
{
    uint32_t count = 0;
    int other;

    for (other = 0; other < team->group.size; ++other) {
        count += memcmp(facts[rank].uuid, facts[other].uuid, sizeof(facts[rank].uuid)) == 0;
    }
    return count;
}

/* True if a rank shares its GPU, with another rank or with a process of another team. */
static bool shares_gpu(const mscclpp_team_t *team, const rank_facts_t *facts)
{
    int rank;

    for (rank = 0; rank < team->group.size && !team->group.on_twin; ++rank) {
        if (facts[rank].users > 1 || count_ranks_on_gpu(team, facts, rank) > 1) {
            return true;
        }
    }
    return false;
}

/* True if processes share a GPU whose kernels may not be able to run at the same time. */
static bool takes_turns(const mscclpp_team_t *team, const rank_facts_t *facts)
{
    int a, b;

    for (a = 0; a < team->group.size; ++a) {
        if (facts[a].strangers > 0 || (facts[a].users > 1 && facts[a].server == 0)) {
            return true;
        }
        for (b = 0; b < a; ++b) {
            if (memcmp(facts[a].uuid, facts[b].uuid, sizeof(facts[a].uuid)) == 0 &&
                (facts[a].server == 0 || facts[a].server != facts[b].server)) {
                return true;
            }
        }
    }
    return false;
}

/*
 * The most blocks that every GPU of the team certainly runs at once, if in the worst case a block takes a whole
 * multiprocessor. In a larger grid, running blocks could wait for blocks that cannot start. Ranks that share a GPU
 * divide it. Processes outside the team count, too, if the team is `whole`. If it is only one node's part, they may be
 * ranks of other nodes, and align.c counts them.
 */
static uint32_t find_block_limit(const mscclpp_team_t *team, const rank_facts_t *facts, bool whole)
{
    uint32_t limit = MSCCLPP_DEV_MAX_BLOCKS;
    int a, b;

    if (team->group.on_twin) {
        return 0;
    }
    for (a = 0; a < team->group.size; ++a) {
        uint32_t blocks, users = count_ranks_on_gpu(team, facts, a), known = facts[a].users;

        for (b = 0; b < team->group.size; ++b) {
            if (memcmp(facts[a].uuid, facts[b].uuid, sizeof(facts[a].uuid)) == 0) {
                known = facts[b].users > known ? facts[b].users : known;
            }
        }
        blocks = facts[a].sm_count / (whole && known > users ? known : users);
        limit = blocks < limit ? blocks : limit;
    }
    return limit == 0 ? 1 : limit;
}

/*
 * True if ranks must meet before each launch, so that kernels start only once all ranks have arrived. The reason: a
 * kernel that waits for a late rank blocks other uses of its GPU, those by other threads of its process (such as an
 * allocation) and those by other processes, under MPS too. For example, a cooperative kernel of the late rank needs all
 * multiprocessors, so it would wait for ever for the kernel that waits for that rank.
 *
 * So ranks meet if there are such threads or processes. Kernels of the twin block nobody, but meet as well if threads
 * start them and a test asks for it.
 */
static bool must_meet_first(const mscclpp_team_t *team)
{
    return team->group.threads || team->runner.crowded;
}

static bool any_is_concurrent(const mscclpp_team_t *team, const rank_facts_t *facts)
{
    bool concurrent = false;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        concurrent = concurrent || facts[rank].concurrent != 0;
    }
    return concurrent;
}

static bool is_threaded(const mscclpp_team_t *team, const rank_facts_t *facts)
{
    bool threaded = false;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        threaded = threaded || facts[rank].threaded != 0;
    }
    return threaded;
}

static bool any_has_plans(const mscclpp_team_t *team, const rank_facts_t *facts)
{
    bool any = false;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        any = any || facts[rank].plans != 0;
    }
    return any;
}

static bool launches_block(const mscclpp_team_t *team, const rank_facts_t *facts)
{
    bool blocking = false;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        blocking = blocking || facts[rank].blocking != 0;
    }
    return blocking;
}

/*
 * Lets kernels of all ranks meet, which proves that they make progress together. If processes share a GPU, also checks
 * that a meeting is fast enough to be worthwhile.
 */
static mscclpp_status_t check_progress(mscclpp_team_t *team, mscclpp_status_t *own_p)
{
    mscclpp_dev_args_t args;
    mscclpp_status_t status;
    double seconds;

    if (team->runner.crowded && team->protocol.shared_gpu == MSCCLPP_SHARED_GPU_STAGE) {
        mscclpp_info("%s: processes share a GPU and coll_mscclpp_shared_gpu is stage: device buffers are staged",
                     team->group.oob.label);
        *own_p = MSCCLPP_ERR_NOT_SUPPORTED;
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memset(&args, 0, sizeof(args));
    status = mscclpp_setup_probe(team, MSCCLPP_KERNEL_BARRIER, team->group.on_twin ? 1 : 64, &args,
                                 team->runner.crowded ? PROBE_ROUNDS : 1, &seconds);
    if (status == MSCCLPP_OK && team->runner.crowded && team->protocol.shared_gpu == MSCCLPP_SHARED_GPU_AUTO &&
        seconds > PROBE_SLOW) {
        mscclpp_info("%s: processes share a GPU and kernels take %.0f us to meet: device buffers are staged",
                     team->group.oob.label, 1e6 * seconds);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *own_p = status;
    return agree(team, status, "meeting of kernels");
}

mscclpp_status_t mscclpp_setup_node(const mscclpp_team_params_t *params, const mscclpp_oob_t *oob,
                                    const mscclpp_nodes_t *nodes, mscclpp_status_t *own_p, mscclpp_team_t **team_p)
{
    const size_t others = nodes != NULL ? (size_t)nodes->count : 0;
    mscclpp_status_t status;
    mscclpp_team_t *team;
    rank_facts_t *facts;
    int i;

    team = calloc(1, sizeof(*team) + others * (sizeof(*team->group.far_votes) + sizeof(*team->group.leaders)));
    facts = calloc((size_t)oob->size + 1, sizeof(*facts));
    *own_p = team != NULL && facts != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;
    if (*own_p != MSCCLPP_OK) {
        mscclpp_error("%s: no memory for a team of %d ranks", oob->label, oob->size);
    }
    /* Agreed on first, because a rank without memory for the others' data could not take part in the exchange. */
    status = mscclpp_agree(oob, nodes != NULL ? nodes->members : NULL, *own_p, "memory for a team");
    if (status != MSCCLPP_OK) {
        free(team);
        free(facts);
        return status;
    }
    team->group.far_votes = (uint64_t(*)[2])(void *)(team + 1);
    team->group.leaders = (int *)(void *)(team->group.far_votes + others);
    mscclpp_group_notices_init(&team->group);
    team->runner.gpu = params->gpu;
    team->runner.group = &team->group;
    team->group.oob = *oob;
    team->runner.device = params->device;
    team->group.rank = oob->rank;
    team->group.size = oob->size;
    for (i = 0; i < team->group.size; ++i) {
        team->group.members[i] = nodes != NULL ? nodes->members[i] : i;
    }
    team->group.on_twin = params->gpu->twin;
    team->group.timeout = params->config->timeout;
    team->group.warn_after = params->config->warn_after;
    team->group.checks_calls = params->config->check_calls;
    team->runner.mapping_limit = mscclpp_mapping_limit(params->config);
    team->last_algorithm = "none";
    team->group.collective = mscclpp_coll_name(MSCCLPP_COLL_LAST);

    /* The last element of the array is what this rank sends. */
    *own_p = prepare(team, params, nodes == NULL, &facts[oob->size]);
    fill_protocol(&facts[oob->size].protocol, params->config);
    memcpy(facts[oob->size].protocol.figures, mscclpp_rules_find_figures(params->rules),
           sizeof(facts[oob->size].protocol.figures));
    if (nodes == NULL) {
        facts[oob->size].protocol.rules = *mscclpp_rules_find(params->rules, (uint32_t)oob->size, team->group.on_twin);
        facts[oob->size].protocol.coll_rules =
            *mscclpp_rules_find_coll(params->rules, (uint32_t)oob->size, team->group.on_twin);
    }
    facts[oob->size].version = PROTOCOL_VERSION;
    facts[oob->size].ready = *own_p == MSCCLPP_OK;
    facts[oob->size].on_twin = team->group.on_twin;
    /*
     * Kernels of the twin run in their callers' threads and block nobody, so threads count only if a test asks for it.
     */
    facts[oob->size].concurrent = params->concurrent && (!team->group.on_twin || params->admission != NULL);
    facts[oob->size].threaded = params->concurrent;
    facts[oob->size].plans = params->plans != NULL;
    facts[oob->size].blocking = !team->group.on_twin && mscclpp_tool_blocks_launches();
    if (getrandom(&facts[oob->size].team_id, sizeof(uint64_t), 0) != (ssize_t)sizeof(uint64_t)) {
        facts[oob->size].team_id = (uint64_t)(uintptr_t)team;
    }
    status = oob->allgather(oob->context, &facts[oob->size], facts, sizeof(*facts));
    if (status != MSCCLPP_OK) {
        goto err_destroy;
    }
    if (!check_facts(team, facts, *own_p)) {
        status = MSCCLPP_ERR_NOT_SUPPORTED;
        goto err_destroy;
    }
    team->protocol = facts[0].protocol;
    mscclpp_team_note_choices(team);
    team->group.id = facts[0].team_id;
    team->runner.block_limit = find_block_limit(team, facts, nodes == NULL);
    team->runner.crowded = shares_gpu(team, facts);
    team->runner.turns = takes_turns(team, facts);
    team->group.threads = any_is_concurrent(team, facts);
    team->group.meet_first = must_meet_first(team);
    team->one_gpu = team->runner.crowded && team->group.size > 1 &&
                    count_ranks_on_gpu(team, facts, 0) == (uint32_t)team->group.size;
    team->group.traced = !team->group.on_twin && mscclpp_tool_traces_kernels();
    team->group.concurrent = facts[oob->size].concurrent;
    team->group.admission = params->admission != NULL ? params->admission : mscclpp_admission_process();
    /*
     * Conditions for copy engines. No other threads: the engines' memory is allocated in the middle of a call, which
     * may wait for kernels of other threads. No launches that wait for their kernels: copies would wait for one
     * another. Several GPUs: within one GPU, kernels are faster.
     */
    team->engines = !team->group.meet_first && !is_threaded(team, facts) && !team->runner.crowded && nodes == NULL &&
                    !launches_block(team, facts);
    *own_p = map_peers(team, facts);
    status = agree(team, *own_p, "what peers share");
    if (status == MSCCLPP_OK) {
        mscclpp_shmseg_hide(team->group.board_segment);
        status = check_progress(team, own_p);
    }
    if (status == MSCCLPP_OK && nodes == NULL) {
        status = mscclpp_setup_ll128(team, facts[0].uuid, sizeof(*facts), team->runner.crowded, own_p);
    }
    if (status == MSCCLPP_OK && nodes == NULL && team->group.size > 1) {
        status = mscclpp_setup_plans(team, params, any_has_plans(team, facts), own_p);
    }
    if (status != MSCCLPP_OK) {
        goto err_close;
    }
    if (nodes == NULL) {
        mscclpp_linger_init(&team->runner, params->config, takes_turns(team, facts), false);
    }
    mscclpp_log(nodes == NULL ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_DEBUG,
                "%s: rank %d of %d ready on %s device %d, control messages over %s", oob->label, team->group.rank,
                team->group.size, team->runner.gpu->name, team->runner.device,
                team->group.ctrl != NULL ? mscclpp_ctrl_name(team->group.ctrl) : "shared memory");
    mscclpp_runner_give_stream(&team->runner);
    free(facts);
    *team_p = team;
    return MSCCLPP_OK;

err_close:
    /*
     * The scratch can be freed without the board once all ranks have met here, as no rank maps another's scratch any
     * more. If they cannot meet, a peer may still map it.
     */
    mscclpp_runner_close_peers(&team->runner);
    if (status != MSCCLPP_ERR_NOT_SUPPORTED || agree(team, MSCCLPP_OK, "letting go") != MSCCLPP_OK) {
        team->runner.stuck = true;
    }
    team->group.board = NULL;

err_destroy:
    mscclpp_team_destroy(team);
    free(facts);
    return status;
}
