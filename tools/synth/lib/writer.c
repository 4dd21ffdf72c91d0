/* Collects the operations of each block as text, and writes ranks, channels and buffers around them at the end. */
#include "tools/synth/lib/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most peers, or buffers that are written, of one operation; every executor has room for this many. */
enum { MAX_IN_OP = 8 };
enum { BUFFER_TYPES = 3 }; /* input, output, scratch */
enum { MEMORY, PORT, CHANNEL_TYPES };

/* A list of numbers that grows. */
typedef struct {
    int *value, count;
} list_t;

/* A channel of a block to a peer. */
typedef struct {
    int peer, tag;
    int channel; /* its number within the block */
} link_t;

/* A thread block of a rank. Arrays of two are indexed by the type of the channel, MEMORY or PORT. */
typedef struct {
    int instance; /* the part of every chunk on which the block works */
    char *text;   /* its operations, as JSON */
    size_t size;
    FILE *out;   /* writes to `text`; NULL until the block is selected */
    bool has_op; /* the current list of operations is not empty, so the next operation needs a comma */
    list_t channel[CHANNEL_TYPES]; /* the numbers of the rank's channels that the block uses */
    list_t
        remote[CHANNEL_TYPES]; /* the remote buffers of the rank that the block uses, as indices in the rank's list */
    link_t *links;             /* all channels of the block */
    int link_count;
} block_t;

typedef struct {
    block_t *blocks;
    int block_count;
    list_t peer[CHANNEL_TYPES]; /* the peer of each channel */
    list_t remote;              /* buffers of peers: BUFFER_TYPES * rank + type of buffer */
} rank_t;

struct synth_writer {
    const synth_topology_t *topology;
    const synth_layout_t *layout;
    int instances;  /* number of parts into which each chunk is divided */
    int rank;       /* of the selected block */
    block_t *block; /* the selected block, to which operations are added */
    bool failed;    /* memory ran out: nothing more is written, and the plan fails */
    rank_t ranks[SYNTH_MAX_RANKS];
};

static const char *const channel_types[CHANNEL_TYPES] = {"memory", "port"};

static const char buffers[BUFFER_TYPES] = {'i', 'o', 's'};

/* Appends a number to a list and returns its index. If memory runs out, sets `failed` and returns 0. */
static int append(synth_writer_t *writer, list_t *list, int value)
{
    int *values = realloc(list->value, sizeof(int) * (size_t)(list->count + 1));

    if (values == NULL) {
        writer->failed = true;
        return 0;
    }
    list->value = values;
    values[list->count] = value;
    return list->count++;
}

/* Returns the position of a number in a list. Appends the number if the list does not have it. */
static int find_or_append(synth_writer_t *writer, list_t *list, int value)
{
    for (int i = 0; i < list->count; ++i) {
        if (list->value[i] == value) {
            return i;
        }
    }
    return append(writer, list, value);
}

/* Returns the type of the channels between two ranks: PORT if they are on different nodes, otherwise MEMORY. */
static int channel_type_between(const synth_writer_t *writer, int rank, int other)
{
    return writer->topology->node_of[rank] != writer->topology->node_of[other];
}

synth_writer_t *synth_writer_new(const synth_topology_t *topology, const synth_layout_t *layout, int instances)
{
    synth_writer_t *writer = calloc(1, sizeof(*writer));

    if (writer != NULL) {
        writer->topology = topology;
        writer->layout = layout;
        writer->instances = instances;
    }
    return writer;
}

void synth_writer_free(synth_writer_t *writer)
{
    for (int number = 0; writer != NULL && number < SYNTH_MAX_RANKS; ++number) {
        rank_t *rank = &writer->ranks[number];

        for (int i = 0; i < rank->block_count; ++i) {
            block_t *block = &rank->blocks[i];

            if (block->out != NULL) {
                fclose(block->out);
            }
            free(block->text);
            free(block->links);
            for (int type = 0; type < CHANNEL_TYPES; ++type) {
                free(block->channel[type].value);
                free(block->remote[type].value);
            }
        }
        free(rank->blocks);
        free(rank->peer[0].value);
        free(rank->peer[1].value);
        free(rank->remote.value);
    }
    free(writer);
}

