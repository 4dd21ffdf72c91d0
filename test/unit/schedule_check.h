/*
 * Carries out a schedule on values of which each is a sum and the history of how it came to be: so that a block that
 * lacks a contribution, has one twice, or was combined in another order on another node, is found. A program includes
 * this file once.
 */
#ifndef TEST_UNIT_SCHEDULE_CHECK_H
#define TEST_UNIT_SCHEDULE_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/schedule/schedule.h"

typedef bool check_step_t(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p);

typedef struct {
    uint64_t sum;     /* sum of the weights of its contributions */
    uint64_t history; /* a hash of the order in which they were combined */
} check_value_t;

typedef struct check_message {
    struct check_message *next;
    uint32_t from, to, slot, first, count, place;
    check_value_t value[];
} check_message_t;

typedef struct {
    const mscclpp_schedule_t *schedule;
    check_step_t *step;
    check_value_t *own;      /* by node and block */
    check_value_t *received; /* of an all-to-all: by node and block */
    check_value_t *kept;     /* by node and peer */
    bool *keeps;
    uint64_t *at; /* the next step, by node */
    uint32_t *round;
    bool *merged;   /* by node: it has merged in this round */
    bool *receives; /* by node: it has received in this round */
    bool *taken;    /* slots, by node */
    bool *placed;   /* places of messages that are combined, by node */
    check_message_t *messages;
    const char *fault; /* NULL: none */
} check_run_t;

static uint64_t check_mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;

    return h ^ (h >> 29);
}

static uint64_t check_weight(uint32_t node, uint32_t block)
{
    return check_mix(node + 1, check_mix(block + 7, 3));
}

static check_value_t check_combine(check_value_t a, check_value_t b)
{
    return (check_value_t){a.sum + b.sum, check_mix(a.history, b.history)};
}

static uint32_t check_at(const check_run_t *run, uint32_t node, uint32_t block)
{
    return node * run->schedule->blocks + block % run->schedule->blocks;
}

static void check_send(check_run_t *run, uint32_t node, const mscclpp_step_t *step)
{
    check_message_t **last = &run->messages;
    check_message_t *message = malloc(sizeof(*message) + step->count * sizeof(check_value_t));
    uint32_t i;

    if (message == NULL) {
        run->fault = "no memory";
        return;
    }
    if (step->peer >= run->schedule->nodes || step->peer == node || step->slot >= run->schedule->slots) {
        run->fault = "a message to no other node, or to no slot";
        free(message);
        return;
    }
    if (run->taken[step->peer * run->schedule->slots + step->slot]) {
        run->fault = "two messages take one slot";
    }
    run->taken[step->peer * run->schedule->slots + step->slot] = true;
    *message = (check_message_t){.from = node,
                                 .to = step->peer,
                                 .slot = step->slot,
                                 .first = step->first,
                                 .count = step->count,
                                 .place = step->place};
    for (i = 0; i < step->count; ++i) {
        message->value[i] = run->own[check_at(run, node, step->first + i)];
    }
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = message;
}

/* Results arrive in place, and what is combined where nothing else is. */
static bool check_place(check_run_t *run, uint32_t node, const mscclpp_step_t *step, const check_message_t *message)
{
    const mscclpp_schedule_t *s = run->schedule;
    uint32_t i;

    if (s->places == 0) {
        return true;
    }
    if (message->place != step->place || step->place + step->count > s->places) {
        return false;
    }
    if (step->kind == MSCCLPP_STEP_STORE) {
        return step->place == step->first;
    }
    for (i = step->place; i < step->place + step->count; ++i) {
        if (i < s->blocks || run->placed[(size_t)node * s->places + i]) {
            return false;
        }
        run->placed[(size_t)node * s->places + i] = true;
    }
    return true;
}

