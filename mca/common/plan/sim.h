/*
 * The state of one simulated run, which the files sim_*.c share.
 *
 * Every block, every application of a rank and every proxy is an actor, which has a number, `agent`. The clock of an
 * actor counts its operations. Functions that allocate set sim->no_memory if there is no memory, and the run ends;
 * mscclpp_sim_actor_init leaves that to its caller.
 * "Know" in names means a record of knowledge: an array of mscclpp_sim_know_t with one entry for each agent.
 */
#ifndef MCA_COMMON_PLAN_SIM_H
#define MCA_COMMON_PLAN_SIM_H

#include "mca/common/plan/plan.h"
#include "mca/common/plan/trace.h"

/* The knowledge of one actor about another actor's operations, counted by the other actor's clock. */
typedef struct {
    uint32_t strong; /* like `full`, but the knowledge also orders plain stores */
    uint32_t full;   /* all operations up to this clock have happened */
    /*
     * The operations up to clock `partial` have happened in the first `partial_threads` threads. This knowledge comes
     * from the packets of a whole operation.
     */
    uint32_t partial, partial_threads;
} mscclpp_sim_know_t;

/*
 * How an operation assigns elements to threads. Two accesses of one block with the same map and position are made by
 * the same thread. PLAIN: plain loads and stores; PACKET: packets; WIDE: accesses of switch channels; ALONE: one thread
 * makes all accesses.
 */
typedef enum { MSCCLPP_SIM_PLAIN, MSCCLPP_SIM_PACKET, MSCCLPP_SIM_WIDE, MSCCLPP_SIM_ALONE } mscclpp_sim_map_t;

/* A thread of an actor. */
typedef struct {
    uint32_t position; /* number of the element, or of the channel, that the thread handles in the operation */
    mscclpp_sim_map_t map;
} mscclpp_sim_thread_t;

/* The operation of an actor at one clock. An application uses only `launch`: the launch that comes next. */
typedef struct {
    uint32_t block; /* index among the blocks of all ranks; for a proxy's event: the block that made the request */
    uint32_t op;    /* position in the block's list */
    int32_t inner;  /* if that operation is a pipeline: position in its body; else -1 */
    uint32_t launch;
} mscclpp_sim_event_t;

/* A fact: the thread at `position` of actor `agent` is known to have done everything up to clock `clock`. */
typedef struct {
    uint32_t agent, clock, position;
} mscclpp_sim_fact_t;

/* A list of facts. */
typedef struct {
    mscclpp_sim_fact_t *entries;
    uint32_t count, capacity;
} mscclpp_sim_facts_t;

/* An actor: a block, the application of a rank, or the proxy of a port channel. */
typedef struct {
    uint32_t agent;  /* the actor's number */
    uint32_t clock;  /* number of the current operation; the first operation has 1 */
    uint32_t synced; /* all threads know the actor's own operations up to this clock */
    /* Records of knowledge, with an entry for each actor. */
    mscclpp_sim_know_t *now;    /* knowledge of all threads */
    mscclpp_sim_know_t *later;  /* knowledge of some threads, and from the next nop on of all threads */
    mscclpp_sim_know_t *thread; /* knowledge of the threads that have read packets: the first `strong` threads */
    bool has_later, has_thread; /* the record has entries that are not zero */
    mscclpp_sim_facts_t *facts; /* by thread: facts that it has learned from packets since the last nop */
    uint32_t fact_threads, fact_capacity; /* number of threads that may have facts; number of entries allocated */
    mscclpp_sim_event_t *events;          /* the actor's operations, by clock */
    uint32_t event_capacity;
    double time; /* when the actor is free again, in microseconds, by the cost model */
} mscclpp_sim_actor_t;

/* One read or write of a cell: the actor, its clock, and the thread (position and map) that made the access. */
typedef struct {
    uint32_t agent, clock, position;
    uint8_t map;   /* mscclpp_sim_map_t */
    bool is_plain; /* the access is a plain store, not the store of a packet */
} mscclpp_sim_access_t;

/*
 * The knowledge that one packet operation passes to the readers of its packets. All packets of the operation share it.
 */
typedef struct {
    uint32_t references;           /* number of cells that hold its packets, + 1 while the operation runs */
    uint32_t agent, clock, synced; /* number and clocks of the sender when it sent */
    uint32_t length;               /* number of packets of the operation */
    mscclpp_sim_know_t *know;      /* the sender's knowledge, by agent */
    double sent_at, arrives_at;    /* when the packets are sent and when they arrive, by the cost model */
} mscclpp_sim_packet_t;

