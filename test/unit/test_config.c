#include <ctype.h>
#include <locale.h>
#include <stdint.h>

#include "mca/common/base/config.h"
#include "mca/common/base/settings.h"
#include "test/unit/unit.h"

static const mscclpp_param_t *row(const char *name)
{
    const mscclpp_param_t *param = mscclpp_param_find(name);

    REQUIRE(param != NULL);
    return param;
}

static size_t size_of(mscclpp_param_type_t type)
{
    switch (type) {
    case MSCCLPP_PARAM_BOOL:
        return sizeof(bool);
    case MSCCLPP_PARAM_INT:
        return sizeof(int);
    case MSCCLPP_PARAM_SIZE:
        return sizeof(size_t);
    case MSCCLPP_PARAM_DOUBLE:
        return sizeof(double);
    case MSCCLPP_PARAM_STRING:
        return sizeof(char *);
    }
    return 0;
}

/* The table itself: every field of the structure has exactly one row, and every default is a value that is allowed. */
static void test_table(void)
{
    unsigned char covered[sizeof(mscclpp_config_t)] = {0};
    size_t total = 0;
    mscclpp_config_t config;

    for (int i = 0; i < mscclpp_param_count; ++i) {
        const mscclpp_param_t *param = &mscclpp_params[i];
        size_t size = size_of(param->type);

        CHECK(mscclpp_param_find(param->name) == param);
        CHECK(param->level >= 1 && param->level <= 9);
        CHECK(param->help != NULL && strlen(param->help) > 10);
        CHECK_EQ(param->help[strlen(param->help) - 1], '.');
        CHECK(param->min <= param->max);
        for (const char *at = param->name; *at != '\0'; ++at) {
            CHECK(islower((unsigned char)*at) || *at == '_');
        }
        REQUIRE(param->offset + size <= sizeof(covered));
        for (size_t byte = 0; byte < size; ++byte) {
            CHECK_EQ(covered[param->offset + byte], 0);
            covered[param->offset + byte] = 1;
        }
        total += size;
        CHECK_EQ(mscclpp_config_set(&config, param, param->default_value), MSCCLPP_OK);
    }
    /* What no row covers is padding, of which there is less before each field than the field is long. */
    for (size_t begin = 0; begin < sizeof(covered);) {
        size_t end = begin;
        while (end < sizeof(covered) && covered[end] == 0) {
            ++end;
        }
        CHECK(end - begin < sizeof(int) || (end - begin == sizeof(int) && end % sizeof(double) == 0) ||
              end - begin < sizeof(double));
        begin = end + 1;
    }
    CHECK(total <= sizeof(mscclpp_config_t));
    CHECK_EQ(mscclpp_param_count, 93);
    CHECK(mscclpp_param_find("no_such") == NULL);
    CHECK(mscclpp_param_find("") == NULL);
}

