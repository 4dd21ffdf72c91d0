/* Parses the file that NCCL writes if NCCL_TOPO_DUMP_FILE is set: XML, nested elements with attributes. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/machine.h"

enum {
    MAX_DEPTH = 24,     /* depth of nested elements */
    TEXT_SIZE = 96,     /* bytes of a name or value, with the zero byte */
    MAX_NVLINKS = 2048, /* NVLinks of all GPUs */
    MAX_ATTRIBUTES = 32 /* of one element */
};

typedef struct {
    char name[TEXT_SIZE], value[TEXT_SIZE];
} attribute_t;

/* An element whose end was not read yet. */
typedef struct {
    char element[TEXT_SIZE], id[TEXT_SIZE]; /* busid of pci, numaid of cpu */
    int mbps;                               /* for pci: the rate of its link */
    uint64_t below;                         /* the set of GPUs within it */
} level_t;

/* NVLinks from a GPU to the same target. */
typedef struct {
    int gpu, count;         /* count: number of these NVLinks */
    char target[TEXT_SIZE]; /* PCI address of the other end */
    bool to_switch;
} nvlink_t;

/*
 * The state of the parser. All functions that return bool return false after they have stored a message in `reason`.
 * GPUs are numbered in the order of the file.
 */
typedef struct {
    const char *next, *end; /* the next character, and the end of the text */
    int line;               /* the line of the next character */
    char *reason;
    size_t reason_size;
    level_t stack[MAX_DEPTH];               /* the elements that have begun, from the outermost to the innermost */
    int depth;                              /* the number of these elements */
    attribute_t attributes[MAX_ATTRIBUTES]; /* attributes of the current element */
    int attribute_count;
    synth_machine_t *machine;
    char pci_address[SYNTH_MAX_RANKS][TEXT_SIZE]; /* PCI address of each GPU */
    int gpu_number[SYNTH_MAX_RANKS];              /* [GPU]: its rank, or its device number */
    int max_sm;                                   /* the largest compute capability, times 10 */
    bool has_system;
    nvlink_t *nvlinks;
    int nvlink_count;
} reader_t;

