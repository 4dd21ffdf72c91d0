/* Carries out operations that move or combine elements. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/sim.h"
#include "mca/common/plan/words.h"

/* A range of elements of an item, counted from the item's start. */
typedef struct {
    uint64_t first, count;
} slice_t;

/*
 * Returns which elements of an item of `size` chunks a block moves now. There are three cases:
 * - In a pipeline: the elements of the current turn. An item has as many chunks as the pipeline handles
 *   (mscclpp_plan_check has checked this), so only the last turn may be shorter.
 * - In a group of blocks: the block's part. Elements that do not divide evenly go to the first blocks, one for each.
 * - Otherwise: all elements.
 */
static slice_t find_slice(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                          uint32_t size)
{
    const mscclpp_plan_op_t *outer = &sim->plan->ranks[block->rank].blocks[block->block].ops[block->op];
    uint64_t total = (uint64_t)size * sim->cells_per_chunk, unit, first, end;

    if (block->turns > 0) {
        unit = outer->unit / sim->cell_size;
        first = block->turn * unit;
        end = first + unit < total ? first + unit : total;
        return (slice_t){first, end > first ? end - first : 0};
    }
    if (op->tbg_size > 0) {
        unit = total / op->tbg_size;
        first = op->tb_id * unit + (op->tb_id < total % op->tbg_size ? op->tb_id : total % op->tbg_size);
        return (slice_t){first, unit + (op->tb_id < total % op->tbg_size)};
    }
    return (slice_t){0, total};
}

/*
 * Returns the cell of element `first_element` of an item in the memory of rank `rank_number`, in a launch. With
 * `are_packets`, it is the first of the two cells that each packet takes. If the scratch has two halves, launches use
 * them in turn, beginning with the first half. The caller increments the result for further elements. This is valid
 * even where scratch chunks wrap around, because a turn of a pipeline never extends past their end (find_wrap_bytes in
 * simulate.c).
 */
static size_t find_first_cell(const mscclpp_sim_t *sim, uint32_t launch, uint32_t rank_number,
                              const mscclpp_plan_item_t *item, uint64_t first_element, bool are_packets)
{
    const mscclpp_sim_rank_t *rank = &sim->ranks[rank_number];
    uint64_t stride = sim->cells_per_chunk, half = 0;

    if (item->type == MSCCLPP_PLAN_SCRATCH) {
        if (sim->wrap_cells > 0) {
            stride = sim->wrap_cells;
            first_element %= sim->wrap_cells;
        }
        half = sim->plan->halves && launch % 2 == 0 ? rank->cells[item->type] / 2 : 0;
    }
    return rank->base[item->type] + half + (are_packets ? 2 : 1) * (stride * item->index + first_element);
}

/*
 * Returns how threads divide the operation's data. An operation with a packet among its operands goes through its plain
 * operands in the order of packets, too.
 */
static mscclpp_sim_map_t choose_thread_map(const mscclpp_plan_op_t *op, const mscclpp_plan_shape_t *shape)
{
    if (op->kind == MSCCLPP_PLAN_OP_GLRES || op->kind == MSCCLPP_PLAN_OP_GSTORE) {
        return MSCCLPP_SIM_WIDE;
    }
    return mscclpp_plan_takes_packets(shape->src0) || mscclpp_plan_takes_packets(shape->srcs) ||
                   mscclpp_plan_takes_packets(shape->dst0)
               ? MSCCLPP_SIM_PACKET
               : MSCCLPP_SIM_PLAIN;
}

