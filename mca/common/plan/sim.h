/*
 * The state of one simulated run: what the files sim_*.c share.
 *
 * Every block, every application of a rank and every proxy is an actor, which has a number, `agent`. Its clock counts
 * its operations. Functions that allocate set sim->no_memory if there is no memory, and the run ends. "Know" in names
 * stands for a record of knowledge: an array of mscclpp_sim_know_t with one entry for each agent.
 */
#ifndef MCA_COMMON_PLAN_SIM_H
#define MCA_COMMON_PLAN_SIM_H

#include "mca/common/plan/plan.h"
#include "mca/common/plan/trace.h"

/* What one actor knows about another actor's operations, counted by the other actor's clock. */
typedef struct {
    uint32_t strong; /* as `full`, but known by means that also order plain stores, which packets do not */
    uint32_t full;   /* all operations up to this clock have happened */
    /*
     * The operations up to clock `partial` have happened in the first `partial_threads` threads. The packets of a whole
     * operation tell this.
     */
    uint32_t partial, partial_threads;
} mscclpp_sim_know_t;

/*
 * How an operation assigns elements to threads. Two accesses of one block with the same map and position are made by
 * the same thread. PLAIN: plain loads and stores; PACKET: packets; WIDE: accesses of switch channels; ALONE: one thread
 * does all.
 */
typedef enum { MSCCLPP_SIM_PLAIN, MSCCLPP_SIM_PACKET, MSCCLPP_SIM_WIDE, MSCCLPP_SIM_ALONE } mscclpp_sim_map_t;

/* What an actor did at one clock. Of an application, only `launch` counts: the launch that comes next. */
typedef struct {
    uint32_t block; /* index among the blocks of all ranks; of a proxy's event, the block that asked */
    uint32_t op;    /* position in the block's list */
    int32_t inner;  /* if that is a pipeline: position in its body; else -1 */
    uint32_t launch;
} mscclpp_sim_event_t;

/* What one thread, the one at `position`, is known to have done: everything up to a clock. */
typedef struct {
    uint32_t agent, clock, position;
} mscclpp_sim_fact_t;

/* A list of facts. */
typedef struct {
    mscclpp_sim_fact_t *fact;
    uint32_t count, capacity;
} mscclpp_sim_facts_t;

/* Who acts: a block, the application of a rank, or the proxy of a port channel. */
typedef struct {
    uint32_t agent;  /* the actor's number */
    uint32_t clock;  /* of the current operation; the first one has 1 */
    uint32_t synced; /* all threads know everything that the actor did up to this clock */
    /* Records of knowledge, with an entry for each actor. */
    mscclpp_sim_know_t *now;    /* known to all threads */
    mscclpp_sim_know_t *later;  /* known to some threads, and from the next nop on to all */
    mscclpp_sim_know_t *thread; /* known to the threads that have read packets, which are the first `strong` ones */
    bool has_later, has_thread; /* the record has entries that are not zero */
    mscclpp_sim_facts_t *facts; /* what each thread has learnt from packets since the last nop */
    uint32_t fact_threads, fact_capacity; /* threads that may have facts; entries allocated */
    mscclpp_sim_event_t *events;          /* by clock */
    uint32_t event_capacity;
    double time; /* when the actor is free again, microseconds, by the cost model */
} mscclpp_sim_actor_t;

/* One read or write of a cell: by which actor, at which of its operations, and by which thread (position and map). */
typedef struct {
    uint32_t agent, clock, position;
    uint8_t map;   /* mscclpp_sim_map_t */
    bool is_plain; /* it is a plain store, not of a packet */
} mscclpp_sim_access_t;

/* What one packet operation tells the readers of its packets. Its packets share it. */
typedef struct {
    uint32_t references;           /* cells that hold its packets, and the operation while it runs */
    uint32_t agent, clock, synced; /* of the sender, when it sent */
    uint32_t length;               /* packets of the operation */
    mscclpp_sim_know_t *know;      /* what the sender knew, by agent */
    double sent, comes;            /* when it sends and when the packets arrive, by the cost model */
} mscclpp_sim_packet_t;

