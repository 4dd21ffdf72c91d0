# shellcheck shell=bash
# The cases of execution plans that serve MPI calls, for run.sh, which has the functions that run one, and sets what
# these read.
# shellcheck disable=SC2154 # these

# kind_of NAME: the collective of a plan that plans.py writes.
kind_of() { echo "${1%%_*}"; }

# queues_plan NAME: whether 3 ranks can queue calls by the plan. Each gets a sixteenth of the blocks that it can have on
# its GPU, which are 2 or more where ranks share one.
queues_plan() {
    local many='allreduce_twophase_packets|allreduce_groups|allgather_direct|reducescatter_barrier|alltoall_direct'
    [ "$MSCCLPP_TEST_DEVICE" = host ] || [ "$gpus" -ge 3 ] || [[ ! $1 =~ ^($many)$ ]]
}

cases_plans() {
    local n folder=$scratch/plans name plan plan_nodes=() index mapped=2
    few || mapped=3
    # Plans put from the device's memory, which shared memory of the host cannot take the place of. The proxy copies
    # while the kernel runs, and needs a hardware queue for that, of which MPS gives fewer by itself.
    [ "$MSCCLPP_TEST_DEVICE" = host ] ||
        plan_nodes=(-x CUDA_DEVICE_MAX_CONNECTIONS=8 --mca coll_mscclpp_transport cuda_ipc)
    if [ "${patterns[0]:-}" != --list ]; then
        grep -aqs yajl_parse "$component_dir/mca_coll_mscclpp.so" || {
            skip "plans" "built without yajl, which reads plans"
            return 0
        }
        mkdir "$folder"
        for n in 2 3 4; do
            python3 "$(dirname "$0")/plans.py" "$folder/$n" "$n" >"$log" 2>&1 || {
                report_failure "plans" "plans.py writes no plans"
                return 0
            }
        done
    fi
    ! few || skip "plans:NAME and plans:nonblocking:NAME, with all numbers of ranks" \
        "one stands for them with each plan, and all meet plans of each collective; set MSCCLPP_TEST_LONG=1"
    ! few || skip "plans:nonblocking:NAME, plans:persistent:NAME and plans:mapped:NAME, with all plans" \
        "every other plan is tried in each of these ways, and some of each collective are; set MSCCLPP_TEST_LONG=1"
    for n in 2 3 4; do
        index=0
        # By their own memory, as nothing that ranks pass can be mapped on the twin, and without it.
        for name in allreduce_oneshot allreduce_twophase allreduce_twophase_packets allreduce_ring allreduce_packets \
            allreduce_lines allreduce_groups allgather_direct allgather_bruck allgather_crossing allgather_mixed \
            reducescatter_direct reducescatter_barrier reducescatter_inplace alltoall_direct alltoall_port; do
            index=$((index + 1))
            plan=(-n "$n" "${forced[@]}" --mca coll_mscclpp_plans "$folder/$n/$name.json")
            ! among "$n" $((2 + index % 3)) ||
                run "plans:$name:$n" 240 "${plan[@]}" "$bindir/test_plans" "$(kind_of "$name")" planned
            if [ "$n" != 2 ] && among "$n:$((index % 2))" "$((3 + index / 2 % 2)):0"; then
                run "plans:nonblocking:$name:$n" 240 "${plan[@]}" "$bindir/test_plans" "$(kind_of "$name")" planned \
                    any 5000 nonblocking "$name"
            fi
            if [ "$n" = 3 ] && ! queues_plan "$name"; then
                skip "plans:queued:$name" "on a GPU that ranks share, queued calls get too few blocks for it"
            elif [ "$n" = 3 ]; then
                run_queued run "plans:queued:$name" 240 "${plan[@]}" "$bindir/test_plans" "$(kind_of "$name")" planned \
                    any 5000 queued "$name"
            fi
            if [ "$n" = 3 ] && among $((index % 2)) 1; then
                run "plans:persistent:$name" 240 "${plan[@]}" "$bindir/test_plans" "$(kind_of "$name")" planned any \
                    1000 persistent "$name"
            fi
            # Each call looks through all mappings of its process, so that a third rank costs much.
            if [ "$MSCCLPP_TEST_DEVICE" = host ] && [ "$n" = "$mapped" ] && among $((index % 2)) 0; then
                run "plans:mapped:$name" 240 "${plan[@]}" --mca coll_mscclpp_twin_shared_only 1 "$bindir/test_plans" \
                    "$(kind_of "$name")" planned any 5000
            fi
        done
    done
    plan=(-n 3 "${forced[@]}" --mca coll_mscclpp_plans "$folder/3/moved/allreduce_moved.json")
    run "plans:moved" 240 "${plan[@]}" "$bindir/test_plans" allreduce planned
    run_queued run "plans:moved:queued" 240 "${plan[@]}" "$bindir/test_plans" allreduce planned any 5000 queued \
        allreduce_moved
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        run "plans:moved:mapped" 240 "${plan[@]}" --mca coll_mscclpp_twin_shared_only 1 "$bindir/test_plans" allreduce \
            planned any 5000
    fi
    cases_plans_ordered "$folder"
    for name in allreduce_packets allreduce_twophase allreduce_ring; do
        run "plans:communicators:$name" 120 -n 3 "${forced[@]}" --mca coll_mscclpp_plans "$folder/2/$name.json" \
            "$bindir/test_plans_comms"
    done
    cases_plans_each "$folder"
    cases_plans_multicast "$folder"
    cases_plans_chosen "$folder"
    cases_plans_one_name "$folder"
    cases_plans_run "$folder"
    cases_plans_refused "$folder"
    cases_plans_late "$folder"
    cases_plans_between "$folder"
    cases_plans_synthesised
    cases_plans_measured "$folder"
    cases_plans_tuned "$folder"
    cases_plans_of_mscclpp
}

