#include "mca/common/transport/verbs/load.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "mca/common/base/log.h"

/* Fills in a local table first, so that *functions_p is either complete or unchanged. */
mscclpp_status_t mscclpp_verbs_load(const char *file, mscclpp_verbs_functions_t *functions_p)
{
    mscclpp_verbs_functions_t functions;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (library == NULL) {
        mscclpp_info("no verbs: %s", dlerror());
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memset(&functions, 0, sizeof(functions));
#define MSCCLPP_VERBS_OPTIONAL(field_, symbol_) *(void **)&functions.field_ = dlsym(library, #symbol_);
#define MSCCLPP_VERBS_FIND(field_, symbol_)                                                                            \
    MSCCLPP_VERBS_OPTIONAL(field_, symbol_)                                                                            \
    if (functions.field_ == NULL) {                                                                                    \
        mscclpp_info("no verbs: %s has no " #symbol_, file);                                                           \
        return MSCCLPP_ERR_NOT_SUPPORTED;                                                                              \
    }
    MSCCLPP_VERBS_FUNCTIONS(MSCCLPP_VERBS_FIND)
    MSCCLPP_VERBS_OPTIONAL_FUNCTIONS(MSCCLPP_VERBS_OPTIONAL)
#undef MSCCLPP_VERBS_FIND
#undef MSCCLPP_VERBS_OPTIONAL
    *functions_p = functions;
    return MSCCLPP_OK;
}