/*
 * The value of a cell. For sums: two numbers, which are equal for two different sums with a chance of 1 in 2^60. For
 * min and max: `first` is the set of ranks whose elements are combined, and `second` says which element of theirs.
 */
typedef struct {
    uint64_t first, second;
} mscclpp_sim_value_t;

/* One cell of simulated memory, which stands for one element. */
typedef struct {
    mscclpp_sim_value_t value;
    mscclpp_sim_access_t write;  /* the last write */
    mscclpp_sim_access_t *reads; /* the reads since that write */
    uint32_t read_count, read_capacity;
    uint32_t launch;              /* launch in which the cell was written */
    bool is_defined;              /* it holds a value that may be read */
    mscclpp_sim_packet_t *packet; /* NULL: the last write was a plain store */
    mscclpp_sim_facts_t facts;    /* what the packet tells its reader of single threads */
} mscclpp_sim_cell_t;

/* A signal that has arrived. */
typedef struct {
    mscclpp_sim_know_t *know; /* what its sender knew */
    uint32_t block;           /* the block that sent it, itself or by its proxy */
    double sent, comes;       /* when it is sent and when it arrives, by the cost model */
} mscclpp_sim_signal_t;

/* The receiving end of a channel: its signals. */
typedef struct {
    mscclpp_sim_signal_t *signals;   /* a ring: those that arrived and were not waited for yet */
    uint32_t first, count, capacity; /* of the ring: index of the oldest signal; signals; entries */
    uint64_t arrived, waited;        /* signals that arrived, and that were waited for, in all launches */
    mscclpp_sim_access_t last_wait;
} mscclpp_sim_inbox_t;

/* A semaphore of a rank. An acquire learns what its release knew. */
typedef struct {
    int64_t value;
    uint64_t acquired;             /* number of acquires so far */
    mscclpp_sim_know_t *total;     /* what all releasers so far knew, together */
    mscclpp_sim_know_t **releases; /* `total` after each release; NULL once it was acquired */
    double *times;                 /* time of each release, by the cost model */
    uint64_t released, capacity;   /* number of releases; entries of the two lists */
} mscclpp_sim_semaphore_t;

/* A request to a proxy. */
typedef struct {
    bool is_put;               /* it moves cells */
    bool is_raw;               /* these are packets, which are moved as they are */
    bool is_signal;            /* it signals, after the put if it is one, too */
    size_t from, to, elements; /* of a put: first source cell, first target cell, number of elements */
    uint32_t launch;
    mscclpp_sim_know_t *know;  /* of the block, when it asked */
    mscclpp_sim_event_t event; /* the block's operation */
    double time;               /* when it asked, by the cost model */
} mscclpp_sim_entry_t;

/* The proxy of one port channel, with its queue. In the simulation each port channel has its own. */
typedef struct {
    mscclpp_sim_actor_t actor;
    uint32_t rank, channel; /* of the rank's port channels */
    mscclpp_sim_entry_t *entries;
    uint32_t done, count, capacity; /* entries carried out; entries queued, with those; entries allocated */
} mscclpp_sim_proxy_t;

/* One block of a rank, and where it stands. */
typedef struct {
    mscclpp_sim_actor_t actor;
    uint32_t rank, block;
    uint32_t launch;      /* from 1 */
    uint32_t op, inner;   /* next operation; within a pipeline, next operation of its body */
    uint32_t turn, turns; /* of the pipeline that the block is in; turns is 0 outside of one */
    bool has_ended;       /* the block's part of this launch has ended */
    bool at_barrier;      /* it has arrived at a barrier and not gone on */
    bool barrier_is_open; /* all blocks have arrived there, so it may go on */
    bool is_flushing;     /* its puts are queued, and it waits for them */
    double reached_at;    /* when the block reached the current operation, by the cost model */
    size_t missing_cell;  /* whose packet was missing at the last try of the current operation */
} mscclpp_sim_block_t;