/* Stops at the first missing packet, and stores its cell in block->missing_cell for the explanation of a deadlock. */
bool mscclpp_sim_look_for_packets(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    const mscclpp_plan_shape_t *shape = mscclpp_plan_op_shape(op);

    /* Its sources are plain data, or packets that a proxy moves without checking whether they have arrived. */
    if (op->kind == MSCCLPP_PLAN_OP_PPKT) {
        return true;
    }
    for (uint32_t i = 0; i < op->src_count; ++i) {
        slice_t slice;
        size_t first_cell;

        if (!mscclpp_plan_takes_packets(mscclpp_plan_takes_src(shape, i))) {
            continue;
        }
        slice = find_slice(sim, block, op, op->src[i].size);
        first_cell = find_first_cell(sim, block->launch, block->rank, &op->src[i], slice.first, true);
        for (uint64_t element = 0; element < slice.count; ++element) {
            if (!mscclpp_sim_has_packet(sim, first_cell + 2 * element, block->launch)) {
                block->missing_cell = first_cell + 2 * element;
                return false;
            }
        }
    }
    return true;
}

bool mscclpp_sim_source_covers(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                               uint32_t i, size_t cell)
{
    slice_t slice = find_slice(sim, block, op, op->src[i].size);
    size_t first_cell = find_first_cell(sim, block->launch, block->rank, &op->src[i], slice.first, true);

    return cell >= first_cell && cell < first_cell + 2 * slice.count;
}

/*
 * Makes the record of the packets that an operation writes. The record holds all that the block's threads know. In
 * actor->thread, `strong` is not a clock; it is the number of threads that know the entry. The caller holds one
 * reference, and releases it after the operation. Each cell that receives a packet holds a reference, too. Returns
 * NULL, and sets sim->no_memory, if there is no memory.
 */
static mscclpp_sim_packet_t *make_packet(mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor, uint64_t length)
{
    mscclpp_sim_packet_t *packet = malloc(sizeof(*packet));
    mscclpp_sim_know_t *know = mscclpp_sim_know_copy(sim, actor->now), entry;
    double end;

    if (packet == NULL || know == NULL) {
        free(packet);
        free(know);
        sim->no_memory = true;
        return NULL;
    }
    for (uint32_t i = 0; actor->has_thread && i < sim->agents; ++i) {
        const mscclpp_sim_know_t *thread = &actor->thread[i];

        /*
         * Facts that only the first threads know, from packets, are passed on as partial knowledge of that many
         * threads.
         */
        entry = know[i];
        if (thread->full > entry.partial) {
            entry.partial = thread->full;
            entry.partial_threads = thread->strong;
        }
        if (thread->partial > entry.partial) {
            entry.partial = thread->partial;
            entry.partial_threads = thread->partial_threads;
        }
        know[i] = entry;
    }
    end = mscclpp_sim_end_time(sim, actor);
    *packet = (mscclpp_sim_packet_t){.references = 1,
                                     .agent = actor->agent,
                                     .clock = actor->clock,
                                     .synced = actor->synced,
                                     .length = (uint32_t)length,
                                     .know = know,
                                     .sent_at = end,
                                     .arrives_at = end + (sim->cost != NULL ? sim->cost->latency : 0)};
    return packet;
}

/* Successive packets, in the order in which a receiver reads them, that one operation has sent. */
typedef struct {
    mscclpp_sim_packet_t *packet;
    uint32_t block;        /* the block that sent them, itself or by its proxy */
    uint64_t first, count; /* first element; number of elements */
    bool is_aligned;       /* each thread reads what the sender's thread at the same position wrote */
} packet_run_t;

/*
 * Adds what a run of packets says about actor `agent` (`known`) to the receiver's knowledge. `threads` is the number of
 * the receiver's threads, counted from the first thread, that have read these packets.
 */
static void learn_about(mscclpp_sim_actor_t *actor, const packet_run_t *run, uint32_t threads, uint32_t agent,
                        mscclpp_sim_know_t known)
{
    const mscclpp_sim_packet_t *packet = run->packet;
    mscclpp_sim_know_t *later = &actor->later[agent], *thread = &actor->thread[agent];

    later->full = known.full > later->full ? known.full : later->full;
    thread->full = threads > 0 && known.full > thread->full ? known.full : thread->full;
    /* If not all packets were read, this knowledge is limited to the threads whose packets were read. */
    known.partial_threads =
        threads < known.partial_threads && run->count < packet->length ? threads : known.partial_threads;
    if (known.partial_threads > 0 && known.partial > later->partial) {
        later->partial = known.partial;
        later->partial_threads = known.partial_threads;
    }
    if (threads > 0) {
        thread->strong = thread->strong == 0 || threads < thread->strong ? threads : thread->strong;
        if (run->is_aligned && known.partial > thread->partial) {
            thread->partial = known.partial;
            thread->partial_threads = threads < known.partial_threads ? threads : known.partial_threads;
        }
    }
}

