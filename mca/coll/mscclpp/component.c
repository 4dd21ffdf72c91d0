/* The component as Open MPI sees it: opening, closing, and the query whether it can be used in this process. */
#include "mca/coll/mscclpp/component.h"

#include "mca/coll/mscclpp/check/check.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll/mscclpp/native/gate.h"
#include "mca/coll/mscclpp/native/native.h"
#include "mca/coll/mscclpp/stage/stage.h"
#include "mca/common/setup/setup.h"
#include "mca/common/base/log.h"
#include "mca/common/gpu/refusing.h"

#ifndef MSCCLPP_VERSION_MAJOR
#define MSCCLPP_VERSION_MAJOR 0
#define MSCCLPP_VERSION_MINOR 1
#define MSCCLPP_VERSION_RELEASE 0
#endif

static int component_register(void);
static int component_open(void);
static int component_close(void);
static int component_init_query(bool enable_progress_threads, bool enable_mpi_threads);

/* The component's description, which Open MPI finds by this name. */
extern __attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_mscclpp_component;

mca_coll_base_component_t mca_coll_mscclpp_component = {
    .collm_version =
        {
            MCA_COLL_MSCCLPP_BASE_VERSION,
            .mca_component_name = "mscclpp",
            MCA_BASE_MAKE_VERSION(component, MSCCLPP_VERSION_MAJOR, MSCCLPP_VERSION_MINOR, MSCCLPP_VERSION_RELEASE),
            .mca_open_component = component_open,
            .mca_close_component = component_close,
            .mca_register_component_params = component_register,
        },
    /* Cannot be restored from a checkpoint: mapped device memory would be lost. */
    .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .collm_init_query = component_init_query,
    .collm_comm_query = mca_coll_mscclpp_comm_query,
};

#ifdef MCA_BASE_COMPONENT_INIT
MCA_BASE_COMPONENT_INIT(ompi, coll, mscclpp)
#endif

/* Writes one line of the host library's log to Open MPI's output (mscclpp_log_set). */
static void log_to_opal_output(void *context, mscclpp_log_level_t level, const char *line)
{
    static const char *const names[] = {"error: ", "warning: ", "", ""};
    const char *name = (unsigned)level < sizeof(names) / sizeof(names[0]) ? names[level] : "";

    (void)context;
    /* Output stream 0 is Open MPI's own and always there; ours is open between component_open and component_close. */
    opal_output(mca_coll_mscclpp_state.output >= 0 ? mca_coll_mscclpp_state.output : 0, "coll:mscclpp: %s%s", name,
                line);
}

/* Sends the host library's log to Open MPI's output. Errors and warnings are printed whatever `verbose` is. */
static void install_log_sink(void)
{
    int verbose = mca_coll_mscclpp_state.config.verbose;
    mscclpp_log_level_t level = verbose > MSCCLPP_LOG_WARN ? (mscclpp_log_level_t)verbose : MSCCLPP_LOG_WARN;

    mscclpp_log_set(log_to_opal_output, NULL, level);
}

/*
 * Returns true if Open MPI's structures have the sizes that this component was compiled with. Open MPI has changed
 * their layout without changing a version, so neither the loader nor Open MPI refuses a component built for another
 * layout. The sizes that Open MPI was compiled with are in its class descriptors.
 */
static bool abi_matches(void)
{
    static const struct {
        const char *name;
        size_t ours;
        const opal_class_t *class;
    } structures[] = {
#define ABI_ROW(type_) {#type_, sizeof(type_), OBJ_CLASS(type_)}
        ABI_ROW(mca_coll_base_module_t),
        ABI_ROW(ompi_communicator_t),
        ABI_ROW(ompi_group_t),
        ABI_ROW(ompi_request_t),
        ABI_ROW(ompi_coll_base_nbc_request_t),
        ABI_ROW(ompi_datatype_t),
        ABI_ROW(ompi_op_t),
        ABI_ROW(ompi_proc_t),
        ABI_ROW(mca_base_component_list_item_t),
#undef ABI_ROW
    };

    for (size_t i = 0; i < sizeof(structures) / sizeof(structures[0]); ++i) {
        if (structures[i].ours != structures[i].class->cls_sizeof) {
            mscclpp_error("built for another Open MPI: %s has %zu bytes here and %zu in the running library; component "
                          "disabled, build it again",
                          structures[i].name, structures[i].ours, (size_t)structures[i].class->cls_sizeof);
            return false;
        }
    }
    return true;
}

