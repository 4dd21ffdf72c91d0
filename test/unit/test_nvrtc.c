/* The installed device headers compile with NVRTC, which has no header of C's. Skipped where there is no NVRTC. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/unit/unit.h"

typedef int (*create_fn_t)(void **program, const char *source, const char *name, int headers, const char *const *bodies,
                           const char *const *names);
typedef int (*compile_fn_t)(void *program, int count, const char *const *options);
typedef int (*size_fn_t)(void *program, size_t *size);
typedef int (*text_fn_t)(void *program, char *text);

static const char source[] =
    "#include \"mpix_mscclpp_device.h\"\n"
    "extern \"C\" __global__ void k(mpix_memory_channel_t c, mpix_port_channel_t p, mpix_room_t r, float *x)\n"
    "{\n"
    "    mpix_group_t block = mpix_block();\n"
    "    mpix_put(&block, &c, 0, 0, 64);\n"
    "    mpix_signal(&block, &c);\n"
    "    mpix_wait(&block, &c);\n"
    "    mpix_port_put_signal_flush(&block, &p, 0, 0, 64);\n"
    "    mpix_barrier(&block, &r);\n"
    "    mpix_allreduce_small(&block, &r, x, x, 8, MPIX_FLOAT16, MPIX_SUM);\n"
    "}\n";

static void *open_nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    void *library = NULL;
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]) && library == NULL; ++i) {
        library = dlopen(names[i], RTLD_NOW);
    }
    return library;
}

int main(void)
{
    const char *const options[] = {"--gpu-architecture=compute_80", "--std=c++11",
                                   "--include-path=" TOP_FOLDER "/mpix/include"};
    void *library = open_nvrtc(), *program;
    create_fn_t create;
    compile_fn_t compile;
    size_fn_t log_size;
    text_fn_t log_text;
    size_t size = 0;
    char *text;

    unit_begin();
    if (library == NULL) {
        return unit_skip("no NVRTC");
    }
    *(void **)&create = dlsym(library, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(library, "nvrtcCompileProgram");
    *(void **)&log_size = dlsym(library, "nvrtcGetProgramLogSize");
    *(void **)&log_text = dlsym(library, "nvrtcGetProgramLog");
    CHECK(create != NULL && compile != NULL && log_size != NULL && log_text != NULL);
    if (unit_failed == 0) {
        CHECK_EQ(create(&program, source, "k.cu", 0, NULL, NULL), 0);
        CHECK_EQ(compile(program, sizeof(options) / sizeof(options[0]), options), 0);
        CHECK_EQ(log_size(program, &size), 0);
        text = calloc(size + 1, 1);
        if (text != NULL && log_text(program, text) == 0) {
            fprintf(stderr, "%s", text);
        }
        free(text);
    }
    return unit_end();
}
