"""Faults planted into the plans of plans.py, each with the rule that has to find it."""
import copy
import json

import plans

PUT = plans.allgather_put
CASES = []


def plant(rule, base, verdict="invalid"):
    """The function below changes a plan, or returns text of its own."""
    def add(function):
        CASES.append((rule, verdict, function.__name__, base, function))
        return function
    return add


def planted():
    """(name, rule, verdict, text) of each case."""
    for rule, verdict, name, base, function in CASES:
        plan = copy.deepcopy(base())
        text = function(plan)
        yield name, rule, verdict, text if isinstance(text, (str, bytes)) else json.dumps(plan)


def ops(plan, rank=0, block=0):
    """The operations of a block."""
    return plan["gpus"][rank]["threadblocks"][block]["ops"]


def find(plan, name, rank=0, block=0):
    """The first operation of a name in a block."""
    return next(op for op in ops(plan, rank, block) if op["name"] == name)


# Text and keys.

@plant("json", PUT, "parse error")
def half_a_file(plan):
    return json.dumps(plan)[:200]


@plant("json", PUT, "parse error")
def empty(_):
    return ""


@plant("json", PUT, "parse error")
def text_behind(plan):
    return json.dumps(plan) + "{}"


@plant("json", PUT, "parse error")
def comment(plan):
    return "/* a plan */" + json.dumps(plan)


@plant("json", PUT, "parse error")
def key_twice(plan):
    return '{"name": "a", ' + json.dumps(plan)[1:]


@plant("json", PUT, "parse error")
def deep(_):
    return "[" * 100000


@plant("json", PUT, "parse error")
def no_utf8(plan):
    return json.dumps(plan).replace("allgather_put", "\x00\xff").encode("latin-1")


@plant("type", PUT)
def no_object(_):
    return "[1, 2]"


@plant("key", PUT)
def no_name(plan):
    del plan["name"]


@plant("key", PUT)
def no_inplace(plan):
    del plan["inplace"]


@plant("key", PUT)
def no_chunks(plan):
    del plan["gpus"][1]["scratch_chunks"]


@plant("type", PUT)
def inplace_a_word(plan):
    plan["inplace"] = "yes"


@plant("type", PUT)
def index_a_word(plan):
    find(plan, "put")["src_buff"][0]["index"] = "0"


@plant("number", PUT)
def index_negative(plan):
    find(plan, "put")["src_buff"][0]["index"] = -1


@plant("number", PUT)
def index_broken(plan):
    find(plan, "put")["src_buff"][0]["index"] = 0.5


@plant("number", PUT)
def most_too_large(plan):
    return json.dumps(plan)[:-1] + ', "max_message_size": 18446744073709551616}'


@plant("word", PUT)
def collective(plan):
    plan["collective"] = "broadcast"


@plant("word", PUT)
def protocol(plan):
    plan["protocol"] = "LL128"


@plant("word", PUT)
def operation(plan):
    find(plan, "put")["name"] = "push"


@plant("word", PUT)
def buffer_type(plan):
    find(plan, "copy")["src_buff"][0]["type"] = "x"


@plant("word", plans.allreduce_rres)
def reduce_op(plan):
    find(plan, "rres")["reduce_op"] = "prod"


@plant("generation", PUT)
def older_key(plan):
    plan["gpus"][0]["inputChunks"] = plan["gpus"][0].pop("input_chunks")


@plant("generation", PUT)
def older_key_of_an_operation(plan):
    find(plan, "put")["cnt"] = 1


@plant("unmerged", PUT)
def unmerged_key(plan):
    find(plan, "put")["dynamic_size"] = 1


@plant("limit", PUT)
def no_ranks(plan):
    plan["gpus"] = []


@plant("limit", PUT)
def many_ranks(plan):
    plan["gpus"] *= 600


@plant("position", PUT)
def rank_id(plan):
    plan["gpus"][0]["id"] = 1


@plant("position", PUT)
def block_id(plan):
    plan["gpus"][0]["threadblocks"][0]["id"] = 1


@plant("limit", PUT)
def long_name(plan):
    plan["name"] = "x" * 201


@plant("limit", PUT)
def many_blocks(plan):
    plan["gpus"][0]["threadblocks"] *= 1025


@plant("limit", PUT)
def many_operations(plan):
    plan["gpus"][0]["threadblocks"][0]["ops"] = [{"name": "nop"}] * 65537