# Switch channels, which the twin carries out, and for which GPUs would need multicast.
cases_plans_multicast() {
    local folder=$1 n plan
    for n in 2 3 4; do
        plan=(-n "$n" "${forced[@]}" --mca coll_mscclpp_plans "$folder/$n/allreduce_switch.json")
        if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
            run "plans:multicast:$n" 240 "${plan[@]}" "$bindir/test_plans" allreduce planned
        else
            run_counting "plans:multicast:$n" 1 'warning: .*allreduce_switch.json: its switch channels .*: not used' \
                60 "${plan[@]}" "$bindir/test_plans" allreduce unplanned sum 1000
        fi
    done
}

# A plan whose packets have to order other stores, which all ranks hear from rank 0, and plans whose packets need not.
cases_plans_ordered() {
    local folder=$1 job=(-n 3 "${forced[@]}" --mca coll_mscclpp_verbose 2 --mca coll_mscclpp_plans) check name
    for check in static full off; do
        run_counting "plans:ordered:$check" 1 'plan:allgather_ordered .*, whose packets order other stores$' 60 \
            "${job[@]}" "$folder/3/allgather_ordered.json" --mca coll_mscclpp_plan_check "$check" \
            "$bindir/test_plans" allgather planned any 1000
    done
    run "plans:ordered:lingering" 60 "${job[@]}" "$folder/3/allgather_ordered.json" --mca coll_mscclpp_linger on \
        "$bindir/test_plans" allgather planned any 1000
    for name in allreduce_packets allgather_mixed; do
        run_counting "plans:ordered:not:$name" 0 'packets order other stores' 60 "${job[@]}" "$folder/3/$name.json" \
            "$bindir/test_plans" "$(kind_of "$name")" planned any 1000
    done
}

