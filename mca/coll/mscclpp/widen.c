/*
 * Adds the components that `--mca coll mscclpp` leaves out.
 *
 * That option tells Open MPI to load this component alone. But then no communicator can be made, because each of 50
 * functions needs a component that serves it. So this component loads others while it is opened; the list of components
 * is not final before.
 *
 * A program that uses Open MPI's parameters before MPI_Init, as MPI_T_init_thread does, registers all components
 * whatever the list says, and may change the list. Components that the list does not name are unloaded before the first
 * one is opened.
 */
#include "mca/coll/mscclpp/component.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

/* The components without which no communicator can be made. */
static const char *const needed[] = {"basic", "libnbc"};

#define NEEDED_COUNT ((int)(sizeof(needed) / sizeof(needed[0])))

/* Returns true if a NULL-terminated list contains the name. The list itself may be NULL: it is then empty. */
static bool is_listed(char **names, const char *name)
{
    for (; names != NULL && *names != NULL; ++names) {
        if (0 == strcmp(*names, name)) {
            return true;
        }
    }
    return false;
}

/* Returns true if Open MPI has opened a component or is about to open it. */
static bool is_loaded(const char *name)
{
    mca_base_component_list_item_t *item;

    OPAL_LIST_FOREACH(item, &ompi_coll_base_framework.framework_components, mca_base_component_list_item_t)
    {
        if (0 == strcmp(item->cli_component->mca_component_name, name)) {
            return true;
        }
    }
    return false;
}

/*
 * Returns true if a component exists and can be loaded. Ask before you load one: loading one that does not exist is
 * fatal.
 */
static bool can_be_loaded(const char *name)
{
    mca_base_framework_t *framework = &ompi_coll_base_framework;
    mca_base_component_repository_item_t *file;
    opal_list_t *files = NULL;

    for (int i = 0; framework->framework_static_components != NULL && framework->framework_static_components[i] != NULL;
         ++i) {
        if (0 == strcmp(mca_coll_mscclpp_static_component(framework, i)->mca_component_name, name)) {
            return true;
        }
    }
    if (OPAL_SUCCESS != mca_base_component_repository_get_components(framework, &files) || files == NULL) {
        return false;
    }
    OPAL_LIST_FOREACH(file, files, mca_base_component_repository_item_t)
    {
        if (0 == strcmp(file->ri_name, name)) {
            return true;
        }
    }
    return false;
}

/* Registers the parameters of a component and opens it, as Open MPI does. Returns false if it wants to be left out. */
static bool start_component(const mca_base_component_t *component)
{
    if (component->mca_register_component_params != NULL &&
        OPAL_SUCCESS != component->mca_register_component_params()) {
        return false; /* the component stays in memory, which does no harm */
    }
    if (component->mca_open_component != NULL && OPAL_SUCCESS != component->mca_open_component()) {
        mca_base_component_close(component, ompi_coll_base_framework.framework_output);
        return false;
    }
    return true;
}

/*
 * Loads one component, which must exist, and opens it. Returns true if it can be used. Components are loaded one at a
 * time, so that a file that cannot be loaded does not keep others from loading. Open MPI reports such a file to the
 * user.
 */
static bool load_component(char *name)
{
    mca_base_framework_t *framework = &ompi_coll_base_framework;
    opal_list_t *components = &framework->framework_components;
    opal_list_item_t *last = opal_list_get_last(components);
    char *selection = framework->framework_selection;
    bool loaded_any = false;
    int rc;

    framework->framework_selection = name; /* the name that the next call searches for; nothing else uses it
                                              meanwhile */
    rc = mca_base_component_find(NULL, framework, false, true);
    framework->framework_selection = selection;
    if (OPAL_SUCCESS != rc) {
        mscclpp_warn("cannot load the coll component %s (Open MPI error %d)", name, rc);
    }
    while (opal_list_get_last(components) != last) {
        mca_base_component_list_item_t *item = (mca_base_component_list_item_t *)opal_list_remove_last(components);

        if (start_component(item->cli_component)) {
            /*
             * Inserted before this component, which Open MPI is opening now: it will open the components behind this
             * one itself.
             */
            opal_list_prepend(components, &item->super);
            loaded_any = true;
        } else {
            OBJ_RELEASE(item);
        }
    }
    return loaded_any;
}

/*
 * Returns the names in `list`, which are separated by commas, whose components exist and are not loaded yet. The result
 * is an array that NULL ends, or NULL if there are none. The caller frees it by opal_argv_free.
 */
static char **missing_names(const char *list)
{
    char **wanted = opal_argv_split(list, ',');
    char **names = NULL;

    for (char **name = wanted; name != NULL && *name != NULL; ++name) {
        if (!is_listed(names, *name) && !is_loaded(*name) && can_be_loaded(*name)) {
            (void)opal_argv_append_nosize(&names, *name);
        }
    }
    opal_argv_free(wanted);
    return names;
}

/*
 * Returns the names of the components to load: those of the parameter widen_list or, if MPI_Init would fail with these,
 * which is logged, those of its default. The result is like that of missing_names.
 */
static char **choose_names(void)
{
    const char *list = mca_coll_mscclpp_state.config.widen_list;
    const char *builtin = mscclpp_param_find("widen_list")->default_value;
    char **names = missing_names(list);
    const char *lacking[NEEDED_COUNT];
    int count = 0;

    for (int i = 0; i < NEEDED_COUNT; ++i) {
        if (!is_listed(names, needed[i]) && !is_loaded(needed[i])) {
            lacking[count++] = needed[i];
        }
    }
    if (0 == count || 0 == strcmp(list, builtin)) {
        return names;
    }
    mscclpp_error("parameter widen_list: \"%s\" is not allowed, as no communicator does without %s%s%s; use names of "
                  "coll components with commas between, such as \"%s\", which is taken instead",
                  list, lacking[0], count > 1 ? " and " : "", count > 1 ? lacking[1] : "", builtin);
    opal_argv_free(names);
    return missing_names(builtin);
}

/*
 * Does nothing if the list excludes components (^), which leaves the others loaded, or if the needed components are
 * loaded already.
 */
void mca_coll_mscclpp_widen_selection(void)
{
    const char *selection = ompi_coll_base_framework.framework_selection;
    char **added = NULL;
    char **names;
    char *joined;

    if (!mca_coll_mscclpp_state.config.widen_selection || selection == NULL || '\0' == selection[0] ||
        '^' == selection[0]) {
        return; /* there is no list of components to load */
    }
    if (is_loaded(needed[0]) && is_loaded(needed[1])) {
        return;
    }
    names = choose_names();
    for (char **name = names; name != NULL && *name != NULL; ++name) {
        if (load_component(*name)) { /* the list of added names is only for the message */
            (void)opal_argv_append_nosize(&added, *name);
        }
    }
    joined = added != NULL ? opal_argv_join(added, ',') : NULL;
    if (joined != NULL) {
        mscclpp_info("the list of coll components \"%s\" does not do for a communicator; also loaded: %s (parameter "
                     "widen_selection turns this off)",
                     selection, joined);
    }
    free(joined);
    opal_argv_free(added);
    opal_argv_free(names);
}