@plant("limit", PUT)
def many_items(plan):
    find(plan, "put")["src_buff"] *= 4097


@plant("limit", PUT)
def many_numbers(plan):
    find(plan, "signal")["channel_ids"] *= 4097


@plant("limit", PUT)
def many_semaphores(plan):
    plan["gpus"][0]["semaphores"] = [{"init_value": 0}] * 65537


@plant("limit", PUT)
def many_remote_buffers(plan):
    plan["gpus"][0]["remote_buffers"] *= 65537


@plant("limit", PUT)
def many_channels(plan):
    entry = plan["gpus"][0]["channels"][0]
    plan["gpus"][0]["channels"] = [dict(entry, connected_to=[1] * 40000)] * 2


@plant("limit", plans.allreduce_switch)
def many_switches(plan):
    plan["gpus"][0]["channels"][-1]["rank_groups"] *= 4097


@plant("limit", PUT)
def few_addresses(plan):
    plan["gpu_addresses"] = ["0000:01:00.0"]


@plant("type", PUT)
def address_a_number(plan):
    plan["gpu_addresses"] = [1] * len(plan["gpus"])


@plant("type", PUT)
def channel_a_word(plan):
    plan["gpus"][0]["channels"][0] = "memory"


@plant("type", PUT)
def item_a_number(plan):
    find(plan, "put")["src_buff"][0] = 0


@plant("type", PUT)
def operation_a_word(plan):
    ops(plan)[0] = "nop"


@plant("type", PUT)
def id_a_word(plan):
    find(plan, "signal")["channel_ids"] = ["0"]


@plant("number", PUT)
def id_too_large(plan):
    find(plan, "signal")["channel_ids"] = [1 << 40]


@plant("number", PUT)
def index_too_large(plan):
    find(plan, "put")["src_buff"][0]["index"] = 1 << 40


@plant("word", PUT)
def channel_of_no_kind(plan):
    plan["gpus"][0]["channels"][0]["channel_type"] = "none"


@plant("word", PUT)
def table_of_no_kind(plan):
    plan["gpus"][0]["threadblocks"][0]["channels"][0]["channel_type"] = "none"


@plant("word", PUT)
def access_by_a_switch(plan):
    plan["gpus"][0]["remote_buffers"][0]["access_channel_types"] = ["switch"]


# The frame.

@plant("threads", PUT)
def threads(plan):
    plan["num_threads_per_block"] = 48


@plant("alignment", PUT)
def alignment(plan):
    plan["buffer_alignment"] = 6


@plant("range", PUT)
def range_empty(plan):
    plan["min_message_size"], plan["max_message_size"] = 1 << 63, (1 << 63) - 1


@plant("chunks", lambda: PUT(3))
def chunks_differ(plan):
    plan["gpus"][1]["output_chunks"] = 6


@plant("shape", PUT, "wrong result")
def shape(plan):
    for gpu in plan["gpus"]:
        gpu["output_chunks"] = 4


@plant("shape", plans.reducescatter_barrier, "wrong result")
def shape_reducescatter(plan):
    plan["collective"] = "alltoall"


@plant("peer", PUT)
def peer(plan):
    plan["gpus"][0]["channels"][0]["connected_to"] = [2]


@plant("peer", PUT)
def remote_peer(plan):
    plan["gpus"][0]["remote_buffers"][0]["rank"] = 2


@plant("self-channel", PUT)
def self_channel(plan):
    plan["gpus"][0]["channels"][0]["connected_to"] = [0]


@plant("self-remote", PUT)
def self_remote(plan):
    plan["gpus"][0]["remote_buffers"][0]["rank"] = 0


@plant("switch-group", plans.allreduce_switch)
def switch_without_own(plan):
    plan["gpus"][0]["channels"][-1]["rank_groups"][0]["ranks"] = [1]


@plant("switch-group", lambda: plans.allreduce_switch(3))
def switch_differs(plan):
    plan["gpus"][0]["channels"][-1]["rank_groups"][0]["ranks"] = [0, 1]


# Operations.

@plant("chunks", PUT)
def nothing_says_how_large(plan):
    plan["collective"] = "test"
    for gpu in plan["gpus"]:
        gpu["input_chunks"] = gpu["output_chunks"] = 0


