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

#define BENCH_EXIT_WRONG 1 /* a wrong result or a failure */
#define BENCH_EXIT_USAGE 2 /* a bad option */

/* An element type of --type. */
typedef struct {
    const char *name;
    size_t size;
    mscclpp_dtype_t dtype;
    int nccl;     /* NCCL's number of the type */
    long sum_max; /* the type holds integers from 0 to this one exactly */
} bench_type_t;

/* An operation of --op. */
typedef struct {
    const char *name;
    mscclpp_op_t op;
    int nccl; /* NCCL's number of the operation */
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
 * the functions return false without writing the result. Sizes take a suffix k, m or g. A factor is above 1. `choices`
 * are separated by "|".
 */
bool bench_parse_size(const char *option, const char *text, size_t *size_p);
bool bench_parse_int(const char *option, const char *text, int min, int max, int *value_p);
bool bench_parse_factor(const char *text, double *factor_p);
/* Calls `add` for each name of a list separated by commas, until it returns false, which is then the result. */
bool bench_parse_list(const char *list, void *context, bool (*add)(const char *name, void *context));
bool bench_parse_choice(const char *option, const char *text, const char *choices, int *index_p);

/* Prints "OPTION: 'VALUE' is not allowed; use ALLOWED" on one rank. Returns false, for callers to return it. */
bool bench_refuse(const char *option, const char *value, const char *allowed);

/* Refuses an option for which getopt_long returned `result`: "?" (unknown) or ":" (a value is missing). */
struct option;
bool bench_refuse_option(int result, char *const *argv, const struct option *table);

/* Returns true on the one rank that prints for all ranks before MPI_Init. */
bool bench_prints(void);

/*
 * Returns the exit status of a run that ends with `status`. If standard output cannot be written, prints a line, and
 * returns BENCH_EXIT_WRONG in place of 0.
 */
int bench_exit_status(int status);

/*
 * Returns the exit status of a run that ends before MPI_Init or after a failure there, as bench_exit_status does. If
 * `status` is not 0, ranks that do not print first wait, because the launcher may end all ranks as soon as one has
 * ended.
 */
int bench_early_exit_status(int status);

/* What is called, and how the calls follow one another. */
typedef enum {
    BENCH_MODE_BLOCKING,    /* MPI's function, one call at a time */
    BENCH_MODE_LIBRARY,     /* the host library's blocking call, one at a time */
    BENCH_MODE_STREAM,      /* the host library's calls queued in a stream, one wait at the end */
    BENCH_MODE_PORT,        /* no collective: port channels between pairs of ranks (bench_port.h) */
    BENCH_MODE_NONBLOCKING, /* MPI's nonblocking function and MPI_Wait, one at a time */
    BENCH_MODE_PERSISTENT,  /* MPI_Start and MPI_Wait of one request, one at a time */
    BENCH_MODE_QUEUED,      /* the extension library's calls in a stream, one wait at the end */
    BENCH_MODE_GRAPH,       /* the extension library's calls, captured in a graph */
    BENCH_MODE_CHANNEL,     /* channels of applications' kernels: messages between pairs of ranks, or collectives */
    BENCH_MODE_TRANSPOSE    /* MPI_Alltoallw of subarrays beside MPI_Alltoall (bench_transpose.c) */
} bench_mode_t;

/* The rival: what is measured beside the calls. */
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

#define BENCH_STACK_BUFFER ((size_t)64 << 10) /* the most bytes of a buffer on the stack */

/* Kernels of an application between the calls. */
typedef struct {
    bool is_given; /* --between is there, perhaps with the kind none */
    bench_kernel_kind_t kind;
    double microseconds; /* duration of each kernel */
    int calls_in_turn;   /* calls in each turn of kernels */
    int kernels_ahead;   /* kernels queued before the calls; 0: one kernel after them */
    int matrix_rows;     /* kind gemm: rows of the matrices, chosen by bench_between_open */
} bench_between_t;

#define BENCH_MAX_TYPES 16
#define BENCH_MAX_OPS 8

typedef struct {
    bench_mode_t mode;
    bool is_mode_given;
    bench_compare_t compare;
    bench_between_t between;
    bench_memory_t memory;
    const bench_coll_t *colls[BENCH_MAX_COLLS];
    int coll_count;
    int root;
    size_t min_bytes; /* of the smallest message */
    size_t max_bytes; /* of the largest message; 0 until the device is known, unless given */
    double factor;    /* between a size and the next */
    const bench_type_t *types[BENCH_MAX_TYPES];
    int type_count;
    const bench_op_t *ops[BENCH_MAX_OPS];
    int op_count;
    bool out_of_place;
    bool in_place;
    int iterations;        /* calls in a round; 0: chosen by the time that a call takes */
    int warmup;            /* untimed calls before each size */
    int checks;            /* verified calls of each size */
    int rounds;            /* timed rounds of each size, whose median counts */
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
 * Parses the command line, before MPI_Init. Returns false if the program has to end with *status_p: after --help,
 * --version, or a bad option, for which one line has been printed.
 */
bool bench_options_parse(int argc, char **argv, bench_options_t *options_p, int *status_p);
/* bench_consistent.c: if options contradict one another, prints one line and returns false. */
bool bench_options_fit_together(const bench_options_t *options);
const char *bench_mode_name(bench_mode_t mode);
/*
 * bench_mode_is_mpi returns true if MPI or the extension library serves the calls of a mode. bench_mode_queues returns
 * true if the calls are queued, with one wait at the end.
 */
bool bench_mode_is_mpi(bench_mode_t mode);
bool bench_mode_queues(bench_mode_t mode);
const char *bench_compare_name(bench_compare_t compare);
const char *bench_memory_name(bench_memory_t memory);

/* Where a rank runs, and on what. */
typedef struct {
    char host[64];
    char device_name[64];
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE];
    int device;  /* index of the GPU */
    int on_cuda; /* a boolean; 0: on the host twin */
    long pid;
} bench_place_t;

/* The ranks, and what each of them runs on. */
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
    bool has_shared_gpu;     /* some GPU serves several ranks */
    double init_seconds;     /* time of MPI_Init; once the environment is open, that of the slowest rank */
    bench_place_t *places;   /* [rank] */
    mscclpp_config_t config; /* for the host library's own calls: the component's parameters */
    mscclpp_rules_t *rules;  /* rules of the rules file; NULL: none */
    mscclpp_gpu_stream_t *stream;
    void *native_stream;           /* the same stream as CUDA knows it; NULL on the twin */
    mscclpp_team_t *team;          /* NULL until bench_library_open */
    mscclpp_plan_library_t *plans; /* plans of this team; NULL: none */
    const char *plan;              /* the name of the plan that has to serve all calls; NULL: none */
} bench_env_t;

