/*
 * The execution plans of a process: files and folders, which are read and checked once. A refused file stays in the
 * list with the reason, so that ranks can compare their lists.
 */
#ifndef MCA_COMMON_PLAN_LIBRARY_H
#define MCA_COMMON_PLAN_LIBRARY_H

#include "mca/common/base/status.h"
#include "mca/common/plan/plan.h"

/* How much of a plan is proven by simulation. Every plan has to pass the checks that need no simulation anyway. */
typedef enum {
    MSCCLPP_PLAN_PROVE_NONE,    /* nothing */
    MSCCLPP_PLAN_PROVE_PACKETS, /* nothing; but it is found out whether packets have to order other stores */
    MSCCLPP_PLAN_PROVE_ALL      /* all that the simulation checks */
} mscclpp_plan_prove_t;

/* One file. The fields after `plan` are set only if `plan` is not NULL. */
typedef struct {
    char *path;
    char *refusal;   /* one line: why the file is not used; NULL: it is used */
    uint64_t digest; /* of the file's bytes; 0: it was not parsed */
    bool told;       /* a message about the file was logged; there is one at most */

    mscclpp_plan_t *plan;
    bool alone;                   /* its collective is none of MPI's; programs run such a plan by its name */
    char *label;                  /* "plan:" and the plan's name, with '?' for what cannot be printed */
    uint32_t blocks;              /* the most blocks that a rank has */
    uint32_t channels;            /* the most channels, memory and port together, that a rank has */
    uint32_t chunks;              /* see mscclpp_plan_block_chunks */
    uint32_t unit;                /* bytes; the size of a chunk is a multiple of this */
    bool needs_whole_chunks;      /* mscclpp_plan_needs_whole_chunks */
    bool shares;                  /* ranks access the input or output of their peers */
    bool writes_input;            /* it writes the input, although it is not in place */
    bool mixes;                   /* the scratch holds packets and other data */
    bool may_order;               /* packets may have to order other stores: only a simulation can tell */
    bool orders;                  /* so they have to, as far as mscclpp_plan_library_prove knows */
    bool extreme;                 /* it serves only the operation `reduce`, min or max */
    bool multicast;               /* it has operations on switch channels */
    mscclpp_plan_reduce_t reduce; /* if `extreme` */
    mscclpp_plan_prove_t proven;  /* how far mscclpp_plan_library_prove has come */
} mscclpp_plan_file_t;

typedef struct mscclpp_plan_library mscclpp_plan_library_t;

/*
 * Makes a library of the files and folders `places`, separated by commas or colons. A folder stands for all its files
 * whose names end in .json, in the order of their names. Nothing is read yet. Returns NULL, with a message logged, if
 * there is no memory.
 */
mscclpp_plan_library_t *mscclpp_plan_library_create(const char *places);
void mscclpp_plan_library_destroy(mscclpp_plan_library_t *library); /* NULL is allowed */

/*
 * Returns the number of files, and sets *files_p to their list, whose entries stay where they are. The first call reads
 * and checks the files. Thread-safe. A NULL library has no files.
 */
int mscclpp_plan_library_load(mscclpp_plan_library_t *library, mscclpp_plan_file_t **files_p);

/*
 * Returns why ranks on GPUs, or on the host twin, cannot use a plan: a constant text, the same on all ranks. NULL: they
 * can. Plans with switch channels run on the twin only: it carries them out rank by rank. GPUs would need multicast,
 * which this component does not use.
 */
const char *mscclpp_plan_library_misfit(const mscclpp_plan_file_t *file, bool on_twin);

/*
 * Proves a plan as far as `prove` says. Does nothing for a refused plan, and simulates nothing that this process or an
 * earlier one has proven (plan/proofs.h). Sets `refusal` if the proof fails. Thread-safe.
 */
void mscclpp_plan_library_prove(mscclpp_plan_file_t *file, mscclpp_plan_prove_t prove);

#endif
