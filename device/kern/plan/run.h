/*
 * Runs an execution plan: each block executes its own list of steps. Only this list orders threads. Thread t handles
 * the units u of a step's slice for which u modulo the number of threads is t, both for plain chunks and for packets.
 * So steps over the same chunks use the same threads, and plans rely on that.
 */
#ifndef MSCCLPP_DEVICE_KERN_PLAN_RUN_H
#define MSCCLPP_DEVICE_KERN_PLAN_RUN_H

#include "device/kern/plan/brief.h"
#include "device/kern/plan/data.h"
#include "device/lib/barrier.h"
#include "device/lib/port_channel.h"

/*
 * Executes a step of puts over ports: requests them from the proxy, and does not wait until they are done. Each put is
 * requested by one thread, so a nop before this step must order the writes of other threads. Packets take twice the
 * bytes of their data. Offsets are those that ports use: from the start of this rank's memory and of the peer's memory.
 */
MSCCLPP_DEV void mscclpp_dev_plan_port_put(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                           const mscclpp_dev_plan_step_t *step, const mscclpp_dev_plan_run_t *run)
{
    const mscclpp_dev_plan_slice_t slice = mscclpp_dev_plan_slice(args, step, run);
    mscclpp_dev_plan_span_t source, target;
    uint32_t i;

    for (i = ctx->tid; i < step->count && slice.bytes > 0 && !ctx->failed; i += ctx->nthreads) {
        source = mscclpp_dev_plan_span(args, run, step->items + 2 * i, slice.first_byte);
        target = mscclpp_dev_plan_span(args, run, step->items + 2 * i + 1, slice.first_byte);
        mscclpp_dev_port_put(ctx, &args->common, &args->ports[run->program.links[step->links + i].slot],
                             (uint64_t)(uintptr_t)target.address, (uint64_t)(source.address - args->room),
                             source.packets != 0 ? 2 * slice.bytes : slice.bytes);
    }
}

/*
 * Waits until a counter has reached a value. If the thread gives up, sets ctx->failed, and reports `peer`, a rank's
 * number in the plan, as late.
 */
MSCCLPP_DEV void mscclpp_dev_plan_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                        const uint64_t *counter, uint64_t wanted, uint32_t peer)
{
    mscclpp_dev_wait_t wait = {0, 0};

    while (mscclpp_dev_ld_acquire_sys_u64(counter) < wanted) {
        if (!mscclpp_dev_wait_turn(ctx, &args->common, &wait, args->late_ranks[peer])) {
            return;
        }
    }
}

/*
 * Executes a step on channels or semaphores: a signal, wait, acquire or release, or a signal or flush of a port. Each
 * channel or semaphore is handled by one thread. args->expected, which counts the signals waited for, is not atomic,
 * because a valid plan orders all waits on a channel. If a wait fails, sets ctx->failed in this thread, which then
 * skips the rest of the step. The block's next nop or barrier tells the other threads.
 */
MSCCLPP_DEV void mscclpp_dev_plan_use_links(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                            const mscclpp_dev_plan_step_t *step, const mscclpp_dev_plan_run_t *run)
{
    uint32_t i;

    for (i = ctx->tid; i < step->count && !ctx->failed; i += ctx->nthreads) {
        const mscclpp_dev_plan_link_t link = run->program.links[step->links + i];

        switch (step->code) {
        case MSCCLPP_DEV_PLAN_SIGNAL:
            mscclpp_dev_red_release_sys_add_u64(link.counter, 1);
            break;
        case MSCCLPP_DEV_PLAN_WAIT:
            mscclpp_dev_plan_await(ctx, args, link.counter, ++args->expected[link.slot], link.peer);
            break;
        case MSCCLPP_DEV_PLAN_ACQUIRE:
            mscclpp_dev_plan_await(ctx, args, &args->semaphores[link.slot].given,
                                   mscclpp_dev_atom_relaxed_gpu_add_u64(&args->semaphores[link.slot].drawn, 1) + 1,
                                   args->rank);
            break;
        case MSCCLPP_DEV_PLAN_PORT_SIGNAL:
            mscclpp_dev_port_signal(ctx, &args->common, &args->ports[link.slot]);
            break;
        case MSCCLPP_DEV_PLAN_PORT_FLUSH:
            mscclpp_dev_port_flush(ctx, &args->common, &args->ports[link.slot]);
            break;
        default: /* a release */
            mscclpp_dev_red_release_sys_add_u64(&args->semaphores[link.slot].given, 1);
            break;
        }
    }
}

