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

/*
 * A row of the table: name, type, default, level, choices, range and help, in the order of mscclpp_param_t. The macros
 * below make a row for each type of parameter. Truth values and strings need no range.
 */
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
        "auto|oneshot|twophase|oneshot_put|zerocopy|engines|scratch|nodes|nodes_split|nodes_ring|nodes_halving|"
        "nodes_trees|nodes_packets|nodes_doubling|stage",
        "Algorithm of every all-reduce: auto chooses by size and number of ranks; stage copies through host memory, "
        "and also stages every other collective whose own parameter is auto. The algorithms whose names begin with "
        "nodes serve only ranks on several nodes, which use no others."),
#define CONFIG_COLL(id_, name_, pattern_)                                                                              \
    CONFIG_STRING(name_##_algorithm, "auto", 5,                                                                        \
                  "auto|packets|zerocopy|engines|scratch|puts|nodes|nodes_ring|nodes_halving|nodes_trees|"             \
                  "nodes_packets|nodes_rounds|stage",                                                                  \
                  "Algorithm of every MPI_" #name_                                                                     \
                  ": auto (by size and number of ranks); on one node packets (for blocks that a slot of the scratch "  \
                  "holds), zerocopy (mapped buffers), engines (copy engines on mapped buffers, where nothing is "      \
                  "reduced), scratch (tiles through "                                                                  \
                  "the scratch) or puts (pieces through the scratch, without a barrier at the beginning); "            \
                  "on several nodes nodes (tiles), nodes_ring or nodes_halving (tiles in a ring "                      \
                  "or by recursive halving; allgather, allgatherv, reduce_scatter and reduce_scatter_block), "         \
                  "nodes_trees (tiles over two trees; bcast "                                                          \
                  "and reduce), or for small blocks nodes_packets or nodes_rounds; or stage (copy through host "       \
                  "memory).")                                                                                          \
    ,
    MSCCLPP_COLLS(CONFIG_COLL)