/* Adds the block to rank `number`. */
int synth_writer_add_block(synth_writer_t *writer, int number, int instance)
{
    rank_t *rank = &writer->ranks[number];
    block_t *blocks = realloc(rank->blocks, sizeof(*blocks) * (size_t)(rank->block_count + 1)), *block;

    if (blocks == NULL) {
        writer->failed = true;
        return 0;
    }
    rank->blocks = blocks;
    block = &blocks[rank->block_count];
    memset(block, 0, sizeof(*block));
    block->instance = instance;
    return rank->block_count++;
}

/* Adds a channel of the rank, number `channel`, to one of the rank's blocks. If memory runs out, sets `failed`. */
static void add_link(synth_writer_t *writer, int rank, int block_number, int peer, int tag, int channel, int type)
{
    block_t *block = &writer->ranks[rank].blocks[block_number];
    link_t *links = realloc(block->links, sizeof(*links) * (size_t)(block->link_count + 1));

    if (links == NULL) {
        writer->failed = true;
        return;
    }
    block->links = links;
    links[block->link_count++] =
        (link_t){.peer = peer, .tag = tag, .channel = append(writer, &block->channel[type], channel)};
}

void synth_writer_join(synth_writer_t *writer, int rank, int block, int other, int others_block, int tag)
{
    int type = channel_type_between(writer, rank, other);
    int channel = append(writer, &writer->ranks[rank].peer[type], other);
    int others_channel = append(writer, &writer->ranks[other].peer[type], rank);

    if (!writer->failed) {
        add_link(writer, rank, block, other, tag, channel, type);
        add_link(writer, other, others_block, rank, tag, others_channel, type);
    }
}

/* The first selection of a block opens its text. After a failure no block is selected, and nothing is written. */
void synth_writer_select(synth_writer_t *writer, int rank, int block)
{
    writer->rank = rank;
    writer->block = NULL;
    if (writer->failed) {
        return;
    }
    writer->block = &writer->ranks[rank].blocks[block];
    if (writer->block->out == NULL) {
        writer->block->out = open_memstream(&writer->block->text, &writer->block->size);
        writer->failed = writer->block->out == NULL;
    }
}

/* Begins an operation of the selected block: a comma after an earlier operation, and the name. The caller closes it. */
static void begin_op(synth_writer_t *writer, const char *name)
{
    fprintf(writer->block->out, "%s\n          {\"name\": \"%s\"", writer->block->has_op ? "," : "", name);
    writer->block->has_op = true;
}

void synth_writer_simple(synth_writer_t *writer, const char *name)
{
    if (!writer->failed) {
        begin_op(writer, name);
        fputc('}', writer->block->out);
    }
}

/* Returns the number of the selected block's channel with this tag to a peer; -1: they were not joined. */
static int channel_to(const synth_writer_t *writer, int peer, int tag)
{
    for (int i = 0; i < writer->block->link_count; ++i) {
        if (writer->block->links[i].peer == peer && writer->block->links[i].tag == tag) {
            return writer->block->links[i].channel;
        }
    }
    return -1;
}

/* Writes the channels of each type in operations of at most MAX_IN_OP channels. */
void synth_writer_sync(synth_writer_t *writer, const char *name, int tag, uint64_t peers)
{
    /* Memory channels have no flush. */
    for (int type = strcmp(name, "flush") == 0 ? PORT : MEMORY; type < CHANNEL_TYPES && !writer->failed; ++type) {
        int count = 0;

        for (int peer = 0; peer < writer->layout->ranks; ++peer) {
            if ((peers >> peer & 1) == 0 || channel_type_between(writer, writer->rank, peer) != type) {
                continue;
            }
            if (count % MAX_IN_OP == 0) {
                fprintf(writer->block->out, count > 0 ? "]}" : "");
                begin_op(writer, name);
                fprintf(writer->block->out, ", \"channel_type\": \"%s\", \"channel_ids\": [", channel_types[type]);
            }
            fprintf(writer->block->out, "%s%d", count % MAX_IN_OP > 0 ? ", " : "", channel_to(writer, peer, tag));
            ++count;
        }
        fprintf(writer->block->out, count > 0 ? "]}" : "");
    }
}

/*
 * Returns the index of a place in the plan's buffer, in chunks, for the instance of the selected block. Each instance
 * has its own part of every block of the input and output, and of the scratch. Sums that lie behind packets (buffer
 * 't') begin behind the packets of all instances.
 */
