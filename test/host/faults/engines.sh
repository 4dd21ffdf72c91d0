# shellcheck shell=bash
# Faults in the all-reduce by copy engines.
# shellcheck disable=SC2154 # faults/runs.sh sets the names of files

engine=mca/common/engine/run.c
plant engine-slots engines "$engine" "$engine" 's/(reduced\) \+ MSCCLPP_DEV_ENGINE_DEPTH)\)/\1 + 1)/'
plant engine-sent-early engines "$engine" "$engine" 's/peer->landed \+= has_passed/peer->landed = peer->sent/'
plant engine-sent-to-one engines "$engine" "$engine" 's/(landed_at_all = peer->landed) < landed_at_all .*/\1;/'
plant engine-operand-missing engines "$engine" "$engine" 's/(smallest = peer_value) < smallest .*/\1;/'
plant engine-reduced-early engines "$engine" "$engine" \
    's/(return) ended == engine->kernels_launched .*/\1 engine->reductions_begun;/'
plant engine-empty-chunks engines "$engine" "$engine" 's/(return) ended == engine->kernels_launched .*/\1 ended;/'
plant engine-result-early engines "$engine" "$engine" 's/(peer->returned) < reduced/\1 <= reduced/'
plant engine-returned-early engines "$engine" "$engine" '/status = query_event\(engine, engine->result_copied/d'
plant engine-end-early engines "$engine" "$engine" \
    's/all_returned && find_min_of_peers\(engine, own_returned\) >= .*\) \{/all_returned) {/'
plant engine-event-early engines "$engine" "$engine" \
    '/event_record\(engine->operand_copied/s/\[chunk % MSCCLPP_DEV/[(chunk + 1) % MSCCLPP_DEV/'
plant engine-unsettled unsettled "$engine" "$engine" 's/^ *await_all_streams\(engine\);$//'
plant engine-mappings-held engines "$engine" "$engine" \
    's/(mscclpp_runner_keep_mappings\(engine->runner,) engine->runner->stuck\)/\1 true)/'