/*
 * Passes a barrier of step->count blocks of this rank. No block leaves the barrier, and so none enters it again, before
 * all blocks have entered. All steps of a barrier have the same count, as mscclpp_plan_check ensures. So pass k of the
 * barrier, counted from 0, has the tickets k * count to (k + 1) * count - 1. It ends when (k + 1) * count blocks have
 * arrived in total.
 *
 * If a thread gives up, sets ctx->failed in all threads of its block. A block that has failed before does not enter.
 */
MSCCLPP_DEV void mscclpp_dev_plan_barrier(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                          const mscclpp_dev_plan_step_t *step)
{
    mscclpp_dev_plan_counter_t *barrier = &args->barriers[step->links];

    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    if (ctx->tid == 0 && !ctx->failed) {
        const uint64_t ticket = mscclpp_dev_atom_relaxed_gpu_add_u64(&barrier->drawn, 1);

        mscclpp_dev_red_release_sys_add_u64(&barrier->given, 1);
        mscclpp_dev_plan_await(ctx, args, &barrier->given, (ticket / step->count + 1) * step->count, args->rank);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Waits until all ranks have reached this point. Called by all threads of all blocks. Only the first blocks of the
 * ranks meet, because grids may differ between ranks; the other blocks of a rank wait for its first one. If a wait
 * fails, sets ctx->failed.
 */
MSCCLPP_DEV void mscclpp_dev_plan_meet(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    mscclpp_dev_gate(ctx, args);
    if (ctx->block == 0) {
        const uint64_t count = args->state->barrier[0] + 1;

        mscclpp_dev_barrier(ctx, args, count);
        if (ctx->tid == 0) {
            args->state->barrier[0] = count;
        }
    }
    mscclpp_dev_gate(ctx, args);
}

/* Clears this rank's scratch. All blocks of the grid take part; they must meet before one of them uses the scratch. */
MSCCLPP_DEV void mscclpp_dev_plan_clear(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args)
{
    char *scratch = args->bases[MSCCLPP_DEV_PLAN_BUFFERS * args->rank + MSCCLPP_DEV_PLAN_SCRATCH];
    uint64_t offset;

    for (offset = (ctx->block * ctx->nthreads + ctx->tid) * sizeof(uint64_t);
         offset < args->scratch_bytes && !ctx->failed; offset += ctx->nblocks * ctx->nthreads * sizeof(uint64_t)) {
        mscclpp_dev_st_relaxed_sys_u64((uint64_t *)(void *)(scratch + offset), 0);
    }
}

/*
 * Returns the flag for a queued launch's packets, and prepares the scratch for them.
 *
 * For launches that the host waits for, the host has prepared the scratch. For queued launches the device does it,
 * because the host does not know which kernels run before them. All ranks decide in the same way, because flags and
 * sizes are equal on all of them. If chunks have another size than in the last launch, all ranks meet first. The
 * scratch is then divided differently, so no peer may still be in an earlier launch. If old data could be mistaken for
 * packets, or if all flags have been used, the scratch is also cleared.
 *
 * Ranks of several nodes cannot meet within this kernel, so other kernels have done this before.
 */
MSCCLPP_DEV_OUTLINE uint32_t mscclpp_dev_plan_begin_queued(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args)
{
    const mscclpp_dev_plan_state_t *last_state = &args->plan_state[ctx->block];
    const uint32_t limit = args->common.epoch_limit, flag = last_state->epoch + 1;

    if (args->ready == MSCCLPP_DEV_PLAN_IS_READY || (flag <= limit && last_state->chunk == args->chunk)) {
        return flag;
    }
    mscclpp_dev_plan_meet(ctx, &args->common);
    if (flag <= limit && args->mixes == 0) {
        return flag;
    }
    mscclpp_dev_plan_clear(ctx, args);
    mscclpp_dev_plan_meet(ctx, &args->common);
    return 1;
}

/* Returns the flag of this launch's packets. The scratch is safe for them afterwards. */
MSCCLPP_DEV uint32_t mscclpp_dev_plan_begin(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args)
{
    return args->common.epoch_limit == 0 ? args->plan_state[ctx->block].epoch + 1
                                         : mscclpp_dev_plan_begin_queued(ctx, args);
}

/*
 * Leaves the plan: stores the block's state for the next launch, `flag` and the size of chunks. The block's threads
 * must have met since they read the old state.
 */
MSCCLPP_DEV void mscclpp_dev_plan_leave(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                        uint32_t flag)
{
    if (ctx->tid == 0) {
        args->plan_state[ctx->block].epoch = flag;
        args->plan_state[ctx->block].chunk = args->chunk;
    }
}

/*
 * Runs a launch that only clears the scratch for later launches, if this is necessary. It runs between two other
 * kernels in which the ranks meet.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_plan_only_clear(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args)
{
    const mscclpp_dev_plan_state_t *last_state = &args->plan_state[ctx->block];
    const uint32_t epoch = last_state->epoch;
    const bool clears = epoch >= args->common.epoch_limit || (args->mixes != 0 && last_state->chunk != args->chunk);

    if (clears) {
        mscclpp_dev_plan_clear(ctx, args);
    }
    mscclpp_dev_block_sync(ctx);
    mscclpp_dev_plan_leave(ctx, args, clears ? 0 : epoch);
}

/* The number of words that a thread loads before it stores the first one. */
#define MSCCLPP_DEV_PLAN_COPY_BATCH 4u

/*
 * Copies memory with all threads of the block. Addresses and sizes are multiples of a word. A thread loads several
 * words before it stores the first one, so that the loads overlap. There is no barrier at the end.
 */
MSCCLPP_DEV void mscclpp_dev_plan_copy(const mscclpp_dev_ctx_t *ctx, void *to, const void *from, uint64_t bytes)
{
    const uint32_t words = (uint32_t)(bytes / sizeof(mscclpp_dev_word_t));
    mscclpp_dev_word_t values[MSCCLPP_DEV_PLAN_COPY_BATCH];
    uint32_t i, j;

    for (i = ctx->tid; i < words; i += MSCCLPP_DEV_PLAN_COPY_BATCH * ctx->nthreads) {
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_PLAN_COPY_BATCH; ++j) {
            const uint32_t word = i + j * ctx->nthreads;

            values[j] = word < words ? ((const mscclpp_dev_word_t *)from)[word] : 0;
        }
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_PLAN_COPY_BATCH; ++j) {
            const uint32_t word = i + j * ctx->nthreads;

            if (word < words) {
                ((mscclpp_dev_word_t *)to)[word] = values[j];
            }
        }
    }
}