/* One rank: its application, its memory and its channels. */
typedef struct {
    mscclpp_sim_actor_t actor;                         /* the application */
    uint32_t launch;                                   /* from 1 */
    uint32_t running;                                  /* blocks that have not ended */
    bool has_ended;                                    /* all launches have ended */
    size_t base[MSCCLPP_PLAN_BUFFERS];                 /* first cell of each buffer */
    size_t cells[MSCCLPP_PLAN_BUFFERS];                /* cells of each buffer; of the scratch, both halves */
    mscclpp_sim_inbox_t *inboxes[MSCCLPP_PLAN_SWITCH]; /* by channel type and channel */
    mscclpp_sim_proxy_t *proxies;                      /* by port channel; a part of the run's list */
    mscclpp_sim_semaphore_t *semaphores;
} mscclpp_sim_rank_t;

/* One run. mscclpp_sim_run says which fields its caller fills in. */
typedef struct {
    const mscclpp_plan_t *plan;
    mscclpp_plan_report_t *report;
    uint32_t cells_per_chunk; /* cells that stand for one chunk */
    uint64_t cell_size;       /* bytes that a cell stands for in pipelines */
    uint32_t wrap_cells;      /* cells of a scratch chunk around which pipelines go; 0: scratch chunks are whole */
    uint32_t launches;        /* how many, back to back */
    uint64_t seed;            /* of the inputs */
    bool extremes;            /* the plan combines by min or max, not by sums */
    uint32_t agents, block_count, proxy_count; /* actors; those that are blocks; those that are proxies */
    mscclpp_sim_block_t *blocks;
    mscclpp_sim_proxy_t *proxies;
    mscclpp_sim_rank_t *ranks;
    mscclpp_sim_cell_t *cells;
    size_t cell_count;
    mscclpp_sim_know_t *spare; /* one record for temporary use */
    uint32_t *index_of_agent;  /* by agent: the index of its block, rank or proxy */
    int races;                 /* number of races that the run has met */
    int faults_before;         /* faults in the report when the run began */
    uint64_t steps;            /* operations done, those of proxies included */
    bool no_memory;
    const mscclpp_plan_cost_t *cost; /* costs for the time model; NULL: times are not wanted */
    mscclpp_plan_trace_t *trace;
    const uint32_t *movers; /* for the time model: how many port channels of each rank move data */
    double cell_bytes;      /* for the time model: bytes that a cell stands for */
    double ready_at;        /* when everything that the current operation needs was there; as all times, microseconds */
    double op_cost;         /* how long it takes from then on */
} mscclpp_sim_t;

/* sim_know.c: who knows what. */

/* Copies a record. The caller frees the copy. Returns NULL, and sets sim->no_memory, if there is no memory. */
mscclpp_sim_know_t *mscclpp_sim_know_copy(mscclpp_sim_t *sim, const mscclpp_sim_know_t *know);
/* Adds the knowledge in `from`, which may be NULL, to that in `to`. */
void mscclpp_sim_join(const mscclpp_sim_t *sim, mscclpp_sim_know_t *to, const mscclpp_sim_know_t *from);
/* Makes an actor that knows nothing. Returns false if there is no memory; the caller destroys the actor anyway. */
bool mscclpp_sim_actor_init(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t agent);
void mscclpp_sim_actor_destroy(mscclpp_sim_actor_t *actor);
/*
 * Begins the actor's next operation: raises its clock, and notes `event` as what it does at that clock. Returns false,
 * with nothing changed, if there is no memory; the actor must do nothing then, as its events are looked up.
 */
bool mscclpp_sim_tick(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, mscclpp_sim_event_t event);
/* Lets some threads learn `know`, which all threads know from the next nop on. */
void mscclpp_sim_learn(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, const mscclpp_sim_know_t *know);
/* Lets the thread at `position` learn what the packet in `cell` tells of single threads. */
void mscclpp_sim_hear_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, const mscclpp_sim_cell_t *cell,
                             uint32_t position);
/* Notes in `cell` what the thread at `position`, which writes the packet, knows of single threads. */
void mscclpp_sim_tell_packet(mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor, mscclpp_sim_cell_t *cell,
                             uint32_t position);
