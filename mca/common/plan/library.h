/*
 * The execution plans of a process: files and folders, which are read and checked once. A refused file stays in the
 * list with the reason, so that ranks can compare their lists.
 */
#ifndef MCA_COMMON_PLAN_LIBRARY_H
#define MCA_COMMON_PLAN_LIBRARY_H

#include "mca/common/base/status.h"
#include "mca/common/plan/plan.h"

/* How much of a plan is proven by simulation. Every plan must also pass the checks that need no simulation. */
typedef enum {
    MSCCLPP_PLAN_PROVE_NONE,    /* nothing */
    MSCCLPP_PLAN_PROVE_PACKETS, /* nothing, but the simulation determines whether packets have to order other stores */
    MSCCLPP_PLAN_PROVE_ALL      /* all that the simulation checks */
} mscclpp_plan_prove_t;

/* One file. Without a plan, the fields after `plan` are not set. Of a refused file, some of them may not be set. */
typedef struct {
    char *path;
    char *refusal;    /* reason in one line why the file is not used; NULL: it is used, unless `plan` is NULL */
    uint64_t digest;  /* digest of the file's bytes; 0: the file was not parsed */
    bool is_reported; /* a message about the file was logged; there is at most one */

    mscclpp_plan_t *plan;
    bool only_by_name; /* its collective is not a collective of MPI; programs run such a plan by its name */
    char *label;       /* "plan:" and the plan's name, cut to 79 bytes, with '?' for blanks and unprintable bytes */
    uint32_t blocks;   /* the largest number of blocks of a rank */
    uint32_t channels; /* the largest number of memory and port channels of a rank together */
    uint32_t chunks;   /* see mscclpp_plan_block_chunks */
    uint32_t unit;     /* in bytes; the size of a chunk is a multiple of this */
    bool needs_whole_chunks;       /* mscclpp_plan_needs_whole_chunks */
    bool shares_buffers;           /* ranks access the input or output of their peers */
    bool writes_input;             /* the plan writes the input, although it is not in place */
    bool mixes_packets;            /* the scratch holds packets and other data */
    bool packets_may_order_stores; /* packets may have to order other stores; only a simulation can tell */
    bool packets_order_stores;     /* packets have to order other stores, as far as mscclpp_plan_library_prove knows */
    bool only_min_or_max;          /* the plan serves only the operation `reduce`, which is min or max */
    bool uses_multicast;           /* the plan has operations on switch channels */
    mscclpp_plan_reduce_t reduce;  /* valid if `only_min_or_max` is set */
    mscclpp_plan_prove_t proven;   /* how much mscclpp_plan_library_prove has proven */
} mscclpp_plan_file_t;

typedef struct mscclpp_plan_library mscclpp_plan_library_t;

/*
 * Creates a library of the files and folders `places`, separated by commas or colons. A folder means all of its files
 * whose names end in .json, in the order of their names. No file is read yet. Returns NULL, with a message logged, if
 * there is no memory.
 */
mscclpp_plan_library_t *mscclpp_plan_library_create(const char *places);
void mscclpp_plan_library_destroy(mscclpp_plan_library_t *library); /* NULL is allowed */

/*
 * Returns the number of files, and sets *files_p to their list, whose entries are never moved. The library owns the
 * list. The first call reads and checks the files; other threads wait meanwhile. If there is no memory for the list,
 * that call logs it, and the library has no files. A NULL library has none, either.
 */
int mscclpp_plan_library_load(mscclpp_plan_library_t *library, mscclpp_plan_file_t **files_p);

/*
 * Returns the reason why ranks on GPUs, or on the host twin, cannot use a plan: a constant text, which is the same on
 * all ranks. Returns NULL if they can. Plans with switch channels run only on the twin, which executes their operations
 * rank by rank. GPUs would need multicast, which this component does not use.
 */
const char *mscclpp_plan_library_misfit(const mscclpp_plan_file_t *file, bool on_twin);

/*
 * Proves a plan as far as `prove` says. Does nothing for a refused plan, and does not repeat a proof of this process or
 * an earlier one (plan/proofs.h). If MSCCLPP_PLAN_PROVE_ALL fails, sets `refusal`. The plan stays: other communicators
 * may use it. With MSCCLPP_PLAN_PROVE_PACKETS, refuses nothing. Thread-safe. May take seconds, in which other threads
 * that read or prove plans wait.
 */
void mscclpp_plan_library_prove(mscclpp_plan_file_t *file, mscclpp_plan_prove_t prove);

#endif
