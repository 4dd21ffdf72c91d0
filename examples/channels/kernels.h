/*
 * The kernels of the examples, written once for GPUs and for the host twin. A kernel NAME has the arguments NAME_args_t
 * and the body NAME_body, which all threads of a block call with the block's group. Offsets in puts are in bytes: 4 for
 * each float, 8 for each double.
 */
#ifndef EXAMPLES_CHANNELS_KERNELS_H
#define EXAMPLES_CHANNELS_KERNELS_H

#include "mpix_mscclpp_device.h"

#define KERNELS(X) X(rmsnorm) X(halo) X(halo_edge) X(tokens) X(gemm) X(keyvalue) X(pipeline) X(solver)

/*
 * Residual add, all-reduce and RMSNorm in one: x = norm(sum of x over all ranks + residual), row by row. Blocks take
 * the rows in turn.
 */
typedef struct {
    mpix_room_t room;
    float *x;              /* rows * width */
    const float *residual; /* rows * width */
    float *partial;        /* a sum for each thread of each block */
    mpix_u32 rows;
    mpix_u32 width;
} rmsnorm_args_t;

/* Returns the factor by which RMSNorm multiplies a row whose squares add up to `sum`: 1 / sqrt(sum / width + 1e-6). */
MPIX_DEVICE float rms_scale(float sum, mpix_u32 width)
{
    const float mean = sum / (float)width + 1e-6f;
    float root = mean > 1.0f ? mean : 1.0f;
    int i;

    /* Newton's method needs no library, and yields the same on CPU and GPU. 30 turns are enough for means to 1e16. */
    for (i = 0; i < 30; ++i) {
        root = 0.5f * (root + mean / root);
    }
    return 1.0f / root;
}

/*
 * Adds up x over all ranks, adds the residual and normalises, row by row. Works with any number of blocks up to that of
 * the room, which has to be the same on all ranks: block i takes the same rows everywhere. If an all-reduce fails, x is
 * undefined; the host learns of that from MPIX_Mscclpp_get_async_error.
 */
MPIX_DEVICE void rmsnorm_body(mpix_group_t *block, const rmsnorm_args_t *args)
{
    float *partial = args->partial + block->block * block->size;
    mpix_u32 row, i;

    for (row = block->block; row < args->rows; row += block->blocks) {
        float *x = args->x + (mpix_u64)row * args->width;
        const float *residual = args->residual + (mpix_u64)row * args->width;
        float squares = 0, scale;

        (void)mpix_allreduce_small(block, &args->room, x, x, args->width, MPIX_FLOAT32, MPIX_SUM);
        mpix_sync(block);
        for (i = block->index; i < args->width; i += block->size) {
            x[i] += residual[i];
            squares += x[i] * x[i];
        }
        partial[block->index] = squares;
        mpix_sync(block);
        squares = 0;
        for (i = 0; i < block->size; ++i) {
            squares += partial[i];
        }
        scale = rms_scale(squares, args->width);
        for (i = block->index; i < args->width; i += block->size) {
            x[i] *= scale;
        }
        mpix_sync(block); /* all threads have read `partial`, which the next row overwrites */
    }
}

/*
 * One step of Jacobi's method. Each rank has a box of n[0] * n[1] * n[2] cells and a layer of ghost cells around them.
 * The first kernel sends the faces, computes the interior meanwhile, and then receives the neighbours' faces. The
 * second one computes the cells next to the ghost cells.
 */
#define FACES 6

typedef struct {
    mpix_memory_channel_t memory[FACES]; /* to the neighbours in the directions -x, +x, -y, +y, -z, +z */
    mpix_port_channel_t port[FACES];
    int has_neighbour[FACES];
    int by_ports;        /* faces are sent by port channels, else by memory channels */
    double *faces;       /* registered memory: for each parity and face, one to send and one to receive */
    mpix_u64 face_cells; /* cells of the largest face */
    mpix_u32 parity;     /* of the step: the buffers of one step are still in use in the next one */
    double *from;        /* the box before the step, with ghost cells */
    double *to;          /* the box after the step */
    int n[3];            /* cells of the box in each direction, without ghost cells */
} halo_args_t;
typedef halo_args_t halo_edge_args_t;