/*
 * Chooses the GPU runtime. Before MPI_Init, also makes the component use this runtime, unless the user has chosen one
 * for the component. On failure prints one line and returns false.
 */
bool bench_env_choose_device(bench_env_t *env, const char *device);

/* Returns the default size of the largest message: what the device can handle in a short time, but at least `min`. */
size_t bench_env_largest(const bench_env_t *env, size_t min);

/*
 * Opens the environment after MPI_Init. On failure, all ranks return false, and what failed has been printed, except a
 * lack of memory.
 */
bool bench_env_open(bench_env_t *env);
void bench_env_close(bench_env_t *env); /* also after a failure */

/*
 * Copies bytes within device memory, or between it and host memory, in the environment's stream, and waits for all that
 * is queued there. Returns false, without a line, if the copy or earlier work in the stream has failed.
 */
bool bench_env_copy(const bench_env_t *env, void *to, const void *from, size_t bytes);

/*
 * Exchanges among the ranks, by point-to-point messages, because the measurement must neither depend on the collectives
 * under test nor disturb them. On the twin those collectives would even serve the program's own host buffers. All ranks
 * call them. For bench_allgather, `send` may be this rank's block of `recv`, and all blocks together must fit into an
 * int.
 */
void bench_allgather(MPI_Comm comm, const void *send, void *recv, size_t length); /* `length`: bytes of each rank */
void bench_broadcast(MPI_Comm comm, void *data, size_t length);                   /* broadcasts from rank 0 */
double bench_max(MPI_Comm comm, double value);                                    /* the largest of all ranks' values */
uint64_t bench_sum(MPI_Comm comm, uint64_t value);
bool bench_all(MPI_Comm comm, bool value); /* true if `value` is true on all ranks */

/* Returns an exchange for the host library that uses these functions. *comm must last as long as the exchange. */
mscclpp_oob_t bench_oob(MPI_Comm *comm);

/* The component's state, as read through MPI's tool interface. */
typedef struct {
    bool is_loaded;    /* the component's parameters are registered */
    bool is_disabled;  /* by the parameter enable or priority */
    bool has_counters; /* it counts what it served */
    uint64_t served;   /* calls of this process by kernels or engines; 0 without counters */
    uint64_t staged;   /* calls of this process by way of host memory; 0 without counters */
} bench_component_t;