/*
 * Registers the parameters and reads their values, and registers the counters. Open MPI calls this function before it
 * opens the component. If it returns an error, which is logged where it is found, Open MPI does not use the component.
 *
 * The sink is installed twice: first with the default level, for errors of this function, then with the user's level.
 * own_config keeps this rank's values, because rank 0's replace those in `config` later (settings.c).
 */
static int component_register(void)
{
    int rc;

    mca_coll_mscclpp_state.version = &mca_coll_mscclpp_component.collm_version;
    mscclpp_config_init(&mca_coll_mscclpp_state.config);
    install_log_sink();
    if (!abi_matches()) {
        return OMPI_ERR_NOT_AVAILABLE;
    }
    rc = mca_coll_mscclpp_register_params();
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    mca_coll_mscclpp_state.own_config = mca_coll_mscclpp_state.config;
    install_log_sink();
    mca_coll_mscclpp_register_counters();
    return OMPI_SUCCESS;
}

/*
 * Opens the log's stream, and publishes the settings. The settings are published here, because Open MPI exchanges what
 * components have published between opening them and component_init_query, where the other ranks adopt them.
 */
static int component_open(void)
{
    mca_coll_mscclpp_state.output = opal_output_open(NULL);
    mca_coll_mscclpp_state.finalizing = false;
    mca_coll_mscclpp_widen_selection();
    mca_coll_mscclpp_publish_settings();
    return OMPI_SUCCESS;
}

/*
 * Frees all parts of the component: each part before the parts that it needs. `gpu` is NULL if component_init_query has
 * failed or was never called; then there is nothing to end but the log.
 */
static int component_close(void)
{
    if (mca_coll_mscclpp_state.gpu != NULL) {
        mca_coll_mscclpp_progress_fini();
        mca_coll_mscclpp_mixture_fini();
        mca_coll_mscclpp_check_fini();
        mca_coll_mscclpp_request_fini();
        mca_coll_mscclpp_stage_fini();
        /* Teams can be left here only in programs that use sessions alone, which have no MPI_COMM_SELF. */
        mscclpp_team_finalize(0);
        mscclpp_rules_destroy(mca_coll_mscclpp_state.rules);
        mca_coll_mscclpp_state.rules = NULL;
        mscclpp_plan_library_destroy(mca_coll_mscclpp_state.plans);
        mca_coll_mscclpp_state.plans = NULL;
        mca_coll_mscclpp_state.gpu = NULL;
    }
    /*
     * Removes the sink, because its code is about to be unloaded together with the host library. The default sink
     * writes to stderr.
     */
    mscclpp_log_set(NULL, NULL, mscclpp_log_level);
    if (mca_coll_mscclpp_state.output >= 0) {
        opal_output_close(mca_coll_mscclpp_state.output);
        mca_coll_mscclpp_state.output = -1;
    }
    return OMPI_SUCCESS;
}

/*
 * Returns true if collectives without kernels have to copy device buffers, because the component that serves them
 * cannot take such buffers.
 */
static bool others_need_staging(const char *stage, const mscclpp_gpu_ops_t *gpu)
{
    if (0 == strcmp(stage, "auto")) {
        /* The twin imitates a GPU that Open MPI does not know. */
        return !opal_built_with_cuda_support || gpu->twin;
    }
    return 0 == strcmp(stage, "always");
}

/* Returns the number of ranks that the launcher has written into an environment variable; 0: there is none. */
static long launcher_count(const char *variable)
{
    const char *value = getenv(variable);

    return value == NULL ? 0 : strtol(value, NULL, 10);
}

