/* Queues of the twin and the jobs in them, for twin.c, which carries them out, and twin_graph.c, which records them. */
#ifndef MSCCLPP_DEVICE_LAUNCH_TWIN_QUEUE_H
#define MSCCLPP_DEVICE_LAUNCH_TWIN_QUEUE_H

#include <pthread.h>

#include "device/kern/linger.h"
#include "device/launch/launch.h"
#include "device/types/coll_nodes.h"
#include "device/types/plan.h"
#include "device/types/reduce.h"

#ifndef __CUDACC__ /* threads of a GPU have no such blocks */
/* Memory shared by the threads of a block. */
typedef struct {
    mscclpp_dev_twin_barrier_t meeting;
    mscclpp_dev_twin_barrier_t cluster_meeting; /* the first block's is for all blocks */
    mscclpp_dev_linger_block_t linger;
} mscclpp_dev_twin_shared_t;

/* What recorded jobs and their copies keep alive. The last of them to be freed calls `release`. */
typedef struct {
    uint32_t count; /* jobs */
    void (*release)(void *object);
    void *object; /* the object that is kept alive */
} mscclpp_dev_twin_keeper_t;

/* A job in a queue: a launch, a copy, a function of the host, or a loop over jobs. */
typedef struct mscclpp_dev_twin_job {
    struct mscclpp_dev_twin_job *next; /* the next job in the queue, the graph or the loop's body */
    mscclpp_dev_twin_copy_t copy;      /* `to` NULL: no copy */
    void (*function)(void *argument);  /* a function of the host; NULL: a copy or a launch */
    void *argument;
    mscclpp_dev_launch_t launch;       /* the launch; for a copy or a function only its size is used: one thread */
    uint32_t started;                  /* threads of the grid that workers have started */
    uint32_t unfinished;               /* threads of the grid that have not ended */
    const uint64_t *condition;         /* a loop is carried out while this is not 0; NULL: the job is no loop */
    struct mscclpp_dev_twin_job *body; /* the jobs of a loop, which owns them; the last one's `next` is the loop */
    bool is_part_of_loop;              /* the job is in the body of a loop */
    mscclpp_dev_twin_keeper_t *keeper; /* NULL: the job keeps nothing alive */
    uint32_t workers;                  /* number of workers that the job needs, including its body */
    mscclpp_dev_twin_shared_t *blocks; /* one for each block of the grid; NULL: the job launches no kernel */
    union {
        mscclpp_dev_args_t common;
        mscclpp_dev_zerocopy_args_t zerocopy;
        mscclpp_dev_ring_args_t ring;
        mscclpp_dev_ll128_probe_args_t ll128_probe;
        mscclpp_dev_linger_args_t linger;
        mscclpp_dev_reduce_args_t reduce;
        mscclpp_dev_port_ring_args_t port_ring;
        mscclpp_dev_port_pair_args_t port_pair;
        mscclpp_dev_nodes_args_t nodes;
        mscclpp_dev_blocks_args_t blocks;
        mscclpp_dev_direct_args_t direct;
        mscclpp_dev_strided_args_t strided;
        mscclpp_dev_pack_args_t pack;
        mscclpp_dev_coll_nodes_args_t coll_nodes;
        mscclpp_dev_plan_args_t plan;
    } args; /* a copy of the kernel's arguments, to which `launch` points */
} mscclpp_dev_twin_job_t;

/* What was recorded: a list of jobs. */
struct mscclpp_dev_twin_graph {
    mscclpp_dev_twin_job_t *first; /* these jobs are never run; copies of them are */
    mscclpp_dev_twin_job_t **end;  /* where the next job is linked */
};

struct mscclpp_dev_twin_queue {
    pthread_mutex_t lock;
    pthread_cond_t work;           /* for workers: the first job changed, or the queue closes */
    mscclpp_dev_twin_job_t *first; /* the running job */
    mscclpp_dev_twin_job_t *last;
    bool is_closing;    /* the queue is being destroyed: workers end once it is empty */
    pthread_t *workers; /* as many as the largest grid had threads, since all blocks of a job run at once */
    uint32_t worker_count;
    bool runs_inline; /* a launch runs in its caller's thread now; guarded by the lock */
    uint64_t queued;  /* jobs so far, without inline launches, which have ended when their call returns */
    uint64_t ended;   /* number of queued jobs that have ended */
    bool is_apart;    /* workers run all launches; none runs in the caller's thread */
    mscclpp_dev_twin_graph_t *graph; /* the graph that is being recorded; NULL: none */
};

/* A launch of one thread, without a kernel: for copies, functions and loops. */
extern const mscclpp_dev_launch_t mscclpp_dev_twin_single;

/*
 * Makes a job of a launch, whose arguments are copied. A launch without arguments launches no kernel. Returns NULL if
 * there is no memory. The caller has to free the job, or to hand it to a queue.
 */
mscclpp_dev_twin_job_t *mscclpp_dev_twin_new_job(const mscclpp_dev_launch_t *launch);

/*
 * Frees a job and, if it is a loop, the jobs of its body. When the last job that keeps an object alive is freed, calls
 * the function that releases the object.
 */
void mscclpp_dev_twin_free_job(mscclpp_dev_twin_job_t *job);

/*
 * Puts a job at the end of the queue, or of the graph that is being recorded. Owns the job from now on: if this fails,
 * the job is freed. Returns 0 or an errno value; ENOMEM if `job` is NULL, so that callers can pass on the result of
 * mscclpp_dev_twin_new_job unchecked.
 */
int mscclpp_dev_twin_queue_job(mscclpp_dev_twin_queue_t *queue, mscclpp_dev_twin_job_t *job);
#endif

#endif