static void test_defaults(void)
{
    mscclpp_config_t config;

    memset(&config, 0xa5, sizeof(config));
    mscclpp_config_init(&config);
    CHECK(config.enable);
    CHECK_EQ(config.priority, 90);
    CHECK_EQ(config.verbose, 0);
    CHECK_TEXT(config.device, "auto");
    CHECK_TEXT(config.algorithm, "auto");
    CHECK_TEXT(config.rules, "");
    CHECK_EQ(config.oneshot_max, 0);
    CHECK_EQ(config.twophase_max, 0);
    CHECK_EQ(config.put_max, 0);
    CHECK_TEXT(config.packet, "auto");
    CHECK_EQ(config.lines_min, 0);
    CHECK(config.zerocopy);
    CHECK_EQ(config.engine_min, 0);
    CHECK_EQ(config.engine_chunk, 0);
    CHECK_EQ(config.engine_scratch, 192 << 20);
    CHECK_EQ(config.max_blocks, 0);
    CHECK_EQ(config.max_threads, 0);
    CHECK_EQ(config.scratch_size, 16 << 20);
    CHECK_EQ(config.mapping_cache_size, 64);
    CHECK_EQ(config.mapping_cache_bytes, 0);
    CHECK(config.timeout == 600);
    CHECK(config.warn_after == 30);
    CHECK_TEXT(config.shared_gpu, "auto");
    CHECK(!config.mixed_buffers);
    CHECK_TEXT(config.stage, "auto");
    CHECK(config.ucx);
    CHECK_EQ(config.ranks_per_node, 0);
    CHECK_TEXT(config.transport, "auto");
    CHECK_EQ(config.exchange_size, 16 << 20);
    CHECK_TEXT(config.exchange_memory, "auto");
    CHECK(config.exchange_stores);
    CHECK_EQ(config.nodes_packets_max, 0);
    CHECK_EQ(config.nodes_split_min, 0);
    CHECK_EQ(config.nodes_ring_min, 0);
    CHECK_TEXT(config.proxy, "progress");
    CHECK_EQ(config.fifo_size, 512);
    CHECK_TEXT(config.plans, "");
    CHECK_TEXT(config.plan_check, "static");
    CHECK(config.widen_selection);
    CHECK_TEXT(config.widen_list, "tuned,libnbc,basic,inter,self,sm,sync,ftagree,han,adapt");
    CHECK_EQ(config.twin_blocks, 1);
    CHECK_EQ(config.twin_threads, 1);
    CHECK_TEXT(config.twin_host_ranks, "");
    CHECK(!config.twin_shared_only);
    CHECK_EQ(config.epoch_limit, 2147483648u);
    CHECK_TEXT(config.verbs_library, "libibverbs.so.1");
    CHECK_TEXT(config.verbs_registration, "auto");
    CHECK_TEXT(config.verbs_mode, "auto");
    CHECK_TEXT(config.verbs_devices, "");
    CHECK_EQ(config.verbs_port, 0);
    CHECK_EQ(config.verbs_gid_index, -1);
    CHECK_EQ(config.verbs_service_level, 0);
    CHECK_EQ(config.verbs_traffic_class, 0);
    CHECK_EQ(config.verbs_timeout, 18);
    CHECK_EQ(config.verbs_retry_count, 6);
    CHECK_EQ(config.verbs_rnr_retry, 7);
    CHECK_TEXT(config.verbs_mtu, "auto");
    CHECK_EQ(config.verbs_queue_depth, 256);
    CHECK_EQ(config.verbs_rails, 1);
    CHECK_EQ(config.verbs_stripe_min, 256 << 10);
    CHECK(!config.verbs_relaxed_ordering);
}

static void accept(const char *name, const char *value)
{
    mscclpp_config_t config;

    mscclpp_config_init(&config);
    if (mscclpp_config_set(&config, row(name), value) != MSCCLPP_OK) {
        fprintf(stderr, "%s = \"%s\" was refused\n", name, value);
        CHECK(!"accepted");
    }
}

/* One line that names the parameter and the value; the configuration stays as it was. */
static void refuse(const char *name, const char *value)
{
    mscclpp_config_t config, before;
    mscclpp_status_t status;
    char quoted[256];

    mscclpp_config_init(&config);
    before = config;
    unit_expect_log();
    status = mscclpp_config_set(&config, row(name), value);
    CHECK_EQ(unit_logged(), 1);
    if (status != MSCCLPP_ERR_INVALID) {
        fprintf(stderr, "%s = \"%s\" was not refused\n", name, value);
    }
    CHECK_EQ(status, MSCCLPP_ERR_INVALID);
    CHECK(memcmp(&config, &before, sizeof(config)) == 0);
    CHECK(strstr(unit_last_line, name) != NULL);
    snprintf(quoted, sizeof(quoted), "\"%s\"", value != NULL ? value : "");
    CHECK(strstr(unit_last_line, quoted) != NULL);
}