/* Returns the index of a cell in the box. Ghost cells have a coordinate of 0 or of n + 1. */
MPIX_DEVICE mpix_u64 halo_cell(const halo_args_t *args, int x, int y, int z)
{
    return ((mpix_u64)z * (mpix_u64)(args->n[1] + 2) + (mpix_u64)y) * (mpix_u64)(args->n[0] + 2) + (mpix_u64)x;
}

/*
 * Returns the index of cell `i` of a face: in the box's outermost layer or, if `ghost`, in the ghost cells beyond it.
 */
MPIX_DEVICE mpix_u64 halo_face_cell(const halo_args_t *args, int face, int ghost, mpix_u32 i)
{
    const int axis = face / 2, u = axis == 0 ? 1 : 0, v = axis == 2 ? 1 : 2;
    int position[3];

    position[u] = 1 + (int)i % args->n[u];
    position[v] = 1 + (int)i / args->n[u];
    position[axis] = face % 2 == 0 ? 1 - ghost : args->n[axis] + ghost;
    return halo_cell(args, position[0], position[1], position[2]);
}

/* Returns the number of cells of a face. */
MPIX_DEVICE mpix_u32 halo_face_size(const halo_args_t *args, int face)
{
    return (mpix_u32)(args->n[0] * args->n[1] * args->n[2] / args->n[face / 2]);
}

/*
 * Returns where a face's buffer in `faces` begins, in cells: the one for sending (`received` 0) or for receiving (1).
 */
MPIX_DEVICE mpix_u64 halo_buffer(const halo_args_t *args, int face, int received)
{
    return ((args->parity * FACES + (mpix_u32)face) * 2 + (mpix_u32)received) * args->face_cells;
}

/* Computes a cell: the mean of its six neighbours. */
MPIX_DEVICE void halo_update(const halo_args_t *args, int x, int y, int z)
{
    const double *from = args->from;

    args->to[halo_cell(args, x, y, z)] =
        (from[halo_cell(args, x - 1, y, z)] + from[halo_cell(args, x + 1, y, z)] + from[halo_cell(args, x, y - 1, z)] +
         from[halo_cell(args, x, y + 1, z)] + from[halo_cell(args, x, y, z - 1)] + from[halo_cell(args, x, y, z + 1)]) /
        6.0;
}

/* Returns 1 if a cell is next to a ghost cell, else 0. */
MPIX_DEVICE int halo_is_edge(const halo_args_t *args, int x, int y, int z)
{
    return x == 1 || y == 1 || z == 1 || x == args->n[0] || y == args->n[1] || z == args->n[2];
}

/* Computes the cells next to ghost cells (`edge` 1), or all others (0). All blocks take part. */
MPIX_DEVICE void halo_cells(const mpix_group_t *block, const halo_args_t *args, int edge)
{
    const mpix_u32 cells = (mpix_u32)(args->n[0] * args->n[1] * args->n[2]);
    mpix_u32 i;

    for (i = block->block * block->size + block->index; i < cells; i += block->blocks * block->size) {
        const int x = 1 + (int)i % args->n[0], y = 1 + (int)i / args->n[0] % args->n[1];
        const int z = 1 + (int)i / args->n[0] / args->n[1];

        if (halo_is_edge(args, x, y, z) == edge) {
            halo_update(args, x, y, z);
        }
    }
}

/*
 * Sends the faces, computes the interior, and receives the neighbours' faces. Needs at least FACES blocks: block i of
 * the first FACES exchanges face i, and the peer receives it on its opposite face, i ^ 1. The interior reads no ghost
 * cell, so it need not wait. A step's buffers may be overwritten two steps later: a neighbour sends the faces of the
 * next step only after it has read those of this one.
 */