static int index_of(const synth_writer_t *writer, int rank, synth_place_t place)
{
    const synth_layout_t *layout = writer->layout;
    int block_size = place.buffer == 't'   ? layout->sum_chunks[rank]
                     : place.buffer == 's' ? layout->scratch_chunks[rank]
                                           : layout->block_chunks;
    int blocks_before = place.buffer >= 's' ? 0 : place.index / block_size; /* the scratch, 's' and 't', is one block */
    int packets_before =
        place.buffer == 't' ? 2 * writer->instances * layout->scratch_chunks[rank] : 0; /* of twice the size */

    return packets_before + (blocks_before * writer->instances + writer->block->instance) * block_size + place.index -
           blocks_before * block_size;
}

/* Returns the number by which the selected block refers to a peer's buffer, and lists the buffer if necessary. */
static int remote_number(synth_writer_t *writer, int peer, char buffer)
{
    rank_t *rank = &writer->ranks[writer->rank];
    int buffer_type = buffer == 'i'   ? 0
                      : buffer == 'o' ? 1
                                      : 2,
        type = channel_type_between(writer, writer->rank, peer);

    return find_or_append(writer, &writer->block->remote[type],
                          find_or_append(writer, &rank->remote, BUFFER_TYPES * peer + buffer_type));
}

/*
 * Writes operand i of a move: its buffer, which belongs to the rank or to a peer, its index and its size. A comma comes
 * first unless `is_first` is true.
 */
static void write_operand(synth_writer_t *writer, const synth_move_t *move, int i, bool is_first)
{
    FILE *out = writer->block->out;
    synth_place_t place = move->operand[i].place;
    int rank = move->operand[i].rank;

    fputs(is_first ? "" : ", ", out);
    if (rank == writer->rank) {
        fprintf(out, "{\"type\": \"%c\"", place.buffer == 't' ? 's' : place.buffer);
    } else {
        fprintf(out, "{\"buffer_id\": %d", remote_number(writer, rank, place.buffer));
    }
    fprintf(out, ", \"index\": %d, \"size\": %d}", index_of(writer, rank, place), move->size);
}

/* An operation has at most MAX_IN_OP targets, so a move with more of them becomes several operations. */
void synth_writer_data(synth_writer_t *writer, const char *name, const synth_moves_t *moves, int sources)
{
    writer->failed = writer->failed || moves->failed;
    for (int j = 0; j < moves->count && !writer->failed; ++j) {
        const synth_move_t *move = &moves->move[j];
        int reads = sources > 0 ? sources : move->count - 1;

        for (int first_target = reads; first_target < move->count; first_target += MAX_IN_OP) {
            begin_op(writer, name); /* if one operation cannot write all targets, the next one reads the same sources */
            if (reads > 1) {
                fprintf(writer->block->out, ", \"reduce_op\": \"sum\"");
            }
            /* All targets are on the rank itself or, if packets are forwarded, on peers of its node. */
            if (move->operand[move->count - 1].rank != writer->rank) {
                fprintf(writer->block->out, ", \"channel_type\": \"memory\"");
            }
            fprintf(writer->block->out, ", \"src_buff\": [");
            for (int i = 0; i < reads; ++i) {
                write_operand(writer, move, i, i == 0);
            }
            fprintf(writer->block->out, "], \"dst_buff\": [");
            for (int i = first_target; i < move->count && i < first_target + MAX_IN_OP; ++i) {
                write_operand(writer, move, i, i == first_target);
            }
            fprintf(writer->block->out, "]}");
        }
    }
}

