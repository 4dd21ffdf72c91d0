/* Carries out the requests of blocks to the proxies of port channels: in order, and later than the blocks make them. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/sim.h"

/*
 * Copies the block's knowledge now, because the block may learn more before the proxy acts. If memory runs out, the
 * request is lost, and sim->no_memory ends the run.
 */
void mscclpp_sim_push(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, uint32_t channel, mscclpp_sim_entry_t entry)
{
    mscclpp_sim_proxy_t *proxy = &sim->ranks[block->rank].proxies[channel];
    mscclpp_sim_entry_t *entries;
    uint32_t capacity;

    if (proxy->queued == proxy->capacity) {
        capacity = proxy->capacity > 0 ? 2 * proxy->capacity : 16;
        entries = realloc(proxy->entries, capacity * sizeof(*entries));
        if (entries == NULL) {
            sim->no_memory = true;
            return;
        }
        proxy->entries = entries;
        proxy->capacity = capacity;
    }
    entry.know = mscclpp_sim_know_copy(sim, block->actor.now);
    entry.time = mscclpp_sim_end_time(sim, &block->actor);
    entry.event = block->actor.events[block->actor.clock];
    if (entry.know != NULL) {
        proxy->entries[proxy->queued++] = entry;
    }
}

/*
 * Ignores a channel without a pair. If memory runs out, the signal or its knowledge is lost, and sim->no_memory ends
 * the run.
 */
void mscclpp_sim_deliver(mscclpp_sim_t *sim, uint32_t rank_number, int type, uint32_t channel,
                         mscclpp_sim_signal_t signal)
{
    const mscclpp_plan_channel_t *channel_end = &sim->plan->ranks[rank_number].channels[type][channel];
    mscclpp_sim_inbox_t *inbox;
    mscclpp_sim_signal_t *signals;
    uint32_t capacity;

    if (channel_end->pair < 0) {
        return;
    }
    inbox = &sim->ranks[channel_end->peer].inboxes[type][channel_end->pair];
    if (inbox->count == inbox->capacity) {
        capacity = inbox->capacity > 0 ? 2 * inbox->capacity : 4;
        signals = malloc(capacity * sizeof(*signals));
        if (signals == NULL) {
            sim->no_memory = true;
            return;
        }
        for (uint32_t i = 0; i < inbox->count; ++i) {
            signals[i] = inbox->signals[(inbox->first + i) % inbox->capacity];
        }
        free(inbox->signals);
        inbox->signals = signals;
        inbox->first = 0;
        inbox->capacity = capacity;
    }
    signal.know = mscclpp_sim_know_copy(sim, signal.know);
    inbox->signals[(inbox->first + inbox->count) % inbox->capacity] = signal;
    ++inbox->count;
    ++inbox->arrived;
}

/*
 * Moves the packets of a request unchanged. Cells without a packet of the request's launch are read but not moved,
 * because the receiver would not accept them as packets. The proxy has one thread, which reads packets as plain data.
 * The proxy does not wait for the packets, so they do not order its accesses. Without memory, sim->no_memory ends the
 * run.
 */
static void move_raw(mscclpp_sim_t *sim, mscclpp_sim_proxy_t *proxy, const mscclpp_sim_entry_t *entry)
{
    mscclpp_sim_packet_t *packet = malloc(sizeof(*packet));
    mscclpp_sim_know_t *know = mscclpp_sim_know_copy(sim, proxy->actor.now);
    mscclpp_sim_value_t value;

    if (packet == NULL || know == NULL) {
        free(packet);
        free(know);
        sim->no_memory = true;
        return;
    }
    *packet = (mscclpp_sim_packet_t){.references = 1,
                                     .agent = proxy->actor.agent,
                                     .clock = proxy->actor.clock,
                                     .synced = proxy->actor.clock,
                                     .length = (uint32_t)entry->elements,
                                     .know = know,
                                     .sent_at = entry->time,
                                     .arrives_at = proxy->actor.time};
    for (size_t i = 0; i < entry->elements; ++i) {
        const mscclpp_sim_thread_t thread = {(uint32_t)i, MSCCLPP_SIM_ALONE};
        bool is_packet = mscclpp_sim_has_packet(sim, entry->from + 2 * i, entry->launch);

        value = mscclpp_sim_read(sim, &proxy->actor, entry->launch, entry->from + 2 * i, thread);
        mscclpp_sim_read(sim, &proxy->actor, entry->launch, entry->from + 2 * i + 1, thread);
        if (is_packet) {
            mscclpp_sim_write_packet(sim, &proxy->actor, entry->launch, entry->to + 2 * i, (uint32_t)i, value, packet);
        }
    }
    mscclpp_sim_packet_release(packet);
}

/*
 * The proxy first learns what the block knew when it made the request, so that its actions are ordered after all
 * earlier actions of the block.
 */
bool mscclpp_sim_proxy_step(mscclpp_sim_t *sim, mscclpp_sim_proxy_t *proxy)
{
    mscclpp_sim_entry_t *entry;
    mscclpp_sim_value_t value;
    mscclpp_sim_signal_t signal;

    if (proxy->done == proxy->queued || sim->no_memory) {
        return false;
    }
    entry = &proxy->entries[proxy->done];
    if (!mscclpp_sim_tick(sim, &proxy->actor, entry->event)) {
        return false;
    }
    ++proxy->done;
    mscclpp_sim_learn(sim, &proxy->actor, entry->know);
    mscclpp_sim_meet(sim, &proxy->actor);
    if (sim->cost != NULL) {
        double rate = sim->cost->gpu_port / (sim->movers[proxy->rank] > 0 ? sim->movers[proxy->rank] : 1);

        /* The proxy begins when the request has been made and its previous request is complete. */
        proxy->actor.time = (entry->time > proxy->actor.time ? entry->time : proxy->actor.time) + sim->cost->port +
                            (double)entry->elements * (entry->is_raw ? 2 : 1) * sim->cell_bytes / rate;
    }
    if (entry->is_put && entry->is_raw) {
        move_raw(sim, proxy, entry);
    } else if (entry->is_put) {
        for (size_t i = 0; i < entry->elements; ++i) {
            const mscclpp_sim_thread_t thread = {(uint32_t)i, MSCCLPP_SIM_ALONE};

            value = mscclpp_sim_read(sim, &proxy->actor, entry->launch, entry->from + i, thread);
            mscclpp_sim_write(sim, &proxy->actor, entry->launch, entry->to + i, thread, value);
        }
    }
    if (entry->is_signal) {
        signal = (mscclpp_sim_signal_t){.know = proxy->actor.now,
                                        .block = entry->event.block,
                                        .sent_at = entry->time,
                                        .arrives_at = proxy->actor.time};
        mscclpp_sim_deliver(sim, proxy->rank, MSCCLPP_PLAN_PORT, proxy->channel, signal);
    }
    free(entry->know);
    entry->know = NULL;
    ++sim->steps;
    return true;
}