MPIX_DEVICE void halo_body(mpix_group_t *block, const halo_args_t *args)
{
    const int face = (int)block->block;
    const int exchanges = face < FACES && args->has_neighbour[face < FACES ? face : 0]; /* the index is always valid */
    mpix_u32 i;

    if (exchanges) {
        const mpix_u32 cells = halo_face_size(args, face);
        const mpix_u64 send = halo_buffer(args, face, 0), receive = halo_buffer(args, face ^ 1, 1);

        for (i = block->index; i < cells; i += block->size) {
            args->faces[send + i] = args->from[halo_face_cell(args, face, 0, i)];
        }
        mpix_sync(block);
        if (args->by_ports) {
            (void)mpix_port_put_signal(block, &args->port[face], 8 * receive, 8 * send, 8 * (mpix_u64)cells);
        } else {
            (void)mpix_put(block, &args->memory[face], 8 * receive, 8 * send, 8 * (mpix_u64)cells);
            (void)mpix_signal(block, &args->memory[face]);
        }
    }
    halo_cells(block, args, 0);
    if (exchanges) {
        const mpix_u64 received = halo_buffer(args, face, 1);

        (void)(args->by_ports ? mpix_port_wait(block, &args->port[face]) : mpix_wait(block, &args->memory[face]));
        for (i = block->index; i < halo_face_size(args, face); i += block->size) {
            args->from[halo_face_cell(args, face, 1, i)] = args->faces[received + i];
        }
    }
}

/*
 * Computes the cells next to ghost cells. This is the second kernel of a step: blocks cannot wait for one another, so
 * only the end of the first kernel tells that all faces have come.
 */
MPIX_DEVICE void halo_edge_body(mpix_group_t *block, const halo_edge_args_t *args)
{
    halo_cells(block, args, 1);
}

/*
 * Mixture of experts: each rank is an expert. Block p sends this rank's tokens for expert p there, with their number.
 * Then it works on the tokens that have come from rank p, sends them back, and puts those that come back into their
 * places.
 */
typedef struct {
    const mpix_memory_channel_t *channels; /* device memory, by rank; this rank's own is unused */
    float *buffers;                        /* registered memory: for each rank, four areas of `area` floats */
    mpix_u64 area;                         /* a count, then tokens */
    const float *in;                       /* tokens * width */
    const int *expert;                     /* of each token */
    float *out;                            /* tokens * width: what the experts have made of them */
    int *places;                           /* for each rank, the indices of the tokens that went there */
    mpix_u32 tokens;
    mpix_u32 width;
    mpix_u32 rank;
} tokens_args_t;

/* The areas for one rank: tokens sent to it, received from it, the latter once worked on, and those that come back. */
enum { TOKENS_SENT, TOKENS_RECEIVED, TOKENS_DONE, TOKENS_BACK };

/* Returns where an area begins in `buffers`, in floats. */
MPIX_DEVICE mpix_u64 tokens_area(const tokens_args_t *args, mpix_u32 rank, int which)
{
    return (4 * (mpix_u64)rank + (mpix_u64)which) * args->area;
}

/*
 * Sends tokens to the peer's expert, works on the peer's tokens, and puts those that come back into their places. Needs
 * a block for each rank. A block whose channel fails leaves the rest of `out` as it is. Each thread counts the tokens
 * by itself, so all agree on their number. An area has room for all tokens, since all may go to one expert. The number
 * of a block's tokens travels as a float, which holds it exactly.
 */
MPIX_DEVICE void tokens_body(mpix_group_t *block, const tokens_args_t *args)
{
    const mpix_u32 peer = block->block, self = args->rank;
    const mpix_memory_channel_t *channel = &args->channels[peer];
    const int is_local = peer == self; /* nothing is sent: the areas are used where they are */
    float *sent = args->buffers + tokens_area(args, peer, TOKENS_SENT);
    float *received = is_local ? sent : args->buffers + tokens_area(args, peer, TOKENS_RECEIVED);
    float *done = args->buffers + tokens_area(args, peer, TOKENS_DONE);
    float *back = is_local ? done : args->buffers + tokens_area(args, peer, TOKENS_BACK);
    int *places = args->places + (mpix_u64)peer * args->tokens;
    mpix_u32 token, i, count = 0;

    /* Collects the tokens for the peer's expert behind their number, and notes where they came from. */
    for (token = 0; token < args->tokens; ++token) {
        if (args->expert[token] == (int)peer) {
            for (i = block->index; i < args->width; i += block->size) {
                sent[1 + count * args->width + i] = args->in[token * args->width + i];
            }
            if (block->index == 0) {
                places[count] = (int)token;
            }
            ++count;
        }
    }
    if (block->index == 0) {
        sent[0] = (float)count;
    }
    mpix_sync(block);
    if (!is_local) {
        (void)mpix_put(block, channel, 4 * tokens_area(args, self, TOKENS_RECEIVED),
                       4 * tokens_area(args, peer, TOKENS_SENT), 4 * (1 + (mpix_u64)count * args->width));
        (void)mpix_signal(block, channel);
        (void)mpix_wait(block, channel);
    }
    if (mpix_failed(block)) {
        return;
    }
    /* Works on the peer's tokens, and sends them back. */
    count = (mpix_u32)received[0];
    for (i = block->index; i < count * args->width; i += block->size) {
        done[1 + i] = (float)(self + 1) * received[1 + i]; /* what the expert does */
    }
    mpix_sync(block);
    if (!is_local) {
        (void)mpix_put(block, channel, 4 * tokens_area(args, self, TOKENS_BACK),
                       4 * tokens_area(args, peer, TOKENS_DONE), 4 * (1 + (mpix_u64)count * args->width));
        (void)mpix_signal(block, channel);
        (void)mpix_wait(block, channel);
    }
    if (mpix_failed(block)) {
        return;
    }
    /* Puts the tokens that have come back into their places. */
    count = (mpix_u32)sent[0];
    for (i = block->index; i < count * args->width; i += block->size) {
        args->out[(mpix_u64)places[i / args->width] * args->width + i % args->width] = back[1 + i];
    }
}