@plant("channel-id", PUT)
def channel_id(plan):
    find(plan, "signal")["channel_ids"] = [1]


@plant("channel-id", PUT)
def channel_of_the_block(plan):
    plan["gpus"][0]["threadblocks"][0]["channels"][0]["channel_ids"] = [7]


@plant("channel-id", PUT)
def two_threads_wait(plan):
    find(plan, "wait")["channel_ids"] = [0, 0]


@plant("channel-id", plans.allreduce_switch)
def switch_channel_id(plan):
    find(plan, "glres")["src_buff"][0]["switch_channel_id"] = 3


@plant("channel-type", PUT)
def signal_without_type(plan):
    del find(plan, "signal")["channel_type"]


@plant("channel-type", PUT)
def put_without_type(plan):
    del find(plan, "put")["channel_type"]


@plant("channel-type", plans.alltoall_port)
def flush_of_memory(plan):
    find(plan, "flush")["channel_type"] = "memory"
    find(plan, "flush")["channel_ids"] = []


@plant("channel-type", PUT)
def put_with_signal_over_memory(plan):
    find(plan, "put")["name"] = "pws"


@plant("buffer-id", PUT)
def buffer_id(plan):
    find(plan, "put")["dst_buff"][0]["buffer_id"] = 1


@plant("buffer-id", PUT)
def buffer_of_the_block(plan):
    plan["gpus"][0]["threadblocks"][0]["remote_buffer_refs"][0]["remote_buffer_ids"] = [4]


@plant("access", PUT)
def access(plan):
    plan["gpus"][0]["remote_buffers"][0]["access_channel_types"] = ["port"]


@plant("chunk-range", PUT)
def own_chunks(plan):
    find(plan, "copy")["dst_buff"][0]["index"] = 2


@plant("chunk-range", PUT)
def peers_chunks(plan):
    find(plan, "put")["dst_buff"][0]["index"] = 2


@plant("chunk-range", plans.allreduce_oneshot)
def packets_need_twice(plan):
    plan["protocol"] = "Simple"


@plant("operand", PUT)
def local_for_remote(plan):
    find(plan, "put")["dst_buff"][0] = plans.local("o", 0)


@plant("operand", plans.allreduce_oneshot)
def packets_of_the_input(plan):
    find(plan, "repkt")["src_buff"][1]["type"] = "i"


@plant("buffer", PUT)
def both_ids(plan):
    find(plan, "put")["dst_buff"][0]["switch_channel_id"] = 0


@plant("size", PUT)
def size_0(plan):
    find(plan, "copy")["src_buff"][0]["size"] = find(plan, "copy")["dst_buff"][0]["size"] = 0


@plant("size", plans.allreduce_oneshot)
def sizes_differ(plan):
    find(plan, "repkt")["src_buff"][1]["size"] = 1


@plant("count", PUT)
def no_pair(plan):
    find(plan, "put")["src_buff"] *= 2


@plant("count", plans.allreduce_rres)
def one_source(plan):
    del find(plan, "rres")["src_buff"][1:]


@plant("count", PUT)
def signal_of_nothing(plan):
    find(plan, "signal")["channel_ids"] = []


@plant("port-channel", plans.alltoall_port)
def port_without_channel(plan):
    find(plan, "put")["channel_ids"] = []


@plant("port-channel", lambda: plans.alltoall_port(3))
def port_to_another(plan):
    find(plan, "put")["channel_ids"].reverse()


@plant("reduce-op", lambda: plans.allreduce_rres(2))
def two_reductions(plan):
    find(plan, "rres", 1)["reduce_op"] = "max"


@plant("semaphore-id", plans.allreduce_pipeline)
def semaphore_id(plan):
    ops(plan)[0]["ops"][0]["semaphore_ids"] = [2]


@plant("glre", plans.allreduce_switch)
def half_an_operation(plan):
    find(plan, "glres")["name"] = "glre"


@plant("pipeline", plans.allreduce_pipeline)
def unit_0(plan):
    ops(plan)[0]["iter_context"]["unit_size"] = 0


@plant("pipeline", plans.allreduce_pipeline)
def unit_uneven(plan):
    ops(plan)[0]["iter_context"]["unit_size"] = 72


@plant("pipeline", plans.allreduce_pipeline)
def shorter_than_the_loop(plan):
    ops(plan)[0]["iter_context"]["num_chunks"] = 2