/* Opens MPI's tool interface. Where that fails, or the component is not there, bench_component_read yields zeros. */
void bench_component_open(void);
void bench_component_read(bench_component_t *state_p);
/* Writes the value of parameter coll_mscclpp_<name> as a text. Returns false if there is no such parameter. */
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
    char *expected; /* two periods of the result that is verified */
} bench_buffers_t;

/*
 * Opens buffers of `capacity` bytes each. For BENCH_MEMORY_STACK, the caller lends two buffers of BENCH_STACK_BUFFER
 * bytes at `stack`. On failure prints one line and returns false.
 */
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

/*
 * Fills this rank's operands, which follow from the rank and `seed`, and the rest of the receive buffer with a value
 * that is never a right result. Returns false if a copy fails.
 */
bool bench_buffers_fill(bench_buffers_t *buffers, const bench_env_t *env, const bench_operation_t *operation, int seed);

/*
 * Counts the elements of this rank's result buffer that differ from the exact results of the operands that were filled
 * with `seed`. If `strict` is true, also counts changed elements that the collective must not touch. Returns false if a
 * copy fails.
 */
bool bench_buffers_verify(bench_buffers_t *buffers, const bench_env_t *env, const bench_operation_t *operation,
                          int seed, bool strict, uint64_t *wrong_p);

/* What a contender can do with a call. */
typedef enum {
    BENCH_SERVES_NOT,
    BENCH_SERVES_TIME, /* its time can be compared, but its result differs */
    BENCH_SERVES
} bench_serves_t;

/* One way to serve a collective: ours or a rival. On failure the functions return false; not all print the cause. */
typedef struct bench_contender {
    const char *name;
    bench_env_t *env;
    /* Makes a call, or queues it if there is `finish`. */
    bool (*call)(struct bench_contender *contender, const bench_operation_t *operation);
    bool (*finish)(struct bench_contender *contender); /* waits for the calls; NULL: each call waits for its own end */
    /* What the contender can do with a collective, equal on all ranks. NULL: it serves all collectives. */
    bench_serves_t (*serves)(const struct bench_contender *contender, const bench_coll_t *coll, bool in_place);
    mscclpp_team_t *team;          /* the host library's team that serves the calls; NULL: something else serves them */
    bool waits;                    /* for NCCL and others in a stream: each call waits for its end */
    bool spins;                    /* for NCCL: waits by polling the stream, not by a synchronise */
    char *staging[2];              /* for staging: pinned host memory of operands and of results */
    struct bench_contender *inner; /* the contender that a loop with kernels, or a graph, calls; NULL: none */
    /* Frees what the first call has prepared for an operation, before another operation is called. May be NULL. */
    bool (*reset)(struct bench_contender *contender);
    MPI_Request request; /* a persistent request, made by the first call */
    void *graph;         /* a graph, made by the first call */
    int batch;           /* operations that a call makes; 0: one */
    int timed_batch;     /* operations that a call makes while it is timed; 0: as many as otherwise */
} bench_contender_t;

/*
 * Make a contender. The calls of bench_contender_mpi are MPI's blocking function. Those of bench_contender_library are
 * the host library's blocking calls or, with `in_stream`, all-reduces that are queued in the environment's stream.
 * `coll` only gives them their name.
 */
bench_contender_t bench_contender_mpi(bench_env_t *env, const bench_coll_t *coll);
bench_contender_t bench_contender_library(bench_env_t *env, mscclpp_team_t *team, const bench_coll_t *coll,
                                          bool in_stream);

/*
 * Make a contender of MPI's nonblocking or persistent calls, or of the extension library's queued calls. The name of a
 * contender of bench_contender_requests lasts until it makes another one.
 */
bench_contender_t bench_contender_requests(bench_env_t *env, const bench_coll_t *coll, bool is_persistent);
bench_contender_t bench_contender_queued(bench_env_t *env, const bench_coll_t *coll);

/*
 * Makes a contender that captures operations of `inner` in a graph and launches it: `batch` operations while it is
 * timed, and otherwise one. `inner` has to stay as long as the contender.
 */
bench_contender_t bench_contender_graph(bench_env_t *env, bench_contender_t *inner, int batch);
#define BENCH_GRAPH_BATCH 100 /* unless a round is to have fewer */

/* Returns true if the collective can be captured. Over nodes it cannot if blocks differ in size or go to neighbours. */
bool bench_queued_captures(const bench_env_t *env, const bench_coll_t *coll);

/*
 * Opens the stream of queued calls and makes the first one, which waits for all ranks. If `captures` is true, also
 * fails if no call of these ranks can be captured. All ranks return the same.
 */
bool bench_queued_open(bench_env_t *env, const bench_buffers_t *buffers, bool captures);
void bench_queued_close(const bench_env_t *env);

