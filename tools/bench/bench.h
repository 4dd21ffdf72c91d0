/*
 * Functions and types that the files of mscclpp_bench share. The program measures the component from outside: it calls
 * MPI's collectives, or the host library. It never sends its own data through the path under test.
 */
#ifndef TOOLS_BENCH_BENCH_H
#define TOOLS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <mpi.h>

#include "mca/common/gpu/gpu.h"
#include "mca/common/task/task.h"
#include "mca/common/team/team.h"
#include "tools/bench/bench_coll.h"
#include "tools/bench/bench_cuda.h"
#include "tools/bench/bench_kernel.h"

#ifndef MSCCLPP_VERSION
#ifdef PACKAGE_VERSION
#define MSCCLPP_VERSION PACKAGE_VERSION
#else
#define MSCCLPP_VERSION "(unversioned build)"
#endif
#endif

#define BENCH_EXIT_WRONG 1
#define BENCH_EXIT_USAGE 2

/* An element type. `nccl` is NCCL's number of the type. */
typedef struct {
    const char *name;
    size_t size;
    mscclpp_dtype_t dtype;
    int nccl;
    long sum_max; /* the type holds integers from 0 to this one exactly */
} bench_type_t;

typedef struct {
    const char *name;
    mscclpp_op_t op;
    int nccl;
} bench_op_t;

extern const bench_type_t bench_types[];
extern const int bench_type_count;
extern const bench_op_t bench_ops[];
extern const int bench_op_count;

/* Returns MPI's type, or MPI_DATATYPE_NULL where MPI has none. */
MPI_Datatype bench_type_mpi(const bench_type_t *type);
MPI_Op bench_op_mpi(const bench_op_t *op);

/* Writes the integer `value`, which the type holds exactly, as one element. */
void bench_type_encode(const bench_type_t *type, long value, void *element);

/* The name of the program, for its messages. Each program has its own. */
extern const char bench_program[];

/*
 * Parse the values of options. On failure one rank prints a line with the option, the value and what is allowed, and
 * the functions return false without writing the result. Sizes take a suffix k, m or g. `choices` are separated by "|".
 */
bool bench_parse_size(const char *option, const char *text, size_t *size_p);
bool bench_parse_int(const char *option, const char *text, int min, int max, int *value_p);
bool bench_parse_factor(const char *text, double *factor_p);
/* Calls `add` for each name of a list separated by commas, until it returns false, which is then the result. */
bool bench_parse_list(const char *list, void *context, bool (*add)(const char *name, void *context));
bool bench_parse_choice(const char *option, const char *text, const char *choices, int *index_p);

/* Prints "OPTION: 'VALUE' is not allowed; use ALLOWED" on one rank, and returns false. `allowed` reads on after "use".
 */
bool bench_refuse(const char *option, const char *value, const char *allowed);

/* Like bench_refuse, for an option that getopt_long refused with the result "?" or ":". */
struct option;
bool bench_refuse_option(int result, char *const *argv, const struct option *table);

/* True on the one rank that prints for all ranks before MPI_Init. */
bool bench_speaks(void);

/*
 * Returns the exit status of a run that ends with `status`. If standard output was lost, prints a line and never
 * returns 0.
 */
int bench_end(int status);

/*
 * Returns the exit status of a run that ends before MPI_Init. On failure, first gives the rank that prints time to do
 * so.
 */
int bench_leave(int status);

/* Options */
typedef enum {
    BENCH_MODE_BLOCKING,    /* MPI's function, one call at a time */
    BENCH_MODE_LIBRARY,     /* the host library's blocking call, one at a time */
    BENCH_MODE_STREAM,      /* the host library's calls queued in a stream, one wait at the end */
    BENCH_MODE_PORT,        /* no collective: port channels between pairs of ranks (bench_port.h) */
    BENCH_MODE_NONBLOCKING, /* MPI's nonblocking function and MPI_Wait, one at a time */
    BENCH_MODE_PERSISTENT,  /* MPI_Start and MPI_Wait of one request, one at a time */
    BENCH_MODE_QUEUED,      /* the extension library's calls in a stream, one wait at the end */
    BENCH_MODE_GRAPH,       /* the extension library's calls, captured in a graph */
    BENCH_MODE_CHANNEL,     /* no collective: channels of applications' kernels between pairs of ranks */
    BENCH_MODE_TRANSPOSE    /* MPI_Alltoallw of subarrays beside MPI_Alltoall (bench_transpose.c) */
} bench_mode_t;

