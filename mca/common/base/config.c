#include "mca/common/base/config.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "device/types/launch.h"
#include "mca/common/base/log.h"

#define KIB 1024.0
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

#define CONFIG_ROW(name_, type_, default_, level_, choices_, min_, max_, help_)                                        \
    {                                                                                                                  \
#name_, type_, default_, level_, choices_, min_, max_, help_, offsetof(mscclpp_config_t, name_)                \
    }
#define CONFIG_BOOL(name_, default_, level_, help_)                                                                    \
    CONFIG_ROW(name_, MSCCLPP_PARAM_BOOL, default_, level_, NULL, 0, 1, help_)
#define CONFIG_INT(name_, default_, level_, min_, max_, help_)                                                         \
    CONFIG_ROW(name_, MSCCLPP_PARAM_INT, default_, level_, NULL, min_, max_, help_)
#define CONFIG_SIZE(name_, default_, level_, min_, max_, help_)                                                        \
    CONFIG_ROW(name_, MSCCLPP_PARAM_SIZE, default_, level_, NULL, min_, max_, help_)
#define CONFIG_DOUBLE(name_, default_, level_, min_, max_, help_)                                                      \
    CONFIG_ROW(name_, MSCCLPP_PARAM_DOUBLE, default_, level_, NULL, min_, max_, help_)
#define CONFIG_STRING(name_, default_, level_, choices_, help_)                                                        \
    CONFIG_ROW(name_, MSCCLPP_PARAM_STRING, default_, level_, choices_, 0, 0, help_)