@plant("pipeline", plans.allreduce_pipeline)
def nested(plan):
    ops(plan)[0]["ops"].append(copy.deepcopy(ops(plan)[0]))


@plant("pipeline", plans.allreduce_pipeline)
def group_in_a_pipeline(plan):
    ops(plan)[0]["ops"][2]["tbg_info"] = {"tb_id": 0, "tbg_size": 1}


@plant("pipeline", lambda: plans.allreduce_oneshot(2))
def packets_in_a_pipeline(plan):
    body = [find(plan, "ppkt")]
    ops(plan)[0] = {"name": "pipeline", "iter_context": {"unit_size": 64, "num_chunks": body[0]["src_buff"][0]["size"]},
                    "ops": body}


@plant("pipeline", plans.allreduce_pipeline)
def loop_over_nothing(plan):
    ops(plan)[0]["iter_context"]["num_chunks"] = 0


@plant("size", PUT)
def pair_differs(plan):
    find(plan, "put")["dst_buff"][0].update(index=0, size=2)


@plant("size", plans.allreduce_rres)
def target_differs(plan):
    find(plan, "rres")["dst_buff"][0]["size"] = 2


@plant("threads", PUT)
def few_threads(plan):
    plan["num_threads_per_block"] = 32
    find(plan, "signal")["channel_ids"] = [0] * 33


@plant("threads", plans.allreduce_pipeline)
def few_threads_for_semaphores(plan):
    plan["num_threads_per_block"] = 32
    ops(plan)[0]["ops"][0]["semaphore_ids"] = [0] * 33


@plant("count", plans.allreduce_pipeline)
def no_semaphore(plan):
    ops(plan)[0]["ops"][0]["semaphore_ids"] = []


@plant("barrier", plans.reducescatter_barrier)
def barrier_of_nobody(plan):
    find(plan, "barrier")["num_threadblocks"] = 0


# What has to go together.

@plant("group", lambda: plans.allreduce_rres(2, 2))
def part_twice(plan):
    find(plan, "rres", 0, 1)["tbg_info"]["tb_id"] = 0


@plant("group", lambda: plans.allreduce_rres(2, 2))
def part_outside(plan):
    find(plan, "rres")["tbg_info"]["tb_id"] = 2


@plant("barrier", plans.reducescatter_barrier)
def barrier_of_one(plan):
    find(plan, "barrier")["num_threadblocks"] = 1


@plant("barrier", plans.reducescatter_barrier)
def barrier_of_another(plan):
    find(plan, "barrier")["barrier_id"] = 1


@plant("barrier", plans.reducescatter_barrier, "deadlock")
def barrier_twice(plan):
    ops(plan).append(copy.deepcopy(find(plan, "barrier")))


@plant("balance", PUT, "deadlock")
def signal_missing(plan):
    ops(plan).remove(find(plan, "signal"))


@plant("balance", PUT)
def signal_left_over(plan):
    ops(plan).append(copy.deepcopy(find(plan, "signal")))


@plant("balance", plans.allreduce_pipeline, "deadlock")
def release_missing(plan):
    del ops(plan)[0]["ops"][4]


@plant("balance", plans.allreduce_pipeline, "deadlock")
def units_differ(plan):
    ops(plan)[0]["iter_context"] = {"unit_size": 128, "num_chunks": 1}


@plant("reuse", PUT)
def reuse_of_remote_buffers(plan):
    plan["reuse_resources"] = True


# What only a run over all ranks shows.

@plant("deadlock", PUT, "deadlock")
def everybody_waits_first(plan):
    for rank in range(2):
        ops(plan, rank)[0:2] = reversed(ops(plan, rank)[0:2])


@plant("deadlock", plans.allreduce_pipeline, "deadlock")
def no_credit(plan):
    plan["gpus"][0]["semaphores"][0]["init_value"] = 0


@plant("deadlock", lambda: plans.allreduce_oneshot(2), "deadlock")
def packets_in_another_slot(plan):
    find(plan, "ppkt")["dst_buff"][0]["index"] = 2


@plant("deadlock", plans.reducescatter_barrier, "deadlock")
def barrier_and_peer_cross(plan):
    first = ops(plan)
    first.insert(1, first.pop(first.index(find(plan, "barrier"))))
    first = ops(plan, 1, 1)
    first.insert(0, first.pop(first.index(find(plan, "barrier", 1, 1))))
    for rank, block in ((0, 1), (1, 0)):
        code = ops(plan, rank, block)
        code.append(code.pop(code.index(find(plan, "barrier", rank, block))))


