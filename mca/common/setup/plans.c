/*
 * Finds the execution plans that a team uses: those that all of its ranks have, byte by byte. A plan that one rank
 * lacks is left out by all, so that all ranks choose alike. One line says so, on one rank, once in a process.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mca/common/algo/rules.h"
#include "mca/common/base/log.h"
#include "mca/common/oob/vote.h"
#include "mca/common/setup/internal.h"
#include "mca/common/team/plans.h"

/* The most plans of a team. */
#define PLANS_MAX 256

/* A plan's file that a rank has. */
typedef struct {
    uint64_t digest; /* of the file */
    uint64_t state;  /* READY, REFUSED or OF_OTHER_GPUS, as that rank sees it */
    uint64_t orders; /* rank 0's entry, not 0: the plan's packets have to order other stores */
} entry_t;

enum {
    READY,        /* the rank can use the plan */
    REFUSED,      /* the rank refuses it; rank 0 also if a proof fails */
    OF_OTHER_GPUS /* it is for another GPU than the rank uses */
};

/* The plans of one rank, as it sends them to all others. */
typedef struct {
    uint64_t count;
    entry_t entries[PLANS_MAX];
} list_t;

/* Claims the one message that each file gets in this process. Returns true if this call has got it. */
static bool claim_message(mscclpp_plan_file_t *file)
{
    return !__atomic_exchange_n(&file->is_reported, true, __ATOMIC_RELAXED);
}

/* Returns the reason why a plan does not fit a team of several nodes, as a constant string, or NULL if it fits. */
static const char *reason_of_misfit_between_nodes(const mscclpp_team_t *team, const mscclpp_plan_file_t *file)
{
    bool packets;
    const char *reason = mscclpp_plan_nodes_misfit(file->plan, mscclpp_fabric_nodes(team->fabric)->node_of, &packets);

    if (reason != NULL) {
        return reason;
    }
    if (file->plan->rank_count > MSCCLPP_DEV_MAX_RANKS) {
        return "it has more ranks than its kernels can tell apart";
    }
    return mscclpp_fabric_can_join(team->fabric, packets)
               ? NULL
               : "its nodes differ in size, or what joins them does not reach the GPUs' memory, or carries no packets";
}

/*
 * Returns why a plan, which has been read, does not fit a team, as a constant string, or NULL if it fits. The result is
 * equal on all ranks that have the plan.
 */
static const char *reason_of_misfit(const mscclpp_team_t *team, const mscclpp_plan_file_t *file)
{
    if (file->plan->rank_count != (uint32_t)team->group.oob.size) {
        return "it is for another number of ranks";
    }
    /* All blocks must run at once. block_limit is how many surely do; 0: no limit, on the twin. */
    if (team->runner.block_limit != 0 && file->blocks > team->runner.block_limit) {
        return "it has more blocks than surely run at once on these GPUs";
    }
    return team->fabric != NULL ? reason_of_misfit_between_nodes(team, file) : NULL;
}

/* Returns the proof that the parameter plan_check asks for. */
static mscclpp_plan_prove_t proof_wanted(const mscclpp_config_t *config)
{
    return strcmp(config->plan_check, "full") == 0  ? MSCCLPP_PLAN_PROVE_ALL
           : strcmp(config->plan_check, "off") == 0 ? MSCCLPP_PLAN_PROVE_NONE
                                                    : MSCCLPP_PLAN_PROVE_PACKETS;
}

/* Logs why a file is not used: as a warning on rank 0, once in this process, else as debug output. */
static void report_refusal(const mscclpp_team_t *team, mscclpp_plan_file_t *file, const char *reason)
{
    const bool is_warning = team->group.oob.rank == 0 && claim_message(file);

    mscclpp_log(is_warning ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_DEBUG, "%s: execution plan %s: %s: not used",
                team->group.oob.label, file->path, reason);
}

/*
 * Returns true if a plan is for the GPU that this rank uses, or for any GPU. The twin's device is called "host". If the
 * GPU's address is unknown, returns false. Then no rank uses the plan, and nothing is said of it.
 */
