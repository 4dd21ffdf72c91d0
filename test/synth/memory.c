/*
 * Lets one allocation of the library fail after the other: nothing is lost, and a message says that memory ran out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/shortage.h"
#include "tools/synth/lib/free_roots.h"
#include "mca/common/plan/json.h"
#include "tools/synth/lib/slp.h"
#include "tools/synth/synth_tool.h"

void __real_free(void *memory);

static int passed, failed;

/* Reads a dump of NCCL with two GPUs that share a PCIe switch, and frees the topology. */
static mscclpp_status_t read_dump(const synth_topology_t *unused, char *reason)
{
    static const char dump[] =
        "<system><cpu numaid=\"0\"><pci busid=\"0\" link_speed=\"16\" link_width=\"16\">"
        "<pci busid=\"1\" link_speed=\"16\" link_width=\"16\"><gpu dev=\"0\" rank=\"0\"/></pci>"
        "<pci busid=\"2\" link_speed=\"16\" link_width=\"16\"><gpu dev=\"1\" rank=\"1\"/></pci>"
        "<pci busid=\"3\" link_speed=\"16\" link_width=\"16\"><gpu dev=\"2\" rank=\"2\"/></pci></pci></cpu></system>";
    synth_topology_t *topology = NULL;
    mscclpp_status_t status = synth_topology_nccl(dump, sizeof(dump) - 1, reason, SYNTH_REASON, &topology);

    (void)unused;
    synth_topology_free(topology);
    return status;
}

/* Reads topologies in JSON, in both formats, and frees them. */
static mscclpp_status_t read_json(const synth_topology_t *unused, char *reason)
{
    static const char *const texts[] = {
        "{\"version\": 1, \"name\": \"own\", \"ranks\": 2, \"links\": [[0, 1], [1, 0]],"
        " \"groups\": [{\"name\": \"port\", \"links\": [[0, 1]], \"cap\": 1}]}",
        "{\"msccl_type\": \"topology\", \"name\": \"other\", \"links\": [[0, 1], [1, 0]],"
        " \"switches\": [[[0], [1], 1, \"port\"]]}"};
    mscclpp_status_t status = MSCCLPP_OK;

    (void)unused;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && status == MSCCLPP_OK; ++i) {
        synth_topology_t *topology = NULL;

        status = synth_topology_parse(texts[i], strlen(texts[i]), reason, SYNTH_REASON, &topology);
        synth_topology_free(topology);
    }
    return status;
}

/* Prints all bounds as JSON. What is printed has to be JSON, whichever bounds are left out. */
static mscclpp_status_t print_bounds(const synth_topology_t *topology, char *reason)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    mscclpp_plan_arena_t *arena;
    mscclpp_json_t *root = NULL;
    mscclpp_status_t status;
    long left;

    synth_tool_bounds(out, topology, 0, 1000, true);
    fclose(out);
    left = shortage_left;
    shortage_left = 0;
    arena = mscclpp_plan_arena_new();
    status = mscclpp_json_parse(arena, text, size, reason, SYNTH_REASON, &root);
    mscclpp_plan_arena_free(arena);
    shortage_left = left;
    __real_free(text); /* its allocation was not counted */
    return status;
}

static mscclpp_status_t solve_roots(const synth_topology_t *topology, char *reason)
{
    synth_free_roots_t result = {.load = NULL};

    (void)reason;
    return synth_free_roots(topology, 1000, &result);
}

static mscclpp_status_t solve_steps(const synth_topology_t *topology, char *reason)
{
    synth_slp_t slp;

    (void)reason;
    return synth_slp_solve(topology, SYNTH_ALLGATHER, 0, 3, 1000, &slp);
}

/* Calls a function until no allocation is left to fail. */
static void run(const char *what, mscclpp_status_t (*function)(const synth_topology_t *topology, char *reason),
                const synth_topology_t *topology)
{
    const long before = shortage_held;
    mscclpp_status_t status = MSCCLPP_ERR_NO_MEMORY;
    bool has_failed = true;
    long n;

    for (n = 0; has_failed; ++n) {
        char reason[SYNTH_REASON] = "no memory";

        shortage_left = n + 1;
        status = function(topology, reason);
        has_failed = shortage_left == 0;
        shortage_left = 0;
        if (shortage_held != before ||
            (status != MSCCLPP_OK && (status != MSCCLPP_ERR_NO_MEMORY || strcmp(reason, "no memory") != 0))) {
            printf("FAIL  %s, without allocation %ld: %ld blocks lost, status %d, message \"%s\"\n", what, n,
                   shortage_held - before, status, reason);
            ++failed;
            shortage_held = before;
        } else {
            ++passed;
        }
    }
    if (status != MSCCLPP_OK || n < 2) {
        printf("FAIL  %s: %ld allocations\n", what, n);
        ++failed;
    }
}

int main(void)
{
    synth_topology_t *topology = NULL;
    char reason[SYNTH_REASON];

    if (synth_topology_named("ring:5", reason, sizeof(reason), &topology) != MSCCLPP_OK) {
        printf("FAIL  %s\n", reason);
        return 1;
    }
    run("a dump of NCCL", read_dump, NULL);
    run("topologies in JSON", read_json, NULL);
    run("bounds as JSON", print_bounds, topology);
    run("the program of free roots", solve_roots, topology);
    run("the program over steps", solve_steps, topology);
    synth_topology_free(topology);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