/*
 * The value of a cell. For sums: two numbers, which are equal for two different sums with a probability of 1 in 2^60.
 * For min and max: `first` is the set of ranks, by their numbers modulo 64, whose elements are combined, and `second`
 * says which element of each rank.
 */
typedef struct {
    uint64_t first, second;
} mscclpp_sim_value_t;

/* One cell of simulated memory, which represents one element. */
typedef struct {
    mscclpp_sim_value_t value;
    mscclpp_sim_access_t write;  /* the last write */
    mscclpp_sim_access_t *reads; /* the reads since that write */
    uint32_t read_count, read_capacity;
    uint32_t launch;              /* launch in which the cell was written */
    bool is_defined;              /* the cell holds a value that may be read */
    mscclpp_sim_packet_t *packet; /* NULL: the last write was a plain store */
    mscclpp_sim_facts_t facts;    /* facts about single threads that the packet passes to its reader */
} mscclpp_sim_cell_t;

/* A signal that has arrived. */
typedef struct {
    mscclpp_sim_know_t *know;   /* the sender's knowledge */
    uint32_t block;             /* the block that sent the signal, itself or by its proxy */
    double sent_at, arrives_at; /* when the signal is sent and when it arrives, by the cost model */
} mscclpp_sim_signal_t;

/* The receiving end of a channel: its signals. */
typedef struct {
    mscclpp_sim_signal_t *signals;   /* a ring of the signals that have arrived and have not been waited for */
    uint32_t first, count, capacity; /* of the ring: index of the oldest signal; number of signals; number of entries */
    uint64_t arrived, waited;        /* number of signals that arrived, and that were waited for, in all launches */
    mscclpp_sim_access_t last_wait;
} mscclpp_sim_inbox_t;

/* A semaphore of a rank. An acquire learns the knowledge of the release that it matches. */
typedef struct {
    int64_t value;
    uint64_t acquired;             /* number of acquires so far */
    mscclpp_sim_know_t *total;     /* the joint knowledge of all releasers so far */
    mscclpp_sim_know_t **releases; /* by release: `total` after it; NULL once it has been acquired */
    double *times;                 /* time of each release, by the cost model */
    uint64_t released, capacity;   /* number of releases; entries of the two lists */
} mscclpp_sim_semaphore_t;

/* A request to a proxy. */
typedef struct {
    bool is_put;               /* the request moves cells */
    bool is_raw;               /* the cells hold packets, which are moved unchanged */
    bool is_signal;            /* the request sends a signal, after the put if it is a put, too */
    size_t from, to, elements; /* of a put: first source cell, first target cell, number of elements */
    uint32_t launch;
    mscclpp_sim_know_t *know;  /* the block's knowledge when it made the request */
    mscclpp_sim_event_t event; /* the block's operation that made the request */
    double time;               /* when the request was made, by the cost model */
} mscclpp_sim_entry_t;

/* The proxy of one port channel, with its queue. In the simulation each port channel has its own. */
typedef struct {
    mscclpp_sim_actor_t actor;
    uint32_t rank, channel; /* rank of the proxy, and index of its port channel */
    mscclpp_sim_entry_t *entries;
    uint32_t done;     /* number of entries that the proxy has executed */
    uint32_t queued;   /* number of entries that blocks have queued so far, including these */
    uint32_t capacity; /* number of entries that have memory */
} mscclpp_sim_proxy_t;

/* One block of a rank, and its progress. */
typedef struct {
    mscclpp_sim_actor_t actor;
    uint32_t rank, block;
    uint32_t launch;      /* from 1 */
    uint32_t op, inner;   /* next operation; within a pipeline, next operation of its body */
    uint32_t turn, turns; /* turn of the current pipeline, and number of its turns; `turns` is 0 outside a pipeline */
    bool has_ended;       /* the block's part of this launch has ended */
    bool at_barrier;      /* the block has arrived at a barrier and not left it */
    bool barrier_is_open; /* all blocks have arrived at that barrier, so the block may continue */
    bool is_flushing;     /* the block's puts are queued, and the block waits for them */
    double reached_at;    /* when the block reached the current operation, by the cost model */
    size_t missing_cell;  /* cell whose packet was missing at the last attempt of the current operation */
} mscclpp_sim_block_t;

