/*
 * Waits for streams and tests whether they are being captured, also in a process without the component. This requires
 * functions of CUDA's driver, since the runtime may be linked statically into the application.
 */
#include "mpix/internal.h"

#include <dlfcn.h>
#include <stddef.h>

/* The types of cuStreamSynchronize and cuStreamIsCapturing, as cuda.h declares them. */
typedef int (*wait_fn_t)(void *stream);
typedef int (*status_fn_t)(void *stream, int *status);

/*
 * Finds a function of CUDA's driver, but does not load the driver: an application that has a stream of CUDA has already
 * loaded it.
 */
mpix_symbol_t mpix_driver(const char *name)
{
    mpix_symbol_t symbol = {.address = dlsym(RTLD_DEFAULT, name)};
    void *driver;

    if (symbol.address == NULL && (driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) != NULL) {
        symbol.address = dlsym(driver, name);
        (void)dlclose(driver); /* the application keeps the driver loaded */
    }
    return symbol;
}

/*
 * Waits until a stream is empty, with the component or, without it, with CUDA's driver. Returns an MPI error code,
 * which is not reported. In a process that has neither, no stream but NULL can exist, so any other one is MPI_ERR_ARG.
 */
int mpix_stream_wait(void *stream)
{
    int code;
    const mca_coll_mscclpp_api_t *component = mpix_component(&code);
    mpix_symbol_t symbol;

    if (component != NULL) {
        return component->wait(stream);
    }
    symbol = mpix_driver("cuStreamSynchronize");
    if (symbol.address == NULL) {
        return stream == NULL ? MPI_SUCCESS : MPI_ERR_ARG; /* the default stream of a process without CUDA is empty */
    }
    return ((wait_fn_t)symbol.function)(stream) == 0 ? MPI_SUCCESS : MPI_ERR_OTHER;
}

/* Returns 0 if the driver cannot tell whether a stream is being captured. */
int mpix_stream_is_capturing(void *stream)
{
    int code, status = 0;
    const mca_coll_mscclpp_api_t *component = mpix_component(&code);
    mpix_symbol_t symbol;

    if (component != NULL) {
        return component->is_capturing(stream);
    }
    symbol = mpix_driver("cuStreamIsCapturing");
    return symbol.address != NULL && ((status_fn_t)symbol.function)(stream, &status) == 0 && status != 0;
}