const mscclpp_param_t mscclpp_params[] = {
    CONFIG_BOOL(enable, "1", 1, "Serve collectives at all; 0 leaves every call to the other components."),
    CONFIG_INT(priority, "90", 2, -1, 100,
               "Priority of the component, -1 to 100; the highest one serves, and -1 turns this one off."),
    CONFIG_INT(
        verbose, "0", 1, 0, 3,
        "Highest level of messages printed besides errors and warnings: 0 or 1 none, 2 choices made once, 3 every "
        "call."),
    CONFIG_STRING(device, "auto", 2, "auto|cuda|host",
                  "Where kernels run: auto (CUDA where a device can be used), cuda, or host (CPU threads on host "
                  "buffers)."),
    CONFIG_STRING(
        algorithm, "auto", 4,
        "auto|oneshot|twophase|oneshot_put|zerocopy|engines|scratch|nodes|nodes_split|nodes_ring|nodes_packets|stage",
        "Algorithm of every all-reduce; auto chooses by size and number of ranks, stage copies through host "
        "memory, and so does every other collective whose own parameter is auto. Ranks on several nodes use those that "
        "begin with nodes in any case but stage, and no others do."),
#define CONFIG_COLL(id_, name_, pattern_)                                                                              \
    CONFIG_STRING(name_##_algorithm, "auto", 5, "auto|packets|zerocopy|engines|scratch|stage",                         \
                  "Algorithm of every MPI_" #name_                                                                     \
                  " on one node: auto (by size and number of ranks), packets (for blocks that a slot of the scratch "  \
                  "holds), zerocopy (mapped buffers), engines (copy engines on mapped buffers, where nothing is "      \
                  "reduced), scratch, or stage (copy through host memory).")                                           \
    ,
    MSCCLPP_COLLS(CONFIG_COLL)
#undef CONFIG_COLL
        CONFIG_STRING(
            rules, "", 3, NULL,
            "File of rules, as mscclpp_tune writes it, that choose among algorithms where ranks are on one node; "
            "it wins over the built-in table, and algorithm and the sizes below win over it. One with an error in "
            "it is refused whole. Rank 0's counts."),
    CONFIG_STRING(plans, "", 3, NULL,
                  "Execution plans that serve calls on one node: files of MSCCL++, and folders whose .json files are "
                  "all taken, separated by commas or colons. A plan serves the messages of its own range, or those "
                  "that rules name it for. One that a rank lacks, or that is refused, is used by none."),
    CONFIG_STRING(plan_check, "static", 4, "static|full|off",
                  "What is done with a plan, besides the checks without simulation that each has to pass, before it is "
                  "used: static (where its packets may have to order other stores, whether they do), full (it is "
                  "simulated by rank 0 of the first communicator that uses it) or off (nothing)."),
    CONFIG_SIZE(oneshot_max, "0", 5, 0, GIB,
                "Largest all-reduce in bytes that uses one-shot packets; 0 takes the built-in table."),
    CONFIG_SIZE(twophase_max, "0", 5, 0, GIB,
                "Largest all-reduce in bytes that uses two-phase packets; 0 takes the built-in table."),
    CONFIG_SIZE(
        put_max, "0", 5, 0, 1024 * GIB,
        "Largest all-reduce in bytes, of those too large for packets, that every rank puts whole into memory of "
        "all others; 0 takes the built-in table."),
    CONFIG_STRING(
        packet, "auto", 6, "auto|ll128|ll16|ll8",
        "Packet format: auto, ll128 (120 data bytes in 128, of two-phase packets of any size, wherever trying "
        "finds such stores whole), ll16 (8 in 16) or ll8 (4 in 8, of one-shot packets)."),
    CONFIG_SIZE(lines_min, "0", 5, 0, GIB,
                "Smallest all-reduce in bytes whose two-phase packets are of 128 bytes, where links keep stores of 128 "
                "bytes whole; 0 takes the built-in table."),
    CONFIG_BOOL(zerocopy, "1", 5,
                "Let kernels read and write the peers' user buffers directly where these can be mapped."),
    CONFIG_SIZE(engine_min, "0", 5, 0, 1024 * GIB,
                "Smallest all-reduce in bytes that is moved by copy engines; 0 takes the built-in table."),
    CONFIG_SIZE(engine_chunk, "0", 5, 0, GIB,
                "Bytes of the pieces that copy engines move at once; 0 takes the built-in table."),
    CONFIG_SIZE(engine_scratch, "192m", 5, 0, 16 * GIB,
                "Most bytes of device memory that each rank sets aside for each communicator when copy engines first "
                "serve it; 0 never uses them."),
    CONFIG_INT(max_blocks, "0", 5, 0, MSCCLPP_DEV_MAX_BLOCKS,
               "Most thread blocks of a kernel; 0 takes the built-in table."),
    CONFIG_INT(max_threads, "0", 5, 0, MSCCLPP_DEV_MAX_THREADS, "Most threads of a block; 0 takes the built-in table."),
    CONFIG_SIZE(
        scratch_size, "16m", 5, MIB, GIB,
        "Bytes of device memory that each rank sets aside for each communicator whose messages have more than a "
        "few KiB, as much again for puts and a quarter as much for packets of 128 bytes. Until then it is less "
        "than 1 MiB in all, unless a parameter names an algorithm or its sizes."),
    CONFIG_BOOL(
        reuse, "1", 6,
        "Keep the scratch, mappings and connections of a few ended communicators, for communicators of the same ranks, "
        "such as duplicates, to take over."),
    CONFIG_INT(mapping_cache_size, "64", 6, 1, 65536,
               "Number of mappings of peers' user buffers that a process keeps for further use."),
    CONFIG_SIZE(mapping_cache_bytes, "0", 6, 0, 1024 * GIB,
                "Most bytes of peers' allocations that mappings kept for further use hold, 0 for no limit; what a peer "
                "has freed stays allocated while it is mapped."),
    CONFIG_DOUBLE(timeout, "600", 3, 0, 1e6,
                  "Seconds that a call waits for a peer before it ends with an error; 0 waits for ever."),
    CONFIG_DOUBLE(warn_after, "30", 3, 0, 1e6,
                  "Seconds that a call waits for a peer before a warning names it; 0 never warns."),
    CONFIG_STRING(
        shared_gpu, "auto", 4, "auto|kernels|stage",
        "What is done where processes share a GPU: auto (kernels only where they can run together, as under MPS, and "
        "are not of several imitated nodes), kernels, or stage."),
    CONFIG_STRING(
        linger, "auto", 4, "auto|on|off",
        "Kernels of calls up to linger_max stay for some microseconds to serve the next one without a launch: auto "
        "(while calls follow at once on one another, and neither processes take turns on a GPU nor a debugger or "
        "profiler watches), on (after every call) or off."),
    CONFIG_DOUBLE(linger_window, "1000", 4, 1, 1e6,
                  "Microseconds after its start in which a lingering kernel takes up calls; then it leaves."),
    CONFIG_DOUBLE(linger_idle, "10", 5, 1, 1e6,
                  "Microseconds without a call after which a lingering kernel leaves. Calls follow at once on one "
                  "another if they come within a fifth of it."),
    CONFIG_SIZE(linger_max, "16m", 5, 0, 64 * MIB,
                "Largest all-reduce in bytes that lingering kernels serve, if they have as many blocks as it takes."),
    CONFIG_INT(
        linger_blocks, "16", 6, 1, 32,
        "Thread blocks of lingering kernels that serve more than a few KiB, and of the calls that they serve. Puts "
        "take twice as many, and large puts more still."),
    CONFIG_BOOL(linger_cluster, "1", 6,
                "The thread blocks of a lingering kernel form a cluster, on GPUs that have room for one so large and "
                "that neither other ranks nor other threads use: quicker, but they start only where they can all do so "
                "side by side."),
    CONFIG_BOOL(mixed_buffers, "0", 3,
                "Allow device buffers on some ranks and host buffers on others, at the cost of an exchange in each "
                "call, which takes this component, and so a device, on every rank."),
    CONFIG_BOOL(
        check_calls, "0", 2,
        "Compare, before each call, its collective, counts, sizes of types, operation and root on all ranks, on "
        "device and host buffers alike; ranks whose calls do not match get an error that names what differs. "
        "For finding faults of a program: it takes messages between all ranks in each call."),
    CONFIG_STRING(stage, "auto", 4, "auto|always|never",
                  "Copy device buffers of collectives without kernels through host memory: auto (where Open MPI cannot "
                  "take them), always or never."),
    CONFIG_BOOL(
        ucx, "1", 6,
        "Carry control messages over UCX where it was built in; 0 uses the embedding runtime. MPI_Init loads UCX "
        "where the job is on several nodes or imitates them and this is 1 or transport auto, and wherever transport is "
        "network or ucx; later it is not loaded."),
    CONFIG_INT(ranks_per_node, "0", 7, -64, 64,
               "Imitates nodes of so many consecutive ranks of a communicator, to try on one host what serves "
               "several; -2 and so on deals the ranks out to 2 nodes in turn; 0 takes nodes as they are."),
    CONFIG_STRING(transport, "auto", 4, "auto|network|shm|cuda_ipc|verbs|ucx",
                  "What carries all-reduces between nodes: auto (shm where all ranks run on one host, as those of "
                  "imitated nodes do; else network), network (verbs where all ranks have it, else ucx), verbs or ucx; "
                  "shm and cuda_ipc serve imitated nodes only."),
    CONFIG_SIZE(exchange_size, "16m", 5, 65536, GIB,
                "Bytes that a rank sets aside for each communicator over several nodes, for what travels between "
                "them."),
    CONFIG_STRING(exchange_memory, "auto", 6, "auto|device|host",
                  "Where what travels between nodes lies: auto (device memory where the transport, other than shm, can "
                  "have it and signals there), device, or host, which is pinned memory. Transports that cannot are not "
                  "taken."),
    CONFIG_BOOL(exchange_stores, "1", 6,
                "Let kernels store packets for other nodes into their memory themselves where they reach it, as those "
                "of a few imitated nodes do with shm; 0 leaves them to the proxy."),
    CONFIG_SIZE(nodes_packets_max, "0", 5, 0, GIB,
                "Largest all-reduce in bytes that uses packets between nodes, where the transport can carry them; of "
                "other collectives so much of what one rank sends to another node; 0 takes the built-in choice."),
    CONFIG_SIZE(nodes_split_min, "0", 5, 0, 1024 * GIB,
                "Smallest all-reduce in bytes of which each node combines a part only and sends the others the result; "
                "0 takes the built-in choice."),
    CONFIG_SIZE(nodes_ring_min, "0", 5, 0, 1024 * GIB,
                "Smallest all-reduce in bytes that goes around in a ring of nodes, each of which sends to the next one "
                "only; not for 16-bit floats; 0 takes the built-in choice."),
    CONFIG_STRING(
        proxy, "progress", 5, "progress|thread",
        "Who carries out what kernels ask of port channels: progress (the calls that wait), or thread (one of "
        "its own, asleep when nothing is in flight; calls that are queued in streams have it in any case)."),
    CONFIG_INT(fifo_size, "512", 6, 2, 65536,
               "Requests of kernels for port channels that can wait for the proxy; rounded up to a power of two."),
    CONFIG_STRING(
        ucx_bounce, "auto", 6, "auto|always|device",
        "What the transport ucx sends through bounce memory and the receiver's CPU: auto (everything on nodes "
        "without RDMA devices, else device memory), always (everything), or device (device memory only)."),
    CONFIG_BOOL(
        ucx_shared_memory, "1", 6,
        "Let the transport ucx use shared memory where all ranks are on one host, as those of imitated nodes "
        "are, and watch their processes itself; 0 leaves both to UCX, which takes sockets where it is to tell of "
        "lost peers."),
    CONFIG_SIZE(bounce_size, "4m", 6, 65536, GIB,
                "Bytes of pinned host memory that a connection of the transport ucx takes where bytes may come through "
                "bounce memory; as many again where it also sends device memory."),
    CONFIG_BOOL(widen_selection, "1", 6,
                "When the list of coll components holds only this one, also load those of widen_list, which a "
                "communicator cannot do without."),
    CONFIG_STRING(widen_list, "tuned,libnbc,basic,inter,self,sm,sync,ftagree,han,adapt", 7, NULL,
                  "Comma-separated components that widen_selection loads; those that do not exist are left out, and a "
                  "list that lacks basic or libnbc gives way to the default."),
    CONFIG_INT(twin_blocks, "1", 8, 1, MSCCLPP_DEV_MAX_BLOCKS, "Blocks of a kernel on the host twin."),
    CONFIG_INT(twin_threads, "1", 8, 1, MSCCLPP_DEV_MAX_THREADS, "CPU threads of a block on the host twin."),
    CONFIG_STRING(
        twin_host_ranks, "", 9, NULL,
        "Comma-separated ranks whose buffers the host twin looks upon as ordinary host memory; RANK/CALLS: once "
        "kernels have served so many calls of that rank."),
    CONFIG_BOOL(twin_shared_only, "0", 9,
                "Let the host twin look upon shared mappings as device memory, each as one allocation, which ranks map "
                "one another's of where another copy of this component's library has made it, and upon all else of "
                "the application as ordinary host memory; 0 takes everything for device memory."),
    CONFIG_SIZE(epoch_limit, "2147483648", 9, 16, 4294967295.0,
                "Number of packet operations after which a communicator's packet memory is cleared."),
    CONFIG_STRING(verbs_library, "libibverbs.so.1", 7, NULL, "File of libibverbs that the transport verbs opens."),
    CONFIG_STRING(verbs_mode, "auto", 6, "auto|atomic|no_atomic",
                  "How the transport verbs signals: atomic (by the HCA), no_atomic (by the receiver's CPU), or auto "
                  "(atomic where the HCAs of both sides can)."),
    CONFIG_STRING(verbs_registration, "auto", 6, "auto|dmabuf|peermem|bounce",
                  "How the transport verbs reaches device memory: dmabuf or peermem (registered with the HCA), bounce "
                  "(copied through pinned host memory), or auto (the first of these that works)."),
    CONFIG_STRING(verbs_devices, "", 3, NULL,
                  "Comma-separated HCAs that the transport verbs may use, as ibv_devices names them; empty for all."),
    CONFIG_INT(verbs_port, "0", 4, 0, 255, "Port of the HCA; 0 takes the first active one."),
    CONFIG_INT(verbs_gid_index, "-1", 4, -1, 255,
               "Index of the port's GID; -1 finds one (for RoCE version 2 before 1, and IPv4 before IPv6)."),
    CONFIG_INT(verbs_service_level, "0", 5, 0, 15, "InfiniBand service level of the transport verbs."),
    CONFIG_INT(verbs_traffic_class, "0", 5, 0, 255, "RoCE traffic class (DSCP and ECN) of the transport verbs."),
    CONFIG_INT(verbs_timeout, "18", 5, 1, 31,
               "Time after which an unanswered packet is sent again: 4.096 microseconds times 2 to this power."),
    CONFIG_INT(verbs_retry_count, "6", 5, 0, 7,
               "How often an unanswered packet is sent again before the connection fails; to soft-RoCE 7 is for ever."),
    CONFIG_INT(verbs_rnr_retry, "7", 6, 0, 7,
               "How often a signal is sent again that found its receiver busy (mode no_atomic); 7 is for ever."),
    CONFIG_STRING(verbs_mtu, "auto", 6, "auto|256|512|1024|2048|4096",
                  "Largest packet in bytes; auto takes what the ports of both sides can."),
    CONFIG_INT(verbs_queue_depth, "256", 6, 16, 16384, "Work requests that a queue pair holds at once."),
    CONFIG_INT(verbs_rails, "1", 4, 1, 8,
               "HCAs that a rank uses together: the nearest to its GPU; large puts are spread over them."),
    CONFIG_SIZE(verbs_stripe_min, "256k", 6, 4096, GIB, "Smallest put in bytes that is spread over several HCAs."),
    CONFIG_BOOL(verbs_relaxed_ordering, "0", 6,
                "Let data of the transport verbs reach memory in any order before its signal; puts into the same bytes "
                "then need a signal in between."),
};