/* Writes operations of at most MAX_IN_OP moves: first those over memory channels, and then those over ports. */
void synth_writer_put(synth_writer_t *writer, const char *name, int tag, const synth_moves_t *moves)
{
    writer->failed = writer->failed || moves->failed;
    for (int type = 0; type < CHANNEL_TYPES; ++type) { /* all channels of an operation have the same type */
        int next = 0;

        while (next < moves->count && !writer->failed) {
            const synth_move_t *batch[MAX_IN_OP];
            int count = 0;

            for (; next < moves->count && count < MAX_IN_OP; ++next) {
                if (channel_type_between(writer, writer->rank, moves->move[next].operand[1].rank) == type) {
                    batch[count++] = &moves->move[next];
                }
            }
            if (count == 0) {
                break;
            }
            begin_op(writer, name);
            fprintf(writer->block->out, ", \"channel_type\": \"%s\"", channel_types[type]);
            for (int i = 0; type == PORT && i < count; ++i) { /* the channels whose proxy carries the data */
                fprintf(writer->block->out, "%s%d%s", i == 0 ? ", \"channel_ids\": [" : ", ",
                        channel_to(writer, batch[i]->operand[1].rank, tag), i == count - 1 ? "]" : "");
            }
            for (int operand = 0; operand < 2; ++operand) { /* the sources, then the targets */
                fprintf(writer->block->out, operand == 0 ? ", \"src_buff\": [" : "], \"dst_buff\": [");
                for (int i = 0; i < count; ++i) {
                    write_operand(writer, batch[i], operand, i == 0);
                }
            }
            fprintf(writer->block->out, "]}");
        }
    }
}

void synth_writer_begin_turns(synth_writer_t *writer, uint64_t unit)
{
    if (!writer->failed) {
        begin_op(writer, "pipeline");
        fprintf(writer->block->out, ", \"iter_context\": {\"unit_size\": %" PRIu64 ", \"num_chunks\": 1}, \"ops\": [",
                unit);
        writer->block->has_op = false;
    }
}

void synth_writer_end_turns(synth_writer_t *writer)
{
    if (!writer->failed) {
        fprintf(writer->block->out, "]}");
        writer->block->has_op = true;
    }
}

/*
 * Computes the numbers of chunks of a rank's input and output, over all instances. A number is 0 if the rank has no
 * such buffer in the collective.
 */
static void count_chunks(const synth_writer_t *writer, int rank, int *inputs, int *outputs)
{
    const synth_schedule_t *schedule = writer->layout->schedule;
    int block_chunks = schedule->chunks, all_chunks = schedule->chunks * schedule->ranks;
    bool is_root = rank == schedule->root;

    *inputs = *outputs = block_chunks;
    switch (schedule->collective) {
    case SYNTH_ALLGATHER:
        *outputs = all_chunks;
        break;
    case SYNTH_GATHER:
        *outputs = is_root ? all_chunks : 0;
        break;
    case SYNTH_REDUCE:
        *outputs = is_root ? block_chunks : 0;
        break;
    case SYNTH_BROADCAST:
        *inputs = is_root ? block_chunks : 0;
        break;
    case SYNTH_SCATTER:
        *inputs = is_root ? all_chunks : 0;
        break;
    case SYNTH_REDUCESCATTER:
        *inputs = all_chunks;
        break;
    default: /* an all-to-all or all-reduce: both have the same number */
        break;
    }
    *inputs *= writer->instances;
    *outputs *= writer->instances;
}

/*
 * Writes an object for each of the two lists that is not empty. The object has the type of the channels under the key
 * `type_key`, and the numbers of the list under the key `numbers_key`.
 */
static void write_lists(FILE *out, const char *type_key, const char *numbers_key, const list_t *list)
{
    bool has_list = false;

    for (int type = 0; type < CHANNEL_TYPES; ++type) {
        for (int i = 0; i < list[type].count; ++i) {
            if (i == 0) {
                fprintf(out, "%s{\"%s\": \"%s\", \"%s\": [", has_list ? ", " : "", type_key, channel_types[type],
                        numbers_key);
                has_list = true;
            }
            fprintf(out, "%s%d", i > 0 ? ", " : "", list[type].value[i]);
        }
        fprintf(out, list[type].count > 0 ? "]}" : "");
    }
}

/*
 * Writes rank `number` of the plan: its blocks with their operations, its channels and its remote buffers. The text of
 * a block is complete only after its stream was flushed. If there are sums behind packets, each packet counts as two
 * chunks of the scratch, as in index_of.
 */