static bool refuse(reader_t *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes the message, after the number of the current line. Returns false, so that the caller can return it. */
static bool refuse(reader_t *reader, const char *format, ...)
{
    int length = snprintf(reader->reason, reader->reason_size, "line %d: ", reader->line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->reason + length, reader->reason_size - (size_t)length, format, arguments);
    va_end(arguments);
    return false;
}

/* Skips white space, and counts lines. */
static void skip_space(reader_t *reader)
{
    while (reader->next < reader->end && isspace((unsigned char)*reader->next)) {
        reader->line += *reader->next++ == '\n';
    }
}

/* Reads a name of an element or attribute. `text` has room for TEXT_SIZE bytes. */
static bool read_name(reader_t *reader, char *text)
{
    size_t length = 0;

    while (reader->next < reader->end &&
           (isalnum((unsigned char)*reader->next) || strchr("_-:.", *reader->next) != NULL) && *reader->next != '\0') {
        if (length == TEXT_SIZE - 1) {
            return refuse(reader, "a name of more than %d letters", TEXT_SIZE - 1);
        }
        text[length++] = *reader->next++;
    }
    text[length] = '\0';
    return length > 0 || refuse(reader, "a name is missing");
}

/* Parses an attribute, name="value", and adds it to the attributes of the current element. */
static bool read_attribute(reader_t *reader)
{
    attribute_t *attribute = &reader->attributes[reader->attribute_count];
    size_t length = 0;
    char quote;

    if (reader->attribute_count == MAX_ATTRIBUTES) {
        return refuse(reader, "more than %d attributes", MAX_ATTRIBUTES);
    }
    if (!read_name(reader, attribute->name)) {
        return false;
    }
    skip_space(reader);
    if (reader->next == reader->end || *reader->next != '=') {
        return refuse(reader, "\"%.40s\" has no value", attribute->name);
    }
    ++reader->next;
    skip_space(reader);
    quote = reader->next < reader->end ? *reader->next : '\0';
    if (quote != '"' && quote != '\'') {
        return refuse(reader, "the value of \"%.40s\" is not in quotes", attribute->name);
    }
    for (++reader->next; reader->next < reader->end && *reader->next != quote; ++reader->next) {
        if (length == TEXT_SIZE - 1 || *reader->next == '<' || (unsigned char)*reader->next < ' ') {
            return refuse(reader, "the value of \"%.40s\" is too long or does not end", attribute->name);
        }
        attribute->value[length++] = *reader->next;
    }
    if (reader->next == reader->end) {
        return refuse(reader, "the value of \"%.40s\" does not end", attribute->name);
    }
    ++reader->next;
    attribute->value[length] = '\0';
    ++reader->attribute_count;
    return true;
}

/* Returns the value of an attribute of the current element; NULL if it has none of that name. */
static const char *value_of(const reader_t *reader, const char *name)
{
    for (int i = 0; i < reader->attribute_count; ++i) {
        if (strcmp(reader->attributes[i].name, name) == 0) {
            return reader->attributes[i].value;
        }
    }
    return NULL;
}

/* Parses the value of an attribute as a whole number from `min` to `max`. A missing attribute is an error. */
static bool read_number_value(reader_t *reader, const char *name, long min, long max, int *number_p)
{
    const char *text = value_of(reader, name);
    char *end;
    long number = text != NULL ? strtol(text, &end, 10) : 0;

    if (text == NULL || *text == '\0' || *end != '\0' || number < min || number > max) {
        return refuse(reader, "\"%s\" is \"%.40s\"; allowed are whole numbers from %ld to %ld", name,
                      text != NULL ? text : "", min, max);
    }
    *number_p = (int)number;
    return true;
}

/*
 * Returns the MB/s of a PCIe link in one direction, from its speed, such as "16.0 GT/s PCIe", and its number of lanes.
 * Returns 0 if one is missing, or if the result is implausible. The first two generations, below 8 GT/s, send 10 bits
 * for each byte. Later ones send 130 bits for 128; this 1.6 % is ignored.
 */
static int pcie_mbps_of(const reader_t *reader)
{
    const char *speed = value_of(reader, "link_speed"), *width = value_of(reader, "link_width");
    double transfers = speed != NULL ? strtod(speed, NULL) : 0, lanes = width != NULL ? strtod(width, NULL) : 0;
    double mbps = transfers * lanes * 1000 / (transfers < 8 ? 10 : 8);

    return mbps >= 1 && mbps < 1e6 ? (int)lround(mbps) : 0;
}

/*
 * Handles the start of a <gpu>, which is already on the stack. Stores its number and the PCI address and rate of the
 * <pci> around it, and adds it to the sets of all elements around it. The numbers of GPUs have to differ, because they
 * become ranks.
 */
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
    if (!read_number_value(reader, rank != NULL ? "rank" : "dev", 0, 1 << 20, &reader->gpu_number[gpu])) {
        return false;
    }
    if (value_of(reader, "sm") != NULL) {
        if (!read_number_value(reader, "sm", 1, 10000, &sm)) {
            return false;
        }
        reader->max_sm = sm > reader->max_sm ? sm : reader->max_sm;
    }
    for (int i = 0; i < gpu; ++i) {
        if (reader->gpu_number[i] == reader->gpu_number[gpu]) {
            return refuse(reader, "two GPUs are number %d", reader->gpu_number[gpu]);
        }
    }
    memcpy(reader->pci_address[gpu], pci->id, TEXT_SIZE);
    machine->pcie_mbps[gpu] = pci->mbps;
    for (int i = 0; i < reader->depth; ++i) {
        reader->stack[i].below |= UINT64_C(1) << gpu;
    }
    ++machine->gpus;
    return true;
}

/*
 * Handles the start of an <nvlink>, which is already on the stack. If it belongs to a GPU, stores it for this GPU,
 * which is the last one that began. The NVLinks of network cards and CPUs are ignored.
 */
static bool begin_nvlink(reader_t *reader)
{
    const level_t *parent = reader->depth > 1 ? &reader->stack[reader->depth - 2] : NULL;
    const char *target = value_of(reader, "target"), *class = value_of(reader, "tclass");
    nvlink_t *nvlink = &reader->nvlinks[reader->nvlink_count];

    if (parent == NULL || strcmp(parent->element, "gpu") != 0) {
        return true;
    }
    if (reader->nvlink_count == MAX_NVLINKS) {
        return refuse(reader, "more than %d nvlinks", MAX_NVLINKS);
    }
    if (target == NULL) {
        return refuse(reader, "an nvlink has no \"target\"");
    }
    if (!read_number_value(reader, "count", 1, 1000, &nvlink->count)) {
        return false;
    }
    nvlink->gpu = reader->machine->gpus - 1;
    memcpy(nvlink->target, target, strlen(target) + 1);
    nvlink->to_switch = class != NULL && strncmp(class, "0x0680", 6) == 0; /* PCI class of NVSwitches */
    ++reader->nvlink_count;
    return true;
}

