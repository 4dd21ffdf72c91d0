/* One rank's end of a pair over a port channel: set-up, a kernel that puts, plain copies. */
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

/* After so many polls for a kernel's end, ask the runtime, too: only the runtime knows that a kernel has crashed. */
#define TURNS 65536u

/* What the two ranks of a pair send each other. */
typedef struct {
    unsigned char address[MSCCLPP_TRANSPORT_ADDRESS_MAX];
    unsigned char key[MSCCLPP_TRANSPORT_KEY_MAX];
    size_t address_length;
    size_t key_length;
    mscclpp_gpu_handle_t handle;
    bool exported;
} card_t;

/* Only messages of the library say why a transport cannot be used. This keeps the last message. */
static struct {
    pthread_mutex_t lock;
    char line[BENCH_PAIR_REASON];
    mscclpp_log_level_t printed; /* highest level that the user is to see */
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Receives a line of the log. Keeps the last one, which says why something does not work. */
static void listen(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    pthread_mutex_lock(&heard.lock);
    if (level <= MSCCLPP_LOG_INFO) {
        const char *text = 0 == strncmp(line, LABEL ": ", strlen(LABEL ": ")) ? line + strlen(LABEL ": ") : line;

        snprintf(heard.line, sizeof(heard.line), "%.*s", (int)sizeof(heard.line) - 1, text);
    }
    if (level <= heard.printed) {
        fprintf(stderr, "mscclpp_bench: %s\n", line);
    }
    pthread_mutex_unlock(&heard.lock);
}

/* Begins to keep the line of the log that says why a set-up is refused, whatever the verbosity is. */
static void start_listening(const bench_env_t *env)
{
    int level = env->config.verbose > MSCCLPP_LOG_WARN ? env->config.verbose : MSCCLPP_LOG_WARN;

    heard.printed = (mscclpp_log_level_t)level;
    heard.line[0] = '\0';
    mscclpp_log_set(listen, NULL, level > MSCCLPP_LOG_INFO ? heard.printed : MSCCLPP_LOG_INFO);
}

/* From now on receives only the messages that the user is to see. */
static void stop_listening(void)
{
    mscclpp_log_set(listen, NULL, heard.printed);
}

/* True if `ok` is true on all ranks. Otherwise `reason` on every rank is that of the lowest rank without `ok`. */
static bool agree(const bench_pair_t *pair, bool ok, char *reason)
{
    struct {
        int ok;
        char text[BENCH_PAIR_REASON];
    } own, *all = calloc((size_t)pair->env->size, sizeof(own));
    bool agreed = true;

    if (all == NULL) {
        fprintf(stderr, "mscclpp_bench: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
    }
    memset(&own, 0, sizeof(own));
    own.ok = ok;
    if (!ok) {
        snprintf(own.text, sizeof(own.text), "%s", '\0' == reason[0] ? heard.line : reason);
    }
    bench_allgather(pair->env->control, &own, all, sizeof(own));
    for (int i = 0; agreed && i < pair->env->size; ++i) {
        if (!all[i].ok) {
            agreed = false;
            memcpy(reason, all[i].text, BENCH_PAIR_REASON);
        }
    }
    free(all);
    return agreed;
}

static bool device_alloc(const bench_pair_t *pair, size_t size, void **address_p)
{
    return MSCCLPP_OK == pair->env->gpu->device_alloc(pair->env->device, size, address_p);
}

/* True on GPUs for a transport that needs shared memory. The twin's device memory is shared anyway. */
static bool wants_shared(const bench_pair_t *pair)
{
    return MSCCLPP_PLACE_SHARED == pair->ops->place && !pair->env->on_twin;
}

/* Allocates shared memory that kernels see at the CPU's address. */
static bool shared_alloc(const bench_pair_t *pair, size_t size, mscclpp_shmseg_t **segment_p, void **address_p)
{
    mscclpp_shmseg_t *segment;
    void *seen;

    if (MSCCLPP_OK != mscclpp_shmseg_create(size, &segment)) {
        return false;
    }
    *address_p = mscclpp_shmseg_base(segment);
    if (MSCCLPP_OK != pair->env->gpu->host_register(*address_p, size, &seen)) {
        mscclpp_shmseg_detach(segment);
        return false;
    }
    *segment_p = segment;
    return true;
}

/* Frees shared memory that the GPU could reach. */
static void shared_free(const bench_pair_t *pair, mscclpp_shmseg_t *segment)
{
    pair->env->gpu->host_unregister(mscclpp_shmseg_base(segment));
    mscclpp_shmseg_detach(segment);
}

/* Allocates the words by which the proxy tells of signals, in memory that the peer shares if it has to. */
static bool host_tokens(bench_pair_t *pair, void **address_p)
{
    void *seen;

    return wants_shared(pair) ? shared_alloc(pair, sizeof(uint64_t), &pair->tokens_segment, address_p)
                              : MSCCLPP_OK == pair->env->gpu->host_alloc(sizeof(uint64_t), address_p, &seen);
}

/* Frees the tokens, in whichever memory they lie. */
static void free_tokens(bench_pair_t *pair)
{
    if (pair->tokens_segment != NULL) {
        shared_free(pair, pair->tokens_segment);
        pair->tokens_segment = NULL;
    } else if (pair->tokens_on_host) {
        pair->env->gpu->host_free(pair->tokens);
    } else if (pair->tokens != NULL) {
        pair->env->gpu->device_free(pair->env->device, pair->tokens);
    }
    pair->tokens = NULL;
}

/* Creates the transport's instance. The token is in device memory if the transport allows that, else in host memory. */
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

    for (int on_host = 0; on_host < 2; ++on_host) {
        if (on_host ? !host_tokens(pair, &address) : !device_alloc(pair, sizeof(uint64_t), &address)) {
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

/* Tells whether a transport reaches the peer. If not, `reason` says why. */
static bool reaches(const bench_pair_t *pair, uint32_t flags, char *reason)
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
    if (!env->on_twin && 0 == (flags & MSCCLPP_DEVICE_REGIONS) && !wants_shared(pair)) {
        snprintf(reason, BENCH_PAIR_REASON, "it cannot move device memory here");
        return false;
    }
    return true;
}

/* Allocates the memory that puts come from and go to, and what the kernel needs. */
static bool allocate(bench_pair_t *pair, size_t capacity)
{
    const mscclpp_gpu_ops_t *gpu = pair->env->gpu;
    void *memory, *state, *expected, *mailbox, *elapsed, *staging, *unused, *device;

    pair->target = (capacity + BENCH_PAIR_GUARD + 4095) / 4096 * 4096;
    pair->size = 2 * pair->target;
    if (wants_shared(pair) ? !shared_alloc(pair, pair->size, &pair->memory_segment, &memory)
                           : !device_alloc(pair, pair->size, &memory)) {
        return false;
    }
    pair->memory = memory;
    if (!device_alloc(pair, sizeof(*pair->state), &state)) {
        return false;
    }
    pair->state = state;
    if (!device_alloc(pair, sizeof(uint64_t), &expected)) {
        return false;
    }
    pair->expected = expected;
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

/* Makes this rank's region and its end of the connection, and describes them for the peer. */
static bool fill_card(bench_pair_t *pair, card_t *card)
{
    card->exported = MSCCLPP_OK == pair->env->gpu->export_memory(pair->memory, &card->handle);
    return MSCCLPP_OK == pair->ops->region_create(pair->transport, pair->memory, pair->size, &pair->region) &&
           MSCCLPP_OK == pair->ops->region_key(pair->region, card->key, &card->key_length) &&
           MSCCLPP_OK == pair->ops->conn_create(pair->transport, pair->peer, &pair->conn) &&
           MSCCLPP_OK == pair->ops->conn_address(pair->conn, card->address, &card->address_length);
}

/* Connects with the peer, and makes the proxy and the port channel. */
static bool connect_peer(bench_pair_t *pair, const card_t *card)
{
    const bench_env_t *env = pair->env;
    const mscclpp_proxy_params_t params = {
        .config = &env->config, .gpu = env->gpu, .device = env->device, .label = LABEL, .mailbox = pair->mailbox};
    mscclpp_port_params_t port = {.ops = pair->ops,
                                  .transport = pair->transport,
                                  .region_size = pair->size,
                                  .remote_size = pair->size,
                                  .token = 0,
                                  .peer = pair->peer,
                                  .inbound = pair->tokens,
                                  .expected = pair->expected};

    if (MSCCLPP_OK != pair->ops->conn_connect(pair->conn, card->address, card->address_length) ||
        MSCCLPP_OK != pair->ops->remote_create(pair->conn, card->key, card->key_length, &pair->remote) ||
        MSCCLPP_OK != mscclpp_proxy_create(&params, &pair->proxy)) {
        return false;
    }
    port.conn = pair->conn;
    port.region = pair->region;
    port.remote = pair->remote;
    return MSCCLPP_OK == mscclpp_proxy_channel_create(pair->proxy, &port, &pair->channel);
}

/* Maps the peer's memory for plain copies. If this fails on any rank, there are no plain copies. */
static void map(bench_pair_t *pair, const card_t *card)
{
    const bench_env_t *env = pair->env;
    bool mapped = false;

    if (pair->peer >= 0) {
        mapped = card->exported && 0 == strcmp(env->places[env->rank].host, env->places[pair->peer].host) &&
                 MSCCLPP_OK == mscclpp_mapping_get(env->gpu, env->device, &card->handle,
                                                   mscclpp_mapping_limit(&env->config), &pair->mapping);
    }
    if (bench_all(env->control, mapped || pair->peer < 0) && mapped) {
        pair->mapped = (char *)mscclpp_mapping_base(pair->mapping) + card->handle.offset;
    }
}

/* Waits until both ranks have ended their work. Meanwhile this rank's proxy goes on serving the peer. */
static bool meet(bench_pair_t *pair)
{
    mscclpp_status_t status = MSCCLPP_OK;
    MPI_Request requests[2];
    char sent = 0, received;
    int done = 0;

    MPI_Irecv(&received, 1, MPI_BYTE, pair->peer, TAG_MEET, pair->env->control, &requests[0]);
    MPI_Isend(&sent, 1, MPI_BYTE, pair->peer, TAG_MEET, pair->env->control, &requests[1]);
    while (!done || MSCCLPP_IN_PROGRESS == status) {
        status = mscclpp_proxy_drain(pair->proxy);
        if (status < 0) {
            fprintf(stderr, "mscclpp_bench: rank %d: port channel over %s: %s\n", pair->env->rank, pair->ops->name,
                    mscclpp_status_string(status));
            return false;
        }
        if (!done) {
            MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
        }
        sched_yield();
    }
    return true;
}

static void progress(void *context)
{
    (void)mscclpp_proxy_progress(((bench_pair_t *)context)->proxy);
}

/* Frees everything. Barriers keep memory that peers may still access until they have closed their end. */
void bench_pair_close(bench_pair_t *pair)
{
    const bench_env_t *env = pair->env;
    const mscclpp_gpu_ops_t *gpu = env->gpu;
    void *on_device[] = {pair->memory_segment == NULL ? pair->memory : NULL, pair->state, pair->expected};
    void *on_host[] = {pair->mailbox, pair->elapsed_ns, pair->staging};

    mscclpp_gpu_twin_set_progress(NULL, NULL);
    mscclpp_proxy_destroy(pair->proxy);
    if (pair->remote != NULL) {
        pair->ops->remote_destroy(pair->remote);
    }
    pair->ops->conn_destroy(pair->conn);
    mscclpp_mapping_put(pair->mapping);
    mscclpp_mapping_drain();
    bench_all(env->control, true);
    if (pair->region != NULL) {
        pair->ops->region_destroy(pair->region);
    }
    pair->ops->destroy(pair->transport);
    bench_all(env->control, true);
    free_tokens(pair);
    if (pair->memory_segment != NULL) {
        shared_free(pair, pair->memory_segment);
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

bool bench_pair_open(bench_pair_t *pair, bench_env_t *env, const mscclpp_transport_ops_t *ops, size_t capacity,
                     char reason[BENCH_PAIR_REASON])
{
    card_t *cards = calloc((size_t)env->size + 1, sizeof(*cards)), *own = cards;
    uint32_t flags;
    bool ok;

    if (cards == NULL) {
        fprintf(stderr, "mscclpp_bench: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
    }
    memset(pair, 0, sizeof(*pair));
    pair->env = env;
    pair->ops = ops;
    pair->peer = (env->rank ^ 1) < env->size ? env->rank ^ 1 : -1;
    reason[0] = '\0';
    start_listening(env);
    ok = pair->peer < 0 || (create_instance(pair, &flags) && reaches(pair, flags, reason) && allocate(pair, capacity) &&
                            fill_card(pair, own));
    ok = agree(pair, ok, reason);
    if (ok) {
        bench_allgather(env->control, own, cards + 1, sizeof(*own));
        ok = agree(pair, pair->peer < 0 || connect_peer(pair, &cards[1 + pair->peer]), reason);
    }
    if (ok) {
        map(pair, &cards[1 + pair->peer]);
        mscclpp_gpu_twin_set_progress(progress, pair);
    } else {
        bench_pair_close(pair);
    }
    stop_listening();
    free(cards);
    return ok;
}

/* Launches the kernel that makes the puts. */
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
    args.to = pair->target;
    args.elapsed_ns = pair->device_elapsed_ns;
    args.rounds = (uint32_t)rounds;
    args.puts = (uint32_t)puts;
    args.role = role;
    return pair->env->gpu->launch(pair->env->stream, &kernel);
}

/* Serves the kernel's requests until the kernel reports its end. */
static mscclpp_status_t serve(bench_pair_t *pair, uint64_t done_before)
{
    const mscclpp_gpu_ops_t *gpu = pair->env->gpu;
    mscclpp_status_t status;
    unsigned turn;

    for (turn = 1; __atomic_load_n(&pair->mailbox->ended[0], __ATOMIC_ACQUIRE) == done_before; ++turn) {
        status = mscclpp_proxy_progress(pair->proxy);
        if (status < 0) {
            return status;
        }
        if (0 == turn % TURNS && MSCCLPP_IN_PROGRESS != gpu->stream_query(pair->env->stream)) {
            break;
        }
        if (pair->env->on_twin) {
            sched_yield();
        }
    }
    return gpu->stream_sync(pair->env->stream);
}

bool bench_pair_run(bench_pair_t *pair, uint32_t role, size_t bytes, int rounds, int puts, double *seconds_p)
{
    const uint64_t done = __atomic_load_n(&pair->mailbox->ended[0], __ATOMIC_ACQUIRE);
    mscclpp_status_t status;
    uint64_t elapsed;

    __atomic_store_n(pair->elapsed_ns, 0, __ATOMIC_RELAXED);
    mscclpp_proxy_begin(pair->proxy);
    status = launch_kernel(pair, role, bytes, rounds, puts);
    if (MSCCLPP_OK == status) {
        status = serve(pair, done);
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
    return meet(pair);
}

bool bench_pair_copy(bench_pair_t *pair, size_t bytes, int rounds, int copies, double *seconds_p)
{
    const bench_env_t *env = pair->env;
    const double start = mscclpp_now();

    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < copies; ++i) {
            if (MSCCLPP_OK != env->gpu->copy(env->stream, pair->mapped + pair->target, pair->memory, bytes)) {
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