/* One rank: its application, its memory and its channels. */
typedef struct {
    mscclpp_sim_actor_t actor;          /* the application */
    uint32_t launch;                    /* from 1 */
    uint32_t running;                   /* number of blocks that have not ended the launch */
    bool has_ended;                     /* all launches have ended */
    size_t base[MSCCLPP_PLAN_BUFFERS];  /* first cell of each buffer */
    size_t cells[MSCCLPP_PLAN_BUFFERS]; /* number of cells of each buffer; the scratch includes both halves */
    mscclpp_sim_inbox_t *inboxes[MSCCLPP_PLAN_SWITCH]; /* by channel type and channel */
    mscclpp_sim_proxy_t *proxies;                      /* by port channel; part of the run's array */
    mscclpp_sim_semaphore_t *semaphores;
} mscclpp_sim_rank_t;

/* The number of ranks whose parts of a minimum or maximum one run tells apart. */
#define MSCCLPP_SIM_TOLD_APART 64u

/* One run. mscclpp_sim_run says which fields its caller fills in. */
typedef struct {
    const mscclpp_plan_t *plan;
    mscclpp_plan_report_t *report;
    uint32_t cells_per_chunk; /* number of cells that represent one chunk */
    uint64_t cell_size;       /* number of bytes that a cell represents in pipelines */
    uint32_t wrap_cells; /* number of cells of a scratch chunk, which pipelines reuse in a circle; 0: scratch chunks are
                            whole */
    uint32_t launches;   /* number of launches, one directly after the other */
    uint64_t seed;       /* seed of the inputs */
    bool has_min_or_max; /* the plan combines by min or max, not by sums */
    uint32_t first_rank; /* for `has_min_or_max`: the first of the 64 ranks whose parts the run tells apart */
    uint32_t agents, block_count, proxy_count; /* number of actors, of blocks and of proxies */
    mscclpp_sim_block_t *blocks;
    mscclpp_sim_proxy_t *proxies;
    mscclpp_sim_rank_t *ranks;
    mscclpp_sim_cell_t *cells;
    size_t cell_count;
    mscclpp_sim_know_t *spare; /* one record for temporary use */
    uint32_t *index_of_agent;  /* by agent: the index of its block, rank or proxy */
    int races;                 /* number of races that the run has found */
    int faults_before;         /* faults in the report when the run began */
    uint64_t steps;            /* number of operations done, including those of proxies */
    bool no_memory;
    const mscclpp_plan_cost_t *cost; /* costs for the time model; NULL: times are not wanted */
    mscclpp_plan_trace_t *trace;
    const uint32_t *movers; /* for the time model: by rank, the number of port channels that move data */
    double cell_bytes;      /* for the time model: number of bytes that a cell represents */
    double ready_at; /* when the current operation could begin, because all of its data had come; in microseconds */
    double op_cost;  /* how long the current operation takes from then on, in microseconds */
} mscclpp_sim_t;

/* sim_know.c: the knowledge of actors. */

/* Copies a record. The caller frees the copy. Returns NULL, and sets sim->no_memory, if there is no memory. */
mscclpp_sim_know_t *mscclpp_sim_know_copy(mscclpp_sim_t *sim, const mscclpp_sim_know_t *know);
/* Adds the knowledge in `from`, which may be NULL, to the knowledge in `to`. */
void mscclpp_sim_join(const mscclpp_sim_t *sim, mscclpp_sim_know_t *to, const mscclpp_sim_know_t *from);
/*
 * Initializes an actor that knows nothing. Returns false if there is no memory; the caller destroys the actor anyway.
 */
bool mscclpp_sim_actor_init(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t agent);
void mscclpp_sim_actor_destroy(mscclpp_sim_actor_t *actor);
/*
 * Begins the actor's next operation: increments its clock, and stores `event` as the operation at that clock. If there
 * is no memory, sets sim->no_memory, leaves the clock as it was, and returns false. The actor must then do nothing,
 * because later code looks up the events of all clocks.
 */
bool mscclpp_sim_tick(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, mscclpp_sim_event_t event);
/* Gives some threads of the actor the knowledge `know`, which all of its threads have from the next nop on. */
void mscclpp_sim_learn(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, const mscclpp_sim_know_t *know);
/*
 * Tells the thread at `position`, which reads the packet in `cell`, that the packet was written, and the facts that the
 * packet passes on.
 */
void mscclpp_sim_hear_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, const mscclpp_sim_cell_t *cell,
                             uint32_t position);
/* Stores in `cell` the facts about single threads that the thread at `position`, which writes the packet, knows. */
void mscclpp_sim_tell_packet(mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor, mscclpp_sim_cell_t *cell,
                             uint32_t position);