static void check_take(check_run_t *run, uint32_t node, const mscclpp_step_t *step, const check_message_t *message)
{
    const bool exchanges = run->schedule->pattern == MSCCLPP_DEV_ALLTOALL;
    uint32_t i;

    if (message->slot != step->slot || message->count != step->count || (!exchanges && message->first != step->first)) {
        run->fault = "the sender's blocks are not the receiver's";
        return;
    }
    if (!check_place(run, node, step, message)) {
        run->fault = "a message arrives where something else lies";
    }
    for (i = 0; i < step->count; ++i) {
        check_value_t *own = &run->own[check_at(run, node, step->first + i)];

        switch (step->kind) {
        case MSCCLPP_STEP_BEFORE:
            *own = check_combine(message->value[i], *own);
            break;
        case MSCCLPP_STEP_AFTER:
            *own = check_combine(*own, message->value[i]);
            break;
        case MSCCLPP_STEP_KEEP:
            run->kept[node * run->schedule->nodes + step->peer] = message->value[i];
            run->keeps[node * run->schedule->nodes + step->peer] = true;
            break;
        default:
            *(exchanges ? &run->received[check_at(run, node, step->first + i)] : own) = message->value[i];
        }
    }
}

static bool check_receive(check_run_t *run, uint32_t node, const mscclpp_step_t *step)
{
    check_message_t **link = &run->messages;
    check_message_t *message;

    while (*link != NULL && ((*link)->from != step->peer || (*link)->to != node)) {
        link = &(*link)->next;
    }
    message = *link;
    if (message == NULL) {
        return false;
    }
    *link = message->next;
    check_take(run, node, step, message);
    free(message);
    return true;
}

static void check_merge(check_run_t *run, uint32_t node, const mscclpp_step_t *step)
{
    const uint32_t n = run->schedule->nodes;
    check_value_t *own = &run->own[check_at(run, node, step->first)], all = {0, 0};
    bool any = false;
    uint32_t k;

    for (k = 0; k < n; ++k) {
        const check_value_t *value = k == node ? own : run->keeps[node * n + k] ? &run->kept[node * n + k] : NULL;

        if (value != NULL) {
            all = any ? check_combine(all, *value) : *value;
            any = true;
        }
        run->keeps[node * n + k] = false;
    }
    *own = all;
}

/* Whether a step keeps to the order within a round. With a fan-out sends and receives alternate. */
static bool check_round(check_run_t *run, uint32_t node, const mscclpp_step_t *step)
{
    const bool sends = step->kind == MSCCLPP_STEP_SEND;

    if (step->round >= run->schedule->rounds || step->round < run->round[node]) {
        return false;
    }
    if (step->round > run->round[node]) {
        run->round[node] = step->round;
        run->merged[node] = run->receives[node] = false;
    }
    if (run->merged[node] || (sends && run->receives[node] && run->schedule->fanout == 0)) {
        return false;
    }
    run->merged[node] = step->kind == MSCCLPP_STEP_MERGE;
    run->receives[node] = run->receives[node] || !sends;
    return true;
}

static bool check_advance(check_run_t *run, uint32_t node)
{
    mscclpp_step_t step;

    if (!run->step(run->schedule, node, run->at[node], &step)) {
        return false;
    }
    if (step.kind == MSCCLPP_STEP_SEND) {
        check_send(run, node, &step);
    } else if (step.kind == MSCCLPP_STEP_MERGE) {
        check_merge(run, node, &step);
    } else if (!check_receive(run, node, &step)) {
        return false;
    }
    if (run->fault == NULL && !check_round(run, node, &step)) {
        run->fault = "a step out of its round";
    }
    ++run->at[node];
    return true;
}

/* What a node must have at the end in a block. */
static uint64_t check_expected(const mscclpp_schedule_t *s, uint32_t node, uint32_t block)
{
    uint64_t sum = 0;
    uint32_t k;

    switch (s->pattern) {
    case MSCCLPP_DEV_BCAST:
    case MSCCLPP_DEV_SCATTER:
        return check_weight(s->root, block);
    case MSCCLPP_DEV_ALLGATHER:
    case MSCCLPP_DEV_GATHER:
        return check_weight(block, block);
    case MSCCLPP_DEV_ALLTOALL:
        return check_weight(block, node);
    default:
        for (k = 0; k < s->nodes; ++k) {
            if ((s->pattern != MSCCLPP_DEV_SCAN && s->pattern != MSCCLPP_DEV_EXSCAN) || k <= node) {
                sum += check_weight(k, block);
            }
        }
        return sum;
    }
}