static bool is_for_gpu(const mscclpp_team_t *team, const mscclpp_plan_file_t *file)
{
    const uint32_t rank = (uint32_t)team->group.oob.rank;
    mscclpp_gpu_info_t info;

    if (file->plan->gpus == NULL) {
        return true;
    }
    if (team->group.on_twin) {
        return strcmp(file->plan->gpus[rank], "host") == 0;
    }
    return team->runner.gpu->device_info(team->runner.device, &info) == MSCCLPP_OK &&
           strcasecmp(file->plan->gpus[rank], info.pci_bus_id) == 0;
}

/*
 * Lists this rank's files that fit the team, and logs why the others do not. Rank 0 also proves the plans, for all
 * ranks. A file that is refused, by a proof or before, is listed as REFUSED. If rank 0 lists a file as REFUSED, no
 * other rank reports it as missing.
 */
static void fill_list(const mscclpp_team_t *team, const mscclpp_config_t *config, mscclpp_plan_file_t *files,
                      int file_count, list_t *list)
{
    for (int i = 0; i < file_count; ++i) {
        mscclpp_plan_file_t *file = &files[i];
        const bool is_usable = file->plan != NULL && file->refusal == NULL;
        const char *team_misfit = is_usable ? reason_of_misfit(team, file) : NULL;
        const char *device_misfit =
            is_usable && team_misfit == NULL ? mscclpp_plan_library_misfit(file, team->group.on_twin) : NULL;

        if (team_misfit == NULL && device_misfit == NULL && team->group.oob.rank == 0) {
            mscclpp_plan_library_prove(file, proof_wanted(config));
        }
        if (file->refusal != NULL || file->plan == NULL || device_misfit != NULL) {
            report_refusal(team, file,
                           file->refusal != NULL   ? file->refusal
                           : device_misfit != NULL ? device_misfit
                                                   : "no memory");
        }
        if (file->plan == NULL || device_misfit != NULL) {
            continue;
        } else if (team_misfit != NULL) {
            mscclpp_log(team->group.oob.rank == 0 ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_DEBUG,
                        "%s: execution plan %s (%s): %s (%u ranks, %u blocks): not used", team->group.oob.label,
                        file->path, file->label, team_misfit, file->plan->rank_count, file->blocks);
        } else if (list->count == PLANS_MAX) {
            mscclpp_warn("%s: execution plan %s: more than %d plans for one communicator: not used",
                         team->group.oob.label, file->path, PLANS_MAX);
        } else {
            list->entries[list->count++] = (entry_t){.digest = file->digest,
                                                     .state = file->refusal != NULL    ? REFUSED
                                                              : is_for_gpu(team, file) ? READY
                                                                                       : OF_OTHER_GPUS,
                                                     .orders = file->packets_order_stores};
        }
    }
}

/*
 * Checks how many plans each rank lists, because the lists come from other processes. Returns false, on all ranks and
 * logged, if there are too many.
 */
static bool counts_are_valid(const mscclpp_oob_t *oob, const list_t *lists)
{
    for (int rank = 0; rank < oob->size; ++rank) {
        if (lists[rank].count > PLANS_MAX) {
            mscclpp_log(oob->rank == 0 ? MSCCLPP_LOG_ERROR : MSCCLPP_LOG_INFO,
                        "%s: rank %d lists %llu execution plans; at most %d are allowed", oob->label, rank,
                        (unsigned long long)lists[rank].count, PLANS_MAX);
            return false;
        }
    }
    return true;
}

/* Returns true if a rank's list has a plan in this state. */
static bool has_entry(const list_t *list, uint64_t digest, uint64_t state)
{
    for (uint64_t i = 0; i < list->count; ++i) {
        if (list->entries[i].digest == digest && list->entries[i].state == state) {
            return true;
        }
    }
    return false;
}