static void test_values(void)
{
    static const char *const bad_bools[] = {"", "2", "-1", "maybe", " 1", "1 ", "yess"};
    static const char *const bad_ints[] = {"",
                                           "-",
                                           "1.5",
                                           "0x10",
                                           "7k",
                                           " 1",
                                           "1 ",
                                           "+1",
                                           "101",
                                           "-2",
                                           "1-",
                                           "--1",
                                           "ten",
                                           "1e1",
                                           "2147483648",
                                           "4294967297",
                                           "99999999999999999999"};
    static const char *const bad_sizes[] = {"",     "-1",   "1",    "1048575", "1073741825",   "2g",
                                            "16mb", "16 m", "m",    "1.5m",    "0x10m",        "99999999999999999999",
                                            "1mm",  "16t",  " 16m", "+1m",     "17179869184g", "18446744073709551615g"};
    static const char *const bad_doubles[] = {
        "",    ".",    "-1", "nan", "inf",  "0x1",     "1e3",
        "1,5", "1.5s", "1 ", " 1",  "1..2", "1000001", "999999999999999999999999"};
    mscclpp_config_t config;

    mscclpp_config_init(&config);
    CHECK_EQ(mscclpp_config_set(&config, row("enable"), "FALSE"), MSCCLPP_OK);
    CHECK(!config.enable);
    CHECK_EQ(mscclpp_config_set(&config, row("enable"), "yes"), MSCCLPP_OK);
    CHECK(config.enable);
    CHECK_EQ(mscclpp_config_set(&config, row("priority"), "-1"), MSCCLPP_OK);
    CHECK_EQ(config.priority, -1);
    CHECK_EQ(mscclpp_config_set(&config, row("scratch_size"), "2M"), MSCCLPP_OK);
    CHECK_EQ(config.scratch_size, 2 << 20);
    CHECK_EQ(mscclpp_config_set(&config, row("scratch_size"), "1025k"), MSCCLPP_OK);
    CHECK_EQ(config.scratch_size, 1025 << 10);
    CHECK_EQ(mscclpp_config_set(&config, row("scratch_size"), "1g"), MSCCLPP_OK);
    CHECK_EQ(config.scratch_size, 1 << 30);
    CHECK_EQ(mscclpp_config_set(&config, row("scratch_size"), "1048577"), MSCCLPP_OK);
    CHECK_EQ(config.scratch_size, 1048577);
    CHECK_EQ(mscclpp_config_set(&config, row("timeout"), "0.25"), MSCCLPP_OK);
    CHECK(config.timeout == 0.25);
    CHECK_EQ(mscclpp_config_set(&config, row("timeout"), ".5"), MSCCLPP_OK);
    CHECK(config.timeout == 0.5);
    CHECK_EQ(mscclpp_config_set(&config, row("epoch_limit"), "4294967295"), MSCCLPP_OK);
    CHECK_EQ(config.epoch_limit, 4294967295u);
    CHECK_EQ(mscclpp_config_set(&config, row("widen_list"), "anything, at all"), MSCCLPP_OK);
    CHECK_TEXT(config.widen_list, "anything, at all");

    for (int i = 0; i < mscclpp_param_count; ++i) {
        const mscclpp_param_t *param = &mscclpp_params[i];
        char text[64];

        refuse(param->name, NULL);
        if (param->type == MSCCLPP_PARAM_STRING && param->choices != NULL) {
            char choices[256];
            char *save = NULL;
            snprintf(choices, sizeof(choices), "%s", param->choices);
            for (char *choice = strtok_r(choices, "|", &save); choice; choice = strtok_r(NULL, "|", &save)) {
                accept(param->name, choice);
            }
            refuse(param->name, "");
            refuse(param->name, "|");
            refuse(param->name, "aut");
            refuse(param->name, "autoo");
            refuse(param->name, param->choices);
        } else if (param->type != MSCCLPP_PARAM_STRING && param->type != MSCCLPP_PARAM_BOOL) {
            snprintf(text, sizeof(text), "%.0f", param->min);
            accept(param->name, text);
            snprintf(text, sizeof(text), "%.0f", param->max);
            accept(param->name, text);
            snprintf(text, sizeof(text), "%.0f", param->min - 1);
            refuse(param->name, text);
            snprintf(text, sizeof(text), "%.0f", param->max + 1);
            refuse(param->name, text);
        }
    }
    for (size_t i = 0; i < sizeof(bad_bools) / sizeof(bad_bools[0]); ++i) {
        refuse("enable", bad_bools[i]);
    }
    for (size_t i = 0; i < sizeof(bad_ints) / sizeof(bad_ints[0]); ++i) {
        refuse("priority", bad_ints[i]);
    }
    for (size_t i = 0; i < sizeof(bad_sizes) / sizeof(bad_sizes[0]); ++i) {
        refuse("scratch_size", bad_sizes[i]);
    }
    for (size_t i = 0; i < sizeof(bad_doubles) / sizeof(bad_doubles[0]); ++i) {
        refuse("timeout", bad_doubles[i]);
    }
}