/* How many calls of this rank were queued so far, and how many waited because they could not be queued. */
typedef struct {
    uint64_t queued;
    uint64_t waited;
} bench_calls_t;
bench_calls_t bench_queued_calls(const bench_env_t *env);

/*
 * Returns the communicator for calls of a collective. The first call for a collective of neighbours makes the ring's
 * communicator, so all ranks have to make that call.
 */
MPI_Comm bench_mpi_comm(bench_env_t *env, const bench_coll_t *coll);

/* Calls MPI's blocking function with these buffers. Returns false if it fails. */
bool bench_call_mpi(const bench_operation_t *operation, MPI_Comm comm);

/* Calls the host library for a collective other than all-reduce. `call` is the call's number, from 1 on. */
mscclpp_status_t bench_call_collective(mscclpp_team_t *team, const bench_operation_t *operation, uint64_t call);

/* Returns what this contender can do with a collective. */
bench_serves_t bench_serves(const bench_contender_t *contender, const bench_coll_t *coll, bool in_place);

/*
 * Creates a team of the host library. `plans` may be NULL; if not, the rules file is not used. The team keeps the
 * address of env->control, so *env must not move before the team has ended. All ranks return the same. On failure rank
 * 0 prints one line.
 */
bool bench_team_open(bench_env_t *env, const mscclpp_config_t *config, mscclpp_plan_library_t *plans,
                     mscclpp_team_t **team_p);

/*
 * Creates env->team, unless it is there already, with the component's parameters and with the plan of --plan if that
 * was given. All ranks return the same. bench_library_close destroys the team. That must be the library's last call, so
 * a rival's team is closed before.
 */
bool bench_library_open(bench_env_t *env);
void bench_library_close(bench_env_t *env);

/*
 * Loads NCCL from the file `library` and makes a contender of NCCL. If `waits` is true, each call waits for its own
 * end. If `spins` is true, waits poll the stream. Returns the same on all ranks; on failure prints one line and returns
 * false.
 */
bool bench_nccl_open(bench_env_t *env, const char *library, bool waits, bool spins, bench_contender_t *contender_p);
void bench_nccl_close(void);
/* Returns a text such as "2.28.9", or "" if NCCL is not open. */
const char *bench_nccl_version(void);

/*
 * Makes a contender that copies to host memory and back, as an application does, with memory for operands and for
 * results of `capacity` bytes each. All ranks return the same: false if a rank has no memory, and on the twin, where
 * rank 0 prints one line.
 */
bool bench_staged_open(bench_env_t *env, size_t capacity, bench_contender_t *contender_p);
void bench_staged_close(bench_contender_t *contender);

/*
 * bench_plan.c: reads the plan of --plan, if it was given. Sets the options' collective to the plan's and, if the plan
 * has only one operation, the options' operation, too. Called before the team is made; bench_plan_close is called after
 * bench_library_close.
 * Returns the same on all ranks; on failure the first rank that cannot use the plan prints one line.
 */
bool bench_plan_open(bench_env_t *env, bench_options_t *options);
void bench_plan_close(bench_env_t *env);

/* Returns true if the plan has served the library's last call. Prints one line if not. Equal on all ranks. */
bool bench_plan_served(const bench_env_t *env, const bench_type_t *type, size_t bytes);

/*
 * Makes a contender of the host library's own algorithms, in a team of its own, to be compared with a plan. Closed by
 * bench_launched_close. All ranks return the same. On failure one line is printed.
 */
bool bench_native_open(bench_env_t *env, bench_contender_t *contender_p);

/* Makes a contender of the host library's blocking calls without lingering kernels. Otherwise as bench_native_open. */
bool bench_launched_open(bench_env_t *env, bench_contender_t *contender_p);
void bench_launched_close(bench_contender_t *contender);

/*
 * Makes a contender that copies the same bytes without a protocol, into the peers' buffers if all ranks can map them.
 * If `waits` is true, each call waits for its copies. All ranks return the same: false, without a line, if a rank has
 * no memory. After bench_copies_close, all ranks have to meet before one frees the buffers.
 */
bool bench_copies_open(bench_env_t *env, const bench_buffers_t *buffers, bool waits, bench_contender_t *contender_p);
void bench_copies_close(void);
/* Says in a few words where the copies go. */
const char *bench_copies_describe(void);

/*
 * Makes a contender of one plain kernel for each GPU, with memory for the largest traffic that the options ask for.
 * If `waits` is true, each call waits for the kernel. All ranks return the same. A rank that fails prints one line.
 */
bool bench_plain_open(bench_env_t *env, const bench_options_t *options, bool waits, bench_contender_t *contender_p);
void bench_plain_close(bench_env_t *env);