const int mscclpp_param_count = (int)(sizeof(mscclpp_params) / sizeof(mscclpp_params[0]));

typedef union {
    bool boolean;
    int integer;
    size_t size;
    double real;
    const char *string;
} config_value_t;

static bool parse_bool(const char *text, bool *value_p)
{
    static const char *const yes[] = {"1", "true", "yes", "on", "enabled"};
    static const char *const no[] = {"0", "false", "no", "off", "disabled"};

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); ++i) {
        if (0 == strcasecmp(text, yes[i])) {
            *value_p = true;
            return true;
        }
        if (0 == strcasecmp(text, no[i])) {
            *value_p = false;
            return true;
        }
    }
    return false;
}

/* Accepts digits only: strtoull would also accept signs, blanks, hexadecimals and empty texts. */
static bool parse_digits(const char *text, uint64_t *value_p, const char **end_p)
{
    uint64_t value = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; ++at) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (at == text) {
        return false;
    }
    *value_p = value;
    *end_p = at;
    return true;
}

bool mscclpp_config_parse_int(const char *text, int *value_p)
{
    bool negative = '-' == *text;
    const char *end;
    uint64_t value;

    if (!parse_digits(negative ? text + 1 : text, &value, &end) || '\0' != *end || value > INT32_MAX) {
        return false;
    }
    *value_p = negative ? -(int)value : (int)value;
    return true;
}