/* Copies the block's program to the block's own memory, if it fits. Threads must meet before they use the copy. */
MSCCLPP_DEV void mscclpp_dev_plan_load_program(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                               mscclpp_dev_plan_copy_t *copy)
{
    if (args->programs != NULL) {
        mscclpp_dev_plan_copy(ctx, copy->words, (const char *)args->programs + ctx->block * args->program_bytes,
                              args->program_bytes);
    }
}

/*
 * Returns the block's program. If the program fits the block's own memory, it must already be in `copy`. Then all
 * threads together also compute there where the bytes of steps and items are in this launch. So all threads must meet
 * before this call, and again before they use the program. Otherwise the program stays in device memory, and each use
 * computes these places.
 */
MSCCLPP_DEV mscclpp_dev_plan_program_t mscclpp_dev_plan_prepare(const mscclpp_dev_ctx_t *ctx,
                                                                const mscclpp_dev_plan_args_t *args,
                                                                mscclpp_dev_plan_copy_t *copy, uint32_t flag)
{
    mscclpp_dev_plan_program_t program;
    uint32_t i;

    if (args->programs == NULL) {
        const mscclpp_dev_plan_start_t start = args->starts[ctx->block];

        program.steps = args->steps + start.step;
        program.items = args->items + start.item;
        program.links = args->links + start.link;
        program.slices = NULL;
        program.spans = NULL;
        return program;
    }
    program.steps = copy->steps;
    program.items = (const mscclpp_dev_plan_item_t *)(const void *)(program.steps + args->max_steps);
    program.links = (const mscclpp_dev_plan_link_t *)(const void *)(program.items + args->max_items);
    program.slices = copy->slices;
    program.spans = copy->spans;
    for (i = ctx->tid; i < args->max_items; i += ctx->nthreads) {
        copy->spans[i] = mscclpp_dev_plan_span_of(args, &program.items[i], flag);
    }
    /* Begins with the last thread, which has no item if the program is short. */
    for (i = ctx->nthreads - 1 - ctx->tid; i < args->max_steps; i += ctx->nthreads) {
        copy->slices[i] = mscclpp_dev_plan_slice_outside_loop(args, &program.steps[i]);
    }
    return program;
}