#undef CONFIG_COLL
        CONFIG_STRING(
            rules, "", 3, NULL,
            "File of rules, as mscclpp_tune writes it, that choose the algorithm or a plan, on one node or several. It "
            "takes "
            "precedence over the built-in table; the parameters for algorithms and sizes take precedence over it. A "
            "file with an error is refused as a whole. All ranks use rank 0's file."),
    CONFIG_STRING(plans, "", 3, NULL,
                  "Execution plans of MSCCL++ that serve calls: JSON files, and folders of which all .json "
                  "files are read, separated by commas or colons. A plan serves the message sizes that its file gives, "
                  "or those for which rules name it. A plan that some rank does not have, or refuses, is not used."),
    CONFIG_STRING(plan_check, "static", 4, "static|full|off",
                  "How a plan is checked before its first use, besides the basic checks that every plan has to pass: "
                  "static (none, but it is found out whether its packets have to order other stores), full (rank 0 of "
                  "the first communicator that uses it simulates it) or off (no further check)."),
    CONFIG_SIZE(oneshot_max, "0", 5, 0, GIB,
                "Largest all-reduce in bytes that uses one-shot packets; 0 takes the built-in table."),
    CONFIG_SIZE(twophase_max, "0", 5, 0, GIB,
                "Largest all-reduce in bytes that uses two-phase packets; 0 takes the built-in table."),
    CONFIG_SIZE(
        put_max, "0", 5, 0, 1024 * GIB,
        "Largest all-reduce in bytes that uses one-shot puts, where each rank puts its whole message into the memory "
        "of all others, if it is too large for packets; 0 takes the built-in table."),
    CONFIG_STRING(
        packet, "auto", 6, "auto|ll128|ll16|ll8",
        "Packet format: auto, ll128 (120 data bytes in 128, for two-phase packets of any size, if a test at set-up "
        "finds that the links deliver such stores whole), ll16 (8 in 16) or ll8 (4 in 8, for one-shot packets)."),
    CONFIG_SIZE(lines_min, "0", 5, 0, GIB,
                "Smallest all-reduce in bytes whose two-phase packets have 128 bytes, if the links deliver stores of "
                "128 bytes whole; 0 takes the built-in table."),
    CONFIG_BOOL(zerocopy, "1", 5,
                "Let kernels read and write the peers' user buffers directly where these can be mapped."),
    CONFIG_SIZE(engine_min, "0", 5, 0, 1024 * GIB,
                "Smallest all-reduce in bytes that is moved by copy engines; 0 takes the built-in table."),
    CONFIG_SIZE(engine_chunk, "0", 5, 0, GIB,
                "Bytes of the pieces that copy engines move at once; 0 takes the built-in table."),
    CONFIG_SIZE(
        engine_scratch, "192m", 5, 0, 16 * GIB,
        "Most bytes of device memory that each rank sets aside when copy engines first serve an all-reduce; its "
        "communicators share them, unless coll_mscclpp_algorithm is engines. 0 never uses engines."),
    CONFIG_INT(max_blocks, "0", 5, 0, MSCCLPP_DEV_MAX_BLOCKS,
               "Most thread blocks of a kernel; 0 takes the built-in table."),
    CONFIG_INT(max_threads, "0", 5, 0, MSCCLPP_DEV_MAX_THREADS, "Most threads of a block; 0 takes the built-in table."),
    CONFIG_SIZE(
        scratch_size, "16m", 5, MIB, GIB,
        "Bytes of device memory (scratch) for messages of more than a few KiB that do not go from buffer to buffer; "
        "puts "
        "take as much again, and packets of 128 bytes a quarter as much. For its communicators a process makes four "
        "such pieces, and four for those over several nodes, in which other data take that quarter and no puts any, "
        "and more only while more calls are under way. Until a communicator needs one, it has "
        "less than 1 MiB, unless a parameter names an algorithm or its sizes."),
    CONFIG_BOOL(
        reuse, "1", 6,
        "Keep the scratch, mappings and connections of a few ended communicators, for communicators of the same ranks, "
        "such as duplicates, to take over. Between nodes, let them take over what the ranks of a living one have "
        "agreed "
        "on."),
    CONFIG_INT(mapping_cache_size, "64", 6, 1, 65536,
               "Number of mappings of peers' user buffers that a process keeps for further use."),
    CONFIG_SIZE(mapping_cache_bytes, "0", 6, 0, 1024 * GIB,
                "Most bytes of peers' memory in the mappings that are kept for further use; 0 for no limit. Memory "
                "that a peer frees stays allocated while it is mapped."),
    CONFIG_DOUBLE(timeout, "600", 3, 0, 1e6,
                  "Seconds that a call waits for a peer before it ends with an error; 0 waits for ever."),
    CONFIG_DOUBLE(warn_after, "30", 3, 0, 1e6,
                  "Seconds that a call waits for a peer before a warning names it; 0 never warns."),
    CONFIG_STRING(
        shared_gpu, "auto", 4, "auto|kernels|stage",
        "What serves calls where processes share a GPU: auto (kernels if they can run at the same time, as under MPS, "
        "and the ranks are not on several imitated nodes; else staging), kernels, or stage."),
    CONFIG_STRING(
        linger, "auto", 4, "auto|on|off",
        "Kernels of calls up to linger_max stay for some microseconds to serve the next one without a launch: auto "
        "(while calls follow at once on one another, and neither processes take turns on a GPU nor a debugger or "
        "profiler watches), on (after every call) or off."),
    CONFIG_DOUBLE(linger_window, "1000", 4, 1, 1e6,
                  "Microseconds after its start during which a lingering kernel serves calls; then it leaves."),
    CONFIG_DOUBLE(linger_idle, "10", 5, 1, 1e6,
                  "Microseconds without a call after which a lingering kernel leaves. A call that comes within a fifth "
                  "of this time counts as following at once on the one before."),
    CONFIG_SIZE(
        linger_max, "16m", 5, 0, 64 * MIB,
        "Largest size in bytes that lingering kernels serve: the message of an all-reduce, or the largest block of "
        "another collective. Kernels may serve less, if they lack blocks or room for packets."),
    CONFIG_INT(
        linger_blocks, "16", 6, 1, 32,
        "Thread blocks of lingering kernels that serve more than a few KiB, and of the calls that they serve. Puts "
        "take twice as many, and large puts more still."),
    CONFIG_BOOL(linger_cluster, "1", 6,
                "Make the thread blocks of a lingering kernel a cluster, on GPUs that support one so large and that "
                "neither other ranks nor other threads use. A cluster is faster, but starts only when enough adjacent "
                "multiprocessors are free."),
    CONFIG_BOOL(mixed_buffers, "0", 3,
                "Allow device buffers on some ranks and host buffers on others in one call. This costs an exchange in "
                "each call, and every rank needs this component, and so a device."),
    CONFIG_BOOL(
        check_calls, "0", 2,
        "Compare, before each call, its collective, counts, sizes of types, operation and root on all ranks, on "
        "device and host buffers alike; ranks whose calls do not match get an error that names what differs. "
        "For finding faults of a program: it costs messages between all ranks in each call."),
    CONFIG_STRING(stage, "auto", 4, "auto|always|never",
                  "Copy device buffers of collectives without kernels through host memory: auto (where Open MPI cannot "
                  "take them), always or never."),
    CONFIG_BOOL(
        ucx, "1", 6,
        "Carry control messages over UCX if it was built in; 0 uses MPI's own messages. MPI_Init loads UCX if "
        "transport is network or ucx, or if the job has several nodes, real or imitated, and this is 1 or transport "
        "is auto. After MPI_Init it is not loaded any more."),
    CONFIG_INT(ranks_per_node, "0", 7, -64, 64,
               "Treat so many consecutive ranks of a communicator as one node, to try on one host what serves several "
               "nodes; -2 and so on deals the ranks out to 2 such nodes in turn; 0 takes nodes as they are."),
    CONFIG_STRING(transport, "auto", 4, "auto|network|shm|cuda_ipc|verbs|ucx",
                  "What carries all-reduces between nodes: auto (shm where all ranks run on one host, as those of "
                  "imitated nodes do; else network), network (verbs where all ranks have it, else ucx), verbs or ucx; "
                  "shm and cuda_ipc serve imitated nodes only."),
    CONFIG_SIZE(exchange_size, "16m", 5, 65536, GIB,
                "Bytes that a rank sets aside for each communicator over several nodes, for what travels between "
                "them. If it is more than 1 MiB, as scratch_size has to be, too, a communicator has 256 KiB or less "
                "until it sends large messages."),
    CONFIG_STRING(exchange_memory, "auto", 6, "auto|device|host",
                  "Memory for data that nodes exchange: auto (device memory if the transport is not shm and can both "
                  "reach and signal it, else host), device, or host (pinned memory). A transport that cannot use the "
                  "given memory is not chosen."),
    CONFIG_BOOL(exchange_stores, "1", 6,
                "Let kernels themselves store packets into the memory of other nodes if they can reach it, as with a "
                "few imitated nodes and shm; 0 leaves the packets to the proxy."),
    CONFIG_INT(nodes_fanout, "64", 5, 1, 16384,
               "Most other nodes that a rank sends to before it has received as much. Small blocks for more nodes go "
               "through other nodes, in rounds whose number grows with the logarithm of the number of nodes."),
    CONFIG_SIZE(nodes_packets_max, "0", 5, 0, GIB,
                "Largest all-reduce in bytes that uses packets between nodes, where the transport can carry them; of "
                "other collectives so much of what one rank sends to another node; 0 takes the built-in choice."),
    CONFIG_SIZE(nodes_split_min, "0", 5, 0, 1024 * GIB,
                "Smallest all-reduce in bytes for which each node combines only a part and sends the result to the "
                "others; 0 takes the built-in choice."),
    CONFIG_SIZE(nodes_ring_min, "0", 5, 0, 1024 * GIB,
                "Smallest all-reduce in bytes that goes around in a ring of nodes, each of which sends to the next one "
                "only; not for 16-bit floats; 0 takes the built-in choice."),
    CONFIG_STRING(
        proxy, "progress", 5, "progress|thread",
        "What carries out the requests of kernels to port channels: progress (the calls that wait), or thread (a "
        "thread of its own, asleep when nothing is in flight; calls that are queued in streams always have it)."),
    CONFIG_INT(fifo_size, "512", 6, 2, 65536,
               "Requests of kernels for port channels that can wait for the proxy; rounded up to a power of two."),
    CONFIG_STRING(
        ucx_bounce, "auto", 6, "auto|always|device",
        "What the transport ucx sends through bounce memory and the receiver's CPU: auto (everything on nodes "
        "without RDMA devices, else device memory), always (everything), or device (device memory only)."),
    CONFIG_BOOL(
        ucx_shared_memory, "1", 6,
        "Let the transport ucx use shared memory if all ranks are on one host, as with imitated nodes, and watch their "
        "processes itself; 0 leaves both to UCX, which uses sockets so that it notices lost peers."),
    CONFIG_SIZE(bounce_size, "4m", 6, 65536, GIB,
                "Bytes of pinned host memory that a connection of the transport ucx takes if it may receive through "
                "bounce memory; as many again if it also sends device memory."),
    CONFIG_BOOL(widen_selection, "1", 6,
                "If the list of coll components names only this one, also load those of widen_list, without which "
                "Open MPI cannot make a communicator."),
    CONFIG_STRING(widen_list, "tuned,libnbc,basic,inter,self,sm,sync,ftagree,han,adapt", 7, NULL,
                  "Comma-separated components that widen_selection loads; those that do not exist are left out, and a "
                  "list that lacks basic or libnbc gives way to the default."),
    CONFIG_INT(twin_blocks, "1", 8, 1, MSCCLPP_DEV_MAX_BLOCKS, "Blocks of a kernel on the host twin."),
    CONFIG_INT(twin_threads, "1", 8, 1, MSCCLPP_DEV_MAX_THREADS, "CPU threads of a block on the host twin."),
    CONFIG_STRING(
        twin_host_ranks, "", 9, NULL,
        "Comma-separated ranks whose buffers the host twin treats as ordinary host memory; RANK/CALLS: only after "
        "kernels have served so many calls of that rank."),
    CONFIG_BOOL(twin_shared_only, "0", 9,
                "Let the host twin treat shared mappings of the application as device memory, each as one allocation, "
                "and all its other memory as ordinary host memory; ranks map one another's allocations if a copy of "
                "this component's library has made them. 0 takes everything for device memory."),
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