/*
 * C = A B, where each rank has some columns of A and the same rows of B. Each rank computes their product, and C is the
 * sum over all ranks. A block computes a tile and sends it at once to the rank that owns the tile. On that rank, the
 * block adds up the tiles of all ranks. Needs a block for each tile.
 */
#define TILE 8 /* rows and columns of a tile */

typedef struct {
    const mpix_memory_channel_t *channels; /* device memory: `tiles` to each rank, by rank */
    float *tiles;                          /* registered memory: own tiles, then those of each rank */
    const float *a;                        /* n * depth */
    const float *b;                        /* depth * n */
    float *c;                              /* n * n, of which this rank computes its own tiles */
    mpix_u32 n;
    mpix_u32 depth;
    mpix_u32 rank;
    mpix_u32 ranks;
} gemm_args_t;

/*
 * Computes a tile of this rank's product and sends it to its owner. On the owner, adds up the tiles of all ranks; if a
 * wait fails, the tile is not written. Each tile has a channel of its own, so that a block waits for no other block's
 * tile. n is a multiple of TILE.
 */
MPIX_DEVICE void gemm_body(mpix_group_t *block, const gemm_args_t *args)
{
    const mpix_u32 tiles_across = args->n / TILE, tile = block->block, owner = tile % args->ranks, cells = TILE * TILE;
    const mpix_u64 offset = (mpix_u64)tile * cells, area = (mpix_u64)tiles_across * tiles_across * cells;
    mpix_u32 i, k, peer;

    for (i = block->index; i < cells; i += block->size) {
        const mpix_u32 row = tile / tiles_across * TILE + i / TILE, column = tile % tiles_across * TILE + i % TILE;
        float sum = 0;

        for (k = 0; k < args->depth; ++k) {
            sum += args->a[row * args->depth + k] * args->b[k * args->n + column];
        }
        args->tiles[offset + i] = sum;
    }
    mpix_sync(block);
    if (owner != args->rank) {
        const mpix_memory_channel_t *channel = &args->channels[owner * tiles_across * tiles_across + tile];

        (void)mpix_put(block, channel, 4 * ((1 + args->rank) * area + offset), 4 * offset, 4 * (mpix_u64)cells);
        (void)mpix_signal(block, channel);
        return;
    }
    for (peer = 0; peer < args->ranks; ++peer) {
        if (peer != args->rank) {
            (void)mpix_wait(block, &args->channels[peer * tiles_across * tiles_across + tile]);
        }
    }
    for (i = block->index; i < cells && !mpix_failed(block); i += block->size) {
        float sum = 0;

        for (peer = 0; peer < args->ranks; ++peer) { /* in the order of ranks, so that sums are the same each time */
            sum += args->tiles[(peer == args->rank ? 0 : (1 + peer) * area) + offset + i];
        }
        args->c[(tile / tiles_across * TILE + i / TILE) * args->n + tile % tiles_across * TILE + i % TILE] = sum;
    }
}

/*
 * A store of values on the CPU, which the kernel asks by triggers. Their types are these, which the library does not
 * know.
 */
enum { KEYVALUE_SET = 1, KEYVALUE_GET = 2 };

