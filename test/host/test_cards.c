/*
 * Cards of peers whose lengths are wrong: all ranks refuse them, with a line that names the rank, before anything is
 * read beyond a card.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "mca/common/fabric/internal.h"
#include "mca/common/team/parts.h"
#include "mca/common/user/user.h"
#include "test/host/log_record.h"
#include "test/host/rank_threads.h"
#include "test/unit/unit.h"

#define RANKS 2
#define CULPRIT 1 /* the rank whose card is wrong */
#define BYTES 4096

/* How cards are laid out that all ranks gather: a length and a key, and for each rank a length and an address. */
#define KEY_ROOM (sizeof(uint64_t) + MSCCLPP_TRANSPORT_KEY_MAX)
#define ADDRESS_ROOM (sizeof(uint64_t) + MSCCLPP_TRANSPORT_ADDRESS_MAX)

typedef struct {
    void (*body)(rank_t *rank);
    size_t length;   /* bytes of each rank's part in the exchange whose result is damaged; 0: any exchange of pairs */
    size_t longer;   /* 0, or parts may have up to so many bytes */
    size_t at;       /* where a number of the culprit's part is replaced */
    uint64_t number; /* by what */
    bool everywhere; /* all ranks receive this; else rank 0 alone */
    const char *said;
} damage_t;

static mscclpp_status_t ended[RANKS]; /* how what was damaged has ended */

static mscclpp_status_t (*gather)(void *context, const void *sendbuf, void *recvbuf, size_t length);
static mscclpp_status_t (*exchange)(void *context, const int *peers, int count, const void *sent, const size_t *lengths,
                                    void *received, size_t pitch);
static _Thread_local const damage_t *damage; /* what this thread receives damaged; NULL: nothing */

/* Only a number that may be a length is replaced. So votes, which may have as many bytes, are left alone. */
static mscclpp_status_t gather_damaged(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    const mscclpp_status_t status = gather(context, sendbuf, recvbuf, length);
    uint64_t number;
    char *at;

    if (damage != NULL && damage->length != 0 && length >= damage->length &&
        length <= (damage->longer != 0 ? damage->longer : damage->length)) {
        at = (char *)recvbuf + CULPRIT * length + damage->at;
        memcpy(&number, at, sizeof(number));
        if (number > 0 && number <= MSCCLPP_TRANSPORT_ADDRESS_MAX) {
            memcpy(at, &damage->number, sizeof(damage->number));
        }
    }
    return status;
}

static mscclpp_status_t exchange_damaged(void *context, const int *peers, int count, const void *sent,
                                         const size_t *lengths, void *received, size_t pitch)
{
    const mscclpp_status_t status = exchange(context, peers, count, sent, lengths, received, pitch);
    const uint32_t number = damage != NULL ? (uint32_t)damage->number : 0;

    if (damage != NULL && damage->length == 0) {
        CHECK(count == 1 && peers[0] == CULPRIT);
        memcpy((char *)received + damage->at, &number, sizeof(number));
    }
    return status;
}

/* From now on this rank's exchanges may be damaged. */
static void begin(rank_t *rank)
{
    damage_t *plan = rank->argument;

    if (rank->rank == 0) {
        gather = rank->oob.allgather;
        exchange = rank->oob.exchange;
    }
    meet(rank);
    rank->oob.allgather = gather_damaged;
    rank->oob.exchange = exchange_damaged;
    rank->oob.exchange_and_gather = NULL;
    damage = plan->everywhere || rank->rank == 0 ? plan : NULL;
}

/* Port channels of the application's kernels. */
static void make_ports(rank_t *rank)
{
    const int peer = 1 - rank->rank;
    mscclpp_user_channels_t *channels = NULL;
    mscclpp_user_memory_t *memory = NULL;
    mscclpp_user_t *user = NULL;
    mscclpp_team_t *team;

    begin(rank);
    team = create_team(rank);
    CHECK_EQ(mscclpp_user_create(team, rank->config, &user), MSCCLPP_OK);
    CHECK_EQ(mscclpp_user_memory_create(user, NULL, BYTES, &memory), MSCCLPP_OK);
    ended[rank->rank] = mscclpp_user_channels_create(memory, MSCCLPP_USER_PORT_CHANNELS, 1, &peer, 1, &channels);
    damage = NULL;
    CHECK(channels == NULL);
    CHECK_EQ(mscclpp_user_memory_free(memory), MSCCLPP_OK);
    mscclpp_user_end(user);
    mscclpp_team_destroy(team);
    meet(rank);
}