static void write_rank(synth_writer_t *writer, int number, FILE *out)
{
    rank_t *rank = &writer->ranks[number];
    int scratch = writer->layout->scratch_chunks[number], sums = writer->layout->sum_chunks[number], inputs, outputs;

    fprintf(out, "%s\n    {\"id\": %d, \"threadblocks\": [", number > 0 ? "," : "", number);
    for (int i = 0; i < rank->block_count; ++i) {
        block_t *block = &rank->blocks[i];

        writer->failed = writer->failed || (block->out != NULL && (fflush(block->out) != 0 || ferror(block->out)));
        fprintf(out, "%s\n        {\"id\": %d, \"ops\": [%s],\n         \"channels\": [", i > 0 ? "," : "", i,
                block->text != NULL ? block->text : "");
        write_lists(out, "channel_type", "channel_ids", block->channel);
        fprintf(out, "],\n         \"remote_buffer_refs\": [");
        write_lists(out, "access_channel_type", "remote_buffer_ids", block->remote);
        fprintf(out, "]}");
    }
    fprintf(out, "],\n     \"channels\": [");
    write_lists(out, "channel_type", "connected_to", rank->peer);
    fprintf(out, "],\n     \"remote_buffers\": [");
    for (int i = 0; i < rank->remote.count; ++i) {
        int peer = rank->remote.value[i] / BUFFER_TYPES;

        fprintf(out, "%s{\"rank\": %d, \"type\": \"%c\", \"access_channel_types\": [\"%s\"]}", i > 0 ? ", " : "", peer,
                buffers[rank->remote.value[i] % BUFFER_TYPES],
                channel_types[channel_type_between(writer, number, peer)]);
    }
    count_chunks(writer, number, &inputs, &outputs);
    fprintf(out, "],\n     \"input_chunks\": %d, \"output_chunks\": %d, \"scratch_chunks\": %d, \"semaphores\": []}",
            inputs, outputs, (scratch * (sums > 0 ? 2 : 1) + sums) * writer->instances);
}

/* Returns the name of a collective in plans; "custom" if the format has none. */
static const char *plan_collective(synth_collective_t collective)
{
    return collective == SYNTH_ALLGATHER || collective == SYNTH_ALLTOALL || collective == SYNTH_REDUCESCATTER ||
                   collective == SYNTH_ALLREDUCE
               ? synth_collective_names[collective]
               : "custom";
}

void synth_writer_fail(synth_writer_t *writer)
{
    writer->failed = true;
}

/* Writes the head of the plan and then all ranks. */
char *synth_writer_finish(synth_writer_t *writer, const char *name, const synth_range_t *range, size_t *size_p)
{
    const synth_layout_t *layout = writer->layout;
    bool has_packets = layout->manner == SYNTH_PACKETS;
    /*
     * Pipelines on one node use a scratch of fixed size as a ring, which all calls can share. Between nodes a proxy
     * also reads other buffers, which belong to one call.
     */
    bool is_ring = layout->manner == SYNTH_PIPELINE && writer->topology->node_count < 2;
    char *text = NULL;
    FILE *out = writer->failed ? NULL : open_memstream(&text, size_p);

    if (out == NULL) {
        return NULL;
    }
    fprintf(out, "{\"name\": \"%s\", \"collective\": \"%s\", \"protocol\": \"%s\", \"inplace\": %s,\n", name,
            plan_collective(layout->schedule->collective), has_packets ? "LL" : "Simple",
            layout->in_place ? "true" : "false");
    fprintf(out, "  \"use_double_scratch_buffer\": %s, \"reuse_resources\": %s,\n", has_packets ? "true" : "false",
            is_ring ? "true" : "false");
    fprintf(out, "  \"min_message_size\": %" PRIu64 ", \"max_message_size\": %" PRIu64 ",\n", range->min_bytes,
            range->max_bytes);
    for (int rank = 0; rank < layout->ranks && synth_topology_has_gpus(writer->topology); ++rank) {
        fprintf(out, "%s\"%s\"%s", rank == 0 ? "  \"gpu_addresses\": [" : ", ", writer->topology->gpu[rank],
                rank == layout->ranks - 1 ? "],\n" : "");
    }
    fprintf(out, "  \"num_threads_per_block\": 512, \"gpus\": [");
    for (int rank = 0; rank < layout->ranks; ++rank) {
        write_rank(writer, rank, out);
    }
    fprintf(out, "]}\n");
    writer->failed = writer->failed || ferror(out);
    if (fclose(out) != 0 || writer->failed) {
        free(text);
        return NULL;
    }
    return text;
}