# Every type with every operation, and messages of 64 MiB.
cases_plans_each() {
    local folder=$1 name kind job=(-n 2 "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 --mca coll_mscclpp_plans)
    run "plans:each:allreduce_oneshot" 240 "${job[@]}" "$folder/2/allreduce_oneshot.json" "$bindir/test_plans" \
        allreduce planned each
    run "plans:64 MiB:allreduce_twophase" 240 "${job[@]}" "$folder/2/allreduce_twophase.json" "$bindir/test_plans" \
        allreduce planned sum =16777216
    for name in reducescatter_direct allgather_direct alltoall_direct; do
        kind=$(kind_of "$name")
        if [ "${MSCCLPP_TEST_LONG:-0}" = 1 ]; then
            run "plans:each:$name" 240 "${job[@]}" "$folder/2/$name.json" "$bindir/test_plans" "$kind" planned each
            run "plans:64 MiB:$name" 600 "${job[@]}" "$folder/2/$name.json" "$bindir/test_plans" "$kind" planned sum \
                =8388608
        else
            skip "plans:each:$name, plans:64 MiB:$name" "set MSCCLPP_TEST_LONG=1"
        fi
    done
}

# Plans that mscclpp_synth writes: a folder for several numbers of ranks, of which each communicator finds its own, and
# one for nodes.
cases_plans_synthesised() {
    local folder=$scratch/synthesised kind n synth
    synth=("$bindir/../../mscclpp_synth" --no-search --no-cache)
    if [ "${patterns[0]:-}" != --list ]; then
        for kind in here elsewhere; do
            printf '{"version": 1, "name": "%s", "ranks": 2, "links": [[0, 1, %d]], "bidirectional": true, ' \
                "$kind" "$([ "$kind" = here ] && echo 1 || echo 2)" >"$scratch/$kind.json"
            printf '"gpus": [%s]}' \
                "$([ "$kind" = here ] && echo '"host", "host"' || echo '"0000:07:00.0", "0000:0a:00.0"')" \
                >>"$scratch/$kind.json"
        done
        for kind in allgather allreduce; do
            {
                "${synth[@]}" --topology line:4 --collective "$kind" -o "$folder"
                "${synth[@]}" --topology line:4 --only 2,1,3 --collective "$kind" -o "$folder"
                # Two parts of two GPUs each: one of this machine, one of another.
                "${synth[@]}" --topology "$scratch/here.json" --collective "$kind" -o "$folder/parts"
                "${synth[@]}" --topology "$scratch/elsewhere.json" --collective "$kind" -o "$folder/parts"
                "${synth[@]}" --topology nodes:2x2 --collective "$kind" -o "$folder/nodes"
            } >"$log" 2>&1 || {
                report_failure "plans:synth" "mscclpp_synth writes no plans"
                return 0
            }
        done
    fi
    for kind in allgather allreduce; do
        for n in 3 4; do
            run "plans:synth:$kind:$n" 120 -n "$n" "${forced[@]}" --mca coll_mscclpp_plans "$folder" \
                "$bindir/test_plans" "$kind" planned any 5000
        done
        if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
            [ "${patterns[0]:-}" = --list ] || { mkdir -p "$folder/other" && rm -f "$folder/other"/*; }
            run "plans:synth:parts:$kind" 120 -n 2 "${forced[@]}" --mca coll_mscclpp_plans "$folder/parts" \
                "$bindir/test_plans" "$kind" planned any 5000
            [ "${patterns[0]:-}" = --list ] || grep -l 0000:07 "$folder"/parts/*.json | xargs -I{} cp {} "$folder/other"
            run "plans:synth:other GPUs:$kind" 120 -n 2 "${forced[@]}" --mca coll_mscclpp_plans "$folder/other" \
                "$bindir/test_plans" "$kind" unplanned sum 1000
        fi
        run "plans:synth:nodes:$kind" 120 -n 4 "${forced[@]}" "${plan_nodes[@]}" --mca coll_mscclpp_ranks_per_node 2 \
            --mca coll_mscclpp_plans "$folder/nodes" "$bindir/test_plans" "$kind" planned any 5000
    done
}

# mscclpp_bench with a plan.
cases_plans_measured() {
    local folder=$1 measure
    measure=("$bindir/../../mscclpp_bench" --device "$MSCCLPP_TEST_DEVICE" --warmup 1 --rounds 3 --check 2 --factor 16
        --max 64k --plan)
    run_saying "plans:bench" '^ +61440 .* float +none \| .* 0 +[0-9.]+ +[0-9.]+$' 60 -n 3 "${forced[@]}" \
        "${measure[@]}" "$folder/3/allgather_direct.json" --compare native --min 60k --json "$scratch/bench.plan"
    run_saying "plans:bench:nodes" '^ +32768 .* float +sum ' 60 -n 4 "${forced[@]}" \
        "${plan_nodes[@]}" --mca coll_mscclpp_ranks_per_node 2 "${measure[@]}" \
        "$folder/4/nodes/allreduce_hierarchical.json"
    run_saying "plans:bench:max" '^ +32768 .* float +max ' 60 -n 3 "${forced[@]}" "${measure[@]}" \
        "$folder/3/allreduce_max.json"
    run_failing "plans:bench:other ranks" '^mscclpp_bench: --plan .*: it is for another number of ranks' 60 -n 2 \
        "${forced[@]}" "${measure[@]}" "$folder/3/allreduce_max.json"
    run_failing "plans:bench:refused" '^mscclpp_bench: --plan .*: parse error' 60 -n 3 "${forced[@]}" "${measure[@]}" \
        "$folder/3/bad/half.json"
    run_failing "plans:bench:one rank" '^mscclpp_bench: --plan .*/none.json: rank 1: ' 60 -n 1 "${forced[@]}" \
        "${measure[@]}" "$folder/2/allreduce_oneshot.json" : -n 1 "${forced[@]}" "${measure[@]}" "$folder/2/none.json"
    run_failing "plans:bench:coll" "^mscclpp_bench: --coll: 'bcast' is not allowed" 30 -n 1 "${measure[@]}" x \
        --coll bcast
    run_failing "plans:bench:no plan" "^mscclpp_bench: --compare: 'native' is not allowed" 30 -n 1 "${measure[@]:0:3}" \
        --compare native
}

# mscclpp_tune with plans, whose names get into the rules.
cases_plans_tuned() {
    local folder=$1 tune file=$scratch/tuned.plans
    tune=(-n 3 "${forced[@]}" "$bindir/../../mscclpp_tune" --device "$MSCCLPP_TEST_DEVICE" --rounds 1 --warmup 1
        --min 512 --max 4k --factor 8 --output "$file" --plans)
    run_saying "plans:tune" '^ +4096( +([0-9.]+|-)){6,}' 120 "${tune[@]}" \
        "$folder/3/allreduce_ring.json,$folder/3/allreduce_packets.json,$folder/3/allgather_ring.json"
    run "plans:tune:times" 30 -n 1 grep -Eq '^bytes=512 algorithm=plan:allreduce_packets seconds=' \
        "$file.3-$MSCCLPP_TEST_DEVICE.measured"
    run_failing "plans:tune:other plans" 'holds the times of another run; --fresh' 60 "${tune[@]}" \
        "$folder/3/allreduce_ring.json"
    # As if the plan had been fastest.
    [ ! -e "$file.3-$MSCCLPP_TEST_DEVICE.measured" ] ||
        sed -i -E 's/(plan:allreduce_packets seconds=).*/\10.000000001/' "$file.3-$MSCCLPP_TEST_DEVICE.measured"
    run_saying "plans:tune:fastest" '^ +512 .* plan:allreduce_packets$' 60 "${tune[@]}" \
        "$folder/3/allreduce_ring.json,$folder/3/allreduce_packets.json"
    run "plans:tune:rule" 30 -n 1 grep -Eq '^ranks=3 .*bytes<=4096 algorithm=plan:allreduce_packets' "$file"
    run_saying "plans:tune:rules are obeyed" 'call 1: plan:allreduce_packets, 4000 bytes' 60 -n 3 "${forced[@]}" --mca \
        coll_mscclpp_verbose 3 --mca coll_mscclpp_plans "$folder/3" --mca coll_mscclpp_rules "$file" \
        "$bindir/test_basic" served
}

# Plans whose ports lead to other, imitated nodes.
cases_plans_between() {
    local folder=$1 name job way index=0
    ! few || skip "plans:nodes:after:NAME, and nonblocking and persistent ones, with all plans" \
        "every other plan is tried in each of these ways; set MSCCLPP_TEST_LONG=1"
    job=(-n 4 "${forced[@]}" "${plan_nodes[@]}" --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_plans)
    for name in allreduce_hierarchical allreduce_hierarchical_packets alltoall_twostep alltoall_twostep_packets \
        alltoall_port allgather_portpackets; do
        [ "$MSCCLPP_TEST_DEVICE" = host ] || [[ $name != *packets ]] || continue
        index=$((index + 1))
        run "plans:nodes:$name" 120 "${job[@]}" "$folder/4/nodes/$name.json" "$bindir/test_plans" "$(kind_of "$name")" \
            planned any 5000 blocking "$name"
        ! among $((index % 2)) 0 || run "plans:nodes:after:$name" 120 "${job[@]}" "$folder/4/nodes/$name.json" \
            "$bindir/test_plans" "$(kind_of "$name")" planned any 1000 after "$name"
        for way in nonblocking queued; do
            among "$way:$((index % 2))" '@(nonblocking:1|queued:*)' || continue
            if [ $way = queued ] && [ $name = alltoall_twostep ] && [ "$MSCCLPP_TEST_DEVICE" = cuda ] &&
                [ "$gpus" -lt 4 ]; then
                skip "plans:nodes:$way:$name" "on a GPU that ranks share, queued calls get too few blocks for it"
                continue
            fi
            run "plans:nodes:$way:$name" 120 "${job[@]}" "$folder/4/nodes/$name.json" "$bindir/test_plans" \
                "$(kind_of "$name")" planned any 1000 "$way" "$name"
        done
        ! among $((index % 2)) 0 || run "plans:nodes:persistent:$name" 120 "${job[@]}" \
            "$folder/4/nodes/$name.json" "$bindir/test_plans" "$(kind_of "$name")" planned any 1000 persistent "$name"
    done
    cases_plans_port_packets "$folder" "${job[@]}"
    # Memory that grows, of a message that no proxy's piece holds.
    run "plans:nodes:large" 240 "${job[@]}" "$folder/4/nodes/allreduce_hierarchical.json" "$bindir/test_plans" \
        allreduce planned sum 600000
    # Nothing is said of algorithms that a plan replaces.
    run_never_saying "plans:nodes:no costs" 'by the cost model' 60 "${job[@]}" \
        "$folder/4/nodes/allreduce_hierarchical.json" --mca coll_mscclpp_verbose 2 "$bindir/test_plans" \
        allreduce planned sum =1000
    run "plans:nodes:uneven" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_plans \
        "$folder/3" "$bindir/test_plans" allreduce unplanned sum 1000
    run_saying "plans:nodes:out of reach" 'memory channel joins ranks of two nodes.*: not used' 60 "${job[@]}" \
        "$folder/4/allreduce_ring.json" --mca coll_mscclpp_verbose 2 "$bindir/test_plans" allreduce unplanned sum 1000
    run_failing "plans:nodes:hangs" 'alltoall call [0-9]+ .*plan:alltoall_port.* did not end on rank' 60 "${job[@]}" \
        "$folder/4/bad/hangs_port.json" --mca coll_mscclpp_plan_check off --mca coll_mscclpp_timeout 3 \
        "$bindir/test_plans" alltoall planned any 1
    if [ "$ucx" = yes ] && [ "$MSCCLPP_TEST_DEVICE" = cuda ]; then
        skip "plans:nodes:ucx" "plans put from device memory, which not every UCX reaches"
    elif [ "$ucx" = yes ]; then
        for name in allreduce_hierarchical allgather_portpackets; do
            run "plans:nodes:ucx:$name" 120 "${job[@]}" "$folder/4/nodes/$name.json" --mca coll_mscclpp_transport ucx \
                "$bindir/test_plans" "$(kind_of "$name")" planned any 5000
        done
    fi
}

# The same for plans with packets in ports.
cases_plans_port_packets() {
    local folder=$1 name
    shift
    if [ "$MSCCLPP_TEST_DEVICE" = cuda ]; then
        skip "plans:nodes:packets" "copies between GPUs do not keep the words of packets whole"
        return 0
    fi
    run "plans:nodes:two ranks" 120 -n 2 "${forced[@]}" "${plan_nodes[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_plans "$folder/2/nodes/allgather_portpackets.json" \
        "$bindir/test_plans" allgather planned any 5000
    for name in allreduce_hierarchical_packets alltoall_twostep_packets; do
        run "plans:nodes:queued:renewal:$name" 120 "$@" "$folder/4/nodes/$name.json" --mca \
            coll_mscclpp_epoch_limit 16 "$bindir/test_plans" "$(kind_of "$name")" planned any 1000 queued "$name"
    done
    if [ "${patterns[0]:-}" != --list ]; then
        cat >"$scratch/nodes.rules" <<-EOF
	ranks=4 device=$MSCCLPP_TEST_DEVICE bytes<=1g algorithm=oneshot
	ranks=4 device=$MSCCLPP_TEST_DEVICE bytes<=1g nodes=4 algorithm=plan:nowhere
	ranks=4 device=$MSCCLPP_TEST_DEVICE bytes<=1g in_place=yes nodes=2 algorithm=plan:allreduce_hierarchical_packets
	ranks=4 device=$MSCCLPP_TEST_DEVICE bytes<=1g in_place=no nodes=2 algorithm=plan:nowhere_either
	EOF
    fi
    run "plans:nodes:rules" 120 "$@" "$folder/4/nodes" --mca coll_mscclpp_rules "$scratch/nodes.rules" \
        "$bindir/test_plans" allreduce in-place sum 1000 blocking allreduce_hierarchical_packets
}

# Two plans of one name, for small and for large messages, and our own algorithms for calls in place. None takes what
# another one has left in its memory for its own.
cases_plans_one_name() {
    local folder=$1 made=$scratch/one_name rules=$scratch/one_name.rules said
    if [ "${patterns[0]:-}" != --list ]; then
        mkdir -p "$made"
        sed -E 's/"m(in|ax)_message_size": [0-9]+, *//g; s/^\{/{"max_message_size": 1000, /' \
            "$folder/3/allreduce_packets.json" >"$made/small.json"
        sed -E 's/"m(in|ax)_message_size": [0-9]+, *//g; s/^\{/{"min_message_size": 20000, /
            s/"name": "allreduce_ring"/"name": "allreduce_packets"/' \
            "$folder/3/allreduce_ring.json" >"$made/large.json"
        cat >"$rules" <<-EOF
	ranks=3 device=$MSCCLPP_TEST_DEVICE bytes<=2000 in_place=yes algorithm=oneshot
	ranks=3 device=$MSCCLPP_TEST_DEVICE bytes<=16000 in_place=yes algorithm=twophase
	EOF
    fi
    for said in 'plan:allreduce_packets, [1-9][0-9]{1,2} bytes' 'oneshot, [0-9]{3} bytes' \
        'twophase, [48][0-9]{3} bytes' 'plan:allreduce_packets, [2-8][0-9]{4} bytes'; do
        run_saying "plans:one name:${said/:/ }" "call [0-9]+: $said" 60 -n 3 "${forced[@]}" \
            --mca coll_mscclpp_verbose 3 --mca coll_mscclpp_rules "$rules" --mca coll_mscclpp_plans "$made" \
            "$bindir/test_counts"
    done
}

# Which plan serves a call.
cases_plans_chosen() {
    local folder=$1 rules=$scratch/plans.rules placed=$scratch/placed.rules job small large way name
    job=(-n 3 "${forced[@]}" --mca coll_mscclpp_verbose 3 --mca coll_mscclpp_plans)
    small=$scratch/small.json
    large=$scratch/large.json
    if [ "${patterns[0]:-}" != --list ]; then
        sed 's/"min_message_size": [0-9]*, *//; s/"max_message_size": [0-9]*, *//; s/^{/{"max_message_size": 4000, /' \
            "$folder/3/allreduce_ring.json" >"$small"
        sed 's/"min_message_size": [0-9]*, *//; s/"max_message_size": [0-9]*, *//; s/^{/{"min_message_size": 2, /' \
            "$folder/3/allreduce_packets.json" >"$large"
        cat >"$rules" <<-EOF
	ranks=3 device=$MSCCLPP_TEST_DEVICE bytes<=8000 algorithm=plan:allreduce_twophase
	ranks=3 device=$MSCCLPP_TEST_DEVICE bytes<=1m algorithm=plan:nowhere
	EOF
        cat >"$placed" <<-EOF
	ranks=3 device=$MSCCLPP_TEST_DEVICE bytes<=1g in_place=yes algorithm=plan:allreduce_ring
	ranks=3 device=$MSCCLPP_TEST_DEVICE bytes<=1g in_place=no algorithm=twophase
	EOF
    fi
    run_saying "plans:by range" 'call 1: plan:allreduce_ring, 4000 bytes' 60 "${job[@]}" "$large,$small" \
        "$bindir/test_basic" served
    run_saying "plans:folder" 'call [0-9]+: plan:all(reduce|gather)_[a-z]+, ' 60 "${job[@]}" "$folder/3" \
        "$bindir/test_basic" served
    run_saying "plans:out of range" 'call [0-9]+: plan:allreduce_oneshot, [0-9]{5,} bytes' 120 "${job[@]}" \
        "$small:$folder/3/allreduce_oneshot.json" "$bindir/test_plans" allreduce planned sum 5000
    run_saying "plans:by rule" 'call 1: plan:allreduce_twophase, 4000 bytes' 60 "${job[@]}" "$folder/3" --mca \
        coll_mscclpp_rules "$rules" "$bindir/test_basic" served
    run "plans:rule in place" 60 "${job[@]}" "$folder/3/allreduce_ring.json" --mca coll_mscclpp_rules "$placed" \
        "$bindir/test_plans" allreduce in-place sum 1000 blocking allreduce_ring
    run_saying "plans:many persistent" 'call [0-9]+: plan:all(reduce|gather)_[a-z]+, ' 120 "${job[@]}" "$folder/3" \
        "$bindir/test_persistent" --restarts 5
    for way in blocking nonblocking persistent; do
        run "plans:named:$way" 60 "${job[@]}" "$folder/3/allreduce_ring.json" "$bindir/test_plans" allreduce planned \
            sum 100 "$way" allreduce_ring
        run "plans:none named:$way" 60 "${job[@]}" "$folder/3/allgather_direct.json" "$bindir/test_plans" allreduce \
            unplanned sum 100 "$way" allreduce_ring
    done
    run_counting "plans:rule without a plan" 1 'rules: 1 rules for 3 ranks name an execution plan that' 60 "${job[@]}" \
        "$folder/3" --mca coll_mscclpp_rules "$rules" "$bindir/test_basic" served
    run_never_saying "plans:parameter wins" 'call [0-9]+: plan:allreduce' 60 "${job[@]}" "$folder/3" --mca \
        coll_mscclpp_algorithm twophase "$bindir/test_basic" served
    run "plans:max alone" 60 "${job[@]}" "$folder/3/allreduce_max.json" "$bindir/test_plans" allreduce planned max 5000
    run "plans:no other than max" 60 "${job[@]}" "$folder/3/allreduce_max.json" "$bindir/test_plans" allreduce \
        unplanned sum 1000
    run_saying "plans:renewal" 'plan:allreduce_packets has .* bytes, as its flags are used up' 120 "${job[@]}" \
        "$folder/3/allreduce_packets.json" --mca coll_mscclpp_epoch_limit 16 "$bindir/test_plans" allreduce planned \
        sum 1000
    for name in allreduce_packets allreduce_ring; do
        run_queued run "plans:queued:renewal:$name" 120 "${job[@]}" "$folder/3/$name.json" --mca \
            coll_mscclpp_epoch_limit 16 "$bindir/test_queued"
    done
    run_queued run_saying "plans:queued:rule" 'call 1: plan:allreduce_twophase, [0-9]+ bytes.*, queued' 60 "${job[@]}" \
        "$folder/3" --mca coll_mscclpp_rules "$rules" "$bindir/test_queued"
    [ "$MSCCLPP_TEST_DEVICE" = host ] || return 0
    # Without new memory for another size, data in the scratch would be taken for packets here.
    run "plans:flags" 60 -n 4 "${forced[@]}" --mca coll_mscclpp_plans "$folder/4/allgather_mixed.json" \
        "$bindir/test_plans" allgather planned any 1 flags
    run "plans:flags:queued" 60 -n 4 "${forced[@]}" --mca coll_mscclpp_plans "$folder/4/allgather_mixed.json" \
        "$bindir/test_plans" allgather planned any 1 flags-queued
    run "plans:many threads" 120 "${job[@]}" "$folder/3/allreduce_packets.json" --mca coll_mscclpp_twin_threads 3 \
        "$bindir/test_plans" allreduce planned any 5000
    # Memory that grows comes to lie where freed buffers were that peers still map.
    for name in allreduce_packets allgather_crossing; do
        run "plans:recycled:$name" 120 "${job[@]}" "$folder/3/$name.json" --mca coll_mscclpp_twin_shared_only 1 \
            "$bindir/test_plans" "$(kind_of "$name")" planned any 70001 recycled
    done
    run_saying "plans:unmapped" 'plan:.*, by memory of its own' 60 "${job[@]}" "$folder/3/allgather_direct.json" \
        "$bindir/test_plans" allgather planned any 100
    # Chunks of 20 sizes in memory that is made once, on each rank.
    run_counting "plans:made once" 3 'plan:allreduce_packets has [0-9]+ bytes of memory' 60 "${job[@]}" \
        "$folder/3/allreduce_packets.json" "$bindir/test_plans" allreduce planned any 1000
    run_never_saying "plans:nothing is copied" 'plan:.*, by memory of its own' 60 "${job[@]}" \
        "$folder/3/allreduce_ring.json" --mca coll_mscclpp_twin_shared_only 1 "$bindir/test_plans" allreduce planned \
        sum 1000
}

# Plans that programs run by their names, and small ones that a lingering kernel runs.
cases_plans_run() {
    local folder=$1 n name
    for name in custom_halo custom_halo_packets; do
        for n in 2 4; do
            run "plans:run:$name:$n" 60 -n "$n" "${forced[@]}" --mca coll_mscclpp_plans "$folder/$n" \
                "$bindir/test_plan_run" "$name"
        done
    done
    run_saying "plans:run:told" 'plan call [0-9]+: plan:custom_halo, ' 60 -n 2 "${forced[@]}" \
        --mca coll_mscclpp_verbose 3 --mca coll_mscclpp_plans "$folder/2" "$bindir/test_plan_run" custom_halo
    # The kernel stays for as long as the test takes from one call to the next.
    for name in allreduce_packets allreduce_twophase_packets; do
        run "plans:lingering:$name" 120 -n 3 "${forced[@]}" --mca coll_mscclpp_linger on \
            --mca coll_mscclpp_linger_idle 5000 --mca coll_mscclpp_linger_window 20000 --mca coll_mscclpp_plans \
            "$folder/3/$name.json" "$bindir/test_plans" allreduce planned any 5000 lingering "$name"
    done
    run "plans:lingering:custom" 120 -n 3 "${forced[@]}" --mca coll_mscclpp_linger on --mca coll_mscclpp_plans \
        "$folder/3" "$bindir/test_plan_run" custom_halo_packets
    # Only one rank has a type with holes, which the others do not know.
    for name in allgather_crossing allgather_ring alltoall_direct; do
        run "plans:queued:holes:$name" 60 -n 3 --mca mpi_yield_when_idle 1 "${forced[@]}" \
            --mca coll_mscclpp_timeout 20 --mca coll_mscclpp_plans "$folder/3/$name.json" \
            "$bindir/test_queued_holes" "$name"
    done
    run "plans:run:mapped" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 --mca coll_mscclpp_plans \
        "$folder/3" "$bindir/test_plan_run" custom_halo
}

# Ranks that are late, dead or abort the job while a plan serves the call: as with other algorithms (cases_late).
cases_plans_late() {
    local folder=$1 name kind how where late job warn=(--mca coll_mscclpp_warn_after 1 --mca coll_mscclpp_timeout 120)
    for name in allreduce_packets nodes/allreduce_hierarchical; do
        where=(-n 3 "${forced[@]}" --mca coll_mscclpp_plans "$folder/3/$name.json")
        late=2
        if [[ $name == nodes/* ]]; then
            where=(-n 4 "${forced[@]}" "${plan_nodes[@]}" --mca coll_mscclpp_ranks_per_node 2
                --mca coll_mscclpp_plans "$folder/4/$name.json")
            late=3
        fi
        kind="plan:${name#nodes/}"
        # Ranks that share a GPU meet before a kernel starts.
        [ "$MSCCLPP_TEST_DEVICE" = host ] || kind="$kind|arrival of all ranks"
        kind="call 2 of 4000 bytes \(($kind)\): rank [0-2] has waited [0-9.]+ s; ranks .* arrived: $late$"
        run_saying "plans:late:warn:$name" "$kind" 60 "${where[@]}" "${warn[@]}" "$bindir/test_late" warn 5 later
        run_failing "plans:aborted:$name" "$kind" 60 "${where[@]}" "${warn[@]}" "$bindir/test_late" aborted 4
        job=("${where[@]}" --mca coll_mscclpp_timeout 2)
        run_saying "plans:late:timeout:$name" "ranks that have not (arrived|come): $late" 60 "${job[@]}" \
            "$bindir/test_late" timeout 6 later
        for how in within amid; do
            if wanted "plans:killed:$how:$name" && ! lets_others_go_on; then
                skip "plans:killed:$how:$name" "this mpirun ends all ranks where one is killed"
                continue
            fi
            # Amid a call, it may or may not have been seen to arrive.
            kind='all that are left have ended well'
            [ $how = amid ] || kind="plan:${name#nodes/}.* did not end .* not (arrived|come): $late(;|$)"
            # On a GPU the dead rank's kernel may have begun.
            [ $how = amid ] || [ "$MSCCLPP_TEST_DEVICE" = host ] || kind="plan:${name#nodes/}.* did not end on rank"
            run_saying "plans:killed:$how:$name" "$kind" 60 --enable-recovery "${job[@]}" "$bindir/test_late" \
                killed 6 $how 100
        done
    done
    # By the ranks' own buffers, which the hosts exchange before the kernel; and other collectives.
    for name in allgather_direct allreduce_twophase reducescatter_direct alltoall_direct; do
        kind=$(kind_of "$name")
        if [ "$kind" != allgather ] && [ "${MSCCLPP_TEST_LONG:-0}" != 1 ]; then
            skip "plans:late:timeout:$name" "set MSCCLPP_TEST_LONG=1"
            continue
        fi
        run_saying "plans:late:timeout:$name" "call [0-9]+ of .*; ranks that have not (arrived|come): 2" 60 -n 3 \
            "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 --mca coll_mscclpp_plans "$folder/3/$name.json" \
            --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 8 later \
            "${kind/reducescatter/reduce_scatter_block}"
    done
    run "plans:late:next job" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_plans "$folder/3/allreduce_packets.json" \
        "$bindir/test_plans" allreduce planned sum 1000
}

# What no rank uses, and what is said of it.
cases_plans_refused() {
    local folder=$1 job each name
    job=(-n 3 "${forced[@]}" --mca coll_mscclpp_plans)
    # shellcheck disable=SC2016 # each rank's own shell expands it
    each='[ "$OMPI_COMM_WORLD_RANK" != "$1" ] || export "OMPI_MCA_coll_mscclpp_plans=$2"; shift 2; exec "$@"'
    # shellcheck disable=SC2016
    local most='[ "$OMPI_COMM_WORLD_RANK" = "$1" ] || export "OMPI_MCA_coll_mscclpp_plans=$2"; shift 2; exec "$@"'
    while IFS=: read -r name what; do
        run_counting "plans:refused:$name" 1 "warning: .*execution plan .*/$name.json: $what.*: not used" 60 \
            "${job[@]}" "$folder/3/bad/$name.json" "$bindir/test_plans" allreduce unplanned sum 1000
    done <<-'EOF'
	channel_id:invalid: rank 0, block 0, operation 0 .rlxsignal.: channel id 99, .*\[channel-id\]
	half:parse error: the file: line 1, .*\[json\]
	nowhere:parse error: the file: cannot be read: No such file
	EOF
    run_counting "plans:refused:said once" 1 'execution plan .*: not used' 60 "${job[@]}" \
        "$folder/3/bad/channel_id.json" "$bindir/test_basic" served
    # The library that reads plans is opened when the first one is read.
    mkdir -p "$scratch/broken" && : >"$scratch/broken/libyajl.so.2"
    if grep -aqs '/libyajl\.so\.2' "$component_dir/mca_coll_mscclpp.so"; then
        skip "plans:refused:no yajl" "this build names yajl's folder, so that no other one is opened"
    else
        run_counting "plans:refused:no yajl" 1 'plan .*: no yajl, which reads plans: .*: not used' 60 "${job[@]}" \
            "$folder/3/allreduce_ring.json" -x LD_LIBRARY_PATH="$scratch/broken${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
            "$bindir/test_plans" allreduce unplanned sum 100
    fi
    run_counting "plans:refused:hangs" 1 'execution plan .*/hangs.json: deadlock: .*\[deadlock\]: not used' 60 \
        "${job[@]}" "$folder/3/bad/hangs.json" --mca coll_mscclpp_plan_check full "$bindir/test_plans" allreduce \
        unplanned sum 1000
    run "plans:proven" 60 "${job[@]}" "$folder/3/allreduce_ring.json" --mca coll_mscclpp_plan_check full \
        "$bindir/test_plans" allreduce planned sum 1000
    # A job simulates what no earlier one has proven; what is refused is refused again.
    run_counting "plans:proof:made" 0 'was proven in an earlier run' 60 "${job[@]}" \
        "$folder/3/allreduce_lines.json" --mca coll_mscclpp_plan_check full --mca coll_mscclpp_verbose 2 \
        "$bindir/test_plans" allreduce planned sum 100
    run_counting "plans:proof:remembered" 1 'allreduce_lines.json was proven in an earlier run' 60 "${job[@]}" \
        "$folder/3/allreduce_lines.json" --mca coll_mscclpp_plan_check full --mca coll_mscclpp_verbose 2 \
        "$bindir/test_plans" allreduce planned sum 100
    if [ "${patterns[0]:-}" != --list ]; then
        sed 's/^{/{ /' "$folder/3/allreduce_lines.json" >"$scratch/changed.json"
        chmod g+w "$XDG_CACHE_HOME"/coll-mscclpp/proofs/* 2>/dev/null
    fi
    run_counting "plans:proof:another file" 0 'was proven in an earlier run' 60 "${job[@]}" "$scratch/changed.json" \
        --mca coll_mscclpp_plan_check full --mca coll_mscclpp_verbose 2 "$bindir/test_plans" allreduce planned sum 100
    run_counting "plans:proof:not this user's alone" 0 'was proven in an earlier run' 60 "${job[@]}" \
        "$folder/3/allreduce_lines.json" --mca coll_mscclpp_plan_check full --mca coll_mscclpp_verbose 2 \
        "$bindir/test_plans" allreduce planned sum 100
    run_counting "plans:proof:none" 1 'hangs.json: deadlock: .*: not used' 60 "${job[@]}" "$folder/3/bad/hangs.json" \
        --mca coll_mscclpp_plan_check full "$bindir/test_plans" allreduce unplanned sum 100
    run_failing "plans:hangs" 'call [0-9]+ of 4 bytes .plan:allreduce_rres. did not end on rank' 60 "${job[@]}" \
        "$folder/3/bad/hangs.json" --mca coll_mscclpp_plan_check off --mca coll_mscclpp_timeout 3 "$bindir/test_plans" \
        allreduce planned sum 1
    run "plans:other ranks" 60 "${job[@]}" "$folder/2" "$bindir/test_plans" allreduce unplanned sum 1000
    for name in 0 1 2; do
        run_counting "plans:another file on rank $name" 2 \
            'warning: .*execution plan .*(groups|other).json .*lacks this' 60 \
            -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 20 sh -c "$most" sh "$name" \
            "$folder/3/allreduce_groups.json" sh -c "$each" sh "$name" "$folder/3/bad/other.json" \
            "$bindir/test_plans" allreduce unplanned sum 1000
        run_counting "plans:none on rank $name" 1 'warning: .*execution plan .*/allreduce_groups.json .*lacks this' 60 \
            -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 20 sh -c "$most" sh "$name" \
            "$folder/3/allreduce_groups.json" "$bindir/test_plans" allreduce unplanned sum 1000
    done
}

# Plans that MSCCL++ has written, where MSCCLPP_TEST_PLANS names a folder of them: on one node, and those whose ports
# can join two nodes, over imitated ones.
cases_plans_of_mscclpp() {
    local folder=${MSCCLPP_TEST_PLANS:-} most=4
    if [ -z "$folder" ]; then
        skip "plans:of MSCCL++" "MSCCLPP_TEST_PLANS names no folder of them"
        return 0
    fi
    [ "${MSCCLPP_TEST_LONG:-0}" != 1 ] || most=16
    cases_plans_of_folder "$folder" of "" "$most"
    cases_plans_of_folder "$folder" of:shm "nodes=2" "$most" --mca coll_mscclpp_transport shm
    [ "$ucx" != yes ] || cases_plans_of_folder "$folder" of:ucx "nodes=2" "$most" --mca coll_mscclpp_transport ucx
}

# cases_plans_of_folder FOLDER NAME NODES MOST ARGUMENT...: those of 2 to MOST ranks, each by a rule, whatever its own
# range is.
cases_plans_of_folder() {
    local folder=$1 called=$2 nodes=$3 most=$4 ranks kind op name file rule rules=$scratch/of_mscclpp where
    shift 4
    while read -r ranks kind op name file; do
        # The twin alone carries out switch channels.
        if [ "$MSCCLPP_TEST_DEVICE" != host ] && grep -q '"switch_channel_id"' "$file"; then
            continue
        fi
        where=()
        [ -z "$nodes" ] || where=("${plan_nodes[@]}" --mca coll_mscclpp_ranks_per_node $((ranks / 2)))
        rule="ranks=$ranks device=$MSCCLPP_TEST_DEVICE bytes<=1g $nodes algorithm=plan:$name"
        echo "collective=${kind/reducescatter/reduce_scatter_block} $rule" >"$rules"
        name=${file#"$folder"/}
        run "plans:$called MSCCL++:${name%.json}" 240 -n "$ranks" "${forced[@]}" "${where[@]}" "$@" \
            --mca coll_mscclpp_plans "$file" --mca coll_mscclpp_plan_check full --mca coll_mscclpp_rules "$rules" \
            "$bindir/test_plans" "$kind" planned "$op" 5000
    done < <(python3 "$(dirname "$0")/plans.py" --usable "$folder" "$bindir/../../mscclpp_plan" "$most" \
        ${nodes:+--nodes})
}