typedef struct {
    mpix_port_channel_t channel;
    mpix_u32 *reply;   /* host memory: what the CPU answers */
    mpix_u32 *answers; /* device memory: the answer for each key */
    mpix_u32 keys;     /* number of keys */
} keyvalue_args_t;

/*
 * Sets all keys, and then asks for each. The flush lets the kernel wait for the answer, so that `reply` holds one at a
 * time. Values travel in the field for the size, which has 32 bits. One block.
 */
MPIX_DEVICE void keyvalue_body(mpix_group_t *block, const keyvalue_args_t *args)
{
    mpix_u32 key;

    for (key = 0; key < args->keys; ++key) {
        (void)mpix_port_push(block, &args->channel, KEYVALUE_SET, key, 0, key * key + args->channel.head.rank);
    }
    for (key = 0; key < args->keys; ++key) {
        (void)mpix_port_push(block, &args->channel, KEYVALUE_GET | MPIX_PORT_FLUSH, key, 0, 0);
        if (block->index == 0 && !mpix_failed(block)) {
            args->answers[key] = *(volatile mpix_u32 *)args->reply;
        }
        mpix_sync(block);
    }
}

/*
 * A pipeline of ranks: each takes chunks from the rank before it, works on them, and passes them on. By port channels
 * the CPU sends one chunk while the kernel works on the next. A rank uses two buffers in turn; the next rank signals
 * when one is free again. One block.
 */
typedef struct {
    mpix_port_channel_t before, next; /* to the rank before this one, and to the one after it */
    float *buffers;                   /* registered memory: two to receive, two to send, of `size` floats */
    const float *in;                  /* all chunks; used on the first rank */
    float *out;                       /* all chunks; used on the last rank */
    mpix_u32 chunks;                  /* number of chunks */
    mpix_u32 size;                    /* floats in a chunk */
    mpix_u32 rank;
    mpix_u32 ranks;
} pipeline_args_t;

/*
 * Takes chunk after chunk from the rank before this one, works on it, and passes it on. Ends early if a neighbour does
 * not come in time. Both ranks know from a chunk's number which buffer it uses. When the next rank has read chunk - 2,
 * the put of that chunk has ended, too, so no flush is needed. The signals for the last two chunks are not waited for.
 */
MPIX_DEVICE void pipeline_body(mpix_group_t *block, const pipeline_args_t *args)
{
    const mpix_u64 size = args->size;
    mpix_u32 chunk, i;

    for (chunk = 0; chunk < args->chunks; ++chunk) {
        const int is_first = args->rank == 0, is_last = args->rank + 1 == args->ranks;
        const mpix_u64 receive = chunk % 2 * size, send = (2 + chunk % 2) * size;
        const float *from = is_first ? args->in + chunk * size : args->buffers + receive;
        float *to = is_last ? args->out + chunk * size : args->buffers + send;

        if (!is_first) {
            (void)mpix_port_wait(block, &args->before);
        }
        if (!is_last && chunk >= 2) {
            /* Waits until the next rank has read chunk - 2, so that this buffer and its target are free. */
            (void)mpix_port_wait(block, &args->next);
        }
        if (mpix_failed(block)) {
            return;
        }
        for (i = block->index; i < size; i += block->size) {
            to[i] = 2.0f * from[i] + (float)(args->rank + 1);
        }
        mpix_sync(block);
        if (!is_first) {
            (void)mpix_port_signal(block, &args->before); /* the buffer that was read is free again */
        }
        if (!is_last) {
            (void)mpix_port_put_signal(block, &args->next, 4 * receive, 4 * send, 4 * size);
        }
    }
}

/*
 * The conjugate-gradient method for -x[i-1] + 2 x[i] - x[i+1] = b[i], from the first residual to the last in one
 * kernel, without the CPU: a room adds up numbers of all ranks, and memory channels exchange the neighbours' borders.
 * One block on each rank.
 */
typedef struct {
    mpix_room_t room;
    mpix_memory_channel_t below, above; /* to the neighbours, whose cells have lower and higher numbers */
    double *borders;  /* registered memory: for each parity, what comes from below and from above, then what is sent */
    double *x;        /* the result; 0 at first */
    double *r;        /* b at first */
    double *p;        /* a ghost cell, n cells, a ghost cell */
    double *ap;       /* n cells */
    double *partial;  /* a sum for each thread, then the sum of all */
    double tolerance; /* of the squared residual */
    mpix_u32 n;       /* cells of this rank */
    mpix_u32 max_turns;
    mpix_u32 *turns; /* result: the number of turns that it took */
} solver_args_t;

