/* Counters that tools and tests read through MPI_T: who served the calls of this process. */
#include "mca/coll/mscclpp/ompi/module.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mca/common/base/call.h"
#include "mca/common/base/log.h"

#include "opal/mca/base/mca_base_pvar.h"

/* The size of a plan's name in MPI's tool interface, including the terminating zero. */
#define MCA_COLL_MSCCLPP_PLAN_NAME 128

/*
 * Who served a call. A blocking, nonblocking or persistent call on the device counts once, as BY_KERNELS or BY_ENGINES.
 * A call BY_KERNELS may count as RUNG or BY_PLANS in addition. A queued call counts only as BY_PLANS, and only if a
 * plan serves the call.
 */
typedef enum { BY_KERNELS, BY_ENGINES, BY_PLANS, RUNG, STAGED, PASSED, WAYS } way_t;

/* The ways as the variables' names and descriptions word them. */
static const struct {
    const char *name;
    const char *words;
} ways[WAYS] = {
    [BY_KERNELS] = {"kernels", "served by kernels"},
    [BY_ENGINES] = {"engines", "served by copy engines"},
    [BY_PLANS] = {"plans", "served by execution plans"},
    [RUNG] = {"rung", "served by a lingering kernel, without a launch"},
    [STAGED] = {"staged", "staged through pinned host memory"},
    [PASSED] = {"passed", "left to the component before this one, as they were"},
};

/* The collectives' names in the variables. */
static const char *const collectives[MCA_COLL_MSCCLPP_COUNTED_LAST] = {
#define NAME(name_) #name_,
    MCA_COLL_MSCCLPP_BLOCKING(NAME)
#undef NAME
};

/* The reasons as the variables' names and descriptions word them. */
static const struct {
    const char *name;
    const char *words;
} reasons[MCA_COLL_MSCCLPP_REASON_LAST] = {
#define REASON(id_, name_, words_) [MCA_COLL_MSCCLPP_REASON_##id_] = {#name_, words_},
    MCA_COLL_MSCCLPP_REASONS(REASON)
#undef REASON
};

/* The counter of each collective of the host library. MSCCLPP_COLL_LAST means all-reduce. */
static const mca_coll_mscclpp_counted_t counted_as[MSCCLPP_COLL_LAST + 1] = {
#define AS(id_, name_, pattern_) [MSCCLPP_COLL_##id_] = MCA_COLL_MSCCLPP_COUNTED_##name_,
    MSCCLPP_COLLS(AS)
#undef AS
        [MSCCLPP_COLL_LAST] = MCA_COLL_MSCCLPP_COUNTED_allreduce,
};

/* The name of the plan that served the last call; "": no plan did. */
static char plan[MCA_COLL_MSCCLPP_PLAN_NAME];
static bool has_plan; /* `plan` is not empty; atomic, so that calls without plans need not take the lock */
static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;

/* The values of the counters, which are atomic. */
static unsigned long long served_calls;
static unsigned long long staged_calls;
static unsigned long long staged_for[MCA_COLL_MSCCLPP_REASON_LAST];
static unsigned long long rung_calls;
static unsigned long long planned_calls;
static unsigned long long calls[MCA_COLL_MSCCLPP_COUNTED_LAST][WAYS];

/* Registers a counter with MPI's tool interface. A failure is ignored: tools then do not see the counter. */
static void register_counter(const char *name, const char *description, unsigned long long *counter)
{
    (void)mca_base_component_pvar_register(
        mca_coll_mscclpp_state.version, name, description, OPAL_INFO_LVL_5, MCA_BASE_PVAR_CLASS_COUNTER,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, NULL, NULL, NULL, counter);
}

/* Registers a variable whose value is a text, which `read` yields. `length` tells its size. */
static void register_text(const char *name, const char *description, mca_base_notify_fn_t length,
                          mca_base_get_value_fn_t read)
{
    (void)mca_base_component_pvar_register(
        mca_coll_mscclpp_state.version, name, description, OPAL_INFO_LVL_5, MCA_BASE_PVAR_CLASS_GENERIC,
        MCA_BASE_VAR_TYPE_STRING, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read, NULL, length, NULL);
}

/* Sets *count to the size of the plan's name, terminating zero included, when a tool binds the variable. */
static int plan_length(struct mca_base_pvar_t *variable, mca_base_pvar_event_t event, void *object, int *count)
{
    (void)variable, (void)object;
    if (MCA_BASE_PVAR_HANDLE_BIND == event) {
        *count = (int)sizeof(plan);
    }
    return OPAL_SUCCESS;
}

