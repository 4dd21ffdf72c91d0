/* The state of one simulated run: what the files sim_*.c share. */
#ifndef MCA_COMMON_PLAN_SIM_H
#define MCA_COMMON_PLAN_SIM_H

#include "mca/common/plan/plan.h"
#include "mca/common/plan/trace.h"

/*
 * What one actor knows about another actor's operations, counted by the other actor's clock.
 *
 * `full`: all operations up to this clock have happened.
 *
 * `strong`: the same, but known by means that also order plain stores; packets do not.
 *
 * `part`: the operations up to this clock have happened in the threads below part_length. A complete packet operation
 * tells this.
 */
typedef struct {
    uint32_t strong, full, part, part_length;
} mscclpp_sim_know_t;

/*
 * How an operation assigns elements to threads. Two accesses of one block with the same map and position are by the
 * same thread. PLAIN: plain loads and stores; PACKET: packets; WIDE: accesses of switch channels; ALONE: one thread
 * does all.
 */
typedef enum { MSCCLPP_SIM_PLAIN, MSCCLPP_SIM_PACKET, MSCCLPP_SIM_WIDE, MSCCLPP_SIM_ALONE } mscclpp_sim_map_t;

/* The event at one clock of an actor. */
typedef struct {
    uint32_t block; /* index among the blocks of all ranks */
    uint32_t op;
    int32_t inner;
    uint32_t launch;
} mscclpp_sim_event_t;

/* What one thread is known to have done: everything up to a clock. */
typedef struct {
    uint32_t agent, clock, position;
} mscclpp_sim_fact_t;

typedef struct {
    mscclpp_sim_fact_t *fact;
    uint32_t count, capacity;
} mscclpp_sim_facts_t;

/* Who acts: a block, the application of a rank, or the proxy of a port channel. `agent` numbers the actors of a run. */
typedef struct {
    uint32_t agent;
    uint32_t clock;  /* of the operation under way */
    uint32_t synced; /* all threads know everything that the actor did up to this clock */
    mscclpp_sim_know_t *now;
    mscclpp_sim_know_t *later;  /* known to some threads; known to all from the next nop on */
    mscclpp_sim_know_t *thread; /* known to the threads that read packets; `strong` is the number of these threads */
    bool has_later, has_thread;
    mscclpp_sim_facts_t *facts; /* of each thread, learnt from packets since the last nop */
    uint32_t fact_threads, fact_capacity;
    mscclpp_sim_event_t *events; /* by clock */
    uint32_t event_capacity;
    double time; /* when the actor is free again, by the cost model */
} mscclpp_sim_actor_t;

/* One read or write of a cell: by whom, at which of its operations, and by which thread (position and map). */
typedef struct {
    uint32_t agent, clock, position;
    uint8_t map;
    bool plain; /* a plain store, not a packet */
} mscclpp_sim_access_t;

/* What one packet operation tells the readers of its packets. */
typedef struct {
    uint32_t references;
    uint32_t agent, clock, synced; /* of the sender, when it sent */
    uint32_t length;               /* packets of the operation */
    mscclpp_sim_know_t *know;      /* of the sender, by agent */
    double sent, comes;            /* times by the cost model */
} mscclpp_sim_packet_t;

/*
 * The value of a cell. For sums: two numbers; two different sums have equal numbers with a chance of 1 in 2^60. For min
 * and max: the set of ranks whose elements are combined, and which element of theirs.
 */
typedef struct {
    uint64_t a, b;
} mscclpp_sim_value_t;

/* One cell of simulated memory, which stands for one element. */
typedef struct {
    mscclpp_sim_value_t value;
    mscclpp_sim_access_t write;  /* the last one */
    mscclpp_sim_access_t *reads; /* since that write */
    uint32_t read_count, read_capacity;
    uint32_t launch;              /* launch in which the cell was written */
    bool defined;                 /* it holds a value that may be read */
    mscclpp_sim_packet_t *packet; /* NULL: the last write was none of packets */
    mscclpp_sim_facts_t facts;    /* what the packet tells its reader */
} mscclpp_sim_cell_t;

