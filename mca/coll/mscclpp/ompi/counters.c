/* What a tool, or a test, can read of this process through MPI_T: who served its calls. */
#include "mca/coll/mscclpp/ompi/module.h"

#include "opal/mca/base/mca_base_pvar.h"

static unsigned long long served_calls;
static unsigned long long staged_calls;
static unsigned long long rung_calls;

static void register_counter(const char *name, const char *description, unsigned long long *counter)
{
    /* Without the variable nothing but its value is lost. */
    (void)mca_base_component_pvar_register(
        mca_coll_mscclpp_state.version, name, description, OPAL_INFO_LVL_5, MCA_BASE_PVAR_CLASS_COUNTER,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, NULL, NULL, NULL, counter);
}

void mca_coll_mscclpp_register_counters(void)
{
    register_counter("served", "Collective calls of this process that kernels served", &served_calls);
    register_counter("staged", "Collective calls of this process that were staged through pinned host memory",
                     &staged_calls);
    register_counter("rung", "Collective calls of this process that a lingering kernel served, without a launch",
                     &rung_calls);
}

void mca_coll_mscclpp_count_anew(mca_coll_mscclpp_module_t *module)
{
    module->rung = mscclpp_team_lingered(module->team);
}

/* `rung`: the calls of that team that have been counted as rung for. */
void mca_coll_mscclpp_count_served_by(mca_coll_mscclpp_module_t *module, const mscclpp_team_t *team, uint64_t *rung)
{
    const uint64_t rings = mscclpp_team_lingered(team);

    ++module->served;
    if (rings != *rung) {
        __atomic_fetch_add(&rung_calls, rings - *rung, __ATOMIC_RELAXED);
        *rung = rings;
    }
    __atomic_fetch_add(&served_calls, 1, __ATOMIC_RELAXED);
}

void mca_coll_mscclpp_count_served(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_count_served_by(module, module->team, &module->rung);
}

uint64_t mca_coll_mscclpp_served_calls(void)
{
    return __atomic_load_n(&served_calls, __ATOMIC_RELAXED);
}

void mca_coll_mscclpp_count_staged(mca_coll_mscclpp_module_t *module)
{
    __atomic_fetch_add(&module->staged, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&staged_calls, 1, __ATOMIC_RELAXED);
}
