/* The component's state in this process: its settings, its GPU runtime, and the list of modules. */
#include "mca/coll/mscclpp/ompi/module.h"

#include <sched.h>

mca_coll_mscclpp_state_t mca_coll_mscclpp_state = {.output = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Puts the module at the head of the list. `link` is the address of the pointer to this module, so that the module can
 * be removed without a search.
 */
void mca_coll_mscclpp_list_insert(mca_coll_mscclpp_module_t *module)
{
    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    module->next = mca_coll_mscclpp_state.modules;
    module->link = &mca_coll_mscclpp_state.modules;
    if (module->next != NULL) {
        module->next->link = &module->next;
    }
    mca_coll_mscclpp_state.modules = module;
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
}

/*
 * After the removal, no thread can find the module in the list. Threads that have found the module before may still
 * read it: see mca_coll_mscclpp_wait_for_watchers.
 */
void mca_coll_mscclpp_list_remove(mca_coll_mscclpp_module_t *module)
{
    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    if (module->link != NULL) {
        *module->link = module->next;
        if (module->next != NULL) {
            module->next->link = module->link;
        }
        module->next = NULL;
        module->link = NULL;
    }
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
}

mca_coll_mscclpp_module_t *mca_coll_mscclpp_module_of(const struct ompi_communicator_t *comm)
{
    mca_coll_mscclpp_module_t *module;

    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    module = mca_coll_mscclpp_state.modules;
    while (module != NULL && module->comm != comm) {
        module = module->next;
    }
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    return module;
}

void mca_coll_mscclpp_wait_for_watchers(const mca_coll_mscclpp_module_t *module)
{
    while (0 != __atomic_load_n(&module->watchers, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
}