@plant("packet-overwrite", lambda: plans.allreduce_oneshot(2, False), "deadlock")
def packets_without_halves(_):
    pass


@plant("launch", PUT, "race")
def nobody_says_that_it_has_come(plan):
    for rank in range(2):
        del ops(plan, rank)[0:3]


@plant("launch", PUT, "race")
def nobody_waits_for_the_end(plan):
    for rank in range(2):
        del ops(plan, rank)[5:]


@plant("launch", plans.alltoall_port, "race")
def no_flush(plan):
    for rank in range(2):
        ops(plan, rank).remove(find(plan, "flush", rank))


@plant("hazard", plans.allreduce_pipeline, "race")
def other_threads_read(plan):
    plan["gpus"][0]["output_chunks"] = plan["gpus"][0]["input_chunks"] = 2
    ops(plan)[:] = [{"name": "copy", "src_buff": [plans.local("i", 0, 2)], "dst_buff": [plans.local("o", 0, 2)]},
                    {"name": "copy", "src_buff": [plans.local("o", 1)], "dst_buff": [plans.local("s", 0)]}]
    ops(plan, 0, 1).clear()


@plant("race", plans.allreduce_rres, "race")
def signal_before_the_end(plan):
    for rank in range(2):
        code = ops(plan, rank)
        del code[4]
        code.insert(0, {"name": "nop"})
    plan["gpus"][0]["output_chunks"] = 2
    code = ops(plan)
    code.append({"name": "copy", "src_buff": [plans.local("i", 1)], "dst_buff": [plans.local("i", 1)]})


@plant("race", plans.allreduce_pipeline, "race")
def no_word_that_it_is_full(plan):
    for block in range(2):
        body = ops(plan, 0, block)[0]["ops"]
        body[:] = [op for op in body if op.get("semaphore_ids") != [1]]


@plant("race", plans.reducescatter_barrier, "race")
def no_barrier(plan):
    # The parts of a group that copies two chunks, and of one that reads one of them, are not the same.
    for rank in range(2):
        for block in range(2):
            ops(plan, rank, block).remove(find(plan, "barrier", rank, block))
            get = find(plan, "get", rank, block)
            get["src_buff"][0].update(index=0, size=2)
            get["dst_buff"][0].update(index=0, size=2)
            ops(plan, rank, block).insert(4, {"name": "nop"})


@plant("two-waiters", lambda: plans.allreduce_rres(2, 2), "race")
def two_blocks_wait_on_one_channel(plan):
    plan["gpus"][0]["threadblocks"][1]["channels"][0]["channel_ids"] = [0]
    plan["gpus"][1]["threadblocks"][1]["channels"][0]["channel_ids"] = [0]


@plant("undefined", plans.reducescatter_barrier, "wrong result")
def scratch_that_nobody_wrote(plan):
    for block in range(2):
        ops(plan, 0, block).remove(find(plan, "get", 0, block))


@plant("undefined", PUT, "wrong result")
def output_read_first(plan):
    ops(plan).insert(0, {"name": "copy", "src_buff": [plans.local("o", 0)], "dst_buff": [plans.local("o", 0)]})
    ops(plan).insert(1, {"name": "nop"})


@plant("result", lambda: plans.alltoall_port(3), "wrong result")
def chunks_swapped(plan):
    find(plan, "put")["src_buff"].reverse()


@plant("result", lambda: plans.allreduce_rres(3), "wrong result")
def one_source_missing(plan):
    del find(plan, "rres")["src_buff"][2]


@plant("result", lambda: plans.allreduce_rres(3), "wrong result")
def one_source_twice(plan):
    sources = find(plan, "rres")["src_buff"]
    sources[2] = copy.deepcopy(sources[1])


@plant("result", lambda: plans.as_max(plans.allreduce_rres(3)), "wrong result")
def maximum_without_one_rank(plan):
    del find(plan, "rres")["src_buff"][1]


@plant("result", lambda: plans.as_max(plans.allreduce_rres(66)), "wrong result")
def maximum_of_many_ranks_without_the_last(plan):
    del find(plan, "rres")["src_buff"][-1]