typedef enum {
    BENCH_COMPARE_NONE,
    BENCH_COMPARE_NCCL,
    BENCH_COMPARE_STAGED,   /* copy to pinned host memory, MPI's function there, copy back */
    BENCH_COMPARE_LAUNCHED, /* the host library without lingering kernels */
    BENCH_COMPARE_COPIES,   /* for collectives that only move data: plain copies of the same bytes */
    BENCH_COMPARE_KERNEL,   /* a plain kernel that reads and writes as many bytes as the call must */
    BENCH_COMPARE_BLOCKING, /* MPI's blocking function */
    BENCH_COMPARE_NATIVE    /* beside a plan: the host library's own algorithm */
} bench_compare_t;

/* Where the measured buffers are. */
typedef enum {
    BENCH_MEMORY_DEVICE,
    BENCH_MEMORY_HEAP,  /* the host's, from malloc */
    BENCH_MEMORY_STACK, /* on the stack of the calling thread */
    BENCH_MEMORY_LARGE  /* within one large mapping */
} bench_memory_t;

#define BENCH_STACK_BUFFER ((size_t)64 << 10)

/* Kernels of an application between the calls. */
typedef struct {
    bool given;
    bench_kernel_kind_t kind;
    double microseconds; /* duration of each kernel */
    int calls;           /* calls in each turn of kernels */
    int ahead;           /* kernels queued before the calls; 0: one kernel after them */
    int matrix;          /* rows of a product's matrices, chosen at the start */
} bench_between_t;

#define BENCH_MAX_TYPES 16
#define BENCH_MAX_OPS 8

typedef struct {
    bench_mode_t mode;
    bool mode_given;
    bench_compare_t compare;
    bench_between_t between;
    bench_memory_t memory;
    const bench_coll_t *colls[BENCH_MAX_COLLS];
    int ncolls;
    int root;
    size_t min; /* bytes; min and max are 0 until the device is known, unless given */
    size_t max;
    double factor;
    const bench_type_t *types[BENCH_MAX_TYPES];
    int ntypes;
    const bench_op_t *ops[BENCH_MAX_OPS];
    int nops;
    bool out_of_place;
    bool in_place;
    int iterations; /* 0: chosen by size */
    int warmup;
    int checks;
    int rounds;
    const char *transport; /* transport of port channels, or "all" */
    int window;            /* puts before a flush */
    int length;            /* of mode transpose: elements along each axis; 0: by the device */
    bool nccl_spin;        /* poll for the end of NCCL's calls, instead of cudaStreamSynchronize */
    const char *nccl_library;
    const char *plan;   /* the file of an execution plan; NULL: none */
    const char *json;   /* path of the JSON file; NULL: none */
    const char *device; /* "auto", "cuda" or "host" */
} bench_options_t;

/*
 * Parses the command line, before MPI_Init. False if the program has to end with *status_p: after --help, --version, or
 * a bad option, for which one line has been printed.
 */
bool bench_options_parse(int argc, char **argv, bench_options_t *options_p, int *status_p);
/* bench_consistent.c: false, after one printed line, if the options contradict one another. */
bool bench_options_fit_together(const bench_options_t *options);
const char *bench_mode_name(bench_mode_t mode);
/*
 * True if MPI or its extension library serves the calls of a mode; true if the calls are queued, with one wait at the
 * end.
 */
bool bench_mode_is_mpi(bench_mode_t mode);
bool bench_mode_queues(bench_mode_t mode);
const char *bench_compare_name(bench_compare_t compare);
const char *bench_memory_name(bench_memory_t memory);

