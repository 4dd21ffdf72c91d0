/*
 * `--mca coll mscclpp` tells Open MPI to load this component alone. No communicator can be made then, since Open MPI
 * wants some component for each of 50 functions. This component, once loaded, can mend that: while it registers its
 * parameters, the list may still be changed, and components that are appended to the framework's now are opened like
 * the others.
 */
#include "mca/coll/mscclpp/coll_mscclpp.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/log.h"

static bool listed(char **names, const char *name)
{
    for (; NULL != names && NULL != *names; ++names) {
        if (0 == strcmp(*names, name)) {
            return true;
        }
    }
    return false;
}

/* True for a component that the framework has found in this process already, asked for or not. */
static bool loaded(const char *name)
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

/* True for a component that could be loaded. Asking for one that does not exist is fatal. */
static bool exists(const char *name)
{
    mca_base_framework_t *framework = &ompi_coll_base_framework;
    mca_base_component_repository_item_t *file;
    opal_list_t *files = NULL;

    for (int i = 0; NULL != framework->framework_static_components && NULL != framework->framework_static_components[i];
         ++i) {
        if (0 == strcmp(mca_coll_mscclpp_static_component(framework, i)->mca_component_name, name)) {
            return true;
        }
    }
    if (OPAL_SUCCESS != mca_base_component_repository_get_components(framework, &files) || NULL == files) {
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

/*
 * Open MPI forbids changes of the variable once it has opened the components, and forgets to allow them again when a
 * second session in the process has them loaded anew. Opening them forbids changes again.
 */
static int set_selection(int variable, const char *list)
{
    int rc = mca_base_var_set_flag(variable, MCA_BASE_VAR_FLAG_SETTABLE, true);

    return OPAL_SUCCESS == rc ? mca_base_var_set_value(variable, list, strlen(list) + 1, MCA_BASE_VAR_SOURCE_SET, NULL)
                              : rc;
}

/* Loads the components of a list, registers their parameters, and leaves in *names only those that could be. */
static int load(int variable, char ***names)
{
    mca_base_framework_t *framework = &ompi_coll_base_framework;
    opal_list_t *components = &framework->framework_components;
    opal_list_item_t *last = opal_list_get_last(components);
    char *list = opal_argv_join(*names, ',');
    int rc;

    if (NULL == list) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    rc = set_selection(variable, list);
    if (OPAL_SUCCESS == rc) {
        rc = mca_base_component_find(NULL, framework, false, true);
    }
    free(list);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }

    opal_argv_free(*names);
    *names = NULL;
    while (opal_list_get_last(components) != last) {
        mca_base_component_list_item_t *item = (mca_base_component_list_item_t *)opal_list_remove_last(components);
        const mca_base_component_t *component = item->cli_component;

        rc = NULL != component->mca_register_component_params ? component->mca_register_component_params()
                                                              : OPAL_SUCCESS;
        if (OPAL_SUCCESS == rc) {
            /* In front of this component, which Open MPI is at: it registers what it meets behind it once more. */
            opal_list_prepend(components, &item->super);
            rc = opal_argv_append_nosize(names, component->mca_component_name);
            if (OPAL_SUCCESS != rc) {
                return rc;
            }
        } else {
            /* As Open MPI does with one that wants to be left out. It stays in memory, where it harms nothing. */
            OBJ_RELEASE(item);
        }
    }
    return OMPI_SUCCESS;
}

/* The names of widen_list that exist and that the user has not listed. */
static char **missing(char **requested)
{
    char **wanted = opal_argv_split(mca_coll_mscclpp_component.config.widen_list, ',');
    char **names = NULL;

    for (char **name = wanted; NULL != name && NULL != *name; ++name) {
        if (!listed(requested, *name) && !listed(names, *name) && !loaded(*name) && exists(*name)) {
            (void)opal_argv_append_nosize(&names, *name);
        }
    }
    opal_argv_free(wanted);
    return names;
}

/* What the user's own widen_list lacks makes MPI_Init fail with a message of Open MPI's that names no parameter. */
static void tell_of_lack(char **requested, char **names)
{
    static const char *const needed[] = {"basic", "libnbc"};

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); ++i) {
        if (!listed(requested, needed[i]) && !listed(names, needed[i]) && !loaded(needed[i])) {
            mscclpp_warn("parameter widen_list: \"%s\" lacks %s, which few communicators do without; use names of coll "
                         "components, with commas between",
                         mca_coll_mscclpp_component.config.widen_list, needed[i]);
        }
    }
}

int mca_coll_mscclpp_widen_selection(void)
{
    const char *selection = ompi_coll_base_framework.framework_selection;
    int variable = mca_base_var_find("ompi", "coll", NULL, NULL);
    char *original = NULL;
    char *joined = NULL;
    char *widened = NULL;
    char **requested;
    char **names = NULL;
    int rc;

    if (!mca_coll_mscclpp_component.config.widen_selection || variable < 0 || NULL == selection ||
        '\0' == selection[0] || '^' == selection[0]) {
        return OMPI_SUCCESS; /* every component is loaded, or all but some */
    }
    requested = opal_argv_split(selection, ',');
    /* These two are what no communicator can do without. ompi_info has loaded them whatever the list says. */
    if ((listed(requested, "basic") && listed(requested, "libnbc")) || (loaded("basic") && loaded("libnbc"))) {
        opal_argv_free(requested);
        return OMPI_SUCCESS;
    }

    rc = OMPI_ERR_OUT_OF_RESOURCE;
    original = strdup(selection); /* the variable's storage, which is about to be replaced */
    if (NULL == original) {
        goto out;
    }
    names = missing(requested);
    tell_of_lack(requested, names);
    rc = NULL != names ? load(variable, &names) : OMPI_SUCCESS;

    /* Open MPI compares the components with the list once more when it opens them. */
    joined = NULL != names ? opal_argv_join(names, ',') : NULL;
    if (OMPI_SUCCESS == rc && NULL != joined && asprintf(&widened, "%s,%s", original, joined) < 0) {
        widened = NULL;
        rc = OMPI_ERR_OUT_OF_RESOURCE;
    }
    selection = NULL != widened ? widened : original;
    (void)set_selection(variable, selection);
    if (NULL != widened) {
        mscclpp_info("the list of coll components \"%s\" does not do for a communicator; also loaded: %s (parameter "
                     "widen_selection turns this off)",
                     original, joined);
    }

out:
    if (OMPI_SUCCESS != rc) {
        mscclpp_warn("cannot widen the list of coll components \"%s\" (%d); add basic and libnbc to it", selection, rc);
    }
    free(widened);
    free(joined);
    free(original);
    opal_argv_free(names);
    opal_argv_free(requested);
    return OMPI_SUCCESS; /* the user's own list stands */
}