/* A signal that has arrived, with what its sender knew. */
typedef struct {
    mscclpp_sim_know_t *know;
    uint32_t block; /* the block that sent it, itself or by its proxy */
    double sent, comes;
} mscclpp_sim_signal_t;

/* The receiving end of a channel: its signals. */
typedef struct {
    mscclpp_sim_signal_t *signals; /* arrived and not yet waited for, oldest first */
    uint32_t first, count, capacity;
    uint64_t arrived, waited; /* signals that arrived, and that were waited for, in all launches */
    mscclpp_sim_access_t last_wait;
} mscclpp_sim_inbox_t;

/* A semaphore of a rank. An acquire learns what its release knew. */
typedef struct {
    int64_t value;
    uint64_t acquired;             /* number of acquires so far */
    mscclpp_sim_know_t *total;     /* what all releasers so far knew, together */
    mscclpp_sim_know_t **releases; /* `total` after each release */
    double *times;                 /* time of each release, by the cost model */
    uint64_t released, capacity;   /* number of releases; entries of the two lists */
} mscclpp_sim_semaphore_t;

/* A request to a proxy. */
typedef struct {
    bool put, raw, signal;  /* it moves cells; these are packets, moved as they are; it signals */
    size_t from, to, cells; /* of a put: first source cell, first target cell, number of cells */
    uint32_t launch;
    mscclpp_sim_know_t *know;  /* of the block, when it asked */
    mscclpp_sim_event_t event; /* the block's operation */
    double time;               /* when it asked, by the cost model */
} mscclpp_sim_entry_t;

/* The proxy of one port channel, with its queue. */
typedef struct {
    mscclpp_sim_actor_t actor;
    uint32_t rank, channel;
    mscclpp_sim_entry_t *entries;
    uint32_t done, count, capacity; /* entries carried out; entries queued, with those; entries allocated */
} mscclpp_sim_proxy_t;

/* One block of a rank, and where it stands. */
typedef struct {
    mscclpp_sim_actor_t actor;
    uint32_t rank, block;
    uint32_t launch;      /* from 1 */
    uint32_t op, inner;   /* next operation; within a pipeline, next operation of its body */
    uint32_t turn, turns; /* of the pipeline the block is in; turns is 0 outside of one */
    bool ended;           /* the block's part of this launch has ended */
    bool waits;           /* it waits at a barrier */
    bool passes;          /* all blocks have reached the barrier */
    bool flushing;        /* its puts are queued, and it waits for them */
    double reached;       /* when the block reached the current operation */
    size_t missing;       /* the cell whose packet was missing at the last try */
} mscclpp_sim_block_t;

/* One rank: its application, its memory and its channels. */
typedef struct {
    mscclpp_sim_actor_t actor;          /* the application */
    uint32_t launch;                    /* from 1 */
    uint32_t running;                   /* blocks that have not ended */
    bool ended;                         /* all launches have ended */
    size_t base[MSCCLPP_PLAN_BUFFERS];  /* first cell of each buffer */
    size_t cells[MSCCLPP_PLAN_BUFFERS]; /* cells of each buffer; of the scratch, both halves */
    mscclpp_sim_inbox_t *inboxes[MSCCLPP_PLAN_SWITCH];
    mscclpp_sim_proxy_t *proxies;
    mscclpp_sim_semaphore_t *semaphores;
} mscclpp_sim_rank_t;

typedef struct {
    const mscclpp_plan_t *plan;
    mscclpp_plan_report_t *report;
    uint32_t chunk;     /* cells that stand for one chunk */
    uint64_t cell_size; /* bytes that a cell stands for in pipelines */
    uint32_t wrap;      /* cells of a scratch chunk where pipelines wrap around; 0: they do not */
    uint32_t launches;
    uint64_t seed;
    bool extremes; /* the plan combines by min or max, not by sums */
    uint32_t agents, block_count, proxy_count;
    mscclpp_sim_block_t *blocks;
    mscclpp_sim_proxy_t *proxies;
    mscclpp_sim_rank_t *ranks;
    mscclpp_sim_cell_t *cells;
    size_t cell_count;
    mscclpp_sim_know_t *spare; /* one record for temporary use */
    uint32_t *index_of_agent;  /* by agent: the index of its block, rank or proxy */
    int races;                 /* number of races that the run has met */
    int faults;                /* number of faults when the run began */
    uint64_t steps;
    bool no_memory;
    const mscclpp_plan_cost_t *cost; /* costs for the time model; NULL: times are not wanted */
    mscclpp_plan_trace_t *trace;
    const uint32_t *movers; /* for the time model: how many port channels of each rank move data */
    double cell_bytes;      /* likewise: bytes that a cell stands for */
    double ready;           /* when everything that the current operation needs was there */
    double op_cost;         /* how long it takes from then on */
} mscclpp_sim_t;

