/* The file that NCCL writes where NCCL_TOPO_DUMP_FILE says: elements within elements, with attributes. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/machine.h"

enum { DEPTH = 24, WORD = 96, MOST_NVLINKS = 2048, ATTRIBUTES = 32 };

typedef struct {
    char name[WORD], value[WORD];
} attribute_t;

/* An element that has begun and not ended yet. */
typedef struct {
    char element[WORD], id[WORD]; /* busid of pci, numaid of cpu */
    int mbps;                     /* of a pci: the rate of its link */
    uint64_t below;               /* the GPUs within it */
} level_t;

typedef struct {
    int gpu, count;    /* count: NVLinks */
    char target[WORD]; /* PCI address of the other end */
    bool to_switch;
} nvlink_t;

/* The state of the parser. Functions that return bool return false after a message in `why`. */
typedef struct {
    const char *at, *end;
    int line;
    char *why;
    size_t why_size;
    level_t stack[DEPTH];
    int depth;
    attribute_t attribute[ATTRIBUTES];
    int attributes;
    synth_machine_t *machine;
    char bus[SYNTH_MAX_RANKS][WORD]; /* PCI address of each GPU */
    int number[SYNTH_MAX_RANKS];     /* of each GPU: its rank, or its device number */
    int sm;                          /* the largest compute capability, times 10 */
    bool has_system;
    nvlink_t *nvlink;
    int nvlink_count;
} reader_t;