/* Copies the name of the plan that served the last call to `value`, which has the size that plan_length told. */
static int read_plan(const struct mca_base_pvar_t *variable, void *value, void *object)
{
    (void)variable, (void)object;
    pthread_mutex_lock(&plan_lock);
    memcpy(value, plan, sizeof(plan));
    pthread_mutex_unlock(&plan_lock);
    return OPAL_SUCCESS;
}

/* Keeps the name of the plan that served the last call; NULL: no plan served it. A name that is too long is cut. */
static void note_plan(const char *name)
{
    pthread_mutex_lock(&plan_lock);
    memset(plan, 0, sizeof(plan));
    (void)snprintf(plan, sizeof(plan), "%s", name == NULL ? "" : name);
    __atomic_store_n(&has_plan, name != NULL, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&plan_lock);
}

/* Notes that no plan served the last call. Takes the lock only if a name is kept. */
static void forget_plan(void)
{
    if (OPAL_UNLIKELY(__atomic_load_n(&has_plan, __ATOMIC_RELAXED))) {
        note_plan(NULL);
    }
}

/*
 * Registers the sums over all collectives, a counter for each reason of staging, and for each collective a counter for
 * each way in which a call is served. Open MPI copies the names and descriptions, so both buffers can be reused. A
 * counter that cannot be registered is left out.
 */
void mca_coll_mscclpp_register_counters(void)
{
    char name[64], description[160];

    register_counter("served", "Collective calls of this process that kernels or copy engines served", &served_calls);
    register_counter("staged", "Collective calls of this process that were staged through pinned host memory",
                     &staged_calls);
    register_counter("rung", "Collective calls of this process that a lingering kernel served, without a launch",
                     &rung_calls);
    register_counter("planned", "Collective calls of this process that execution plans served", &planned_calls);
    register_counter("messages",
                     "Messages that this process has sent about late ranks, failures, or ranks that passed different "
                     "kinds of buffers",
                     mscclpp_messages_sent());
    register_text("plan",
                  "Name of the execution plan that served this process's last collective call on device buffers; empty "
                  "if none did",
                  plan_length, read_plan);
    for (int i = MCA_COLL_MSCCLPP_REASON_NONE + 1; i < MCA_COLL_MSCCLPP_REASON_LAST; ++i) {
        (void)snprintf(name, sizeof(name), "staged_%s", reasons[i].name);
        (void)snprintf(description, sizeof(description), "Collective calls of this process that were staged: those %s",
                       reasons[i].words);
        register_counter(name, description, &staged_for[i]);
    }
    for (int i = 0; i < MCA_COLL_MSCCLPP_COUNTED_LAST; ++i) {
        for (int way = 0; way < WAYS; ++way) {
            (void)snprintf(name, sizeof(name), "%s_%s", collectives[i], ways[way].name);
            (void)snprintf(description, sizeof(description), "Calls of %s of this process, in all variants, %s",
                           collectives[i], ways[way].words);
            register_counter(name, description, &calls[i][way]);
        }
    }
}

/* Adds `more` to a collective's counter. COUNTED_LAST has no counters. */
static void add_to_count(mca_coll_mscclpp_counted_t counted, way_t way, uint64_t more)
{
    if (counted < MCA_COLL_MSCCLPP_COUNTED_LAST) {
        __atomic_fetch_add(&calls[counted][way], more, __ATOMIC_RELAXED);
    }
}

void mca_coll_mscclpp_count_anew(mca_coll_mscclpp_module_t *module)
{
    module->rung = mscclpp_team_lingered(module->team);
}

/*
 * If the call's algorithm is a plan, counts the call and keeps the plan's name. Otherwise notes that no plan served the
 * last call.
 */
static void count_plan_of(mca_coll_mscclpp_counted_t counted, const char *algorithm)
{
    static const char prefix[] = "plan:";

    if (0 == strncmp(algorithm, prefix, strlen(prefix))) {
        add_to_count(counted, BY_PLANS, 1);
        __atomic_fetch_add(&planned_calls, 1, __ATOMIC_RELAXED);
        note_plan(algorithm + strlen(prefix));
    } else {
        forget_plan();
    }
}

void mca_coll_mscclpp_count_queued(mscclpp_coll_t coll, const mscclpp_team_t *team)
{
    count_plan_of(counted_as[coll], mscclpp_team_last_algorithm(team));
}