/*
 * Returns the scalar product of two vectors over all ranks, to all threads of the block. After a failure, which callers
 * learn from mpix_failed, the result is undefined. The all-reduce begins with a mpix_sync, after which all threads see
 * this rank's sum.
 */
MPIX_DEVICE double solver_dot(mpix_group_t *block, const solver_args_t *args, const double *a, const double *b)
{
    double *sum = args->partial + block->size, mine = 0;
    mpix_u32 i;

    for (i = block->index; i < args->n; i += block->size) {
        mine += a[i] * b[i];
    }
    args->partial[block->index] = mine;
    mpix_sync(block);
    if (block->index == 0) {
        *sum = 0;
        for (i = 0; i < block->size; ++i) {
            *sum += args->partial[i];
        }
    }
    (void)mpix_allreduce_small(block, &args->room, sum, sum, 1, MPIX_FLOAT64, MPIX_SUM);
    mpix_sync(block);
    return *sum;
}

/*
 * Sends the outermost cells of p to the neighbours, and receives theirs into the ghost cells; 0 where there is none.
 * A neighbour cannot send those of the next turn before they have been read here, since the scalar products in between
 * wait for all ranks.
 */
MPIX_DEVICE void solver_exchange(mpix_group_t *block, const solver_args_t *args, mpix_u32 turn)
{
    const int has_below = args->room.head.rank > 0, has_above = args->room.head.rank + 1 < args->room.head.ranks;
    const mpix_u64 receive = turn % 2 * 2, send = 4 + turn % 2 * 2;

    if (block->index == 0) {
        args->borders[send] = args->p[1];
        args->borders[send + 1] = args->p[args->n];
    }
    mpix_sync(block);
    if (has_below) { /* this rank is above that one, so its cell goes to the place for what comes from above */
        (void)mpix_put(block, &args->below, 8 * (receive + 1), 8 * send, 8);
        (void)mpix_signal(block, &args->below);
    }
    if (has_above) {
        (void)mpix_put(block, &args->above, 8 * receive, 8 * (send + 1), 8);
        (void)mpix_signal(block, &args->above);
    }
    if (has_below) {
        (void)mpix_wait(block, &args->below);
    }
    if (has_above) {
        (void)mpix_wait(block, &args->above);
    }
    if (block->index == 0) {
        args->p[0] = has_below ? args->borders[receive] : 0;
        args->p[args->n + 1] = has_above ? args->borders[receive + 1] : 0;
    }
    mpix_sync(block);
}

/*
 * Solves the equations. x, the residual r, the direction p and ap = A p are those of the textbooks; rr is the square of
 * r. After a failure x is undefined, and all threads leave the loop together, since all know of it.
 */
MPIX_DEVICE void solver_body(mpix_group_t *block, const solver_args_t *args)
{
    double *p = args->p + 1, rr, old_rr, alpha, beta;
    mpix_u32 turn, i;

    for (i = block->index; i < args->n; i += block->size) {
        p[i] = args->r[i];
    }
    rr = solver_dot(block, args, args->r, args->r);
    /* The sums have the same bits on all ranks, so all ranks leave the loop in the same turn. */
    for (turn = 0; turn < args->max_turns && rr > args->tolerance && !mpix_failed(block); ++turn) {
        solver_exchange(block, args, turn);
        for (i = block->index; i < args->n; i += block->size) {
            args->ap[i] = 2 * p[i] - *(p + i - 1) - p[i + 1]; /* not p[i - 1]: i is unsigned, and may be 0 */
        }
        mpix_sync(block);
        alpha = rr / solver_dot(block, args, p, args->ap);
        for (i = block->index; i < args->n; i += block->size) {
            args->x[i] += alpha * p[i];
            args->r[i] -= alpha * args->ap[i];
        }
        mpix_sync(block);
        old_rr = rr;
        rr = solver_dot(block, args, args->r, args->r);
        beta = rr / old_rr;
        for (i = block->index; i < args->n; i += block->size) {
            p[i] = args->r[i] + beta * p[i];
        }
        mpix_sync(block);
    }
    if (block->index == 0) {
        *args->turns = turn;
    }
}

#endif