/* Makes all threads of the actor meet, as at a nop. Afterwards each thread has the knowledge of all threads. */
void mscclpp_sim_meet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor);
/* How two accesses are ordered. WEAK: they are ordered only by packets. */
typedef enum { MSCCLPP_SIM_UNORDERED, MSCCLPP_SIM_WEAK, MSCCLPP_SIM_ORDERED } mscclpp_sim_order_t;
/*
 * Returns how an earlier access of a cell, or an earlier wait on a channel, is ordered before the access or wait that
 * `thread` of the actor makes now.
 */
mscclpp_sim_order_t mscclpp_sim_order(const mscclpp_sim_actor_t *actor, const mscclpp_sim_access_t *earlier,
                                      mscclpp_sim_thread_t thread);

/* sim_words.c: texts for messages. The functions write the text to `text`, which has `size` bytes, and return it. */

/* Returns the place in the plan of the operation of an actor at a clock. */
mscclpp_plan_place_t mscclpp_sim_place_of(const mscclpp_sim_t *sim, uint32_t agent, uint32_t clock);
/*
 * Writes which actor did an operation: "rank 1, block 0, operation 3 (put) in launch 2", "the application of rank 1
 * before launch 2".
 */
const char *mscclpp_sim_actor_text(const mscclpp_sim_t *sim, uint32_t agent, uint32_t clock, char *text, size_t size);
/*
 * Writes where a cell is: "chunk 3 of the input of rank 1". With `is_packet`, the cell is one of the two cells of a
 * packet.
 */
const char *mscclpp_sim_cell_text(const mscclpp_sim_t *sim, size_t cell, bool is_packet, char *text, size_t size);
/* Returns the operation at which a block is. The block must not have ended its launch. */
const mscclpp_plan_op_t *mscclpp_sim_current_op(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block);

/*
 * sim_memory.c: reads and writes of cells. An actor's current operation accesses memory by these functions. They report
 * a race if the access is not ordered after earlier accesses of the cell. `thread` of the actor makes the access; of a
 * packet, the thread at `position`. `launch` is the launch to which the access belongs. A packet takes two cells, and
 * `cell_index` is the first of them.
 */

/*
 * Assigns cells to every buffer. Returns false if there are too many cells, or if there is no memory (sim->no_memory).
 */
bool mscclpp_sim_layout(mscclpp_sim_t *sim);
void mscclpp_sim_memory_destroy(mscclpp_sim_t *sim);
/*
 * Reads a cell. Reports a fault if no operation of this launch has written the value, unless the application reads it.
 */
mscclpp_sim_value_t mscclpp_sim_read(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell_index,
                                     mscclpp_sim_thread_t thread);
/* Reads a packet, which must have been written. Its flag orders the read after the write. */
mscclpp_sim_value_t mscclpp_sim_read_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, size_t cell_index,
                                            uint32_t position);
/* Writes a value by a plain store. The cell then no longer holds a packet. */
void mscclpp_sim_write(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell_index,
                       mscclpp_sim_thread_t thread, mscclpp_sim_value_t value);
/*
 * Writes a packet, and the facts that it passes to its reader. `packet` is the record of the whole operation, to which
 * each of the two cells gets a reference.
 */
void mscclpp_sim_write_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell_index,
                              uint32_t position, mscclpp_sim_value_t value, mscclpp_sim_packet_t *packet);
/* Writes a value that must not be read, into a cell of a buffer whose old contents are irrelevant. */
void mscclpp_sim_undefine(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell_index);
/* Returns true if a packet of launch `launch` is in the cell. */
bool mscclpp_sim_has_packet(const mscclpp_sim_t *sim, size_t cell_index, uint32_t launch);
/* Drops a reference to a packet operation. The last drop frees it. NULL is allowed. */
void mscclpp_sim_packet_release(mscclpp_sim_packet_t *packet);

/* sim_value.c: the values of cells. */

/* Returns the value of element `position` of a rank's input. It differs from launch to launch. */
mscclpp_sim_value_t mscclpp_sim_input_value(const mscclpp_sim_t *sim, uint32_t rank, uint64_t position,
                                            uint32_t launch);
/* Returns the result of the plan's reduction for two values. */
mscclpp_sim_value_t mscclpp_sim_combine(const mscclpp_sim_t *sim, mscclpp_sim_value_t left, mscclpp_sim_value_t right);
/*
 * Stores in *value_p the value that the collective must produce at `position` of the output. Returns false if the
 * plan's collective does not define the output.
 */