/*
 * Runs the kernel: executes this block's program. `copy` is the block's own memory, which must hold the program if it
 * fits (mscclpp_dev_plan_load_program). `wide` and `hot` are as in mscclpp_dev_plan_data; a wide kernel does not run
 * short plans in little code (mscclpp_dev_plan_brief). After a failure the remaining steps are still visited, but they
 * send no signals. Every program ends with END.
 */
MSCCLPP_DEV void mscclpp_dev_plan_run(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                      mscclpp_dev_plan_copy_t *copy, bool wide, bool hot, int dtype, int op)
{
    mscclpp_dev_plan_run_t run;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, &args->common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, &args->common);
    uint32_t position;

    mscclpp_dev_enter(ctx, &args->common);
    if (args->ready == MSCCLPP_DEV_PLAN_ONLY_CLEARS) {
        mscclpp_dev_plan_only_clear(ctx, args);
        mscclpp_dev_finish_packets(ctx, &args->common, launches, epoch);
        return;
    }
    run.flag = mscclpp_dev_plan_begin(ctx, args);
    run.turn = run.turns = run.unit = 0;
    mscclpp_dev_block_sync(ctx);
    if (!wide && mscclpp_dev_plan_is_brief(ctx, args)) {
        mscclpp_dev_plan_brief(ctx, args, copy, run.flag, hot, dtype, op);
        mscclpp_dev_plan_leave(ctx, args, run.flag);
        mscclpp_dev_finish_packets(ctx, &args->common, launches, epoch);
        return;
    }
    run.program = mscclpp_dev_plan_prepare(ctx, args, copy, run.flag);
    mscclpp_dev_block_sync(ctx);
    for (position = 0;; ++position) {
        const mscclpp_dev_plan_step_t *step = &run.program.steps[position];

        switch (step->code) {
        case MSCCLPP_DEV_PLAN_NOP:
            /* No thread signals for one that gave up. */
            ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
            break;
        case MSCCLPP_DEV_PLAN_BARRIER:
            mscclpp_dev_plan_barrier(ctx, args, step);
            break;
        case MSCCLPP_DEV_PLAN_DATA:
            mscclpp_dev_plan_data(ctx, args, step, &run, wide, hot, dtype, op);
            break;
        case MSCCLPP_DEV_PLAN_PORT_PUT:
            mscclpp_dev_plan_port_put(ctx, args, step, &run);
            break;
        case MSCCLPP_DEV_PLAN_LOOP:
            run.unit = step->unit;
            run.turn = 0;
            run.turns = (step->size * args->chunk + run.unit - 1) / run.unit;
            break;
        case MSCCLPP_DEV_PLAN_AGAIN:
            if (++run.turn < run.turns) {
                position = step->items;
            } else {
                run.turns = 0;
            }
            break;
        case MSCCLPP_DEV_PLAN_END:
            mscclpp_dev_plan_leave(ctx, args, run.flag);
            mscclpp_dev_finish_packets(ctx, &args->common, launches, epoch); /* plans count flags of their own */
            return;
        default:
            mscclpp_dev_plan_use_links(ctx, args, step, &run);
            break;
        }
    }
}

#endif