/* Where the ranks run, and on what. */
typedef struct {
    char host[64];
    char device_name[64];
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE];
    int device;
    int on_cuda;
    long pid;
} bench_place_t;

typedef struct {
    MPI_Comm comm;    /* used by the measured calls only */
    MPI_Comm ring;    /* of the same ranks, each with its two neighbours; MPI_COMM_NULL: not needed so far */
    MPI_Comm control; /* used by the program's own point-to-point messages and barriers */
    int rank;
    int size;
    int nodes;
    const mscclpp_gpu_ops_t *gpu;
    bool on_twin; /* runs on the host twin */
    int device;
    bool shared_gpu; /* some GPU serves several ranks */
    double init;     /* seconds that MPI_Init took */
    bench_place_t *places;
    mscclpp_config_t config; /* for the host library's own calls: the component's parameters */
    mscclpp_rules_t *rules;  /* rules of the rules file; NULL: none */
    mscclpp_gpu_stream_t *stream;
    void *native_stream;           /* the same stream as CUDA knows it; NULL on the twin */
    mscclpp_team_t *team;          /* NULL until bench_library_open */
    mscclpp_plan_library_t *plans; /* plans of this team; NULL: none */
    const char *plan;              /* the name of the plan that has to serve all calls; NULL: none */
} bench_env_t;

/* Chooses the GPU runtime; before MPI_Init also the component's. On failure prints one line and returns false. */
bool bench_env_choose_device(bench_env_t *env, const char *device);

/* The default size of the largest message: what the device can handle in a short time, but at least `min`. */
size_t bench_env_largest(const bench_env_t *env, size_t min);

/* Opens the environment after MPI_Init. On failure, all ranks return false and rank 0 has printed one line. */
bool bench_env_open(bench_env_t *env);
void bench_env_close(bench_env_t *env);

/*
 * Exchanges among the ranks, by point-to-point messages. The measurement must not depend on the collectives under test
 * or disturb them. On the twin the collectives under test would serve the program's own host buffers, too.
 */
void bench_allgather(MPI_Comm comm, const void *send, void *recv, size_t length);
void bench_broadcast(MPI_Comm comm, void *data, size_t length); /* broadcasts from rank 0 */
double bench_max(MPI_Comm comm, double value);
uint64_t bench_sum(MPI_Comm comm, uint64_t value);
bool bench_all(MPI_Comm comm, bool value);
mscclpp_oob_t bench_oob(MPI_Comm *comm);

/* The component's state, as read through MPI's tool interface. */
typedef struct {
    bool loaded;   /* the component's parameters are registered */
    bool disabled; /* disabled by the parameter enable or priority */
    bool counters; /* it counts what it served */
    uint64_t served;
    uint64_t staged;
} bench_component_t;

void bench_component_open(void);
void bench_component_read(bench_component_t *state_p);
/* The text of parameter coll_mscclpp_<name>; false if there is none. */
bool bench_component_parameter(const char *name, char *text, size_t length);
void bench_component_close(void);

/* Buffers with known contents. */
typedef struct {
    bench_memory_t memory;
    char *send;
    char *recv;
    size_t capacity;
    char *staging; /* pinned host memory */
    size_t staging_size;
    char *expected; /* one period of the result */
} bench_buffers_t;

/* `stack`: memory for both buffers, of 64 KiB each, used for BENCH_MEMORY_STACK. */
bool bench_buffers_open(bench_buffers_t *buffers, const bench_env_t *env, size_t capacity, bench_memory_t memory,
                        char *stack);
void bench_buffers_close(bench_buffers_t *buffers, const bench_env_t *env);

/* One call. `send` and `recv` are this rank's two buffers. In place, and in a broadcast, only `recv` is used. */
typedef struct {
    char *send;
    char *recv;
    const bench_type_t *type;
    const bench_op_t *op;
    const bench_layout_t *layout;
    bool in_place;
} bench_operation_t;

