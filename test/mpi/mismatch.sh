# shellcheck shell=bash
# The cases of ranks that disagree, and of requests that cannot be met, for run.sh, which has the functions that run
# one, and sets what these read.
# shellcheck disable=SC2154 # these

# mixed NAME RANKS HOST_RANKS [mpirun argument]...: only the first of the HOST_RANKS passes host memory on GPUs.
mixed() {
    local name=$1 n=$2 how ranks expression="rank [${3//[^0-9]/}] passed host (memory|buffers) and rank [0-9] device"
    local -a hosts host=()
    IFS=, read -ra hosts <<<"$3"
    shift 3
    for how in first later allowed; do
        ranks=$(printf ',%s' "${hosts[@]}")
        [ $how != later ] || ranks=$(printf ',%s/1' "${hosts[@]}")
        [ "$MSCCLPP_TEST_DEVICE" = cuda ] || host=(--mca coll_mscclpp_twin_host_ranks "${ranks:1}")
        if [ $how = allowed ]; then
            run "$name:allowed" 60 -n "$n" "${forced[@]}" "$@" ${host[@]+"${host[@]}"} \
                --mca coll_mscclpp_mixed_buffers 1 "$bindir/test_mixed" allowed
        else
            run_failing "$name:refused:$how" "$expression" 20 -n "$n" "${forced[@]}" "$@" ${host[@]+"${host[@]}"} \
                "$bindir/test_mixed" refused $how
        fi
    done
}

# Between nodes the ranks of one are all of one kind, or a node has both.
cases_mixed() {
    local ctrl
    mixed mixed 3 0
    for ctrl in 1 0; do
        mixed "nodes:mixed:1:ucx $ctrl" 3 0 --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_ucx $ctrl
        [ "$MSCCLPP_TEST_DEVICE" = host ] || continue
        mixed "nodes:mixed:2:ucx $ctrl" 4 2,3 --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_ucx $ctrl
    done
    mixed "nodes:mixed:3" 5 0 --mca coll_mscclpp_ranks_per_node 2
    # Set-up over a tree: the rank with host memory is below all others, or above them.
    mixed "nodes:mixed:tree:leaf" 12 7 --mca coll_mscclpp_ranks_per_node 4
    mixed "nodes:mixed:tree:root" 12 0 --mca coll_mscclpp_ranks_per_node 4
}

# A parameter that one rank has set otherwise: all ranks use rank 0's value, and both are named.
cases_differs() {
    local each row rank name value other what expression
    # shellcheck disable=SC2016 # each rank's own shell expands it
    each='[ "$OMPI_COMM_WORLD_RANK" != "$1" ] || export "OMPI_MCA_coll_mscclpp_$2=$3"; shift 3; exec "$@"'
    for row in 2:enable:0:1:served 2:priority:-1:90:served 2:priority:5:90:served 2:mixed_buffers:1:0:served \
        0:mixed_buffers:1:0:served 0:priority:80:90:served 1:algorithm:stage:auto:served 0:enable:0:1:idle \
        0:priority:-1:90:idle 0:priority:20:90:idle; do
        IFS=: read -r rank name value other what <<<"$row"
        if [ "$rank" = 0 ]; then
            expression="warning: .*parameter $name is $other on rank (1|2|1, 2) .*$value on rank 0, whose value all"
        else
            expression="warning: .*parameter $name is $value on rank $rank .*$other on rank 0, whose value all"
        fi
        run_saying "differs:$name $value on rank $rank" "$expression" 60 -n 3 "${forced[@]}" \
            --mca coll_mscclpp_timeout 20 sh -c "$each" sh "$rank" "$name" "$value" "$bindir/test_basic" "$what"
    done
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        run_saying "differs:device auto on rank 1" 'parameter device is auto on rank 1 .*host on rank 0' 60 -n 3 \
            "${forced[@]}" --mca coll_mscclpp_timeout 20 sh -c "$each" sh 1 device auto "$bindir/test_basic" served
    fi
    # Of every communicator, but said once.
    run_counting "differs:said once" 1 'parameter scratch_size is 2097152 on rank 2 and 16777216 on rank 0' 60 -n 3 \
        "${forced[@]}" sh -c "$each" sh 2 scratch_size 2m "$bindir/test_basic" served
}

