/* One rank's side of a pair over a port channel: set-up, a kernel that puts, plain copies. */
#include "mca/common/base/clock.h"
#include "tools/bench/bench_port.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/base/log.h"

#define TAG_MEET 11
#define LABEL "mscclpp_bench" /* of the library's messages */
#define DATA_ALIGNMENT 4096   /* bytes; incoming data begin at a multiple */

/* After so many polls for a kernel's end, ask the runtime, too: only the runtime knows that a kernel has crashed. */
#define POLLS 65536u

/* The description of its side that each rank of a pair sends to the other. */
typedef struct {
    unsigned char address[MSCCLPP_TRANSPORT_ADDRESS_MAX];
    unsigned char key[MSCCLPP_TRANSPORT_KEY_MAX];
    size_t address_length;
    size_t key_length;
    mscclpp_gpu_handle_t handle;
    bool is_exported; /* `handle` is valid */
} description_t;

/* The last message of the library's log, which is the only explanation of why a transport cannot be used. */
static struct {
    pthread_mutex_t lock;
    char line[BENCH_PAIR_REASON];
    mscclpp_log_level_t printed_level; /* the highest level that the user is to see */
} last_message = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Stores a line of the log without its label, for mscclpp_log_set. Prints it if its level is one that the user wants to
 * see. Takes the lock, because threads of the library may log at the same time.
 */
static void keep_message(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    pthread_mutex_lock(&last_message.lock);
    if (level <= MSCCLPP_LOG_INFO) {
        const char *text = 0 == strncmp(line, LABEL ": ", strlen(LABEL ": ")) ? line + strlen(LABEL ": ") : line;

        snprintf(last_message.line, sizeof(last_message.line), "%.*s", (int)sizeof(last_message.line) - 1, text);
    }
    if (level <= last_message.printed_level) {
        fprintf(stderr, "mscclpp_bench: %s\n", line);
    }
    pthread_mutex_unlock(&last_message.lock);
}

/*
 * Begins to keep the messages that say why a set-up is refused, whatever the verbosity is. Forgets the last one. The
 * caller ends this by stop_keeping_messages.
 */
static void start_keeping_messages(const bench_env_t *env)
{
    int level = env->config.verbose > MSCCLPP_LOG_WARN ? env->config.verbose : MSCCLPP_LOG_WARN;

    last_message.printed_level = (mscclpp_log_level_t)level;
    last_message.line[0] = '\0';
    mscclpp_log_set(keep_message, NULL, level > MSCCLPP_LOG_INFO ? last_message.printed_level : MSCCLPP_LOG_INFO);
}

static void stop_keeping_messages(void)
{
    mscclpp_log_set(keep_message, NULL, last_message.printed_level);
}

/*
 * Returns true on all ranks if `ok` is true on all of them. Otherwise returns false, and every rank gets the same text
 * of BENCH_PAIR_REASON bytes in `reason`. It is the reason of the lowest rank on which `ok` is false: its own `reason`
 * or, if that is empty, the last message of its log. All ranks call this function. If memory runs out, the program
 * ends.
 */