/* Returns this rank's file that has this digest and can be used; NULL: there is none. */
static mscclpp_plan_file_t *find_by_digest(mscclpp_plan_file_t *files, int file_count, uint64_t digest)
{
    for (int i = 0; i < file_count; ++i) {
        if (files[i].digest == digest && files[i].plan != NULL && files[i].refusal == NULL) {
            return &files[i];
        }
    }
    return NULL;
}

/* Returns the first rank that lacks a file or cannot use it; -1: none. */
static int first_rank_without(const list_t *lists, int size, uint64_t digest)
{
    for (int rank = 0; rank < size; ++rank) {
        if (!has_entry(&lists[rank], digest, READY)) {
            return rank;
        }
    }
    return -1;
}

/*
 * Returns true if a plan is for another GPU than some rank uses. That is no fault: each part of a machine may have
 * plans of its own.
 */
static bool is_of_other_gpus(const list_t *lists, int size, uint64_t digest)
{
    bool is_other = false;

    for (int rank = 0; rank < size; ++rank) {
        is_other = is_other || has_entry(&lists[rank], digest, OF_OTHER_GPUS);
    }
    return is_other;
}

/* Returns the first rank that has a file. `own_rank` has it. */
static int first_rank_with(const list_t *lists, int own_rank, uint64_t digest)
{
    int rank = 0;

    while (rank < own_rank && !has_entry(&lists[rank], digest, READY)) {
        ++rank;
    }
    return rank;
}

/*
 * Logs the files that some rank lacks. Each file is logged by the first rank that has it. A file is not logged if rank
 * 0 has refused it, since rank 0 has then logged why, or if its plan is for other GPUs than some rank uses.
 */
static void report_missing(const mscclpp_team_t *team, const list_t *lists, mscclpp_plan_file_t *files, int file_count)
{
    const list_t *own_list = &lists[team->group.oob.rank];

    for (uint64_t i = 0; i < own_list->count; ++i) {
        const uint64_t digest = own_list->entries[i].digest;
        mscclpp_plan_file_t *file = find_by_digest(files, file_count, digest);
        const int lacking_rank = first_rank_without(lists, team->group.oob.size, digest);
        const bool is_explained =
            has_entry(&lists[0], digest, REFUSED) || is_of_other_gpus(lists, team->group.oob.size, digest);

        if (file == NULL || lacking_rank < 0 || is_explained ||
            first_rank_with(lists, team->group.oob.rank, digest) != team->group.oob.rank) {
            continue;
        }
        if (claim_message(file)) {
            mscclpp_warn("%s: execution plan %s (%s): rank %d lacks this file, has another one or refuses it: not used",
                         team->group.oob.label, file->path, file->label, lacking_rank);
        }
    }
}

/*
 * Makes the team's list of plans: those that all ranks can use, in the order of rank 0's list. Returns this rank's own
 * status, on which the ranks then vote: MSCCLPP_OK or MSCCLPP_ERR_NO_MEMORY. mscclpp_team_destroy frees the list.
 */