/* A parsed value. The type of its parameter says which field holds it. */
typedef union {
    bool boolean;
    int integer;
    size_t size;
    double real;
    const char *string;
} config_value_t;

/* Accepts the words that Open MPI accepts, in upper or lower case. Returns false for any other text. */
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

/*
 * Reads a whole number that consists only of digits. *end_p is the first character after them. Returns false if there
 * is no digit, or if the number is too large. (strtoull would also accept signs, blanks, hexadecimal numbers and empty
 * strings.)
 */
static bool parse_digits(const char *text, uint64_t *value_p, const char **end_p)
{
    uint64_t value = 0;
    const char *cursor = text;

    for (; *cursor >= '0' && *cursor <= '9'; ++cursor) {
        uint64_t digit = (uint64_t)(*cursor - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (cursor == text) {
        return false;
    }
    *value_p = value;
    *end_p = cursor;
    return true;
}

/* The absolute value may be at most INT32_MAX, so INT_MIN counts as out of range. */
bool mscclpp_config_parse_int(const char *text, int *value_p)
{
    bool is_negative = '-' == *text;
    const char *end;
    uint64_t value;

    if (!parse_digits(is_negative ? text + 1 : text, &value, &end) || '\0' != *end || value > INT32_MAX) {
        return false;
    }
    *value_p = is_negative ? -(int)value : (int)value;
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
    if (shift != 0) {
        ++end; /* the suffix */
    }
    if ('\0' != *end || value > (SIZE_MAX >> shift)) {
        return false;
    }
    *value_p = (size_t)value << shift;
    return true;
}

/*
 * Reads a decimal number without sign and exponent. Returns false for any other text. The result may differ from the
 * nearest double in the last bit. (strtod depends on the locale that the application has set, which may require a
 * decimal comma.)
 */
static bool parse_double(const char *text, double *value_p)
{
    double value = 0;
    double place_value = 1;
    bool has_digits = false;

    for (; *text >= '0' && *text <= '9'; ++text) {
        value = value * 10 + (*text - '0');
        has_digits = true;
    }
    if ('.' == *text) {
        for (++text; *text >= '0' && *text <= '9'; ++text) {
            place_value /= 10;
            value += place_value * (*text - '0');
            has_digits = true;
        }
    }
    if (!has_digits || '\0' != *text) {
        return false;
    }
    *value_p = value;
    return true;
}

/* Returns true if the text is one of the words in "a|b|c". `choices` may be NULL. */
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

/*
 * Parses a value according to the parameter's type. Returns false, without a log line, if the value is not allowed. A
 * string is not copied, so `text` must stay valid.
 */
static bool parse_value(const mscclpp_param_t *param, const char *text, config_value_t *value_p)
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

/* Writes a parsed value to the parameter's field. A string is stored as a pointer. */
static void store_value(mscclpp_config_t *config, const mscclpp_param_t *param, const config_value_t *value)
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

/* Logs that a value is not allowed for a parameter, and which values are. */
static void report_refusal(const mscclpp_param_t *param, const char *text)
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
        mscclpp_error("parameter %s: \"%s\" is not allowed; use %s%s", param->name, text,
                      param->choices != NULL ? "one of " : "a text", param->choices != NULL ? param->choices : "");
        break;
    }
}