/* Fills this rank's operands, and the rest of the receive buffer with a value that is never a right result. */
bool bench_buffers_fill(bench_buffers_t *buffers, const bench_env_t *env, const bench_operation_t *operation, int seed);

/*
 * Counts the elements of this rank's result buffer that differ from the exact ones. `strict`: also counts changed
 * elements that the collective must not touch.
 */
bool bench_buffers_verify(bench_buffers_t *buffers, const bench_env_t *env, const bench_operation_t *operation,
                          int seed, bool strict, uint64_t *wrong_p);

/* What a contender can do with a call. */
typedef enum {
    BENCH_SERVES_NOT,
    BENCH_SERVES_TIME, /* its time can be compared, but its result differs */
    BENCH_SERVES
} bench_serves_t;

/* One way to serve a collective. On failure the functions print the cause and return false. */
typedef struct bench_contender {
    const char *name;
    bench_env_t *env;
    bool (*call)(struct bench_contender *contender, const bench_operation_t *operation);
    bool (*finish)(struct bench_contender *contender); /* waits for the calls; NULL: each call waits for its own end */
    /* What the contender can do with a collective, equal on all ranks. NULL: it serves all collectives. */
    bench_serves_t (*serves)(const struct bench_contender *contender, const bench_coll_t *coll, bool in_place);
    mscclpp_team_t *team; /* the host library's team that serves the calls; NULL: something else serves them */
    bool waits;           /* for NCCL and others in a stream: each call waits for its end */
    bool spins;
    char *staging[2];              /* staged: pinned host memory */
    struct bench_contender *calls; /* for a loop with kernels, and a graph: the contender that it calls; NULL: none */
    /* Lets go of what the first call has prepared for an operation, before there is another one. NULL: nothing. */
    bool (*forget)(struct bench_contender *contender);
    MPI_Request request; /* a persistent request, made by the first call */
    void *graph;         /* a graph, made by the first call */
    int batch;           /* operations that a call makes; 0: one */
    int timed_batch;     /* operations that a call makes while it is timed; 0: as many as otherwise */
} bench_contender_t;

bench_contender_t bench_contender_mpi(bench_env_t *env, const bench_coll_t *coll);
bench_contender_t bench_contender_library(bench_env_t *env, mscclpp_team_t *team, const bench_coll_t *coll,
                                          bool stream);

bench_contender_t bench_contender_requests(bench_env_t *env, const bench_coll_t *coll, bool persistent);
bench_contender_t bench_contender_queued(bench_env_t *env, const bench_coll_t *coll);

/* A graph of `batch` operations of `calls` while it is timed; otherwise of one. */
bench_contender_t bench_contender_graph(bench_env_t *env, bench_contender_t *calls, int batch);
#define BENCH_GRAPH_BATCH 100

/* Whether the collective can be captured in a graph: not where it takes memory, nor over nodes where blocks differ. */
bool bench_queued_captures(const bench_env_t *env, const bench_coll_t *coll, bool in_place);

/* Opens the stream of queued calls and makes the first one. All ranks return the same; one line on failure. */
bool bench_queued_open(bench_env_t *env, const bench_buffers_t *buffers, bool captures);
void bench_queued_close(const bench_env_t *env);

/* How many calls of this rank were queued so far, and how many waited, as they could not be. */
typedef struct {
    uint64_t queued;
    uint64_t waited;
} bench_calls_t;
bench_calls_t bench_queued_calls(const bench_env_t *env);

/* The communicator of a collective's calls; collective when one of neighbours is made, by the first call for one. */
MPI_Comm bench_mpi_comm(bench_env_t *env, const bench_coll_t *coll);

/* MPI's function with these buffers. */
bool bench_call_mpi(const bench_operation_t *operation, MPI_Comm comm);

/* The host library's call of a collective other than all-reduce. */
mscclpp_status_t bench_call_collective(mscclpp_team_t *team, const bench_operation_t *operation, uint64_t call);