/*
 * Notes what the receiver learns from a run of packets. The receiver learns what the sender knew, and how far the
 * sender had come. At first only the threads that have read these packets know this; after the next nop, all threads of
 * the receiver know it. Packets that the receiver sent itself contain nothing new.
 */
static void learn_from_run(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, const packet_run_t *run)
{
    const mscclpp_sim_packet_t *packet = run->packet;
    /* The number of threads, counted from the first thread, that have read these packets. */
    uint32_t threads = run->first == 0 ? (uint32_t)run->count : 0;

    mscclpp_sim_need(sim, packet->arrives_at);
    if (packet->agent == actor->agent) {
        return;
    }
    mscclpp_sim_add_arrow(sim, run->block, actor->agent, packet->sent_at, packet->arrives_at, true);
    for (uint32_t i = 0; i < sim->agents; ++i) {
        mscclpp_sim_know_t known = packet->know[i];

        known.strong = 0; /* packets do not order plain stores */
        if (i == packet->agent) {
            /*
             * The sender itself: all of its threads have reached its last nop, and the threads that sent these packets
             * have come further.
             */
            known = (mscclpp_sim_know_t){
                .full = packet->synced, .partial = packet->clock, .partial_threads = packet->length};
        }
        learn_about(actor, run, threads, i, known);
    }
    actor->has_later = true;
    actor->has_thread = actor->has_thread || threads > 0;
}

/* Returns the number of the block that sent a packet. A proxy's packets count for the block that asked it. */
static uint32_t find_sender(const mscclpp_sim_t *sim, const mscclpp_sim_packet_t *packet)
{
    if (packet->agent < sim->block_count) {
        return packet->agent;
    }
    return sim->proxies[sim->index_of_agent[packet->agent]].actor.events[packet->clock].block;
}

/*
 * Notes what the actor learns from the packets that it reads. All of the packets must have arrived. Packets of one
 * operation share one record (cell->packet), so a run ends where that record changes.
 */
static void learn_from_source(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, size_t first_cell, uint64_t count)
{
    packet_run_t run = {.is_aligned = true};

    for (uint64_t element = 0; element < count; ++element) {
        const mscclpp_sim_cell_t *cell = &sim->cells[first_cell + 2 * element];

        if (cell->packet != run.packet) {
            if (run.packet != NULL) {
                learn_from_run(sim, actor, &run);
            }
            run = (packet_run_t){
                .packet = cell->packet, .block = find_sender(sim, cell->packet), .first = element, .is_aligned = true};
        }
        ++run.count;
        run.is_aligned = run.is_aligned && cell->write.position == element;
    }
    if (run.packet != NULL) {
        learn_from_run(sim, actor, &run);
    }
}

/*
 * Reads element `first_element` + `element`; the number `element` also determines which thread reads it. For a switch
 * channel, combines the elements of all its ranks.
 */