/* Lets all threads meet, as at a nop: all know what any of them knew. */
void mscclpp_sim_meet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor);
/* How two accesses are ordered. WEAK: only by packets. */
typedef enum { MSCCLPP_SIM_UNORDERED, MSCCLPP_SIM_WEAK, MSCCLPP_SIM_ORDERED } mscclpp_sim_order_t;
/* Returns how an earlier access of a cell is ordered before one that the actor makes now, at `position` under `map`. */
mscclpp_sim_order_t mscclpp_sim_order(const mscclpp_sim_actor_t *actor, const mscclpp_sim_access_t *earlier,
                                      uint32_t position, mscclpp_sim_map_t map);

/* sim_words.c: texts for messages. They are written to `text`, of `size` bytes, and returned. */

/* Returns the place in the plan of what an actor did at a clock. */
mscclpp_plan_place_t mscclpp_sim_place_of(const mscclpp_sim_t *sim, uint32_t agent, uint32_t clock);
/* Writes who did it: "rank 1, block 0, operation 3 (put) in launch 2", "the application of rank 1 before launch 2". */
const char *mscclpp_sim_actor_text(const mscclpp_sim_t *sim, uint32_t agent, uint32_t clock, char *text, size_t size);
/* Writes where a cell is: "chunk 3 of the input of rank 1". With `is_packet`, it is one of the two of a packet. */
const char *mscclpp_sim_cell_text(const mscclpp_sim_t *sim, size_t cell, bool is_packet, char *text, size_t size);
/* Returns the operation that a block is at. It must not have ended its launch. */
const mscclpp_plan_op_t *mscclpp_sim_current_op(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block);

/*
 * sim_memory.c: reads and writes of cells, by which an actor's current operation accesses memory. Each reports a race
 * if nothing orders it after earlier accesses of the cell. `position` and `map` say which thread of the actor makes the
 * access. A packet takes two cells, of which the first one is given.
 */

/* Gives every buffer its cells. Returns false if there are too many, or no memory (sim->no_memory). */
bool mscclpp_sim_layout(mscclpp_sim_t *sim);
void mscclpp_sim_memory_destroy(mscclpp_sim_t *sim);
/* Reads a cell. Reports a value that nothing has written in this launch, unless the application reads it. */
mscclpp_sim_value_t mscclpp_sim_read(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell,
                                     uint32_t position, mscclpp_sim_map_t map);
/* Reads a packet, which is there. Its flag orders the read after the write. */
mscclpp_sim_value_t mscclpp_sim_read_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, size_t cell,
                                            uint32_t position);
void mscclpp_sim_write(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell, uint32_t position,
                       mscclpp_sim_map_t map, mscclpp_sim_value_t value);
void mscclpp_sim_write_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell,
                              uint32_t position, mscclpp_sim_value_t value, mscclpp_sim_packet_t *packet);
/* Writes a value that must not be read, into a cell of a buffer whose old content does not count. */
void mscclpp_sim_undefine(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell);
/* Tells whether a packet of launch `launch` is in the cell. */
bool mscclpp_sim_has_packet(const mscclpp_sim_t *sim, size_t cell, uint32_t launch);
/* Drops a reference; the last one frees what it refers to. NULL is allowed. */
void mscclpp_sim_packet_release(mscclpp_sim_packet_t *packet);

/* sim_value.c: the values of cells. */

/* Returns the value of element `position` of a rank's input. It differs from launch to launch. */
mscclpp_sim_value_t mscclpp_sim_input_value(const mscclpp_sim_t *sim, uint32_t rank, uint64_t position,
                                            uint32_t launch);
/* Returns what the plan's reduction makes of two values. */
mscclpp_sim_value_t mscclpp_sim_combine(const mscclpp_sim_t *sim, mscclpp_sim_value_t x, mscclpp_sim_value_t y);
/*
 * Sets *value_p to what the collective must yield at `position` of the output. Returns false if the plan's collective
 * does not say what the output has to be.
 */