/* Whether the block is a result on this node. The blocks of BRUCK's all-to-all have no numbers (test_rounds.c). */
static bool check_counts(const mscclpp_schedule_t *s, uint32_t node, uint32_t block)
{
    if (s->kind == MSCCLPP_SCHEDULE_BRUCK && s->pattern == MSCCLPP_DEV_ALLTOALL) {
        return false;
    }
    switch (s->pattern) {
    case MSCCLPP_DEV_GATHER:
    case MSCCLPP_DEV_REDUCE:
        return node == s->root;
    case MSCCLPP_DEV_SCATTER:
    case MSCCLPP_DEV_REDUCE_SCATTER:
        return node == block;
    case MSCCLPP_DEV_ALLTOALL:
        return node != block;
    default:
        return true;
    }
}

static void check_results(check_run_t *run)
{
    const mscclpp_schedule_t *s = run->schedule;
    uint32_t node, block;

    for (node = 0; node < s->nodes && run->fault == NULL; ++node) {
        for (block = 0; block < s->blocks; ++block) {
            const check_value_t *values = s->pattern == MSCCLPP_DEV_ALLTOALL ? run->received : run->own;
            const check_value_t *value = &values[check_at(run, node, block)];

            if (check_counts(s, node, block) && value->sum != check_expected(s, node, block)) {
                run->fault = "a result lacks a contribution, or has one twice";
            } else if (s->pattern == MSCCLPP_SCHEDULE_ALLREDUCE && value->history != run->own[block].history) {
                run->fault = "two nodes have combined in different orders";
            }
        }
    }
}

/*
 * Carries out the schedule, of which `step` gives the steps. The nodes take turns in an order that `seed` decides. NULL
 * if every node ends with what it must have, else what is wrong.
 */
static const char *schedule_fault(const mscclpp_schedule_t *s, check_step_t *step, uint64_t seed)
{
    const size_t n = s->nodes, all = n * s->blocks;
    check_run_t run = {.schedule = s,
                       .step = step,
                       .own = calloc(all, sizeof(check_value_t)),
                       .received = calloc(all, sizeof(check_value_t)),
                       .kept = calloc(n * n, sizeof(check_value_t)),
                       .keeps = calloc(n * n, sizeof(bool)),
                       .at = calloc(n, sizeof(uint64_t)),
                       .round = calloc(n, sizeof(uint32_t)),
                       .merged = calloc(n, sizeof(bool)),
                       .receives = calloc(n, sizeof(bool)),
                       .taken = calloc(n * s->slots, sizeof(bool)),
                       .placed = calloc(n * s->places + 1, sizeof(bool))};
    uint32_t idle = 0, node, block;
    mscclpp_step_t left;

    for (node = 0; node < n; ++node) {
        for (block = 0; block < s->blocks; ++block) {
            const uint64_t weight = check_weight(node, block);

            run.own[check_at(&run, node, block)] = (check_value_t){weight, weight};
        }
    }
    for (node = 0; idle < n && run.fault == NULL; node = (node + 1) % s->nodes) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (idle == 0 && (seed >> 33) % 3 == 0) {
            continue; /* this node is late */
        }
        if (check_advance(&run, node)) {
            idle = 0;
            while ((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 63 && run.fault == NULL &&
                   check_advance(&run, node)) {
            }
        } else {
            ++idle;
        }
    }
    for (node = 0; node < n && run.fault == NULL; ++node) {
        if (step(s, node, run.at[node], &left)) {
            run.fault = "a node waits for a message that nobody sends";
        }
    }
    if (run.fault == NULL && run.messages != NULL) {
        run.fault = "a message that nobody receives";
    }
    if (run.fault == NULL) {
        check_results(&run);
    }
    while (run.messages != NULL) {
        check_message_t *message = run.messages;

        run.messages = message->next;
        free(message);
    }
    free(run.own);
    free(run.received);
    free(run.kept);
    free(run.keeps);
    free(run.at);
    free(run.round);
    free(run.merged);
    free(run.receives);
    free(run.taken);
    free(run.placed);
    return run.fault;
}

#endif