static mscclpp_sim_value_t read_item(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_item_t *item,
                                     uint64_t first_element, uint64_t element, bool are_packets, mscclpp_sim_map_t map)
{
    const mscclpp_plan_group_t *group;
    mscclpp_sim_value_t value = {0, 0}, next;
    size_t first_cell;

    if (item->where == MSCCLPP_PLAN_MULTICAST) {
        group = &sim->plan->ranks[block->rank].groups[item->group];
        for (uint32_t i = 0; i < group->count; ++i) {
            first_cell = find_first_cell(sim, block->launch, group->ranks[i], item, first_element, false) + element;
            next = mscclpp_sim_read(sim, &block->actor, block->launch, first_cell,
                                    (mscclpp_sim_thread_t){(uint32_t)element, map});
            value = i == 0 ? next : mscclpp_sim_combine(sim, value, next);
        }
        return value;
    }
    first_cell = find_first_cell(sim, block->launch, item->rank, item, first_element, are_packets);
    return are_packets ? mscclpp_sim_read_packet(sim, &block->actor, first_cell + 2 * element, (uint32_t)element)
                       : mscclpp_sim_read(sim, &block->actor, block->launch, first_cell + element,
                                          (mscclpp_sim_thread_t){(uint32_t)element, map});
}

/*
 * Writes element `element` counted from `first_cell`: as a packet, which takes two cells, or plain if `packet` is NULL.
 */
static void write_element(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, size_t first_cell, uint64_t element,
                          mscclpp_sim_map_t map, mscclpp_sim_value_t value, mscclpp_sim_packet_t *packet)
{
    if (packet != NULL) {
        mscclpp_sim_write_packet(sim, &block->actor, block->launch, first_cell + 2 * element, (uint32_t)element, value,
                                 packet);
    } else {
        mscclpp_sim_write(sim, &block->actor, block->launch, first_cell + element,
                          (mscclpp_sim_thread_t){(uint32_t)element, map}, value);
    }
}

/*
 * Writes element `first_element` + `element`, on all ranks of a switch channel; the number `element` also determines
 * which thread writes it. `packet` is NULL for plain data.
 */
static void write_item(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_item_t *item,
                       uint64_t first_element, uint64_t element, mscclpp_sim_map_t map, mscclpp_sim_value_t value,
                       mscclpp_sim_packet_t *packet)
{
    const mscclpp_plan_group_t *group;

    if (item->where != MSCCLPP_PLAN_MULTICAST) {
        write_element(sim, block, find_first_cell(sim, block->launch, item->rank, item, first_element, packet != NULL),
                      element, map, value, packet);
        return;
    }
    group = &sim->plan->ranks[block->rank].groups[item->group];
    for (uint32_t i = 0; i < group->count; ++i) {
        write_element(sim, block,
                      find_first_cell(sim, block->launch, group->ranks[i], item, first_element, packet != NULL),
                      element, map, value, packet);
    }
}

/*
 * Executes an operation that copies each source to its own target. Packets that it reads must have arrived. The block
 * learns from a source's packets before it sends packets, because sent packets pass on all that the block knows.
 */
static void move_pairs(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                       const mscclpp_plan_shape_t *shape, mscclpp_sim_map_t map)
{
    for (uint32_t i = 0; i < op->src_count && !sim->no_memory; ++i) {
        bool from_packets = mscclpp_plan_takes_packets(mscclpp_plan_takes_src(shape, i));
        bool are_packets = mscclpp_plan_takes_packets(mscclpp_plan_takes_dst(shape, i));
        slice_t slice = find_slice(sim, block, op, op->src[i].size);
        mscclpp_sim_packet_t *packet;

        if (from_packets) {
            learn_from_source(sim, &block->actor,
                              find_first_cell(sim, block->launch, block->rank, &op->src[i], slice.first, true),
                              slice.count);
        }
        packet = are_packets ? make_packet(sim, &block->actor, slice.count) : NULL;
        for (uint64_t element = 0; element < slice.count && !sim->no_memory; ++element) {
            mscclpp_sim_value_t value = read_item(sim, block, &op->src[i], slice.first, element, from_packets, map);

            write_item(sim, block, &op->dst[i], slice.first, element, map, value, packet);
        }
        mscclpp_sim_packet_release(packet);
    }
}

/*
 * Executes an operation that combines all sources and stores the result to all targets. Packets that it reads must have
 * arrived. The block learns from them before it sends packets, because sent packets pass on all that the block knows.
 */