/* sim_know.c: who knows what. Records of knowledge (know_t) are arrays with one entry for each agent. */
mscclpp_sim_know_t *mscclpp_sim_know_copy(mscclpp_sim_t *sim, const mscclpp_sim_know_t *know);
/* Adds `from` to `to`. NULL adds nothing. */
void mscclpp_sim_join(const mscclpp_sim_t *sim, mscclpp_sim_know_t *to, const mscclpp_sim_know_t *from);
bool mscclpp_sim_actor_init(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t agent);
void mscclpp_sim_actor_destroy(mscclpp_sim_actor_t *actor);
/* Begins the actor's next operation: its clock goes on, and `event` is what it does at that clock. */
void mscclpp_sim_tick(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, mscclpp_sim_event_t event);
/* Some threads have learnt `know`; all threads know it from the next nop on. */
void mscclpp_sim_learn(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, const mscclpp_sim_know_t *know);
/* What a thread learns from a packet that it reads, and what a thread tells by the packets that it writes. */
void mscclpp_sim_hear_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, const mscclpp_sim_cell_t *cell,
                             uint32_t position);
void mscclpp_sim_tell_packet(mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor, mscclpp_sim_cell_t *cell,
                             uint32_t position);
/* All threads meet: a nop. */
void mscclpp_sim_meet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor);
/*
 * Says how an earlier access of a cell is ordered before one that the actor makes now, at `position` under `map`. WEAK:
 * only packets order the two.
 */
typedef enum { MSCCLPP_SIM_UNORDERED, MSCCLPP_SIM_WEAK, MSCCLPP_SIM_ORDERED } mscclpp_sim_order_t;
mscclpp_sim_order_t mscclpp_sim_order(const mscclpp_sim_actor_t *actor, const mscclpp_sim_access_t *earlier,
                                      uint32_t position, mscclpp_sim_map_t map);

/* sim_words.c: texts for messages, written to `text` of `size` bytes, and returned. */
mscclpp_plan_place_t mscclpp_sim_place(const mscclpp_sim_t *sim, uint32_t agent, uint32_t clock);
/* "rank 1, block 0, operation 3 (put) in launch 2", "the application of rank 1 before launch 2", ... */
const char *mscclpp_sim_who(const mscclpp_sim_t *sim, uint32_t agent, uint32_t clock, char *text, size_t size);
/* "chunk 3 of the input of rank 1" */
const char *mscclpp_sim_what(const mscclpp_sim_t *sim, size_t cell, bool packet, char *text, size_t size);
const mscclpp_plan_op_t *mscclpp_sim_op(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block);

/*
 * sim_memory.c: reads and writes of cells. Each reports a race if nothing orders it after earlier accesses of the cell.
 * `position` and `map` say which thread of the actor makes the access. A packet takes two cells.
 */

/* Gives every buffer its cells. False if there are too many, or no memory (sim->no_memory). */
bool mscclpp_sim_layout(mscclpp_sim_t *sim);
void mscclpp_sim_memory_destroy(mscclpp_sim_t *sim);
mscclpp_sim_value_t mscclpp_sim_read(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell,
                                     uint32_t position, mscclpp_sim_map_t map);
mscclpp_sim_value_t mscclpp_sim_read_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, size_t cell,
                                            uint32_t position);
void mscclpp_sim_write(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell, uint32_t position,
                       mscclpp_sim_map_t map, mscclpp_sim_value_t value);