bool mscclpp_config_parse_size(const char *text, size_t *value_p)
{
    unsigned shift = 0;
    const char *end;
    uint64_t value;

    if (!parse_digits(text, &value, &end)) {
        return false;
    }
    switch (*end) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    default:
        break;
    }
    if ('\0' != end[0 != shift] || value > (SIZE_MAX >> shift)) {
        return false;
    }
    *value_p = (size_t)value << shift;
    return true;
}

/* Not strtod: the application may have set a locale whose decimal point is a comma. */
static bool parse_double(const char *text, double *value_p)
{
    double value = 0;
    double unit = 1;
    bool any = false;

    for (; *text >= '0' && *text <= '9'; ++text) {
        value = value * 10 + (*text - '0');
        any = true;
    }
    if ('.' == *text) {
        for (++text; *text >= '0' && *text <= '9'; ++text) {
            unit /= 10;
            value += unit * (*text - '0');
            any = true;
        }
    }
    if (!any || '\0' != *text) {
        return false;
    }
    *value_p = value;
    return true;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);

    while (choices != NULL) {
        const char *end = strchrnul(choices, '|');
        if (length == (size_t)(end - choices) && 0 == memcmp(choices, text, length)) {
            return true;
        }
        choices = '|' == *end ? end + 1 : NULL;
    }
    return false;
}