bool mscclpp_sim_expected_value(const mscclpp_sim_t *sim, uint32_t rank, uint64_t position, uint32_t launch,
                                mscclpp_sim_value_t *value_p);
/* Returns true if the plan's collective defines the output. */
bool mscclpp_sim_has_result(const mscclpp_plan_t *plan);
/*
 * Sets the number of chunks of a rank's input and output. If the collective defines a result and the plan uses only one
 * of the two, the other number follows from it.
 */
void mscclpp_sim_get_shape(const mscclpp_plan_t *plan, uint32_t rank, uint64_t *in_p, uint64_t *out_p);
/* Writes to `text` how a wrong value at `position` of the output was composed, as far as that can be determined. */
void mscclpp_sim_describe_value(const mscclpp_sim_t *sim, mscclpp_sim_value_t value, uint64_t position, uint32_t launch,
                                char *text, size_t size);

/* sim_data.c: operations that move data. */

/*
 * Returns true if all packets that an operation reads have been written. Otherwise sets block->missing_cell to the cell
 * of the first missing packet.
 */
bool mscclpp_sim_look_for_packets(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op);
/* Executes `op`, the block's current operation, which moves data. All packets that it reads must have been written. */
void mscclpp_sim_do_data(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op);
/* Returns true if packet source `i` of an operation covers a cell. */
bool mscclpp_sim_source_covers(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                               uint32_t i, size_t cell);

/* sim_proxy.c: requests to proxies. */

/*
 * Queues a block's request for the proxy of its rank's port channel `channel`. The caller leaves `know`, `time` and
 * `event` of the entry unset; the function sets them from the block.
 */
void mscclpp_sim_push(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, uint32_t channel, mscclpp_sim_entry_t entry);
/*
 * Executes the proxy's next request. Returns false, with nothing done, if there is no request, or no memory to begin
 * the request. If memory runs out later, returns true, with sim->no_memory set.
 */
bool mscclpp_sim_proxy_step(mscclpp_sim_t *sim, mscclpp_sim_proxy_t *proxy);
/*
 * Delivers a signal over channel `channel` of rank `rank` to the other end of the channel, if it has one. The sender's
 * knowledge is copied.
 */
void mscclpp_sim_deliver(mscclpp_sim_t *sim, uint32_t rank, int type, uint32_t channel, mscclpp_sim_signal_t signal);

/* sim_time.c: times by the cost model, and recording them. Nothing is recorded unless sim->cost is set. */

/*
 * Returns when the actor's current operation ends, in microseconds. It begins once the actor is free and everything
 * that it needs has come (sim->ready_at), and then takes sim->op_cost.
 */
double mscclpp_sim_end_time(const mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor);
/* Stores that a block attempts its next operation, and how long the operation takes once it can begin. */
void mscclpp_sim_begin_op(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op);
/* Records the operation that the block has done. The block is busy until its end. */
void mscclpp_sim_end_op(mscclpp_sim_t *sim, mscclpp_sim_block_t *block);
/* Stores that the current operation needs data that is available at `time`. */
void mscclpp_sim_need(mscclpp_sim_t *sim, double time);
/* Records that a signal, or packets if `is_packet` is set, went from block `from` to block `to`; both are agents. */
void mscclpp_sim_add_arrow(mscclpp_sim_t *sim, uint32_t from, uint32_t to, double sent_at, double arrives_at,
                           bool is_packet);

/*
 * sim_step.c: executes the next operation of a block, or begins its pipeline, or ends its launch. Returns false if the
 * block has to wait or has ended, or if memory has run out. If the block has to wait, nothing has changed, except that
 * it may have arrived at a barrier.
 */
bool mscclpp_sim_step(mscclpp_sim_t *sim, mscclpp_sim_block_t *block);

/* sim_stuck.c: reports a deadlock, with a line for each block that waits. */
void mscclpp_sim_explain_stuck(mscclpp_sim_t *sim);

/* sim_launch.c: sets new inputs, and starts the rank's next launch. After the last launch, ends the rank's run. */
void mscclpp_sim_launch(mscclpp_sim_t *sim, uint32_t rank);

/*
 * sim_launch.c: if all blocks of the rank have ended a launch, checks its results, begins the next launch and returns
 * true. Returns false if a block still runs, if the rank's run has ended, or if there is no memory.
 */
bool mscclpp_sim_end_launch(mscclpp_sim_t *sim, uint32_t rank);

#endif