void mscclpp_sim_write_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell,
                              uint32_t position, mscclpp_sim_value_t value, mscclpp_sim_packet_t *packet);
/* Writes a value that must not be read. */
void mscclpp_sim_undefine(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell);
/* Tells whether a packet of this launch is in the cell. */
bool mscclpp_sim_has_packet(const mscclpp_sim_t *sim, size_t cell, uint32_t launch);
void mscclpp_sim_packet_release(mscclpp_sim_packet_t *packet);

/* sim_value.c: the values of cells. */

/* The value of element `position` of a rank's input. */
mscclpp_sim_value_t mscclpp_sim_input(const mscclpp_sim_t *sim, uint32_t rank, uint64_t position, uint32_t launch);
mscclpp_sim_value_t mscclpp_sim_combine(const mscclpp_sim_t *sim, mscclpp_sim_value_t x, mscclpp_sim_value_t y);
/*
 * The value that the collective must give at `position` of the output. False if the plan's collective is none of
 * MPI's.
 */
bool mscclpp_sim_expect(const mscclpp_sim_t *sim, uint32_t rank, uint64_t position, uint32_t launch,
                        mscclpp_sim_value_t *value_p);
/* Tells whether the plan's collective says what the output has to be. */
bool mscclpp_sim_has_result(const mscclpp_plan_t *plan);
/*
 * Chunks of the input and output of every rank. If the plan gives only one of the two sizes, the other is derived from
 * it.
 */
void mscclpp_sim_shape(const mscclpp_plan_t *plan, uint32_t rank, uint64_t *in_p, uint64_t *out_p);
/* Describes what a wrong value is made of, as far as it can be told. */
void mscclpp_sim_describe(const mscclpp_sim_t *sim, mscclpp_sim_value_t value, uint64_t position, uint32_t launch,
                          char *text, size_t size);

/* sim_data.c: whether all packets that an operation reads are there; the operation itself. */
bool mscclpp_sim_data_ready(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op);
void mscclpp_sim_data(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op);
/* Tells whether packet source `i` of an operation covers a cell. */
bool mscclpp_sim_holds(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                       uint32_t i, size_t cell);

/* sim_proxy.c: requests to proxies. */

/* Queues a block's request for the proxy of a port channel. */
void mscclpp_sim_push(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, uint32_t channel, mscclpp_sim_entry_t entry);
/* Carries out the proxy's next request. False if there is none. */
bool mscclpp_sim_proxy_step(mscclpp_sim_t *sim, mscclpp_sim_proxy_t *proxy);
/* Delivers a signal over channel `channel` of rank `rank` to the other end of the channel. */
void mscclpp_sim_deliver(mscclpp_sim_t *sim, uint32_t rank, int type, uint32_t channel, mscclpp_sim_signal_t signal);

/* sim_time.c: times by the cost model, and recording them. */
/* When the current operation of the actor ends. */
double mscclpp_sim_end(const mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor);
void mscclpp_sim_begin_op(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op);
void mscclpp_sim_end_op(mscclpp_sim_t *sim, mscclpp_sim_block_t *block);
/* The current operation needs something that is there at `time`. */
void mscclpp_sim_needs(mscclpp_sim_t *sim, double time);
/* Records that something went from block `from` to block `to`. */
void mscclpp_sim_arrow(mscclpp_sim_t *sim, uint32_t from, uint32_t to, double sent, double comes, bool packet);

/* sim_step.c: one operation of a block; false if it must wait, or has ended. */
bool mscclpp_sim_step(mscclpp_sim_t *sim, mscclpp_sim_block_t *block);

/* sim_stuck.c: reports a deadlock, with a line for each block that waits. */
void mscclpp_sim_explain_stuck(mscclpp_sim_t *sim);

/*
 * sim_launch.c: launches of a rank. end_launch ends the rank's launch once all blocks have ended, and starts the next.
 */
void mscclpp_sim_launch(mscclpp_sim_t *sim, uint32_t rank);
bool mscclpp_sim_end_launch(mscclpp_sim_t *sim, uint32_t rank);

#endif