/* Zeroes the whole configuration first, so a parameter whose default is refused is 0. */
void mscclpp_config_init(mscclpp_config_t *config)
{
    memset(config, 0, sizeof(*config));
    for (int i = 0; i < mscclpp_param_count; ++i) {
        const mscclpp_param_t *param = &mscclpp_params[i];
        config_value_t value;
        if (parse_value(param, param->default_value, &value)) {
            store_value(config, param, &value);
        } else {
            report_refusal(param, param->default_value); /* the table is wrong; a unit test looks for this message */
        }
    }
}

mscclpp_status_t mscclpp_config_set(mscclpp_config_t *config, const mscclpp_param_t *param, const char *value)
{
    config_value_t parsed;

    if (value == NULL || !parse_value(param, value, &parsed)) {
        report_refusal(param, value == NULL ? "" : value);
        return MSCCLPP_ERR_INVALID;
    }
    store_value(config, param, &parsed);
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
    mscclpp_status_t first_error = MSCCLPP_OK;

    for (int i = 0; i < mscclpp_param_count; ++i) {
        char name[64];
        (void)snprintf(name, sizeof(name), "MSCCLPP_%s", mscclpp_params[i].name);
        for (int j = 0; name[j] != '\0'; ++j) {
            name[j] = (char)toupper((unsigned char)name[j]);
        }
        const char *value = getenv(name);
        if (value != NULL) {
            mscclpp_status_t status = mscclpp_config_set(config, &mscclpp_params[i], value);
            if (MSCCLPP_OK == first_error) {
                first_error = status;
            }
        }
    }
    return first_error;
}