static void combine(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                    const mscclpp_plan_shape_t *shape, mscclpp_sim_map_t map)
{
    slice_t slice = find_slice(sim, block, op, op->src[0].size);
    mscclpp_sim_packet_t *packet = NULL;
    bool sends_packets = false;

    for (uint32_t i = 0; i < op->src_count; ++i) {
        if (mscclpp_plan_takes_packets(mscclpp_plan_takes_src(shape, i))) {
            learn_from_source(sim, &block->actor,
                              find_first_cell(sim, block->launch, block->rank, &op->src[i], slice.first, true),
                              slice.count);
        }
    }
    for (uint32_t i = 0; i < op->dst_count; ++i) {
        sends_packets = sends_packets || mscclpp_plan_takes_packets(mscclpp_plan_takes_dst(shape, i));
    }
    if (sends_packets) {
        packet = make_packet(sim, &block->actor, slice.count);
    }
    for (uint64_t element = 0; element < slice.count && !sim->no_memory; ++element) {
        mscclpp_sim_value_t value = {0, 0}, next;

        for (uint32_t i = 0; i < op->src_count; ++i) {
            next = read_item(sim, block, &op->src[i], slice.first, element,
                             mscclpp_plan_takes_packets(mscclpp_plan_takes_src(shape, i)), map);
            value = i == 0 ? next : mscclpp_sim_combine(sim, value, next);
        }
        for (uint32_t i = 0; i < op->dst_count; ++i) {
            write_item(sim, block, &op->dst[i], slice.first, element, map, value,
                       mscclpp_plan_takes_packets(mscclpp_plan_takes_dst(shape, i)) ? packet : NULL);
        }
    }
    mscclpp_sim_packet_release(packet);
}

/*
 * Hands the operation to the proxy. The proxy moves packets unchanged. The operation must wait for packets that it
 * forwards (rppkt), but not for packets that its own block has written (ppkt).
 */
static void ask_proxy(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    bool moves_packets = op->kind == MSCCLPP_PLAN_OP_PPKT || op->kind == MSCCLPP_PLAN_OP_RPPKT;
    bool signals = op->kind == MSCCLPP_PLAN_OP_PWS || op->kind == MSCCLPP_PLAN_OP_PWSF;

    if (op->kind == MSCCLPP_PLAN_OP_RPPKT) {
        slice_t slice = find_slice(sim, block, op, op->src[0].size);

        learn_from_source(sim, &block->actor,
                          find_first_cell(sim, block->launch, block->rank, &op->src[0], slice.first, true),
                          slice.count);
    }
    if (moves_packets) {
        /* All threads must have written their packets before a thread asks the proxy to move the packets. */
        mscclpp_sim_meet(sim, &block->actor);
    }
    for (uint32_t i = 0; i < op->dst_count; ++i) {
        const mscclpp_plan_item_t *src = &op->src[op->kind == MSCCLPP_PLAN_OP_RPPKT ? 0 : i];
        slice_t slice = find_slice(sim, block, op, src->size);
        mscclpp_sim_entry_t entry = {
            .is_put = true, .is_raw = moves_packets, .is_signal = signals, .launch = block->launch};

        entry.from = find_first_cell(sim, block->launch, block->rank, src, slice.first, moves_packets);
        entry.to = find_first_cell(sim, block->launch, op->dst[i].rank, &op->dst[i], slice.first, moves_packets);
        entry.elements = slice.count;
        mscclpp_sim_push(sim, block, op->channels[i], entry);
    }
}

void mscclpp_sim_do_data(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    const mscclpp_plan_shape_t *shape = mscclpp_plan_op_shape(op);
    mscclpp_sim_map_t map = choose_thread_map(op, shape);

    if (mscclpp_plan_puts_over_ports(op)) {
        ask_proxy(sim, block, op);
    } else if (shape->paired) {
        move_pairs(sim, block, op, shape, map);
    } else {
        combine(sim, block, op, shape, map);
    }
}