static void test_environment(void)
{
    mscclpp_config_t config;

    setenv("MSCCLPP_SCRATCH_SIZE", "32m", 1);
    setenv("MSCCLPP_DEVICE", "host", 1);
    setenv("MSCCLPP_TIMEOUT", "1.5", 1);
    mscclpp_config_init(&config);
    CHECK_EQ(mscclpp_config_from_environment(&config), MSCCLPP_OK);
    CHECK_EQ(config.scratch_size, 32 << 20);
    CHECK_TEXT(config.device, "host");
    CHECK(config.timeout == 1.5);

    setenv("MSCCLPP_DEVICE", "gpu", 1);
    mscclpp_config_init(&config);
    unit_expect_log();
    CHECK_EQ(mscclpp_config_from_environment(&config), MSCCLPP_ERR_INVALID);
    CHECK_EQ(unit_logged(), 1);
    CHECK(strstr(unit_last_line, "device") != NULL && strstr(unit_last_line, "auto|cuda|host") != NULL);
    CHECK_TEXT(config.device, "auto");
    CHECK_EQ(config.scratch_size, 32 << 20);
    CHECK(config.timeout == 1.5);
}

/* What all ranks have in common travels and arrives; every word of a choice does. */
static void test_settings(void)
{
    mscclpp_settings_t settings, other;
    mscclpp_config_t config, copy;
    char text[64];
    int i, common = 0;

    REQUIRE(mscclpp_param_count <= MSCCLPP_SETTINGS_MAX);
    mscclpp_config_init(&config);
    mscclpp_settings_read(&config, &settings);
    for (i = 0; i < mscclpp_param_count; ++i) {
        const mscclpp_param_t *param = &mscclpp_params[i];
        const char *word = param->choices;
        uint64_t number;

        if (!mscclpp_param_is_common(param)) {
            CHECK_EQ(settings.values[i], 0);
            continue;
        }
        ++common;
        /* Others do not fit a number. */
        CHECK(param->type != MSCCLPP_PARAM_DOUBLE && (param->type != MSCCLPP_PARAM_STRING || word != NULL));
        mscclpp_settings_text(param, settings.values[i], text, sizeof(text));
        CHECK_EQ(mscclpp_config_set(&config, param, text), MSCCLPP_OK);
        mscclpp_config_init(&config); /* it must not point to the text, which changes */
        for (number = 0; word != NULL; ++number) {
            const size_t length = strcspn(word, "|");

            mscclpp_settings_text(param, number, text, sizeof(text));
            CHECK(strlen(text) == length && memcmp(text, word, length) == 0);
            copy = config;
            mscclpp_settings_apply(&copy, param, number);
            mscclpp_settings_read(&copy, &other);
            CHECK_EQ(other.values[i], number);
            CHECK((mscclpp_settings_digest(&other) == mscclpp_settings_digest(&settings)) ==
                  (number == settings.values[i]));
            word = word[length] == '|' ? word + length + 1 : NULL;
        }
    }
    CHECK(common >= 30);
    mscclpp_config_init(&config);
    config.priority = -1;
    config.scratch_size = SIZE_MAX;
    config.mixed_buffers = true;
    config.verbose = 3;
    mscclpp_settings_read(&config, &other);
    mscclpp_config_init(&copy);
    for (i = 0; i < mscclpp_param_count; ++i) {
        if (mscclpp_param_is_common(&mscclpp_params[i])) {
            mscclpp_settings_apply(&copy, &mscclpp_params[i], other.values[i]);
        }
    }
    CHECK(copy.priority == -1 && copy.scratch_size == SIZE_MAX && copy.mixed_buffers && copy.verbose == 0);
    mscclpp_settings_text(row("priority"), other.values[row("priority") - mscclpp_params], text, sizeof(text));
    CHECK_TEXT(text, "-1");
}

int main(void)
{
    unit_begin();
    (void)setlocale(LC_ALL, ""); /* where there is one with a decimal comma, numbers still have points */
    test_table();
    test_settings();
    test_defaults();
    test_values();
    test_environment();
    return unit_end();
}