static bool parse(const mscclpp_param_t *param, const char *text, config_value_t *value_p)
{
    switch (param->type) {
    case MSCCLPP_PARAM_BOOL:
        return parse_bool(text, &value_p->boolean);
    case MSCCLPP_PARAM_INT:
        return mscclpp_config_parse_int(text, &value_p->integer) && value_p->integer >= param->min &&
               value_p->integer <= param->max;
    case MSCCLPP_PARAM_SIZE:
        return mscclpp_config_parse_size(text, &value_p->size) && (double)value_p->size >= param->min &&
               (double)value_p->size <= param->max;
    case MSCCLPP_PARAM_DOUBLE:
        return parse_double(text, &value_p->real) && value_p->real >= param->min && value_p->real <= param->max;
    case MSCCLPP_PARAM_STRING:
        value_p->string = text;
        return param->choices == NULL || is_choice(param->choices, text);
    }
    return false;
}

static void store(mscclpp_config_t *config, const mscclpp_param_t *param, const config_value_t *value)
{
    void *field = (char *)config + param->offset;

    switch (param->type) {
    case MSCCLPP_PARAM_BOOL:
        *(bool *)field = value->boolean;
        break;
    case MSCCLPP_PARAM_INT:
        *(int *)field = value->integer;
        break;
    case MSCCLPP_PARAM_SIZE:
        *(size_t *)field = value->size;
        break;
    case MSCCLPP_PARAM_DOUBLE:
        *(double *)field = value->real;
        break;
    case MSCCLPP_PARAM_STRING:
        *(const char **)field = value->string;
        break;
    }
}

