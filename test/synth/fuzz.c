/*
 * Topologies with bytes changed, left out and put in: the readers may refuse them, with a message, and nothing else.
 * Usage: fuzz [COUNT [SEED [SECONDS]]]: at least COUNT texts, and as many as SECONDS of processor time suffice for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/synth/lib/topology.h"

static const char *const samples[] = {
    "{\"version\": 1, \"name\": \"a\", \"ranks\": 4, \"links\": [[0, 1, 2], [1, 2], [2, 3], [3, 0]], "
    "\"bidirectional\": true,"
    " \"groups\": [{\"name\": \"x\", \"from\": [0, 1], \"to\": [2, 3], \"cap\": 1}, {\"name\": \"y\", \"links\": [[0, "
    "1]],"
    " \"groups\": [\"x\"], \"cap\": 3}], \"nodes\": [[0, 1], [2, 3]], \"unit_GBps\": 25.5, \"alpha_us\": 2}",
    "{\"msccl_type\": \"topology\", \"name\": \"hub\", \"links\": [[0, 1, 1], [1, 0, 1], [1, 1, 0]],"
    " \"switches\": [[[0], [1, 2], 1, \"out0\"], [[1, 2], [0], 1, \"in0\"]]}",
    "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tNV2\tNV1\t0-7\nGPU1\tNV2\t X \tNV1\t0-7\nGPU2\tNV1\tNV1\t X "
    "\t0-7\n\n",
    "<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0000:10:00.0\" link_speed=\"16.0 GT/s PCIe\" "
    "link_width=\"16\">\n<pci busid=\"0000:1a:00.0\" link_speed=\"16 GT/s\" link_width=\"16\">"
    "<gpu dev=\"0\" sm=\"80\" rank=\"0\"><nvlink target=\"0000:1b:00.0\" count=\"2\" tclass=\"0x030200\"/></gpu>"
    "</pci>\n<pci busid=\"0000:1b:00.0\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu dev=\"1\" rank=\"1\"/></pci>"
    "\n</pci>\n</cpu>\n<!-- c --><cpu numaid=\"1\"><pci busid=\"1\" link_speed=\"8\" link_width=\"8\">"
    "<gpu dev=\"2\" rank=\"2\"/></pci></cpu></system>\n"};

static const char *const words[] = {"0",
                                    "-1",
                                    "1",
                                    "64",
                                    "65",
                                    "99999999999999999999",
                                    "[",
                                    "]",
                                    "{",
                                    "}",
                                    ",",
                                    "\"x\"",
                                    ":",
                                    "[]",
                                    "{}",
                                    "\"groups\": [\"y\"],",
                                    "GPU3",
                                    "NV9999",
                                    "\n",
                                    "\t",
                                    "<",
                                    ">",
                                    "/>",
                                    "<gpu dev=\"5\"/>",
                                    "</cpu>",
                                    "busid=\"1\"",
                                    "<!--",
                                    "-->",
                                    "count=\"9999\""};

static uint64_t state;

static size_t below(size_t most)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(state >> 33) % most;
}

static size_t mutate(char *text, size_t size, size_t room)
{
    size_t at = below(size + 1), count;
    const char *word;

    switch (below(4)) {
    case 0:
        if (at < size) {
            text[at] = (char)below(256);
        }
        return size;
    case 1:
        count = below(12);
        count = count < size - at ? count : size - at;
        memmove(text + at, text + at + count, size - at - count);
        return size - count;
    case 2:
        word = words[below(sizeof(words) / sizeof(words[0]))];
        count = strlen(word);
        if (size + count < room) {
            memmove(text + at + count, text + at, size - at);
            memcpy(text + at, word, count);
            return size + count;
        }
        return size;
    default: /* a piece once more, elsewhere */
        count = below(size / 2 + 1);
        if (at + count <= size && size + count < room) {
            memmove(text + at + count, text + at, size - at);
            return size + count;
        }
        return size;
    }
}

int main(int argc, char **argv)
{
    enum { ROOM = 4096 };
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 20000, texts = 0, read = 0, mute = 0;
    char *text = malloc(ROOM);

    const double seconds = argc > 3 ? strtod(argv[3], NULL) : 0;

    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (long i = 0; text != NULL && (i < count || clock() / (double)CLOCKS_PER_SEC < seconds); ++i) {
        const char *sample = samples[below(sizeof(samples) / sizeof(samples[0]))];
        size_t size = strlen(sample), changes = 1 + below(6);
        synth_topology_t *topology = NULL;
        char reason[SYNTH_REASON] = "", *exact;
        mscclpp_status_t status;

        memcpy(text, sample, size);
        for (size_t k = 0; k < changes; ++k) {
            size = mutate(text, size, ROOM);
        }
        exact = malloc(size + 1); /* so that a byte too far is seen where memory is watched */
        if (exact == NULL) {
            break;
        }
        memcpy(exact, text, size);
        status = sample[0] == '{'   ? synth_topology_parse(exact, size, reason, sizeof(reason), &topology)
                 : sample[0] == '<' ? synth_topology_nccl(exact, size, reason, sizeof(reason), &topology)
                                    : synth_topology_matrix(exact, size, reason, sizeof(reason), &topology);
        read += status == MSCCLPP_OK;
        mute += status == MSCCLPP_ERR_INVALID && (reason[0] == '\0' || strchr(reason, '\n') != NULL);
        if (status == MSCCLPP_OK && !synth_topology_connected(topology, reason, sizeof(reason))) {
            ++mute;
        }
        synth_topology_free(topology);
        free(exact);
        ++texts;
    }
    free(text);
    printf("%ld texts, %ld read, %ld refused without one line that says why\n", texts, read, mute);
    return mute > 0 || read == 0;
}
