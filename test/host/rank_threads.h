/* Ranks as threads of one process. So ThreadSanitizer sees each word of the protocol at one address. */
#ifndef TEST_HOST_RANK_THREADS_H
#define TEST_HOST_RANK_THREADS_H

#include "mca/common/base/config.h"
#include "mca/common/task/task.h"
#include "mca/common/team/team.h"

#define RANKS_MAX 1024

typedef struct {
    int rank;
    int size;
    mscclpp_oob_t oob;
    const mscclpp_config_t *config;
    const mscclpp_gpu_ops_t *gpu; /* the host twin's; the body may change this and the next six before create_team */
    int device;
    bool concurrent;                /* as in mscclpp_team_params_t */
    mscclpp_admission_t *admission; /* as in mscclpp_team_params_t */
    bool own_process;               /* the same */
    const mscclpp_rules_t *rules;   /* the same */
    bool reuse;                     /* the same */
    void *argument;
    int failures; /* counted by the body, summed by run_ranks */
} rank_t;

/*
 * Runs `body` on `size` threads, one a rank, and returns the sum of their failures. Each run is a world of its own:
 * several may go on at once, and all-gathers of different worlds do not meet.
 */
int run_ranks(int size, const mscclpp_config_t *config, void (*body)(rank_t *rank), void *argument);

/* Creates a team of all ranks on the twin; collective. If that fails, counts a failure and returns NULL. */
mscclpp_team_t *create_team(rank_t *rank);

/* Creates a team with a given configuration. Counts no failure and prints nothing. */
mscclpp_status_t try_team(rank_t *rank, const mscclpp_config_t *config, mscclpp_team_t **team_p);

/* A barrier of all ranks. */
void meet(rank_t *rank);

/* True if `flag` is true on any rank; collective. */
bool meet_any(rank_t *rank, bool flag);

/* From now on the check of every rank's oob says that the group cannot finish. */
void revoke_all(rank_t *rank);

#endif