/* Connections between nodes, which the set-up makes. */
static void link_nodes(rank_t *rank)
{
    mscclpp_team_t *team = NULL;

    begin(rank);
    ended[rank->rank] = try_team(rank, rank->config, &team);
    damage = NULL;
    CHECK(team == NULL);
    mscclpp_team_destroy(team);
    meet(rank);
}

/* Memory of kernels that is joined with that of another node. */
static void join_nodes(rank_t *rank)
{
    static const bool peers[RANKS][RANKS] = {{false, true}, {true, false}};
    damage_t *plan = rank->argument;
    const mscclpp_fabric_port_t port = {.peer = 1 - rank->rank};
    mscclpp_fabric_memory_params_t params = {
        .bytes = BYTES, .tokens = 1, .peers = peers[rank->rank], .ports = &port, .port_count = 1};
    mscclpp_dev_port_channel_t channel;
    mscclpp_fabric_join_t *join = NULL;
    mscclpp_team_t *team;

    begin(rank);
    damage = NULL;
    team = create_team(rank);
    CHECK_EQ(rank->gpu->device_alloc(0, BYTES, &params.memory), MSCCLPP_OK);
    damage = plan->everywhere || rank->rank == 0 ? plan : NULL;
    CHECK_EQ(mscclpp_fabric_join(team->fabric, &params, MSCCLPP_OK, &channel, &join, &ended[rank->rank]), MSCCLPP_OK);
    damage = NULL;
    CHECK((join == NULL) == (ended[rank->rank] != MSCCLPP_OK));
    meet(rank);
    mscclpp_fabric_leave(join);
    meet(rank);
    rank->gpu->device_free(0, params.memory);
    mscclpp_team_destroy(team);
    meet(rank);
}

int main(void)
{
    static damage_t plans[] = {
        {.body = make_ports,
         .length = KEY_ROOM + RANKS * ADDRESS_ROOM,
         .number = MSCCLPP_TRANSPORT_KEY_MAX + 1,
         .said = "card of rank 1 has a key of 513 bytes"},
        {.body = make_ports,
         .length = KEY_ROOM + RANKS * ADDRESS_ROOM,
         .at = KEY_ROOM,
         .number = MSCCLPP_TRANSPORT_ADDRESS_MAX + 1,
         .said = "and an address of 1025; at most 512 and 1024"},
        {.body = link_nodes,
         .at = offsetof(mscclpp_fabric_card_t, key_length),
         .number = MSCCLPP_TRANSPORT_KEY_MAX + 1,
         .said = "card of rank 1 has a key of 513 bytes"},
        {.body = link_nodes,
         .at = offsetof(mscclpp_fabric_card_t, address_length),
         .number = MSCCLPP_TRANSPORT_ADDRESS_MAX + 1,
         .said = "and an address of 1025; at most 512 and 1024"},
        {.body = join_nodes,
         .length = sizeof(uint64_t),
         .number = MSCCLPP_TRANSPORT_ADDRESS_MAX + 1,
         .everywhere = true,
         .said = "card of rank 1 has a key of 0 bytes and an address of 1025; at most 512 and 1024"},
        {.body = join_nodes,
         .length = KEY_ROOM + 1,
         .longer = KEY_ROOM + RANKS * ADDRESS_ROOM,
         .number = MSCCLPP_TRANSPORT_KEY_MAX + 1,
         .said = "card of rank 1 has a key of 513 bytes"},
        {.body = join_nodes,
         .length = KEY_ROOM + 1,
         .longer = KEY_ROOM + RANKS * ADDRESS_ROOM,
         .at = KEY_ROOM,
         .number = 1 << 20,
         .said = "and an address of 1048576; at most 512 and "},
    };
    mscclpp_config_t config;

    mscclpp_config_init(&config);
    config.timeout = 60;
    config.scratch_size = 1 << 20;
    config.transport = "shm";
    config.ucx = false;
    unit_begin();
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); ++i) {
        const int before = unit_failed;

        config.ranks_per_node = plans[i].body == make_ports ? 0 : 1;
        log_record_clear();
        CHECK_EQ(run_ranks(RANKS, &config, plans[i].body, &plans[i]), 0);
        CHECK(ended[0] != MSCCLPP_OK);
        CHECK(plans[i].body == join_nodes || ended[1] == ended[0]);
        CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, plans[i].said, ""), plans[i].everywhere ? RANKS : 1);
        if (unit_failed != before) {
            fprintf(stderr, "in damage %d (%s); the log:\n%s", (int)i, plans[i].said, log_record_text());
        }
    }
    mscclpp_team_finalize(1.0);
    return unit_end();
}