/* Returns true if the ranks of this job may be on several nodes, or are to be treated so (ranks_per_node). */
static bool may_span_nodes(const mscclpp_config_t *config)
{
    const long ranks = launcher_count("OMPI_COMM_WORLD_SIZE"),
               ranks_here = launcher_count("OMPI_COMM_WORLD_LOCAL_SIZE");

    return 0 != config->ranks_per_node || ranks <= 0 || ranks_here < ranks;
}

/*
 * Returns true if UCX has to be loaded, which makes MPI_Init some milliseconds longer. On one node nothing needs it. A
 * user who needs it for nodes of other jobs, which join later, names a transport that uses UCX.
 */
static bool wants_ucx(const mscclpp_config_t *config)
{
    if (0 == strcmp(config->transport, "ucx") || 0 == strcmp(config->transport, "network")) {
        return true;
    }
    return (config->ucx || 0 == strcmp(config->transport, "auto")) && may_span_nodes(config);
}

/* Reads the rules file, and notes the files of plans, which the first communicator reads. */
static void read_files(mca_coll_mscclpp_state_t *state)
{
    if ('\0' != state->config.rules[0]) {
        /* A bad file is reported, and then the built-in table is used. */
        (void)mscclpp_rules_read(state->config.rules, &state->rules);
    }
    if ('\0' != state->config.plans[0]) {
        state->plans = mscclpp_plan_library_create(state->config.plans);
    }
}

/*
 * Starts the parts that the whole process needs, and returns OMPI_SUCCESS. Open MPI calls this once, in MPI_Init, to
 * ask whether the component can be used. The answer is no if the settings turn the component off, if there is no
 * device, or if a part fails to start. Then ends the parts that were started, and returns OMPI_ERR_NOT_AVAILABLE: Open
 * MPI continues without this component.
 */
static int component_init_query(bool enable_progress_threads, bool enable_mpi_threads)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    const mscclpp_gpu_ops_t *gpu;

    (void)enable_progress_threads;
    (void)enable_mpi_threads; /* all of this component is always thread-safe */
    mca_coll_mscclpp_adopt_settings();
    if (!state->config.enable || state->config.priority < 0) {
        return OMPI_ERR_NOT_AVAILABLE;
    }
    if (MSCCLPP_OK != mscclpp_gpu_open_later(state->config.device, &gpu)) {
        return OMPI_ERR_NOT_AVAILABLE; /* no error for "auto"; for other values, the cause has been reported */
    }
    gpu = mscclpp_gpu_refusing(gpu);
    if (OMPI_SUCCESS != mca_coll_mscclpp_stage_init()) {
        return OMPI_ERR_NOT_AVAILABLE;
    }
    if (OMPI_SUCCESS != mca_coll_mscclpp_request_init()) {
        goto err_stage_fini;
    }
    if (OMPI_SUCCESS != mca_coll_mscclpp_check_init()) {
        goto err_request_fini;
    }
    if (OMPI_SUCCESS != mca_coll_mscclpp_mixture_init()) {
        goto err_check_fini;
    }
    if (OMPI_SUCCESS != mca_coll_mscclpp_progress_init()) {
        goto err_mixture_fini;
    }
    read_files(state);
    /* Called here because an application that uses threads has most likely not started them yet. */
    mscclpp_setup_prepare(wants_ucx(&state->config));
    state->stage_others = others_need_staging(state->config.stage, gpu);
    state->gpu = gpu; /* once this is set, modules are made, and component_close ends what was started here */
    state->bind = mca_coll_mscclpp_bind;
    if (state->stage_others && gpu->twin) {
        /*
         * On the twin, memory of Open MPI's own collectives is device memory, too. These collectives must not fail for
         * lack of a stream.
         */
        mca_coll_mscclpp_stage_open(0);
    }
    mscclpp_info("device %s; other collectives %s", gpu->name,
                 state->stage_others ? "stage device buffers" : "are left alone");
    return OMPI_SUCCESS;

err_mixture_fini:
    mca_coll_mscclpp_mixture_fini();

err_check_fini:
    mca_coll_mscclpp_check_fini();

err_request_fini:
    mca_coll_mscclpp_request_fini();

err_stage_fini:
    mca_coll_mscclpp_stage_fini();
    return OMPI_ERR_NOT_AVAILABLE;
}