bool mscclpp_sim_expected_value(const mscclpp_sim_t *sim, uint32_t rank, uint64_t position, uint32_t launch,
                                mscclpp_sim_value_t *value_p);
/* Tells whether the plan's collective says what the output has to be. */
bool mscclpp_sim_has_result(const mscclpp_plan_t *plan);
/*
 * Sets the number of chunks of a rank's input and output. If the collective defines a result and the plan uses only one
 * of the two, the other number follows from it.
 */
void mscclpp_sim_get_shape(const mscclpp_plan_t *plan, uint32_t rank, uint64_t *in_p, uint64_t *out_p);
/* Writes to `text` what a wrong value at `position` of the output is made of, as far as that can be told. */
void mscclpp_sim_describe_value(const mscclpp_sim_t *sim, mscclpp_sim_value_t value, uint64_t position, uint32_t launch,
                                char *text, size_t size);

/* sim_data.c: operations that move data. */

/*
 * Looks for all packets that an operation reads. Returns whether they are there. If not, sets block->missing_cell to
 * the cell of the first one that is missing.
 */
bool mscclpp_sim_look_for_packets(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op);
/* Carries out `op`, the block's current operation, which moves data. All packets that it reads must be there. */
void mscclpp_sim_do_data(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op);
/* Tells whether packet source `i` of an operation covers a cell. */
bool mscclpp_sim_source_covers(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                               uint32_t i, size_t cell);

/* sim_proxy.c: requests to proxies. */

/*
 * Queues a block's request for the proxy of its rank's port channel `channel`. The caller leaves know, time and event
 * of the entry open; they are taken from the block.
 */
void mscclpp_sim_push(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, uint32_t channel, mscclpp_sim_entry_t entry);
/* Carries out the proxy's next request. Returns false, with nothing done, if there is none or memory has run out. */
bool mscclpp_sim_proxy_step(mscclpp_sim_t *sim, mscclpp_sim_proxy_t *proxy);
/*
 * Delivers a signal over channel `channel` of rank `rank` to the other end of the channel, if it has one. What the
 * sender knows is copied.
 */
void mscclpp_sim_deliver(mscclpp_sim_t *sim, uint32_t rank, int type, uint32_t channel, mscclpp_sim_signal_t signal);

/* sim_time.c: times by the cost model, and recording them. Nothing is recorded unless sim->cost is set. */

/* Returns when the actor's current operation ends. */
double mscclpp_sim_end_time(const mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor);
/* Notes that a block tries its next operation, and how long the operation takes once it can begin. */
void mscclpp_sim_begin_op(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op);
/* Records the operation that the block has done. The block is busy until its end. */
void mscclpp_sim_end_op(mscclpp_sim_t *sim, mscclpp_sim_block_t *block);
/* Notes that the current operation needs something that is there at `time`. */
void mscclpp_sim_need(mscclpp_sim_t *sim, double time);
/* Records that a signal, or packets if `is_packet` is set, went from block `from` to block `to`; both are agents. */
void mscclpp_sim_add_arrow(mscclpp_sim_t *sim, uint32_t from, uint32_t to, double sent, double comes, bool is_packet);

/*
 * sim_step.c: carries out the next operation of a block, or begins its pipeline, or ends its launch. Returns false if
 * the block has to wait or has ended; nothing has changed then, except that it may have arrived at a barrier.
 */
bool mscclpp_sim_step(mscclpp_sim_t *sim, mscclpp_sim_block_t *block);

/* sim_stuck.c: reports a deadlock, with a line for each block that waits. */
void mscclpp_sim_explain_stuck(mscclpp_sim_t *sim);

/* sim_launch.c: sets new inputs, and starts the rank's next launch. After the last launch, ends the rank's run. */
void mscclpp_sim_launch(mscclpp_sim_t *sim, uint32_t rank);

/*
 * sim_launch.c: if all blocks of the rank have ended a launch, checks its results, begins the next launch and returns
 * true. Returns false if a block still runs or the rank's run has ended.
 */
bool mscclpp_sim_end_launch(mscclpp_sim_t *sim, uint32_t rank);

#endif