/* Returns what this contender can do with a collective. */
bench_serves_t bench_serves(const bench_contender_t *contender, const bench_coll_t *coll, bool in_place);

/* Creates a team of the host library; `plans` may be NULL. All ranks return the same; one line on failure. */
bool bench_team_open(bench_env_t *env, const mscclpp_config_t *config, mscclpp_plan_library_t *plans,
                     mscclpp_team_t **team_p);

/* Creates the host library's team with the component's parameters, and the plan if there is one, once. */
bool bench_library_open(bench_env_t *env);
void bench_library_close(bench_env_t *env);

/* Opens NCCL. Returns the same on all ranks; on failure prints one line and returns false. */
bool bench_nccl_open(bench_env_t *env, const char *library, bool waits, bool spins, bench_contender_t *contender_p);
void bench_nccl_close(void);
/* "2.28.9", or "" */
const char *bench_nccl_version(void);

bool bench_staged_open(bench_env_t *env, size_t capacity, bench_contender_t *contender_p);
void bench_staged_close(bench_contender_t *contender);

/*
 * bench_plan.c: reads the plan of --plan, if it was given, and takes its collective and operation. Returns the same on
 * all ranks; on failure prints one line and returns false. Close it after the library.
 */
bool bench_plan_open(bench_env_t *env, bench_options_t *options);
void bench_plan_close(bench_env_t *env);

/* True if the plan has served the library's last call; prints one line if not. Equal on all ranks. */
bool bench_plan_served(const bench_env_t *env, const bench_type_t *type, size_t bytes);

/* The host library's own algorithms in a team of its own, beside a plan. Closed by bench_launched_close. */
bool bench_native_open(bench_env_t *env, bench_contender_t *contender_p);

/* The host library's blocking calls without lingering kernels, in a team of its own. */
bool bench_launched_open(bench_env_t *env, bench_contender_t *contender_p);
void bench_launched_close(bench_contender_t *contender);

/* Plain copies of the same bytes, into the peers' buffers if these can be mapped. All ranks return the same. */
bool bench_copies_open(bench_env_t *env, const bench_buffers_t *buffers, bool waits, bench_contender_t *contender_p);
void bench_copies_close(void);
/* Says in a few words where the copies go. */
const char *bench_copies_describe(void);

/* One plain kernel for each GPU. The options tell the largest traffic that it has to make. */
bool bench_plain_open(bench_env_t *env, const bench_options_t *options, bool waits, bench_contender_t *contender_p);
void bench_plain_close(bench_env_t *env);

const char *bench_between_name(bench_kernel_kind_t kind);

/* False after one line, printed by one rank, if this device or machine has no such kernels. */
bool bench_between_possible(const bench_env_t *env, const bench_between_t *between);

/* `in_stream`: calls are queued in the kernels' stream. All ranks return the same; one line on failure. */
bool bench_between_open(bench_env_t *env, bench_between_t *between, bool in_stream);
void bench_between_close(void);

/* The loop of kernels and `calls`. If `calls` is NULL, the loop has kernels only. */
bench_contender_t bench_between_contender(bench_env_t *env, bench_contender_t *calls);

/* One row of the table. A time is in seconds a call: the maximum over the ranks of each rank's average. */
#define BENCH_MAX_ROUNDS 101

typedef struct {
    int rounds;
    double round[BENCH_MAX_ROUNDS];
} bench_times_t;

typedef struct {
    bool measured;
    int iterations;
    bench_times_t ours; /* with kernels between the calls: the time of one turn of the loop */
    bench_times_t rival;
    bench_times_t base; /* the time of one turn of the loop without the calls, if there is such a loop */
    uint64_t wrong;     /* wrong elements of all ranks and checks together */
    uint64_t rival_wrong;
    char algorithm[32]; /* empty where MPI hides the algorithm */
} bench_cell_t;

typedef struct {
    size_t bytes;
    const bench_layout_t *layout;
    const bench_type_t *type;
    const bench_op_t *op;
    const char *path; /* the way that the measured calls took */
    bench_cell_t out_of_place;
    bench_cell_t in_place;
} bench_row_t;

