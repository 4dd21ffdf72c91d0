/*
 * Reads the component's state through MPI's tool interface: whether its parameters exist, and its counters
 * coll_mscclpp_served and coll_mscclpp_staged. Without the component none of these exist, and nothing here fails.
 */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

/* A counter of the component. */
typedef struct {
    const char *name;
    MPI_T_pvar_handle handle;
    MPI_Datatype datatype;
    bool is_found; /* `handle` and `datatype` are valid */
} counter_t;

static MPI_T_pvar_session session;
static bool is_session_open;
static counter_t counters[] = {{.name = "coll_mscclpp_served"}, {.name = "coll_mscclpp_staged"}};

/*
 * Writes the name of `value` to `text`, or the number if there is no name. MPI describes a parameter with choices as an
 * integer with names. `text` has room for `length` bytes; a longer name is cut off.
 */
static void write_choice(MPI_T_enum enumtype, int value, char *text, size_t length)
{
    char item[128];
    int count, item_value, item_length, name_length = sizeof(item);

    snprintf(text, length, "%d", value);
    if (MPI_T_ENUM_NULL == enumtype || MPI_SUCCESS != MPI_T_enum_get_info(enumtype, &count, item, &name_length)) {
        return;
    }
    for (int i = 0; i < count; ++i) {
        item_length = sizeof(item);
        if (MPI_SUCCESS == MPI_T_enum_get_item(enumtype, i, &item_value, item, &item_length) && item_value == value) {
            snprintf(text, length, "%s", item);
            return;
        }
    }
}

/*
 * Reads a parameter and writes its value as a text, cut off after `length` - 1 characters. An unsigned long is read as
 * an unsigned long long, because both have 64 bits here. Returns false, and writes nothing, if
 * - there is no parameter of this name, or MPI cannot read it,
 * - its text may be too long for `value`, or
 * - its type is not one of those that the component's parameters have.
 */
bool bench_component_parameter(const char *name, char *text, size_t length)
{
    char full_name[128];
    int index, count, bind, verbosity, scope, unused_name = 0, unused_text = 0;
    MPI_Datatype datatype;
    MPI_T_enum enumtype;
    MPI_T_cvar_handle handle;
    bool is_read = true;
    union {
        int i;
        long l;
        unsigned long ul;
        unsigned long long ull;
        double d;
        bool b;
        char text[4096]; /* Open MPI returns at most 2048 bytes */
    } value;

    snprintf(full_name, sizeof(full_name), "coll_mscclpp_%s", name);
    if (MPI_SUCCESS != MPI_T_cvar_get_index(full_name, &index) ||
        MPI_SUCCESS != MPI_T_cvar_get_info(index, NULL, &unused_name, &verbosity, &datatype, &enumtype, NULL,
                                           &unused_text, &bind, &scope) ||
        MPI_SUCCESS != MPI_T_cvar_handle_alloc(index, NULL, &handle, &count)) {
        return false;
    }
    memset(&value, 0, sizeof(value));
    if ((MPI_CHAR == datatype && count >= (int)sizeof(value)) || MPI_SUCCESS != MPI_T_cvar_read(handle, &value)) {
        is_read = false;
    } else if (MPI_CHAR == datatype) {
        snprintf(text, length, "%s", value.text);
    } else if (MPI_INT == datatype) {
        write_choice(enumtype, value.i, text, length);
    } else if (MPI_C_BOOL == datatype) {
        snprintf(text, length, "%d", (int)value.b);
    } else if (MPI_DOUBLE == datatype) {
        snprintf(text, length, "%g", value.d);
    } else if (MPI_UNSIGNED_LONG == datatype || MPI_UNSIGNED_LONG_LONG == datatype) {
        snprintf(text, length, "%llu", value.ull);
    } else {
        is_read = false;
    }
    MPI_T_cvar_handle_free(&handle);
    return is_read;
}

/*
 * Finds a counter among MPI's performance variables. Starts the variable, unless it is continuous, because it then runs
 * always. counter->is_found stays false if there is no such variable that has one element and is bound to no object.
 * Called once for each counter, in an open session.
 */
static void find_counter(counter_t *counter)
{
    int total;

    if (MPI_SUCCESS != MPI_T_pvar_get_num(&total)) {
        return;
    }
    for (int index = 0; index < total && !counter->is_found; ++index) {
        char name[128];
        int length = sizeof(name), verbosity, class, bind, readonly, continuous, atomic, count, unused = 0;
        MPI_T_enum enumtype;
        if (MPI_SUCCESS != MPI_T_pvar_get_info(index, name, &length, &verbosity, &class, &counter->datatype, &enumtype,
                                               NULL, &unused, &bind, &readonly, &continuous, &atomic) ||
            0 != strcmp(name, counter->name) || MPI_T_BIND_NO_OBJECT != bind ||
            MPI_SUCCESS != MPI_T_pvar_handle_alloc(session, index, NULL, &counter->handle, &count)) {
            continue;
        }
        if (!continuous) {
            MPI_T_pvar_start(session, counter->handle);
        }
        counter->is_found = 1 == count;
    }
}

void bench_component_open(void)
{
    int provided;

    if (MPI_SUCCESS != MPI_T_init_thread(MPI_THREAD_SINGLE, &provided)) {
        return;
    }
    is_session_open = MPI_SUCCESS == MPI_T_pvar_session_create(&session);
    for (size_t i = 0; is_session_open && i < sizeof(counters) / sizeof(counters[0]); ++i) {
        find_counter(&counters[i]);
    }
}

/* Returns the value of a counter, or 0 if it cannot be read. */
static uint64_t read_counter(const counter_t *counter)
{
    union {
        unsigned u;
        unsigned long ul;
        unsigned long long ull;
    } value = {.ull = 0};

    if (!counter->is_found || MPI_SUCCESS != MPI_T_pvar_read(session, counter->handle, &value)) {
        return 0;
    }
    return MPI_UNSIGNED == counter->datatype ? value.u : value.ull;
}

/*
 * Reads the state. Values that cannot be read become 0 or false, so callers need not check for failures. The parameter
 * "priority" exists whenever the component is loaded; a negative value disables the component.
 */
void bench_component_read(bench_component_t *state_p)
{
    char text[1024];

    memset(state_p, 0, sizeof(*state_p));
    if (!is_session_open) {
        return;
    }
    if (bench_component_parameter("priority", text, sizeof(text))) {
        state_p->is_loaded = true;
        state_p->is_disabled = atoi(text) < 0;
    }
    if (bench_component_parameter("enable", text, sizeof(text)) && 0 == strcmp(text, "0")) {
        state_p->is_disabled = true;
    }
    state_p->has_counters = counters[0].is_found && counters[1].is_found;
    state_p->served = read_counter(&counters[0]);
    state_p->staged = read_counter(&counters[1]);
}

void bench_component_close(void)
{
    if (is_session_open) {
        MPI_T_pvar_session_free(&session);
        MPI_T_finalize();
        is_session_open = false;
    }
}
