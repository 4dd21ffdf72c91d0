/* Registers the parameters of mca/common/base/config.h with Open MPI, and reads the values that users have set. */
#include "mca/coll/mscclpp/component.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

#define PARAMS_MAX 96        /* parameters */
#define CHOICES_MAX 15       /* words that one parameter may take */
#define CHOICE_LENGTH_MAX 32 /* bytes of a word, with its terminating zero */

/*
 * Storage of Open MPI's variables, whose addresses Open MPI keeps. Two types are stored in another way than in the
 * configuration.
 *
 * A string that may take only a few values is an integer in Open MPI, with an enumeration. The integer is in
 * params_choice, and the word in params_word, to which the configuration points.
 *
 * A decimal number is a string, in params_decimal. If the variable were a number, Open MPI would accept any text and
 * read "x" as 0, which means for a time that there is no limit.
 */
static mscclpp_config_t params_native;
static const char *params_decimal[PARAMS_MAX];
static int params_choice[PARAMS_MAX];
static char params_word[PARAMS_MAX][CHOICE_LENGTH_MAX];

/* Returns true for a string that may take only a few values. */
static bool is_choice(const mscclpp_param_t *param)
{
    return MSCCLPP_PARAM_STRING == param->type && param->choices != NULL;
}

/*
 * Writes the help text for `ompi_info`. For a number, the allowed range follows the description. For other types,
 * ompi_info itself lists the choices.
 */
static void write_help(const mscclpp_param_t *param, char *text, size_t size)
{
    switch (param->type) {
    case MSCCLPP_PARAM_INT:
    case MSCCLPP_PARAM_DOUBLE:
        (void)snprintf(text, size, "%s Allowed: %.15g to %.15g.", param->help, param->min, param->max);
        break;
    case MSCCLPP_PARAM_SIZE:
        (void)snprintf(text, size, "%s Allowed: %.15g to %.15g, with a suffix k, m or g if wanted.", param->help,
                       param->min, param->max);
        break;
    case MSCCLPP_PARAM_BOOL:
    case MSCCLPP_PARAM_STRING:
        (void)snprintf(text, size, "%s", param->help);
        break;
    }
}

/*
 * Makes an enumeration of the words of param->choices, numbered from 0. There are at most CHOICES_MAX words. The caller
 * releases the enumeration. Returns an Open MPI error code; nothing is logged, and after an error there is nothing to
 * release.
 */
static int create_enumeration(const mscclpp_param_t *param, mca_base_var_enum_t **enumeration_p)
{
    mca_base_var_enum_value_t values[CHOICES_MAX + 1];
    char *words = strdup(param->choices);
    char *position = NULL;
    int count = 0;
    int rc;

    if (words == NULL) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (char *word = strtok_r(words, "|", &position); word != NULL && count < CHOICES_MAX;
         word = strtok_r(NULL, "|", &position)) {
        values[count].value = count;
        values[count].string = word;
        ++count;
    }
    values[count].value = 0;
    values[count].string = NULL;
    rc = mca_base_var_enum_create(param->name, values, enumeration_p); /* copies the words */
    free(words);
    return rc;
}

/* Returns the number of a word in a list such as "a|b|c", counted from 0; -1 if the list does not have it. */
static int find_choice(const char *choices, const char *word)
{
    size_t length = strlen(word);

    for (int number = 0; choices != NULL; ++number) {
        const char *end = strchrnul(choices, '|');
        if ((size_t)(end - choices) == length && 0 == strncmp(choices, word, length)) {
            return number;
        }
        choices = '|' == *end ? end + 1 : NULL;
    }
    return -1;
}

/* Copies word `number` of a list such as "a|b|c", or the last word if the list is shorter. `size`: bytes of `word`. */
static void copy_choice(const char *choices, int number, char *word, size_t size)
{
    const char *end = strchrnul(choices, '|');

    for (; number > 0 && '|' == *end; --number) {
        choices = end + 1;
        end = strchrnul(choices, '|');
    }
    (void)snprintf(word, size, "%.*s", (int)(end - choices), choices);
}

/*
 * Registers one parameter with Open MPI. Returns the index of its variable, or an Open MPI error code, which is
 * negative. The caller has checked that there are at most PARAMS_MAX parameters, so the arrays above have an entry for
 * each.
 */
static int register_variable(const mscclpp_param_t *param)
{
    static const mca_base_var_type_t types[] = {
        [MSCCLPP_PARAM_BOOL] = MCA_BASE_VAR_TYPE_BOOL,     [MSCCLPP_PARAM_INT] = MCA_BASE_VAR_TYPE_INT,
        [MSCCLPP_PARAM_SIZE] = MCA_BASE_VAR_TYPE_SIZE_T,   [MSCCLPP_PARAM_DOUBLE] = MCA_BASE_VAR_TYPE_STRING,
        [MSCCLPP_PARAM_STRING] = MCA_BASE_VAR_TYPE_STRING,
    };
    mca_base_var_type_t type = types[param->type];
    void *storage = (char *)&params_native + param->offset;
    mca_base_var_enum_t *enumeration = NULL;
    char help[512];
    int rc;

    if (is_choice(param)) {
        int *choice = &params_choice[param - mscclpp_params];
        *choice = find_choice(param->choices, param->default_value);
        type = MCA_BASE_VAR_TYPE_INT;
        storage = choice;
        rc = create_enumeration(param, &enumeration);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    } else if (MSCCLPP_PARAM_DOUBLE == param->type) {
        params_decimal[param - mscclpp_params] = param->default_value; /* copied by Open MPI */
        storage = &params_decimal[param - mscclpp_params];
    }
    write_help(param, help, sizeof(help));
    /* The variable is read-only, because existing objects, such as teams, would keep the old value after a change. */
    rc = mca_base_component_var_register(mca_coll_mscclpp_state.version, param->name, help, type, enumeration, 0, 0,
                                         (mca_base_var_info_lvl_t)(OPAL_INFO_LVL_1 + param->level - 1),
                                         MCA_BASE_VAR_SCOPE_READONLY, storage);
    if (enumeration != NULL) {
        OBJ_RELEASE(enumeration); /* the variable has its own reference */
    }
    return rc;
}