double bench_times_median(const bench_times_t *times);

/* What a call adds to the loop: for each round, (`with` - `without`) / calls. `without` may have no rounds. */
bench_times_t bench_between_added(const bench_between_t *between, const bench_times_t *with,
                                  const bench_times_t *without);

/* The parts of a measurement. On failure those that return a bool print the cause and return false. */

/* Length of a round: long enough to average over many calls. A round has at least BENCH_MIN_ITERATIONS calls. */
#define BENCH_ROUND_SECONDS 0.02
#define BENCH_MIN_ITERATIONS 5

double bench_now(void); /* seconds of a clock that only goes forward */

/* How many calls a round should have if one call takes `seconds`. */
int bench_iterations(double seconds);
bool bench_repeat(bench_contender_t *contender, const bench_operation_t *operation, int calls);

/* How many operations a call of the contender makes. */
int bench_batch(const bench_contender_t *contender);

/* Yields the seconds an operation of the slowest rank. */
bool bench_time_round(bench_env_t *env, bench_contender_t *contender, const bench_operation_t *operation, int calls,
                      double *seconds_p);

/* Makes verified calls; *wrong_p counts the wrong elements of all ranks. */
bool bench_check(bench_env_t *env, int checks, bench_buffers_t *buffers, bench_contender_t *contender,
                 const bench_operation_t *operation, bool strict, uint64_t *wrong_p);

/*
 * Measures `ours`. Rounds alternate with those of the rival, if there is one, and of the loop without calls, if the
 * options ask for it.
 */
bool bench_measure(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers, bench_contender_t *ours,
                   bench_contender_t *rival, const bench_row_t *row, bool in_place, bench_cell_t *cell_p);

/* Writes the text within quotes. */
void bench_json_string(FILE *file, const char *text);

/* The tables on standard output, one for each collective, and the JSON file, by rank 0. */
typedef struct {
    FILE *json;
    bool first_row;
    const bench_coll_t *coll; /* collective of the current table */
    bool rival;               /* the current table has columns for a rival */
    bool out_of_place;
    bool in_place;
    const bench_options_t *options;
    const bench_env_t *env;
    bench_calls_t calls; /* numbers of queued calls before the current table */
    /* For each collective, how many calls the component served. */
    struct {
        bool measured;
        bench_component_t component;
        bench_calls_t calls;
    } served[BENCH_MAX_COLLS];
} bench_report_t;

bool bench_report_open(bench_report_t *report, const bench_options_t *options, const bench_env_t *env);
void bench_report_places(const bench_env_t *env);

/* Mode transpose. False after a wrong result or a failure; a failure prints one line. */
bool bench_transpose_measure(bench_env_t *env, const bench_options_t *options);

/* Mode channel. False after a wrong result or a failure; a failure prints one line. */
bool bench_channel_measure(bench_env_t *env, const bench_options_t *options);
void bench_report_header(const bench_report_t *report);
/* Begins a collective's table: prints what a size means, and the columns. `rival` NULL: there is none. */
void bench_report_begin(bench_report_t *report, const bench_coll_t *coll, const bench_contender_t *rival);
void bench_report_row(bench_report_t *report, const bench_row_t *row);
/* Parts of the JSON file, which is open. */
void bench_json_cell(bench_report_t *report, const bench_row_t *row, const bench_cell_t *cell, bool in_place);
bool bench_json_close(bench_report_t *report, uint64_t wrong, uint64_t rival_wrong, const bench_component_t *component);

/* Ends a collective's table. `before` and `after` are readings of what the component has served. */
void bench_report_end(bench_report_t *report, const bench_component_t *before, const bench_component_t *after);
/* Closes the report. False if the JSON file could not be written. */
bool bench_report_close(bench_report_t *report, uint64_t wrong, uint64_t rival_wrong,
                        const bench_component_t *component);

#endif