/* Writes the message, with the line. Returns false, for the caller to return. */
static bool refuse(reader_t *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(reader_t *reader, const char *format, ...)
{
    int length = snprintf(reader->why, reader->why_size, "line %d: ", reader->line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->why + length, reader->why_size - (size_t)length, format, arguments);
    va_end(arguments);
    return false;
}

static void skip_space(reader_t *reader)
{
    while (reader->at < reader->end && isspace((unsigned char)*reader->at)) {
        reader->line += *reader->at++ == '\n';
    }
}

/* Reads a name. */
static bool read_name(reader_t *reader, char *text)
{
    size_t length = 0;

    while (reader->at < reader->end && (isalnum((unsigned char)*reader->at) || strchr("_-:.", *reader->at) != NULL) &&
           *reader->at != '\0') {
        if (length == WORD - 1) {
            return refuse(reader, "a name of more than %d letters", WORD - 1);
        }
        text[length++] = *reader->at++;
    }
    text[length] = '\0';
    return length > 0 || refuse(reader, "a name is missing");
}

/* Reads an attribute, name="value". */
static bool read_attribute(reader_t *reader)
{
    attribute_t *attribute = &reader->attribute[reader->attributes];
    size_t length = 0;
    char quote;

    if (reader->attributes == ATTRIBUTES) {
        return refuse(reader, "more than %d attributes", ATTRIBUTES);
    }
    if (!read_name(reader, attribute->name)) {
        return false;
    }
    skip_space(reader);
    if (reader->at == reader->end || *reader->at != '=') {
        return refuse(reader, "\"%.40s\" has no value", attribute->name);
    }
    ++reader->at;
    skip_space(reader);
    quote = reader->at < reader->end ? *reader->at : '\0';
    if (quote != '"' && quote != '\'') {
        return refuse(reader, "the value of \"%.40s\" is not in quotes", attribute->name);
    }
    for (++reader->at; reader->at < reader->end && *reader->at != quote; ++reader->at) {
        if (length == WORD - 1 || *reader->at == '<' || (unsigned char)*reader->at < ' ') {
            return refuse(reader, "the value of \"%.40s\" is too long or does not end", attribute->name);
        }
        attribute->value[length++] = *reader->at;
    }
    if (reader->at == reader->end) {
        return refuse(reader, "the value of \"%.40s\" does not end", attribute->name);
    }
    ++reader->at;
    attribute->value[length] = '\0';
    ++reader->attributes;
    return true;
}

/* The value of an attribute of the current element; NULL: it has none of that name. */
static const char *value_of(const reader_t *reader, const char *name)
{
    for (int i = 0; i < reader->attributes; ++i) {
        if (strcmp(reader->attribute[i].name, name) == 0) {
            return reader->attribute[i].value;
        }
    }
    return NULL;
}

/* Reads the value of an attribute as a whole number. */
static bool number_value(reader_t *reader, const char *name, long least, long most, int *number_p)
{
    const char *text = value_of(reader, name);
    char *end;
    long number = text != NULL ? strtol(text, &end, 10) : 0;

    if (text == NULL || *text == '\0' || *end != '\0' || number < least || number > most) {
        return refuse(reader, "\"%s\" is \"%.40s\"; allowed are whole numbers from %ld to %ld", name,
                      text != NULL ? text : "", least, most);
    }
    *number_p = (int)number;
    return true;
}

/* MB/s of a PCIe link, from a speed such as "16.0 GT/s PCIe" and a number of lanes; 0: unknown. The first two
 * generations send ten bits for each byte. */
static int pcie_rate(const reader_t *reader)
{
    const char *speed = value_of(reader, "link_speed"), *width = value_of(reader, "link_width");
    double transfers = speed != NULL ? strtod(speed, NULL) : 0, lanes = width != NULL ? strtod(width, NULL) : 0;
    double rate = transfers * lanes * 1000 / (transfers < 8 ? 10 : 8);

    return rate >= 1 && rate < 1e6 ? (int)lround(rate) : 0;
}

/* Takes a <gpu>: its number, PCI address and rate. */
static bool begin_gpu(reader_t *reader)
{
    synth_machine_t *machine = reader->machine;
    const level_t *pci = reader->depth > 1 ? &reader->stack[reader->depth - 2] : NULL;
    const char *rank = value_of(reader, "rank");
    int gpu = machine->gpus, sm;

    if (pci == NULL || strcmp(pci->element, "pci") != 0) {
        return refuse(reader, "a gpu stands in no pci");
    }
    if (gpu == SYNTH_MAX_RANKS) {
        return refuse(reader, "more than %d GPUs", SYNTH_MAX_RANKS);
    }
    if (!number_value(reader, rank != NULL ? "rank" : "dev", 0, 1 << 20, &reader->number[gpu])) {
        return false;
    }
    if (value_of(reader, "sm") != NULL) {
        if (!number_value(reader, "sm", 1, 10000, &sm)) {
            return false;
        }
        reader->sm = sm > reader->sm ? sm : reader->sm;
    }
    for (int i = 0; i < gpu; ++i) {
        if (reader->number[i] == reader->number[gpu]) {
            return refuse(reader, "two GPUs are number %d", reader->number[gpu]);
        }
    }
    memcpy(reader->bus[gpu], pci->id, WORD);
    machine->pcie_mbps[gpu] = pci->mbps;
    for (int i = 0; i < reader->depth; ++i) {
        reader->stack[i].below |= UINT64_C(1) << gpu;
    }
    ++machine->gpus;
    return true;
}

/* Takes an <nvlink>, if it is one of a GPU. */
static bool begin_nvlink(reader_t *reader)
{
    const level_t *parent = reader->depth > 1 ? &reader->stack[reader->depth - 2] : NULL;
    const char *target = value_of(reader, "target"), *class = value_of(reader, "tclass");
    nvlink_t *nvlink = &reader->nvlink[reader->nvlink_count];

    if (parent == NULL || strcmp(parent->element, "gpu") != 0) {
        return true; /* of a network card or a CPU */
    }
    if (reader->nvlink_count == MOST_NVLINKS) {
        return refuse(reader, "more than %d nvlinks", MOST_NVLINKS);
    }
    if (target == NULL) {
        return refuse(reader, "an nvlink has no \"target\"");
    }
    if (!number_value(reader, "count", 1, 1000, &nvlink->count)) {
        return false;
    }
    nvlink->gpu = reader->machine->gpus - 1;
    memcpy(nvlink->target, target, strlen(target) + 1);
    nvlink->to_switch = class != NULL && strncmp(class, "0x0680", 6) == 0;
    ++reader->nvlink_count;
    return true;
}

/* Takes the begin of an element. */
static bool begin_element(reader_t *reader, const char *element)
{
    level_t *level = &reader->stack[reader->depth];
    const char *id = value_of(reader, strcmp(element, "cpu") == 0 ? "numaid" : "busid");

    if (reader->depth == DEPTH) {
        return refuse(reader, "more than %d elements within one another", DEPTH);
    }
    if (reader->depth == 0 && strcmp(element, "system") != 0) {
        return refuse(reader, "the outermost element is \"%.40s\"; it has to be \"system\"", element);
    }
    if (reader->depth == 0 && reader->has_system) {
        return refuse(reader, "a second \"system\"");
    }
    reader->has_system = true;
    memset(level, 0, sizeof(*level));
    memcpy(level->element, element, strlen(element) + 1);
    if (id != NULL) {
        memcpy(level->id, id, strlen(id) + 1);
    }
    level->mbps = strcmp(element, "pci") == 0 ? pcie_rate(reader) : 0;
    ++reader->depth;
    if (strcmp(element, "gpu") == 0) {
        return begin_gpu(reader);
    }
    return strcmp(element, "nvlink") != 0 || begin_nvlink(reader);
}

/* The rate of the fastest PCIe port of a GPU, in MB/s. */
static int widest_port(const synth_machine_t *machine)
{
    int most = 0;

    for (int i = 0; i < machine->gpus; ++i) {
        most = machine->pcie_mbps[i] > most ? machine->pcie_mbps[i] : most;
    }
    return most;
}

/* Takes the end of an element. A PCIe switch limits what leaves it. A socket is as wide as the widest port, since
 * the file does not give its rate. */
static bool end(reader_t *reader, const char *element)
{
    level_t *level = reader->depth > 0 ? &reader->stack[reader->depth - 1] : NULL;
    char name[SYNTH_NAME];

    if (level == NULL || strcmp(level->element, element) != 0) {
        return refuse(reader, "\"/%.40s\" ends what has not begun", element);
    }
    --reader->depth;
    snprintf(name, sizeof(name), "%.10s %.40s", element, level->id);
    if (strcmp(element, "pci") == 0 && level->below != 0 && level->mbps > 0) {
        return synth_machine_hub(reader->machine, name, level->below, level->mbps) || refuse(reader, "too many hubs");
    }
    if (strcmp(element, "cpu") == 0 && level->below != 0) {
        return synth_machine_hub(reader->machine, name, level->below, widest_port(reader->machine)) ||
               refuse(reader, "too many hubs");
    }
    return true;
}

/* Reads one tag, a comment, or a declaration, after its "<". */
static bool read_tag(reader_t *reader)
{
    bool closing, empty = false;
    char element[WORD];

    if (reader->end - reader->at >= 3 && memcmp(reader->at, "!--", 3) == 0) {
        for (reader->at += 3; reader->end - reader->at >= 3; ++reader->at) {
            reader->line += *reader->at == '\n';
            if (memcmp(reader->at, "-->", 3) == 0) {
                reader->at += 3;
                return true;
            }
        }
        return refuse(reader, "a comment does not end");
    }
    if (reader->at < reader->end && *reader->at == '?') {
        while (reader->at < reader->end && *reader->at != '>') {
            reader->line += *reader->at++ == '\n';
        }
        reader->at += reader->at < reader->end;
        return true;
    }
    closing = reader->at < reader->end && *reader->at == '/';
    reader->at += closing;
    reader->attributes = 0;
    if (!read_name(reader, element)) {
        return false;
    }
    for (;;) {
        skip_space(reader);
        if (reader->at == reader->end) {
            return refuse(reader, "\"<%.40s\" does not end", element);
        }
        if (*reader->at == '>') {
            ++reader->at;
            break;
        }
        if (*reader->at == '/' && !closing && !empty) {
            empty = true;
            ++reader->at;
            continue;
        }
        if (closing || empty || !read_attribute(reader)) {
            return reader->why[0] != '\0' ? false : refuse(reader, "\"<%.40s\" does not end as it should", element);
        }
    }
    return closing ? end(reader, element) : begin_element(reader, element) && (!empty || end(reader, element));
}

/* Reads the whole file. */
static bool read_all(reader_t *reader)
{
    for (skip_space(reader); reader->at < reader->end; skip_space(reader)) {
        if (*reader->at != '<') {
            return refuse(reader, "text between elements");
        }
        ++reader->at;
        if (!read_tag(reader)) {
            return false;
        }
    }
    return (reader->depth == 0 && reader->has_system) || refuse(reader, "\"system\" does not end");
}

/* Copies the machine with the GPUs sorted by their numbers, and resolves the targets of NVLinks. */
static bool arrange(reader_t *reader, synth_machine_t *to)
{
    const synth_machine_t *from = reader->machine;
    int place[SYNTH_MAX_RANKS];

    snprintf(to->name, sizeof(to->name), "NCCL's topology");
    to->gpus = from->gpus;
    to->nvlink_mbps = reader->sm >= 100 ? 50000 : reader->sm > 0 && reader->sm < 70 ? 20000 : 25000;
    for (int i = 0; i < from->gpus; ++i) {
        place[i] = 0;
        for (int j = 0; j < from->gpus; ++j) {
            place[i] += reader->number[j] < reader->number[i];
        }
        to->pcie_mbps[place[i]] = from->pcie_mbps[i];
        snprintf(to->gpu[place[i]], SYNTH_GPU, "%.23s", reader->bus[i]);
    }
    for (int i = 0; i < from->hub_count; ++i) {
        uint64_t below = 0;

        for (int gpu = 0; gpu < from->gpus; ++gpu) {
            below |= (from->hubs[i].below >> gpu & 1) << place[gpu];
        }
        if (below != UINT64_MAX >> (64 - from->gpus)) {
            synth_machine_hub(to, from->hubs[i].name, below, from->hubs[i].mbps);
        }
    }
    for (int i = 0; i < reader->nvlink_count; ++i) {
        const nvlink_t *nvlink = &reader->nvlink[i];
        int peer = -1;

        for (int gpu = 0; gpu < from->gpus; ++gpu) {
            peer = strcmp(reader->bus[gpu], nvlink->target) == 0 ? gpu : peer;
        }
        if (nvlink->to_switch) {
            to->to_switch[place[nvlink->gpu]] += nvlink->count;
        } else if (peer == nvlink->gpu) {
            return refuse(reader, "an nvlink joins %.40s to itself", nvlink->target);
        } else if (peer >= 0) { /* others lead to what takes no part */
            to->nvlinks[place[nvlink->gpu]][place[peer]] += nvlink->count;
        }
    }
    return true;
}

mscclpp_status_t synth_topology_nccl(const char *text, size_t size, char *why, size_t why_size,
                                     synth_topology_t **topology_p)
{
    reader_t *reader = calloc(1, sizeof(*reader));
    synth_machine_t *machine = calloc(2, sizeof(*machine));
    mscclpp_status_t status = MSCCLPP_ERR_NO_MEMORY;

    if (reader != NULL && machine != NULL) {
        reader->nvlink = calloc(MOST_NVLINKS + 1, sizeof(*reader->nvlink));
    }
    if (reader != NULL && reader->nvlink != NULL) {
        why[0] = '\0';
        reader->at = text;
        reader->end = text + size;
        reader->line = 1;
        reader->why = why;
        reader->why_size = why_size;
        reader->machine = &machine[0];
        status = read_all(reader) && arrange(reader, &machine[1]) ? MSCCLPP_OK : MSCCLPP_ERR_INVALID;
        free(reader->nvlink);
    }
    if (status == MSCCLPP_OK) {
        status = synth_machine_topology(&machine[1], why, why_size, topology_p);
    }
    for (char *at = why; status == MSCCLPP_ERR_INVALID && *at != '\0'; ++at) { /* it may quote the file */
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            *at = '?';
        }
    }
    free(reader);
    free(machine);
    return status;
}