const char *bench_between_name(bench_kernel_kind_t kind);

/* Returns true if the turns of the loop have kernels, not barriers or nothing. */
bool bench_between_has_kernels(const bench_between_t *between);

/* Returns false if this device or machine has no such kernels, after one rank has printed one line. */
bool bench_between_possible(const bench_env_t *env, const bench_between_t *between);

/*
 * Prepares the kernels. If `in_stream` is true, the kernels go to the stream in which calls are queued, and otherwise
 * to a stream of their own. All ranks return the same. A rank that fails prints one line.
 */
bool bench_between_open(bench_env_t *env, bench_between_t *between, bool in_stream);
void bench_between_close(void);

/* Makes a contender whose call is a turn of kernels and calls of `inner`. Without `inner`, a turn has only kernels. */
bench_contender_t bench_between_contender(bench_env_t *env, bench_contender_t *inner);

#define BENCH_MAX_ROUNDS 101

/* The times of some rounds. A time is in seconds a call: the maximum over the ranks of each rank's average. */
typedef struct {
    int rounds;
    double seconds[BENCH_MAX_ROUNDS];
} bench_times_t;

/* What was measured of one size, in place or out of place. */
typedef struct {
    bool is_measured;
    int iterations;
    bench_times_t ours; /* with kernels between the calls: the time of one turn of the loop */
    bench_times_t rival;
    bench_times_t base; /* the time of one turn of the loop without the calls, if there is such a loop */
    uint64_t wrong;     /* wrong elements of all ranks and checks together */
    uint64_t rival_wrong;
    char algorithm[32]; /* empty where MPI hides the algorithm */
} bench_cell_t;

/* One row of the table. */
typedef struct {
    size_t bytes;
    const bench_layout_t *layout;
    const bench_type_t *type;
    const bench_op_t *op;
    const char *path; /* the way that the measured calls took */
    bench_cell_t out_of_place;
    bench_cell_t in_place;
} bench_row_t;

/* Returns the median of the rounds, or 0 if there are none. */
double bench_times_median(const bench_times_t *times);

/*
 * Returns what a call adds to the loop: for each round, (`with` - `without`) / calls of a turn. If `without` has no
 * rounds, returns `with`.
 */
bench_times_t bench_between_added(const bench_between_t *between, const bench_times_t *with,
                                  const bench_times_t *without);

/* The parts of a measurement. On failure those that return a bool return false, and their callers print a line. */

/* The length of a round is chosen so that it averages over many calls. It has at least BENCH_MIN_ITERATIONS calls. */
#define BENCH_ROUND_SECONDS 0.02
#define BENCH_MIN_ITERATIONS 5

double bench_now(void); /* seconds of a clock that only goes forward */

/* Returns how many calls a round should have if one call takes `seconds`. */
int bench_iterations(double seconds);

/* Makes `calls` calls, and waits for their end. */
bool bench_repeat(bench_contender_t *contender, const bench_operation_t *operation, int calls);

/* Returns how many operations a call of the contender makes. */
int bench_batch(const bench_contender_t *contender);

/*
 * Times one round, after a few untimed calls. Yields the seconds that an operation took on the slowest rank. All ranks
 * call it. If it returns false, peers may still wait, so the caller ends the program. The same holds for the next two
 * functions.
 */
bool bench_time_round(bench_env_t *env, bench_contender_t *contender, const bench_operation_t *operation, int calls,
                      double *seconds_p);

/*
 * Makes `checks` verified calls. *wrong_p is how many elements of all ranks and calls were wrong. `strict` is as in
 * bench_buffers_verify. All ranks call it.
 */
bool bench_check(bench_env_t *env, int checks, bench_buffers_t *buffers, bench_contender_t *contender,
                 const bench_operation_t *operation, bool strict, uint64_t *wrong_p);

/*
 * Verifies and measures `ours` and, if there is a rival that serves the collective, the rival. Rounds of the two
 * alternate. If the options ask for kernels or barriers between calls, rounds of a loop without calls alternate with
 * these. *cell_p is set only on success.
 */
bool bench_measure(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers, bench_contender_t *ours,
                   bench_contender_t *rival, const bench_row_t *row, bool in_place, bench_cell_t *cell_p);

/* Runs mode transpose. All ranks return the same: 0, or a BENCH_EXIT_ constant after one line about what is wrong. */
int bench_transpose_measure(bench_env_t *env, const bench_options_t *options);

/* Runs mode channel. All ranks return the same: false after a wrong result or a failure, which prints one line. */
bool bench_channel_measure(bench_env_t *env, const bench_options_t *options);

#endif