static mscclpp_status_t make_team_plans(mscclpp_team_t *team, const list_t *lists, mscclpp_plan_file_t *files,
                                        int file_count)
{
    const list_t *list_of_0 = &lists[0];

    team->plans = list_of_0->count > 0 ? calloc(list_of_0->count, sizeof(*team->plans)) : NULL;
    if (list_of_0->count > 0 && team->plans == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    for (uint64_t i = 0; i < list_of_0->count; ++i) {
        mscclpp_plan_file_t *file = find_by_digest(files, file_count, list_of_0->entries[i].digest);
        mscclpp_team_plan_t *plan = &team->plans[team->plan_count];

        if (first_rank_without(lists, team->group.oob.size, list_of_0->entries[i].digest) >= 0) {
            continue;
        }
        if (file == NULL) {
            /* Another thread has refused the file in the meantime. The vote that follows makes all ranks fail. */
            return MSCCLPP_ERR_NO_MEMORY;
        }
        plan->file = file;
        plan->rule = mscclpp_rule_hash_plan(file->plan->name);
        plan->refused = UINT64_MAX;
        plan->orders = list_of_0->entries[i].orders != 0;
        ++team->plan_count;
    }
    if (team->group.oob.rank == 0) {
        for (int i = 0; i < team->plan_count; ++i) {
            mscclpp_info("%s: %s from %s%s", team->group.oob.label, team->plans[i].file->label,
                         team->plans[i].file->path, team->plans[i].orders ? ", whose packets order other stores" : "");
        }
    }
    return MSCCLPP_OK;
}

/*
 * Warns, on rank 0 and once in this process, if rules for this team name a plan that the team does not have. Rules for
 * another number of nodes are ignored.
 */
static void report_rules(const mscclpp_team_t *team)
{
    const mscclpp_protocol_t *protocol = &team->protocol;
    static bool has_reported;
    const uint64_t nodes = team->fabric != NULL ? (uint64_t)mscclpp_fabric_nodes(team->fabric)->count : 0;
    uint64_t missing = 0;

    for (uint64_t i = 0; i < protocol->rules.count + protocol->coll_rules.count; ++i) {
        const bool is_allreduce = i < protocol->rules.count;
        const uint64_t index = is_allreduce ? i : i - protocol->rules.count;
        const int64_t algorithm =
            is_allreduce ? protocol->rules.rules[index].algorithm : protocol->coll_rules.rules[index].algorithm;
        const uint64_t rule_nodes =
            is_allreduce ? protocol->rules.rules[index].nodes : protocol->coll_rules.rules[index].nodes;
        bool is_available = algorithm < MSCCLPP_RULE_PLANS || rule_nodes != nodes;

        for (int j = 0; j < team->plan_count && !is_available; ++j) {
            is_available = team->plans[j].rule == algorithm;
        }
        missing += !is_available;
    }
    if (missing > 0 && team->group.oob.rank == 0 && !__atomic_exchange_n(&has_reported, true, __ATOMIC_RELAXED)) {
        mscclpp_warn("%s: coll_mscclpp_rules: %llu rules for %d ranks name an execution plan that these ranks do not "
                     "have: other algorithms serve such calls",
                     team->group.oob.label, (unsigned long long)missing, team->group.oob.size);
    }
}

/*
 * Finds the plans that all ranks have. If no rank has plans, exchanges nothing, and only checks whether rules name any.
 * The ranks vote where one of them may lack memory, so all return the same status. The library keeps the files, so the
 * team's plans may point to them.
 */
mscclpp_status_t mscclpp_setup_plans(mscclpp_team_t *team, const mscclpp_team_params_t *params, bool has_plans,
                                     mscclpp_status_t *own_status_p)
{
    mscclpp_plan_file_t *files = NULL;
    const mscclpp_oob_t *oob = &team->group.oob;
    list_t *lists = NULL;
    mscclpp_status_t status = MSCCLPP_OK;
    int file_count = 0;

    *own_status_p = MSCCLPP_OK;
    if (has_plans) {
        lists = calloc((size_t)team->group.oob.size + 1, sizeof(*lists));
        *own_status_p = lists != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;
        status = mscclpp_agree(oob, NULL, *own_status_p, "memory for execution plans");
    }
    if (has_plans && status == MSCCLPP_OK) {
        file_count = mscclpp_plan_library_load(params->plans, &files);
        fill_list(team, params->config, files, file_count, &lists[team->group.oob.size]);
        status = oob->allgather(oob->context, &lists[team->group.oob.size], lists, sizeof(*lists));
    }
    if (has_plans && status == MSCCLPP_OK && !counts_are_valid(oob, lists)) {
        status = *own_status_p = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (has_plans && status == MSCCLPP_OK) {
        report_missing(team, lists, files, file_count);
        *own_status_p = make_team_plans(team, lists, files, file_count);
        status = mscclpp_agree(oob, NULL, *own_status_p, "memory for execution plans");
    }
    if (status == MSCCLPP_OK) {
        report_rules(team);
    }
    free(lists);
    return status;
}