static bool agree_on_success(const bench_pair_t *pair, bool ok, char *reason)
{
    struct {
        int ok;
        char text[BENCH_PAIR_REASON];
    } verdict, *verdicts = calloc((size_t)pair->env->size, sizeof(verdict));
    bool is_agreed = true;

    if (verdicts == NULL) {
        fprintf(stderr, "mscclpp_bench: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
    }
    memset(&verdict, 0, sizeof(verdict));
    verdict.ok = ok;
    if (!ok) {
        snprintf(verdict.text, sizeof(verdict.text), "%s", '\0' == reason[0] ? last_message.line : reason);
    }
    bench_allgather(pair->env->control, &verdict, verdicts, sizeof(verdict));
    for (int i = 0; is_agreed && i < pair->env->size; ++i) {
        if (!verdicts[i].ok) {
            is_agreed = false;
            memcpy(reason, verdicts[i].text, BENCH_PAIR_REASON);
        }
    }
    free(verdicts);
    return is_agreed;
}

/* Allocates zeroed memory of this rank's device. Returns false, without a line, if there is not enough. */
static bool alloc_device(const bench_pair_t *pair, size_t bytes, void **address_p)
{
    return MSCCLPP_OK == pair->env->gpu->device_alloc(pair->env->device, bytes, address_p);
}

/* Returns true for a transport that needs shared memory, on GPUs. The twin's device memory is shared anyway. */
static bool needs_shared_memory(const bench_pair_t *pair)
{
    return MSCCLPP_PLACE_SHARED == pair->ops->place && !pair->env->on_twin;
}

/*
 * Allocates memory that processes of the node share, and that kernels see at the CPU's address. The caller frees it by
 * free_shared. Returns false on failure, with nothing to free.
 */
static bool alloc_shared(const bench_pair_t *pair, size_t bytes, mscclpp_shmseg_t **segment_p, void **address_p)
{
    mscclpp_shmseg_t *segment;
    void *device_address;

    if (MSCCLPP_OK != mscclpp_shmseg_create(bytes, &segment)) {
        return false;
    }
    *address_p = mscclpp_shmseg_base(segment);
    if (MSCCLPP_OK != pair->env->gpu->host_register(*address_p, bytes, &device_address)) {
        mscclpp_shmseg_detach(segment);
        return false;
    }
    *segment_p = segment;
    return true;
}

/* Unregisters a shared segment from the GPU runtime, and detaches it. */
static void free_shared(const bench_pair_t *pair, mscclpp_shmseg_t *segment)
{
    pair->env->gpu->host_unregister(mscclpp_shmseg_base(segment));
    mscclpp_shmseg_detach(segment);
}

/* Allocates the token in host memory, which peers share if the transport needs that. Returns false on failure. */
static bool alloc_host_tokens(bench_pair_t *pair, void **address_p)
{
    void *device_address;

    return needs_shared_memory(pair)
               ? alloc_shared(pair, sizeof(uint64_t), &pair->tokens_segment, address_p)
               : MSCCLPP_OK == pair->env->gpu->host_alloc(sizeof(uint64_t), address_p, &device_address);
}

/* Frees the token and its memory. No transport may still use the token. */
static void free_tokens(bench_pair_t *pair)
{
    if (pair->tokens_segment != NULL) {
        free_shared(pair, pair->tokens_segment);
        pair->tokens_segment = NULL;
    } else if (pair->tokens_on_host) {
        pair->env->gpu->host_free(pair->tokens);
    } else if (pair->tokens != NULL) {
        pair->env->gpu->device_free(pair->env->device, pair->tokens);
    }
    pair->tokens = NULL;
}

/*
 * Creates the transport's instance, with the token in device memory if the transport can write there, and otherwise in
 * host memory. This is known only from the flags of an instance, so an instance may be made and destroyed first. On the
 * twin device memory is host memory, so it always works. Returns false on failure, with nothing to free.
 */
static bool create_instance(bench_pair_t *pair, uint32_t *flags_p)
{
    bench_env_t *env = pair->env;
    mscclpp_transport_params_t params = {.config = &env->config,
                                         .gpu = env->gpu,
                                         .device = env->device,
                                         .rank = env->rank,
                                         .size = env->size,
                                         .label = LABEL,
                                         .token_count = 1};
    void *address;

    for (int on_host = 0; on_host < 2; ++on_host) { /* first in device memory, then in host memory */
        if (on_host ? !alloc_host_tokens(pair, &address) : !alloc_device(pair, sizeof(uint64_t), &address)) {
            return false;
        }
        pair->tokens = address;
        pair->tokens_on_host = on_host;
        params.tokens = pair->tokens;
        if (MSCCLPP_OK == pair->ops->create(&params, flags_p, &pair->transport)) {
            if (on_host || env->on_twin || 0 != (*flags_p & MSCCLPP_DEVICE_TOKENS)) {
                return true;
            }
            pair->ops->destroy(pair->transport);
            pair->transport = NULL;
        }
        free_tokens(pair);
        pair->tokens_on_host = false;
    }
    return false;
}

/*
 * Returns true if a transport with these flags can serve this pair. It must reach another node or ranks of one node, as
 * this pair needs. It must also be able to move the memory that the pair uses. Otherwise `reason` says why not.
 */
static bool can_reach_peer(const bench_pair_t *pair, uint32_t flags, char *reason)
{
    const bench_env_t *env = pair->env;

    if (0 == (flags & MSCCLPP_REACH_NETWORK) &&
        0 != strcmp(env->places[env->rank].host, env->places[pair->peer].host)) {
        snprintf(reason, BENCH_PAIR_REASON, "it serves one node, and ranks %d and %d are on two", env->rank,
                 pair->peer);
        return false;
    }
    if (0 == (flags & MSCCLPP_REACH_NODE) && 0 == strcmp(env->places[env->rank].host, env->places[pair->peer].host)) {
        snprintf(reason, BENCH_PAIR_REASON, "it does not serve ranks of one node, as %d and %d are", env->rank,
                 pair->peer);
        return false;
    }
    if (!env->on_twin && 0 == (flags & MSCCLPP_DEVICE_REGIONS) && !needs_shared_memory(pair)) {
        snprintf(reason, BENCH_PAIR_REASON, "it cannot move device memory here");
        return false;
    }
    return true;
}

/*
 * Allocates the memory that puts are made from and into, and the memory that the kernel needs. On failure returns
 * false; bench_pair_close then frees the part that was allocated.
 */
static bool allocate_memory(bench_pair_t *pair, size_t capacity)
{
    const mscclpp_gpu_ops_t *gpu = pair->env->gpu;
    void *memory, *state, *expected, *mailbox, *elapsed, *staging, *unused, *device;

    pair->incoming_offset = (capacity + BENCH_PAIR_GUARD + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    pair->memory_size = 2 * pair->incoming_offset;
    if (needs_shared_memory(pair) ? !alloc_shared(pair, pair->memory_size, &pair->memory_segment, &memory)
                                  : !alloc_device(pair, pair->memory_size, &memory)) {
        return false;
    }
    pair->memory = memory;
    if (!alloc_device(pair, sizeof(*pair->state), &state)) {
        return false;
    }
    pair->state = state;
    if (!alloc_device(pair, sizeof(uint64_t), &expected)) {
        return false;
    }
    pair->expected_signals = expected;
    if (MSCCLPP_OK != gpu->host_alloc(sizeof(*pair->mailbox), &mailbox, &device)) {
        return false;
    }
    pair->mailbox = mailbox;
    pair->device_mailbox = device;
    if (MSCCLPP_OK != gpu->host_alloc(sizeof(uint64_t), &elapsed, &device)) {
        return false;
    }
    pair->elapsed_ns = elapsed;
    pair->device_elapsed_ns = device;
    if (MSCCLPP_OK != gpu->host_alloc(BENCH_PAIR_STAGING, &staging, &unused)) {
        return false;
    }
    pair->staging = staging;
    return true;
}

/*
 * Makes this rank's region and its side of the connection, and describes them for the peer. On failure returns false;
 * bench_pair_close then frees what was made. A memory that cannot be exported is no failure: it only rules out copies.
 */
static bool describe_side(bench_pair_t *pair, description_t *description)
{
    description->is_exported = MSCCLPP_OK == pair->env->gpu->export_memory(pair->memory, &description->handle);
    return MSCCLPP_OK == pair->ops->region_create(pair->transport, pair->memory, pair->memory_size, &pair->region) &&
           MSCCLPP_OK == pair->ops->region_key(pair->region, description->key, &description->key_length) &&
           MSCCLPP_OK == pair->ops->conn_create(pair->transport, pair->peer, &pair->conn) &&
           MSCCLPP_OK == pair->ops->conn_address(pair->conn, description->address, &description->address_length);
}

/*
 * Connects to the peer of `description`, and makes the proxy and the port channel. On failure returns false;
 * bench_pair_close then frees what was made.
 */
static bool connect_peer(bench_pair_t *pair, const description_t *description)
{
    const bench_env_t *env = pair->env;
    const mscclpp_proxy_params_t params = {
        .config = &env->config, .gpu = env->gpu, .device = env->device, .label = LABEL, .mailbox = pair->mailbox};
    mscclpp_port_params_t port = {.ops = pair->ops,
                                  .transport = pair->transport,
                                  .region_size = pair->memory_size,
                                  .remote_size = pair->memory_size,
                                  .token = 0,
                                  .peer = pair->peer,
                                  .inbound = pair->tokens,
                                  .expected = pair->expected_signals};

    if (MSCCLPP_OK != pair->ops->conn_connect(pair->conn, description->address, description->address_length) ||
        MSCCLPP_OK != pair->ops->remote_create(pair->conn, description->key, description->key_length, &pair->remote) ||
        MSCCLPP_OK != mscclpp_proxy_create(&params, &pair->proxy)) {
        return false;
    }
    port.conn = pair->conn;
    port.region = pair->region;
    port.remote = pair->remote;
    return MSCCLPP_OK == mscclpp_proxy_channel_create(pair->proxy, &port, &pair->channel);
}

/*
 * Maps the peer's memory for plain copies. If this fails on any rank that has a peer, no rank makes plain copies:
 * pair->mapped stays NULL, and bench_pair_close unmaps what was mapped. All ranks call it; `description` is not read on
 * a rank without a peer.
 */
static void map_peer(bench_pair_t *pair, const description_t *description)
{
    const bench_env_t *env = pair->env;
    bool is_mapped = false;

    if (pair->peer >= 0) {
        is_mapped = description->is_exported &&
                    0 == strcmp(env->places[env->rank].host, env->places[pair->peer].host) &&
                    MSCCLPP_OK == mscclpp_mapping_get(env->gpu, env->device, &description->handle,
                                                      mscclpp_mapping_limit(&env->config), &pair->mapping);
    }
    if (bench_all(env->control, is_mapped || pair->peer < 0) && is_mapped) {
        pair->mapped = (char *)mscclpp_mapping_base(pair->mapping) + description->handle.offset;
    }
}

/*
 * Waits until both ranks of the pair have ended their work, and this rank's proxy has nothing left to do. Meanwhile
 * drives the proxy, because the peer may still wait for data that this rank has put. If the proxy fails, prints a line
 * and returns false; the messages to and from the peer are then still in progress, because the program ends.
 */
static bool wait_for_peer(bench_pair_t *pair)
{
    mscclpp_status_t status = MSCCLPP_OK;
    MPI_Request requests[2];
    char sent = 0, received;
    int is_done = 0;

    MPI_Irecv(&received, 1, MPI_BYTE, pair->peer, TAG_MEET, pair->env->control, &requests[0]);
    MPI_Isend(&sent, 1, MPI_BYTE, pair->peer, TAG_MEET, pair->env->control, &requests[1]);
    while (!is_done || MSCCLPP_IN_PROGRESS == status) {
        status = mscclpp_proxy_drain(pair->proxy);
        if (status < 0) {
            fprintf(stderr, "mscclpp_bench: rank %d: port channel over %s: %s\n", pair->env->rank, pair->ops->name,
                    mscclpp_status_string(status));
            return false;
        }
        if (!is_done) {
            MPI_Testall(2, requests, &is_done, MPI_STATUSES_IGNORE);
        }
        sched_yield();
    }
    return true;
}

/* Carries out what the kernels of the twin ask the proxy for, for mscclpp_gpu_twin_set_progress. */
static void progress(void *context)
{
    (void)mscclpp_proxy_progress(((bench_pair_t *)context)->proxy);
}

/*
 * Frees everything, also the parts that a failed bench_pair_open has made. All ranks call this function. They wait for
 * one another between the steps: memory must stay until the peer has closed its connection and can no longer access it.
 * On one rank, each part is freed before the parts that it uses: the proxy, then the connection, the region, the
 * transport and the memory.
 */
void bench_pair_close(bench_pair_t *pair)
{
    const bench_env_t *env = pair->env;
    const mscclpp_gpu_ops_t *gpu = env->gpu;
    void *on_device[] = {pair->memory_segment == NULL ? pair->memory : NULL, pair->state, pair->expected_signals};
    void *on_host[] = {pair->mailbox, pair->elapsed_ns, pair->staging};

    mscclpp_gpu_twin_set_progress(NULL, NULL);
    mscclpp_proxy_destroy(pair->proxy);
    if (pair->remote != NULL) {
        pair->ops->remote_destroy(pair->remote);
    }
    pair->ops->conn_destroy(pair->conn);
    mscclpp_mapping_put(pair->mapping);
    mscclpp_mapping_drain();
    bench_all(env->control, true); /* the peer's connection is closed, too */
    if (pair->region != NULL) {
        pair->ops->region_destroy(pair->region);
    }
    pair->ops->destroy(pair->transport);
    bench_all(env->control, true); /* the peer's transport no longer writes here */
    free_tokens(pair);
    if (pair->memory_segment != NULL) {
        free_shared(pair, pair->memory_segment);
    }
    for (size_t i = 0; i < sizeof(on_device) / sizeof(on_device[0]); ++i) {
        if (on_device[i] != NULL) {
            gpu->device_free(env->device, on_device[i]);
        }
    }
    for (size_t i = 0; i < sizeof(on_host) / sizeof(on_host[0]); ++i) {
        if (on_host[i] != NULL) {
            gpu->host_free(on_host[i]);
        }
    }
    memset(pair, 0, sizeof(*pair));
}

/*
 * Opens a pair. All ranks call this function; a rank without a peer opens nothing and only takes part in the
 * agreements. If a rank fails, all ranks free what they have made. All agree before the descriptions are exchanged,
 * because a rank that failed has no description, and again after each has connected. A rank without a peer passes its
 * own empty description to map_peer, which does not read it.
 */
bool bench_pair_open(bench_pair_t *pair, bench_env_t *env, const mscclpp_transport_ops_t *ops, size_t capacity,
                     char reason[BENCH_PAIR_REASON])
{
    /* This rank's description, and behind it those of all ranks. */
    description_t *descriptions = calloc((size_t)env->size + 1, sizeof(*descriptions)), *own_description = descriptions;
    uint32_t flags;
    bool ok;

    if (descriptions == NULL) {
        fprintf(stderr, "mscclpp_bench: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
    }
    memset(pair, 0, sizeof(*pair));
    pair->env = env;
    pair->ops = ops;
    pair->peer = (env->rank ^ 1) < env->size ? env->rank ^ 1 : -1;
    reason[0] = '\0';
    start_keeping_messages(env);
    ok = pair->peer < 0 || (create_instance(pair, &flags) && can_reach_peer(pair, flags, reason) &&
                            allocate_memory(pair, capacity) && describe_side(pair, own_description));
    ok = agree_on_success(pair, ok, reason);
    if (ok) {
        bench_allgather(env->control, own_description, descriptions + 1, sizeof(*own_description));
        ok = agree_on_success(pair, pair->peer < 0 || connect_peer(pair, &descriptions[1 + pair->peer]), reason);
    }
    if (ok) {
        map_peer(pair, &descriptions[1 + pair->peer]);
        mscclpp_gpu_twin_set_progress(progress, pair);
    } else {
        bench_pair_close(pair);
    }
    stop_keeping_messages();
    free(descriptions);
    return ok;
}

/*
 * Launches the kernel that makes the puts, with one thread, in the environment's stream. `role` and the other arguments
 * are those of bench_pair_run.
 */
static mscclpp_status_t launch_kernel(bench_pair_t *pair, uint32_t role, size_t bytes, int rounds, int puts)
{
    mscclpp_dev_port_pair_args_t args;
    const mscclpp_dev_launch_t kernel = {
        .kernel = MSCCLPP_KERNEL_PORT_PAIR, .nblocks = 1, .nthreads = 1, .args = &args};

    memset(&args, 0, sizeof(args));
    args.common.bytes = bytes;
    args.common.rank = (uint32_t)pair->env->rank;
    args.common.nranks = (uint32_t)pair->env->size;
    args.common.timeout_ns = (uint64_t)(pair->env->config.timeout * 1e9);
    args.common.state = pair->state;
    args.common.mailbox = pair->device_mailbox;
    args.channel = pair->channel;
    args.from = 0;
    args.to = pair->incoming_offset;
    args.elapsed_ns = pair->device_elapsed_ns;
    args.rounds = (uint32_t)rounds;
    args.puts = (uint32_t)puts;
    args.role = role;
    return pair->env->gpu->launch(pair->env->stream, &kernel);
}

/*
 * Serves the kernel's requests until the kernel reports its end, by changing the mailbox's count of ended kernels from
 * `ended_before`. Returns the first failure of the proxy, or else the status of the stream. After a failure of the
 * proxy the kernel may still run, because the program ends.
 */
static mscclpp_status_t serve_kernel(bench_pair_t *pair, uint64_t ended_before)
{
    const mscclpp_gpu_ops_t *gpu = pair->env->gpu;
    mscclpp_status_t status;
    unsigned poll;

    for (poll = 1; __atomic_load_n(&pair->mailbox->ended[0], __ATOMIC_ACQUIRE) == ended_before; ++poll) {
        status = mscclpp_proxy_progress(pair->proxy);
        if (status < 0) {
            return status;
        }
        if (0 == poll % POLLS && MSCCLPP_IN_PROGRESS != gpu->stream_query(pair->env->stream)) {
            break;
        }
        if (pair->env->on_twin) {
            sched_yield();
        }
    }
    return gpu->stream_sync(pair->env->stream);
}

/*
 * Runs a kernel, and serves its requests to the proxy. Both ranks of the pair call this function. The rank whose kernel
 * ends first continues to drive its proxy until the other has ended, too. `ended_before` is read before the launch,
 * because the kernel may end at once. A kernel that gives up waiting ends without an error and leaves the elapsed time
 * at 0. On failure prints a line and returns false.
 */
bool bench_pair_run(bench_pair_t *pair, uint32_t role, size_t bytes, int rounds, int puts, double *seconds_p)
{
    const uint64_t ended_before = __atomic_load_n(&pair->mailbox->ended[0], __ATOMIC_ACQUIRE);
    mscclpp_status_t status;
    uint64_t elapsed;

    __atomic_store_n(pair->elapsed_ns, 0, __ATOMIC_RELAXED);
    mscclpp_proxy_begin(pair->proxy);
    status = launch_kernel(pair, role, bytes, rounds, puts);
    if (MSCCLPP_OK == status) {
        status = serve_kernel(pair, ended_before);
    }
    mscclpp_proxy_end(pair->proxy);
    elapsed = __atomic_load_n(pair->elapsed_ns, __ATOMIC_ACQUIRE);
    if (MSCCLPP_OK != status || 0 == elapsed) {
        fprintf(stderr, "mscclpp_bench: rank %d: kernel over %s to rank %d, %zu bytes: %s\n", pair->env->rank,
                pair->ops->name, pair->peer, bytes,
                MSCCLPP_OK != status ? mscclpp_status_string(status) : "it gave up waiting");
        return false;
    }
    *seconds_p = 1e-9 * (double)elapsed / rounds;
    return wait_for_peer(pair);
}

/* Times plain copies to the peer, which does not take part. Returns false, without a line, if a copy fails. */
bool bench_pair_copy(bench_pair_t *pair, size_t bytes, int rounds, int copies, double *seconds_p)
{
    const bench_env_t *env = pair->env;
    const double start = mscclpp_now();

    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < copies; ++i) {
            if (MSCCLPP_OK != env->gpu->copy(env->stream, pair->mapped + pair->incoming_offset, pair->memory, bytes)) {
                return false;
            }
        }
        if (MSCCLPP_OK != env->gpu->stream_sync(env->stream)) {
            return false;
        }
    }
    *seconds_p = (mscclpp_now() - start) / rounds;
    return true;
}