/* Returns the text that a parameter file gives for a registered variable, or NULL if its value comes from elsewhere. */
static const char *find_file_text(int index)
{
    const mca_base_var_t *variable;
    const mca_base_var_file_value_t *value;

    if (OPAL_SUCCESS != mca_base_var_get(index, &variable) ||
        (MCA_BASE_VAR_SOURCE_FILE != variable->mbv_source && MCA_BASE_VAR_SOURCE_OVERRIDE != variable->mbv_source)) {
        return NULL;
    }
    value = variable->mbv_file_value;
    if (value == NULL) {
        return NULL;
    }
    return value->mbvfv_value != NULL ? value->mbvfv_value : "";
}

/*
 * Copies a text, or the word of a choice, into the configuration; `written` and the result as in take_over_value. Open
 * MPI accepts an empty text for a choice, which mscclpp_config_set reports, and shows any other empty text as NULL.
 */
static mscclpp_status_t take_over_string(mscclpp_config_t *config, const mscclpp_param_t *param, const char *written)
{
    const char *native = *(const char *const *)(const void *)((const char *)&params_native + param->offset);
    char *word = params_word[param - mscclpp_params];

    if (!is_choice(param)) {
        return mscclpp_config_set(config, param, native == NULL ? "" : native);
    }
    if (written != NULL && '\0' == written[0]) {
        return mscclpp_config_set(config, param, written);
    }
    copy_choice(param->choices, params_choice[param - mscclpp_params], word, CHOICE_LENGTH_MAX);
    return mscclpp_config_set(config, param, word);
}

/*
 * Copies the value that Open MPI has read into the configuration. If the value is not allowed, mscclpp_config_set
 * reports this and returns an error. `written` is the text that Open MPI has read, or NULL if it is not known. The text
 * is preferred to the value, because Open MPI also accepts texts that are not valid numbers or truth values.
 */
static mscclpp_status_t take_over_value(mscclpp_config_t *config, const mscclpp_param_t *param, const char *written)
{
    const void *native = (const char *)&params_native + param->offset;
    char text[64];

    switch (param->type) {
    case MSCCLPP_PARAM_BOOL:
        (void)snprintf(text, sizeof(text), "%d", *(const bool *)native);
        return mscclpp_config_set(config, param, written != NULL ? written : text);
    case MSCCLPP_PARAM_INT:
        (void)snprintf(text, sizeof(text), "%d", *(const int *)native);
        return mscclpp_config_set(config, param, written != NULL ? written : text);
    case MSCCLPP_PARAM_SIZE:
        (void)snprintf(text, sizeof(text), "%zu", *(const size_t *)native);
        return mscclpp_config_set(config, param, written != NULL ? written : text);
    case MSCCLPP_PARAM_DOUBLE:
        return mscclpp_config_set(config, param, params_decimal[param - mscclpp_params]);
    case MSCCLPP_PARAM_STRING:
        return take_over_string(config, param, written);
    }
    return MSCCLPP_ERR_INVALID;
}

/*
 * Returns true, after a report, if the environment has a value for the parameter that is not allowed. mpirun puts the
 * values of its command line into the environment. Such a parameter is not registered, so that Open MPI does not read
 * the value: Open MPI accepts garbage behind a number, and does not check ranges.
 */
static bool has_bad_environment(const mscclpp_param_t *param)
{
    mscclpp_config_t checked;
    const char *value;
    char name[128];

    (void)snprintf(name, sizeof(name), "OMPI_MCA_coll_mscclpp_%s", param->name);
    value = getenv(name);
    mscclpp_config_init(&checked);
    return value != NULL && MSCCLPP_OK != mscclpp_config_set(&checked, param, value);
}

int mca_coll_mscclpp_register_params(void)
{
    mscclpp_config_t *config = &mca_coll_mscclpp_state.config;

    if (mscclpp_param_count > PARAMS_MAX) {
        mscclpp_error("%d parameters, but room for %d only", mscclpp_param_count, PARAMS_MAX);
        return OMPI_ERR_NOT_AVAILABLE;
    }
    mscclpp_config_init(&params_native);
    for (int i = 0; i < mscclpp_param_count; ++i) {
        const mscclpp_param_t *param = &mscclpp_params[i];
        int rc;

        if (has_bad_environment(param)) {
            continue;
        }
        rc = register_variable(param);
        if (OPAL_ERR_VALUE_OUT_OF_BOUNDS == rc) {
            /* Open MPI has reported a word from a file that is not one of the choices. The default stays. */
            continue;
        }
        if (rc < 0) {
            mscclpp_error("cannot register parameter %s with Open MPI (error %d); component disabled", param->name, rc);
            return OMPI_ERR_NOT_AVAILABLE;
        }
        if (MSCCLPP_OK != take_over_value(config, param, find_file_text(rc))) {
            /*
             * A bad value from a file has been reported, and the default stays. The variable is removed, so that
             * ompi_info does not show a value that is not in force.
             */
            (void)mca_base_var_deregister(rc);
        }
    }
    return OMPI_SUCCESS;
}
