/*
 * Measures port channels between pairs of ranks (0 and 1, 2 and 3, ...), one transport at a time. A rank without a
 * partner only takes part in collective functions.
 */
#ifndef TOOLS_BENCH_BENCH_PORT_H
#define TOOLS_BENCH_BENCH_PORT_H

#include "mca/common/base/shmseg.h"
#include "mca/common/gpu/mapping.h"
#include "mca/common/port/proxy.h"
#include "tools/bench/bench_report.h"

/* Bytes behind a message that must stay as they are. */
#define BENCH_PAIR_GUARD 64

#define BENCH_PAIR_REASON 256 /* bytes of a text that says why a transport cannot be used */

/* Bytes of the pinned memory through which contents are written and read. */
#define BENCH_PAIR_STAGING ((size_t)4 << 20)

/* One rank's side of a pair. */
typedef struct {
    bench_env_t *env;
    int peer; /* -1: none */
    const mscclpp_transport_ops_t *ops;
    mscclpp_transport_t *transport;
    mscclpp_conn_t *conn;
    mscclpp_region_t *region;
    mscclpp_remote_t *remote;
    mscclpp_proxy_t *proxy;
    mscclpp_dev_port_channel_t channel;
    uint64_t *tokens;                      /* one: the count of the peer's signals */
    bool tokens_on_host;                   /* in host memory; else in device memory */
    mscclpp_shmseg_t *tokens_segment;      /* shared memory of the tokens; NULL: not shared */
    mscclpp_shmseg_t *memory_segment;      /* shared memory of `memory`; NULL: not shared */
    uint64_t *expected_signals;            /* device memory: how many signals the kernel has waited for */
    mscclpp_dev_state_t *state;            /* device memory: the kernel's */
    mscclpp_dev_mailbox_t *mailbox;        /* pinned host memory: the kernel tells its end there */
    mscclpp_dev_mailbox_t *device_mailbox; /* the same at the GPU's address */
    uint64_t *elapsed_ns;                  /* pinned host memory: how long the kernel's rounds took; 0: it failed */
    uint64_t *device_elapsed_ns;           /* the same at the GPU's address */
    char *memory;                          /* outgoing data at 0, incoming data at `incoming_offset` */
    size_t incoming_offset;                /* offset, bytes */
    size_t memory_size;                    /* bytes */
    char *staging;                         /* pinned, BENCH_PAIR_STAGING bytes */
    mscclpp_mapping_t *mapping;
    char *mapped; /* the peer's `memory`; NULL: it cannot be mapped */
} bench_pair_t;

/*
 * Opens a pair for messages of up to `capacity` bytes over the transport `ops`. All ranks return the same. If false,
 * `reason` says why the transport cannot be used, and there is nothing to close.
 */
bool bench_pair_open(bench_pair_t *pair, bench_env_t *env, const mscclpp_transport_ops_t *ops, size_t capacity,
                     char reason[BENCH_PAIR_REASON]);
void bench_pair_close(bench_pair_t *pair);

/*
 * Runs a kernel in the role MSCCLPP_DEV_PAIR_..., with `puts` puts in each round, until both ranks of the pair have
 * ended. Yields the time of a round. On failure prints one line and returns false.
 */
bool bench_pair_run(bench_pair_t *pair, uint32_t role, size_t bytes, int rounds, int puts, double *seconds_p);

/*
 * Makes rounds of `copies` plain copies of the GPU runtime to the peer, each round with one wait at its end. Yields the
 * time of a round. The peer's memory has to be mapped. Returns false if a copy fails.
 */
bool bench_pair_copy(bench_pair_t *pair, size_t bytes, int rounds, int copies, double *seconds_p);

/* Fills the outgoing data and clears the incoming data, with the guard bytes. Returns false if a copy fails. */
bool bench_pair_fill(bench_pair_t *pair, size_t bytes, int seed);

/* Counts the wrong bytes of the incoming data and of the guard bytes behind it. Returns false if a copy fails. */
bool bench_pair_verify(bench_pair_t *pair, size_t bytes, int seed, uint64_t *wrong_p);

/* The measurements of one transport with messages of one size. */
typedef enum {
    BENCH_PORT_LATENCY,  /* a message there and back */
    BENCH_PORT_PUT,      /* from the ranks with even numbers to those with odd ones */
    BENCH_PORT_PUT_BOTH, /* in both directions at once */
    BENCH_PORT_COPY,     /* the same two by plain copies */
    BENCH_PORT_COPY_BOTH,
    BENCH_PORT_KINDS
} bench_port_kind_t;

typedef struct {
    const char *transport;
    size_t bytes;
    int puts;                              /* puts or copies in a round, for all kinds except the latency */
    int rounds[BENCH_PORT_KINDS];          /* that are timed together */
    bench_times_t times[BENCH_PORT_KINDS]; /* seconds of a round; copies have none if the peer's memory is not mapped */
    uint64_t wrong;
} bench_port_row_t;

/* Returns the bytes that go in one second, in both directions together; 0 if the kind was not measured. */
double bench_port_rate(const bench_port_row_t *row, bench_port_kind_t kind);

/*
 * Measures the transports that the options name. Returns false after a wrong result or a failure, which prints one
 * line. All ranks return the same.
 */
bool bench_port_measure(bench_env_t *env, const bench_options_t *options);

/*
 * Print parts of the report: what is measured; the head of a transport's table; why a transport cannot be used; one
 * row. The last two also go to the JSON file. Only rank 0 prints; the other ranks do nothing.
 */
void bench_port_report_header(const bench_report_t *report);
void bench_port_report_transport(const bench_report_t *report, const char *name);
void bench_port_report_unusable(bench_report_t *report, const char *name, const char *reason);
void bench_port_report_row(bench_report_t *report, const bench_port_row_t *row);

#endif
