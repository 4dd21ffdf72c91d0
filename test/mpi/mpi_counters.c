/* The component's counters and parameters, through MPI's tool interface. */
#include "test/mpi/mpi_test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
    const char *name;
    bool found;
    MPI_Datatype datatype;
    MPI_T_pvar_handle handle;
    int count;
} counter_t;

static counter_t served = {.name = "coll_mscclpp_served"};
static counter_t staged = {.name = "coll_mscclpp_staged"};
static counter_t rung = {.name = "coll_mscclpp_rung"};
static counter_t planned = {.name = "coll_mscclpp_planned"};
static counter_t plan = {.name = "coll_mscclpp_plan"};

static size_t type_size(MPI_Datatype type)
{
    int size;

    MPI_Type_size(type, &size);
    return (size_t)size;
}

/* A counter of the process; one that is bound to an object would have to be found again for each. */
static void find(counter_t *counter)
{
    int total;

    MPI_T_pvar_get_num(&total);
    for (int index = 0; index < total && !counter->found; ++index) {
        char name[256];
        int length = sizeof(name), verbosity, class, bind, readonly, continuous, atomic, unused = 0;
        MPI_T_enum enumtype;
        if (MPI_SUCCESS != MPI_T_pvar_get_info(index, name, &length, &verbosity, &class, &counter->datatype, &enumtype,
                                               NULL, &unused, &bind, &readonly, &continuous, &atomic) ||
            0 != strcmp(name, counter->name)) {
            continue;
        }
        counter->found =
            MPI_T_BIND_NO_OBJECT == bind &&
            (MPI_CHAR == counter->datatype || sizeof(uint64_t) == type_size(counter->datatype)) &&
            MPI_SUCCESS == MPI_T_pvar_handle_alloc(session, index, NULL, &counter->handle, &counter->count) &&
            (continuous || MPI_SUCCESS == MPI_T_pvar_start(session, counter->handle));
    }
}

/* Open MPI takes a level asked for here for the program's own, which some of what is tested depends on. */
void mt_counters_open(int level)
{
    int provided;

    MPI_T_init_thread(level, &provided);
    MPI_T_pvar_session_create(&session);
    find(&served);
    find(&staged);
    find(&rung);
    find(&planned);
    find(&plan);
}

/* The value since the handle was made, as MPI defines it for counters. */
static uint64_t read_counter(const counter_t *counter)
{
    uint64_t value = 0;
    bool ok;

    pthread_mutex_lock(&lock);
    ok = counter->found && MPI_SUCCESS == MPI_T_pvar_read(session, counter->handle, &value);
    pthread_mutex_unlock(&lock);
    MT_CHECK(ok, "counter %s cannot be read: nothing proves that the component served a call", counter->name);
    return value;
}

uint64_t mt_served(MPI_Comm comm)
{
    (void)comm;
    return read_counter(&served);
}

uint64_t mt_counter(const char *name)
{
    static counter_t counters[32];
    static char names[32][64];
    counter_t *counter = NULL;
    char full[64];

    snprintf(full, sizeof(full), "coll_mscclpp_%s", name);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 32 && counter == NULL; ++i) {
        if (counters[i].name == NULL) {
            memcpy(names[i], full, sizeof(full));
            counters[i].name = names[i];
            find(&counters[i]);
        }
        counter = 0 == strcmp(counters[i].name, full) ? &counters[i] : NULL;
    }
    pthread_mutex_unlock(&lock);
    MT_CHECK(counter != NULL, "there is no room for counter %s", full);
    return counter == NULL ? 0 : read_counter(counter);
}

uint64_t mt_staged(MPI_Comm comm)
{
    (void)comm;
    return read_counter(&staged);
}

uint64_t mt_rung(MPI_Comm comm)
{
    (void)comm;
    return read_counter(&rung);
}

uint64_t mt_planned(MPI_Comm comm)
{
    (void)comm;
    return read_counter(&planned);
}

void mt_plan(char *name, size_t size)
{
    char value[1024] = "";
    bool ok;

    pthread_mutex_lock(&lock);
    ok = plan.found && MPI_CHAR == plan.datatype && plan.count > 0 && (size_t)plan.count < sizeof(value) &&
         MPI_SUCCESS == MPI_T_pvar_read(session, plan.handle, value);
    pthread_mutex_unlock(&lock);
    MT_CHECK(ok, "%s cannot be read: nothing tells which plan served a call", plan.name);
    snprintf(name, size, "%s", value);
}

static bool choice_is(MPI_T_enum enumtype, int number, const char *value)
{
    char item[128];
    int count, found, length = sizeof(item);

    if (MPI_T_ENUM_NULL == enumtype || MPI_SUCCESS != MPI_T_enum_get_info(enumtype, &count, item, &length)) {
        return number == atoi(value);
    }
    for (int i = 0; i < count; ++i) {
        length = sizeof(item);
        if (MPI_SUCCESS == MPI_T_enum_get_item(enumtype, i, &found, item, &length) && found == number) {
            return 0 == strcmp(item, value);
        }
    }
    return false;
}

bool mt_parameter_is(const char *name, const char *value)
{
    char full[128];
    int level, index, count, bind, verbosity, scope, unused_name = 0, unused_text = 0;
    MPI_Datatype datatype;
    MPI_T_enum enumtype;
    MPI_T_cvar_handle handle;
    bool same = false;
    union {
        int i;
        bool b;
        char text[4096];
    } content;

    MPI_Query_thread(&level);
    MPI_T_init_thread(level, &level);
    snprintf(full, sizeof(full), "coll_mscclpp_%s", name);
    memset(&content, 0, sizeof(content));
    if (MPI_SUCCESS == MPI_T_cvar_get_index(full, &index) &&
        MPI_SUCCESS == MPI_T_cvar_get_info(index, NULL, &unused_name, &verbosity, &datatype, &enumtype, NULL,
                                           &unused_text, &bind, &scope) &&
        MPI_SUCCESS == MPI_T_cvar_handle_alloc(index, NULL, &handle, &count)) {
        if (MPI_SUCCESS == MPI_T_cvar_read(handle, &content)) {
            same = MPI_CHAR == datatype     ? 0 == strcmp(content.text, value)
                   : MPI_C_BOOL == datatype ? content.b == (0 != atoi(value))
                                            : choice_is(enumtype, content.i, value);
        }
        MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
    return same;
}