static void report(const mscclpp_param_t *param, const char *text)
{
    switch (param->type) {
    case MSCCLPP_PARAM_BOOL:
        mscclpp_error("parameter %s: \"%s\" is not allowed; use 0 or 1", param->name, text);
        break;
    case MSCCLPP_PARAM_INT:
        mscclpp_error("parameter %s: \"%s\" is not allowed; use a whole number from %.0f to %.0f", param->name, text,
                      param->min, param->max);
        break;
    case MSCCLPP_PARAM_SIZE:
        mscclpp_error("parameter %s: \"%s\" is not allowed; use %.0f to %.0f, with a suffix k, m or g if wanted",
                      param->name, text, param->min, param->max);
        break;
    case MSCCLPP_PARAM_DOUBLE:
        mscclpp_error("parameter %s: \"%s\" is not allowed; use a decimal number from %.0f to %.0f", param->name, text,
                      param->min, param->max);
        break;
    case MSCCLPP_PARAM_STRING:
        mscclpp_error("parameter %s: \"%s\" is not allowed; use one of %s", param->name, text, param->choices);
        break;
    }
}

void mscclpp_config_init(mscclpp_config_t *config)
{
    memset(config, 0, sizeof(*config));
    for (int i = 0; i < mscclpp_param_count; ++i) {
        const mscclpp_param_t *param = &mscclpp_params[i];
        config_value_t value;
        if (parse(param, param->default_value, &value)) {
            store(config, param, &value);
        } else {
            report(param, param->default_value); /* a fault of the table, which the unit test looks for */
        }
    }
}

mscclpp_status_t mscclpp_config_set(mscclpp_config_t *config, const mscclpp_param_t *param, const char *value)
{
    config_value_t parsed;

    if (value == NULL || !parse(param, value, &parsed)) {
        report(param, value == NULL ? "" : value);
        return MSCCLPP_ERR_INVALID;
    }
    store(config, param, &parsed);
    return MSCCLPP_OK;
}

const mscclpp_param_t *mscclpp_param_find(const char *name)
{
    for (int i = 0; i < mscclpp_param_count; ++i) {
        if (0 == strcmp(mscclpp_params[i].name, name)) {
            return &mscclpp_params[i];
        }
    }
    return NULL;
}

mscclpp_status_t mscclpp_config_from_environment(mscclpp_config_t *config)
{
    mscclpp_status_t first = MSCCLPP_OK;

    for (int i = 0; i < mscclpp_param_count; ++i) {
        char name[64];
        int length = snprintf(name, sizeof(name), "MSCCLPP_%s", mscclpp_params[i].name);
        for (int j = 0; j < length; ++j) {
            name[j] = (char)toupper((unsigned char)name[j]);
        }
        const char *value = getenv(name);
        if (value != NULL) {
            mscclpp_status_t status = mscclpp_config_set(config, &mscclpp_params[i], value);
            if (MSCCLPP_OK == first) {
                first = status;
            }
        }
    }
    return first;
}