# Calls that do not match: all that differs is named, and calls that match, of every kind, pass.
cases_check() {
    local fault what check=(-n 3 "${forced[@]}" --mca coll_mscclpp_check_calls 1 --mca coll_mscclpp_timeout)
    local late=("${check[@]}" 2)
    check+=(20)
    local bytes='sends (12|16) bytes to rank [02], which expects (12|16)$'
    while IFS=: read -r fault what; do
        run_saying "check:$fault" "the calls of the ranks do not match: $what" 60 "${check[@]}" "$bindir/test_check" \
            blocking "$fault"
    done <<-EOF
	count:the count is 4 on rank 0, 1 and 3 on rank 2$
	type:the size of the type is 4 bytes on rank 0, 1 and 8 bytes on rank 2$
	op:the operation is MPI_SUM on rank 0, 1 and MPI_MAX on rank 2$
	collective:the call is MPI_Allreduce on rank 0, 1 and MPI_Bcast on rank 2$
	root:the root is 0 on rank 0, 1 and 1 on rank 2$
	reduce:the count is 4 on rank 0, 1 and 3 on rank 2$
	scan:the count is 4 on rank 0, 1 and 3 on rank 2$
	exscan:the count is 4 on rank 0, 1 and 3 on rank 2$
	reduce_scatter_block:the count is 12 on rank 0, 1 and 9 on rank 2$
	reduce_scatter:the count is 12 on rank 0, 1 and 11 on rank 2$
	EOF
    for fault in bcast allgather allgatherv alltoall alltoallv alltoallw gather gatherv scatter scatterv; do
        run_saying "check:$fault" "the calls of the ranks do not match: rank [02] $bytes" 60 "${check[@]}" \
            "$bindir/test_check" blocking "$fault"
    done
    # What is under way cannot be taken back.
    run_failing "check:variant" 'the call is MPI_Allreduce on rank 0, 1 and MPI_Iallreduce on rank 2$' 60 \
        "${check[@]}" "$bindir/test_check" blocking variant
    for fault in count op alltoallv; do
        run_failing "check:nonblocking:$fault" 'MPI_Ial.* the calls of the ranks do not match: ' 60 "${check[@]}" \
            "$bindir/test_check" nonblocking $fault
    done
    run "check:right:stage" 240 "${check[@]}" "$bindir/test_stage"
    run "check:right:stage_async" 120 "${check[@]}" --mca coll_mscclpp_algorithm stage "$bindir/test_stage_async"
    run "check:right:stage_layout" 120 "${check[@]}" "$bindir/test_stage_layout"
    run "check:right:comms" 120 "${check[@]}" "$bindir/test_comms" --spawn
    run "check:right:threads" 120 "${check[@]}" "$bindir/test_threads"
    run "check:right:userop" 60 "${check[@]}" "$bindir/test_userop"
    run "check:right:finalize" 60 "${check[@]}" "$bindir/test_finalize"
    run_saying "check:late" \
        "MPI_Allreduce did not end on rank [01] within .* s .coll_mscclpp_timeout.; ranks that have not arrived: 2\$" \
        60 "${late[@]}" "$bindir/test_late" timeout 5 first
    # Who has met an error does not wait for those that have not. With little scratch a call takes many turns, in all of
    # which ranks need one another.
    run_saying "check:broken" 'an earlier call failed, which broke the communicator for device buffers; this' 60 \
        "${late[@]}" --mca coll_mscclpp_scratch_size 2m "$bindir/test_late" timeout 5 amid
    # Where it costs nothing the comparison is always made; else the deadline tells of it.
    run_saying "check:exchange" 'rank 0 passed 4194304 bytes of type int32 with MPI_SUM, and rank 2 4194288 bytes' 60 \
        -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm zerocopy "$bindir/test_check" exchange
    run_saying "check:wait" 'rank [012] passed 655[0-9]+ bytes of type int32 with MPI_SUM, and rank [012] 655[0-9]+ ' \
        60 -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm oneshot "$bindir/test_check" wait
    for fault in first later; do
        run_saying "check:deadline:$fault" 'calls of the ranks that do not match .* are one possible reason' 60 -n 3 \
            "${forced[@]}" --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 5 $fault
    done
}

# What was asked for by name and does not serve is said, once; so is what memory or address space would mend.
cases_said() {
    local name
    run_counting "said:algorithm of nodes on one" 1 'warning: .*algorithm is nodes_split, which cannot serve all-' 60 \
        -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm nodes_split "$bindir/test_basic" served
    run_counting "said:algorithm between nodes" 1 'algorithm is oneshot, which cannot serve .*: nodes[a-z_]* does' 60 \
        -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm oneshot --mca coll_mscclpp_ranks_per_node 1 \
        "$bindir/test_basic" served
    run_counting "said:transport" 1 'warning: .*coll_mscclpp_transport is verbs, .*: device buffers are staged' 60 \
        -n 3 "${forced[@]}" --mca coll_mscclpp_transport verbs --mca coll_mscclpp_verbs_devices none \
        --mca coll_mscclpp_ranks_per_node 1 "$bindir/test_counts" staged
    run_counting "said:algorithm without kernels" 1 'algorithm is nodes, but no kernels can serve this com' 60 \
        -n 3 "${forced[@]}" --mca coll_mscclpp_transport verbs --mca coll_mscclpp_verbs_devices none \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_algorithm nodes "$bindir/test_counts" staged
    for name in auto network; do
        run_never_saying "said:not of $name" warning: 60 -n 3 "${forced[@]}" --mca coll_mscclpp_transport $name \
            --mca coll_mscclpp_ranks_per_node 1 "$bindir/test_basic" served
    done
    [ "$MSCCLPP_TEST_DEVICE" = host ] || return 0
    run_counting "said:algorithm that maps" 1 'algorithm is zerocopy, which cannot serve .*: scratch does' 60 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_algorithm zerocopy "$bindir/test_basic" served
    # shellcheck disable=SC2016 # each rank's own shell expands it
    run_saying "said:address space" 'rank 1: no [0-9]+ bytes of scratch for large messages \(.*memory\); large' \
        60 -n 3 "${forced[@]}" --mca coll_mscclpp_scratch_size 1g --mca coll_mscclpp_ucx 0 \
        --mca coll_mscclpp_algorithm scratch \
        sh -c '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || ulimit -v 1500000; exec "$@"' sh "$bindir/test_counts" quick
}