void mca_coll_mscclpp_count_named(const mscclpp_team_t *team)
{
    count_plan_of(MCA_COLL_MSCCLPP_COUNTED_LAST, mscclpp_team_last_algorithm(team));
}

/*
 * Counts a call as served either by kernels or by engines. Also counts it as rung if a lingering kernel served it, and
 * as planned if its algorithm was a plan. *rung is raised to the number of the team's rung calls.
 */
void mca_coll_mscclpp_count_served_by(mca_coll_mscclpp_module_t *module, mscclpp_coll_t coll,
                                      const mscclpp_team_t *team, uint64_t *rung)
{
    const mca_coll_mscclpp_counted_t counted = counted_as[coll];
    const char *algorithm = mscclpp_team_last_algorithm(team);
    const uint64_t rings = mscclpp_team_lingered(team);

    ++module->served;
    if (rings != *rung) {
        __atomic_fetch_add(&rung_calls, rings - *rung, __ATOMIC_RELAXED);
        add_to_count(counted, RUNG, rings - *rung);
        *rung = rings;
    }
    add_to_count(counted, 0 == strcmp(algorithm, "engines") ? BY_ENGINES : BY_KERNELS, 1);
    count_plan_of(counted, algorithm);
    __atomic_fetch_add(&served_calls, 1, __ATOMIC_RELAXED);
}

void mca_coll_mscclpp_count_served(mca_coll_mscclpp_module_t *module, mscclpp_coll_t coll)
{
    mca_coll_mscclpp_count_served_by(module, coll, module->team, &module->rung);
}

uint64_t mca_coll_mscclpp_served_calls(void)
{
    return __atomic_load_n(&served_calls, __ATOMIC_RELAXED);
}

/* Returns the reason of a call for which none was noted: the first property of the communicator that excludes kernels.
 */
static mca_coll_mscclpp_reason_t find_reason(const mca_coll_mscclpp_module_t *module)
{
    if (OMPI_COMM_IS_INTER(module->comm)) {
        return MCA_COLL_MSCCLPP_REASON_INTER;
    }
    if (ompi_comm_size(module->comm) > MSCCLPP_DEV_MAX_RANKS) {
        return MCA_COLL_MSCCLPP_REASON_RANKS;
    }
    if (mca_coll_mscclpp_state.config.mixed_buffers) {
        return MCA_COLL_MSCCLPP_REASON_MIXED;
    }
    return MCA_COLL_MSCCLPP_REASON_OTHER;
}

mca_coll_mscclpp_reason_t mca_coll_mscclpp_take_reason(mca_coll_mscclpp_module_t *module)
{
    const mca_coll_mscclpp_reason_t reason = module->unserved;

    module->unserved = MCA_COLL_MSCCLPP_REASON_NONE;
    return MCA_COLL_MSCCLPP_REASON_NONE == reason ? find_reason(module) : reason;
}

/*
 * `counted` is MCA_COLL_MSCCLPP_COUNTED_LAST for MPI_Reduce_local, which is counted in the sums only. The counters are
 * atomic, because MPI_Reduce_local may run in several threads.
 */
void mca_coll_mscclpp_count_staged(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_counted_t counted,
                                   mca_coll_mscclpp_reason_t reason)
{
    __atomic_fetch_add(&module->staged, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&module->staged_for[reason], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&staged_calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&staged_for[reason], 1, __ATOMIC_RELAXED);
    add_to_count(counted, STAGED, 1);
    forget_plan();
    mscclpp_debug("%s: %s staged: %s", mca_coll_mscclpp_comm_name(module->comm),
                  counted < MCA_COLL_MSCCLPP_COUNTED_LAST ? collectives[counted] : "reduce_local",
                  reasons[reason].words);
}

/*
 * A text that is not empty begins with ": ". A text that is too long is cut: `used` then reaches `size`, which ends the
 * loop.
 */
void mca_coll_mscclpp_describe_staged(const mca_coll_mscclpp_module_t *module, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < MCA_COLL_MSCCLPP_REASON_LAST && used < size; ++i) {
        const uint64_t count = __atomic_load_n(&module->staged_for[i], __ATOMIC_RELAXED);

        if (0 != count) {
            used += (size_t)snprintf(text + used, size - used, "%s%llu %s", 0 == used ? ": " : ", ",
                                     (unsigned long long)count, reasons[i].words);
        }
    }
}

void mca_coll_mscclpp_count_passed(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_counted_t counted)
{
    module->unserved = MCA_COLL_MSCCLPP_REASON_NONE;
    add_to_count(counted, PASSED, 1);
}