/*
 * Handles the start of an element after its attributes were read: pushes it on the stack, and stores GPUs and NVLinks.
 */
static bool begin_element(reader_t *reader, const char *element)
{
    level_t *level = &reader->stack[reader->depth];
    const char *id = value_of(reader, strcmp(element, "cpu") == 0 ? "numaid" : "busid");

    if (reader->depth == MAX_DEPTH) {
        return refuse(reader, "more than %d elements within one another", MAX_DEPTH);
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
    level->mbps = strcmp(element, "pci") == 0 ? pcie_mbps_of(reader) : 0;
    ++reader->depth;
    if (strcmp(element, "gpu") == 0) {
        return begin_gpu(reader);
    }
    return strcmp(element, "nvlink") != 0 || begin_nvlink(reader);
}

/* Returns the MB/s of the fastest PCIe port of the GPUs so far. */
static int fastest_port(const synth_machine_t *machine)
{
    int mbps = 0;

    for (int i = 0; i < machine->gpus; ++i) {
        mbps = machine->pcie_mbps[i] > mbps ? machine->pcie_mbps[i] : mbps;
    }
    return mbps;
}

/*
 * Handles the end of an element, when all GPUs within it are known. A socket with GPUs becomes a hub, and so does a
 * PCIe switch with GPUs if the file has its rate. The file does not have the rate of a socket: the socket is assumed to
 * be as fast as the fastest port so far. Fails if the element has not begun, or if there are too many hubs.
 */
static bool end_element(reader_t *reader, const char *element)
{
    level_t *level = reader->depth > 0 ? &reader->stack[reader->depth - 1] : NULL;
    char name[SYNTH_NAME];

    if (level == NULL || strcmp(level->element, element) != 0) {
        return refuse(reader, "\"/%.40s\" ends what has not begun", element);
    }
    --reader->depth;
    snprintf(name, sizeof(name), "%.10s %.40s", element, level->id);
    if (strcmp(element, "pci") == 0 && level->below != 0 && level->mbps > 0) {
        return synth_machine_add_hub(reader->machine, name, level->below, level->mbps) ||
               refuse(reader, "too many hubs");
    }
    if (strcmp(element, "cpu") == 0 && level->below != 0) {
        return synth_machine_add_hub(reader->machine, name, level->below, fastest_port(reader->machine)) ||
               refuse(reader, "too many hubs");
    }
    return true;
}

/* Parses a tag, a comment, or a declaration, after its "<", and handles the element that it begins or ends. */
static bool read_tag(reader_t *reader)
{
    bool is_closing, is_empty = false;
    char element[TEXT_SIZE];

    if (reader->end - reader->next >= 3 && memcmp(reader->next, "!--", 3) == 0) {
        for (reader->next += 3; reader->end - reader->next >= 3; ++reader->next) {
            reader->line += *reader->next == '\n';
            if (memcmp(reader->next, "-->", 3) == 0) {
                reader->next += 3;
                return true;
            }
        }
        return refuse(reader, "a comment does not end");
    }
    if (reader->next < reader->end && *reader->next == '?') {
        while (reader->next < reader->end && *reader->next != '>') {
            reader->line += *reader->next++ == '\n';
        }
        reader->next += reader->next < reader->end;
        return true;
    }
    is_closing = reader->next < reader->end && *reader->next == '/';
    reader->next += is_closing;
    reader->attribute_count = 0;
    if (!read_name(reader, element)) {
        return false;
    }
    for (;;) {
        skip_space(reader);
        if (reader->next == reader->end) {
            return refuse(reader, "\"<%.40s\" does not end", element);
        }
        if (*reader->next == '>') {
            ++reader->next;
            break;
        }
        if (*reader->next == '/' && !is_closing && !is_empty) {
            is_empty = true;
            ++reader->next;
            continue;
        }
        /* A closing tag has no attributes, and only ">" may follow the slash of an empty element. */
        if (is_closing || is_empty || !read_attribute(reader)) {
            /* read_attribute has stored the reason if it failed. */
            return reader->reason[0] != '\0' ? false : refuse(reader, "\"<%.40s\" does not end as it should", element);
        }
    }
    return is_closing ? end_element(reader, element)
                      : begin_element(reader, element) && (!is_empty || end_element(reader, element));
}

/* Parses the whole file into the machine, with the GPUs in the order of the file. */
static bool read_all(reader_t *reader)
{
    for (skip_space(reader); reader->next < reader->end; skip_space(reader)) {
        if (*reader->next != '<') {
            return refuse(reader, "text between elements");
        }
        ++reader->next;
        if (!read_tag(reader)) {
            return false;
        }
    }
    return (reader->depth == 0 && reader->has_system) || refuse(reader, "\"system\" does not end");
}

/*
 * Copies the machine with the GPUs sorted by their numbers, which become ranks, and determines the GPUs to which the
 * NVLinks lead. Hubs above all GPUs limit nothing and are left out, and so are NVLinks to GPUs that are not in the
 * file. There is always room for the hubs, since both machines have room for the same number.
 */
static bool sort_machine(reader_t *reader, synth_machine_t *sorted)
{
    const synth_machine_t *machine = reader->machine;
    int rank_of[SYNTH_MAX_RANKS];

    snprintf(sorted->name, sizeof(sorted->name), "NCCL's topology");
    sorted->gpus = machine->gpus;
    /* By compute capability: 10 and above, 50 GB/s; Pascal, 20 GB/s; all others, and unknown ones, 25 GB/s. */
    sorted->nvlink_mbps = reader->max_sm >= 100 ? 50000 : reader->max_sm > 0 && reader->max_sm < 70 ? 20000 : 25000;
    for (int i = 0; i < machine->gpus; ++i) {
        rank_of[i] = 0;
        for (int j = 0; j < machine->gpus; ++j) {
            rank_of[i] += reader->gpu_number[j] < reader->gpu_number[i];
        }
        sorted->pcie_mbps[rank_of[i]] = machine->pcie_mbps[i];
        snprintf(sorted->gpu[rank_of[i]], SYNTH_GPU, "%.23s", reader->pci_address[i]);
    }
    for (int i = 0; i < machine->hub_count; ++i) {
        uint64_t below = 0;

        for (int gpu = 0; gpu < machine->gpus; ++gpu) {
            below |= (machine->hubs[i].below >> gpu & 1) << rank_of[gpu];
        }
        if (below != UINT64_MAX >> (64 - machine->gpus)) {
            synth_machine_add_hub(sorted, machine->hubs[i].name, below, machine->hubs[i].mbps);
        }
    }
    for (int i = 0; i < reader->nvlink_count; ++i) {
        const nvlink_t *nvlink = &reader->nvlinks[i];
        int peer = -1;

        for (int gpu = 0; gpu < machine->gpus; ++gpu) {
            peer = strcmp(reader->pci_address[gpu], nvlink->target) == 0 ? gpu : peer;
        }
        if (nvlink->to_switch) {
            sorted->to_switch[rank_of[nvlink->gpu]] += nvlink->count;
        } else if (peer == nvlink->gpu) {
            return refuse(reader, "an nvlink joins %.40s to itself", nvlink->target);
        } else if (peer >= 0) {
            sorted->nvlinks[rank_of[nvlink->gpu]][rank_of[peer]] += nvlink->count;
        }
    }
    return true;
}

/* Returns MSCCLPP_ERR_INVALID if the file is wrong, with a text in `reason`, and MSCCLPP_ERR_NO_MEMORY. */
mscclpp_status_t synth_topology_nccl(const char *text, size_t size, char *reason, size_t reason_size,
                                     synth_topology_t **topology_p)
{
    reader_t *reader = calloc(1, sizeof(*reader));
    /* Machine 0 has the GPUs in the order of the file, and machine 1 has them sorted. */
    synth_machine_t *machine = calloc(2, sizeof(*machine));
    mscclpp_status_t status = MSCCLPP_ERR_NO_MEMORY;

    if (reader != NULL && machine != NULL) {
        reader->nvlinks = calloc(MAX_NVLINKS + 1, sizeof(*reader->nvlinks));
    }
    if (reader != NULL && reader->nvlinks != NULL) {
        reason[0] = '\0';
        reader->next = text;
        reader->end = text + size;
        reader->line = 1;
        reader->reason = reason;
        reader->reason_size = reason_size;
        reader->machine = &machine[0];
        status = read_all(reader) && sort_machine(reader, &machine[1]) ? MSCCLPP_OK : MSCCLPP_ERR_INVALID;
        free(reader->nvlinks);
    }
    if (status == MSCCLPP_OK) {
        status = synth_machine_topology(&machine[1], reason, reason_size, topology_p);
    }
    /* The message may quote the file: control characters are replaced. */
    for (char *cursor = reason; status == MSCCLPP_ERR_INVALID && *cursor != '\0'; ++cursor) {
        if ((unsigned char)*cursor < ' ' || *cursor == 0x7f) {
            *cursor = '?';
        }
    }
    free(reader);
    free(machine);
    return status;
}
