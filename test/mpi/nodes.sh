# shellcheck shell=bash
# The cases of several nodes, for run.sh, which has the functions that run one, and sets `bindir` and `forced`.
# shellcheck disable=SC2154 # these two

# Several nodes, imitated on this host, over what serves between real ones. With 3 and 5 ranks nodes differ in size.
cases_nodes() {
    local n per nodes shape quick
    # One rank a node, nodes of two, and nodes of different size.
    for shape in 2/1 3/1 3/2 4/1 4/2 5/1 5/2; do
        n=${shape%/*}
        per=${shape#*/}
        nodes=("${forced[@]}" --mca coll_mscclpp_ranks_per_node "$per" --mca coll_mscclpp_transport ucx)
        run "nodes:basic:$shape" 60 -n "$n" "${nodes[@]}" "$bindir/test_basic" served
        # All counts where there is one shard, and where there are two.
        quick=(quick)
        [[ $shape != @(2/1|4/2) && ${MSCCLPP_TEST_LONG:-0} != 1 ]] || quick=()
        ! among "$shape" '@(2/1|3/2|4/1|5/2)' || run "nodes:counts:$shape" 240 -n "$n" "${nodes[@]}" \
            "$bindir/test_counts" ${quick[@]+"${quick[@]}"}
        ! among "$shape" '@(3/1|4/2|5/2)' ||
            run "nodes:bitwise:$shape" 120 -n "$n" "${nodes[@]}" "$bindir/test_bitwise"
        # What does not depend on how many of each there are.
        [[ $shape == @(2/1|4/1|4/2|5/2) ]] || continue
        ! among "$shape" '@(2/1|4/2)' ||
            run "nodes:comms:$shape" 120 -n "$n" "${nodes[@]}" "$bindir/test_comms" --spawn
        run "nodes:errors:$shape" 60 -n "$n" "${nodes[@]}" "$bindir/test_errors"
        ! among "$shape" '@(4/1|5/2)' ||
            run "nodes:threads:$shape" 120 -n "$n" "${nodes[@]}" "$bindir/test_threads"
        [ "$shape" != 2/1 ] || run "nodes:threads:no ucx for control" 120 -n "$n" "${forced[@]}" \
            --mca coll_mscclpp_ranks_per_node "$per" --mca coll_mscclpp_transport network \
            --mca coll_mscclpp_ucx 0 "$bindir/test_threads"
        [ "$n" -lt 5 ] || continue # some of Open MPI's own results are wrong, and so no oracle
        ! among "$shape" '@(2/1|4/2)' ||
            run "nodes:types_ops:$shape" 240 -n "$n" "${nodes[@]}" "$bindir/test_types_ops"
    done
    ! few || skip "nodes:counts, bitwise, comms, threads and types_ops with all shapes of nodes" \
        "each shape meets some of them, and each of them some shapes; set MSCCLPP_TEST_LONG=1"
    nodes=("${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_transport network)
    [ "${MSCCLPP_TEST_LONG:-0}" = 1 ] || skip "nodes:counts, all of them" \
        "few stand for them with most shapes of nodes; set MSCCLPP_TEST_LONG=1"
    run "nodes:many_comms" 240 -n 3 "${nodes[@]}" "$bindir/test_many_comms" \
        "$([ "${MSCCLPP_TEST_LONG:-0}" = 1 ] && echo 100 || echo 10)"
    # shellcheck disable=SC2016 # each rank's own shell expands it
    run_saying "nodes:ranks_per_node differs" 'warning: .*ranks_per_node is 2 on rank 1, 2 and 0 on rank 0' \
        60 -n 3 "${forced[@]}" \
        sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export OMPI_MCA_coll_mscclpp_ranks_per_node=2; exec "$@"' sh \
        "$bindir/test_counts" quick
    if [ "$MSCCLPP_TEST_DEVICE:$mps" = cuda:1 ]; then
        # A kernel of the one that waits for the other might keep that one's own kernels waiting.
        run_saying "nodes:shared GPU" 'ranks of several nodes share a GPU and .* are staged' 60 -n $((gpus + 1)) \
            "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_shared_gpu auto \
            --mca coll_mscclpp_verbose 2 "$bindir/test_counts" staged
    fi
    run "nodes:userop" 60 -n 3 "${nodes[@]}" "$bindir/test_userop"
    run "nodes:brief" 60 -n 4 "${nodes[@]}" "$bindir/test_brief"
    # Little room: large messages take many exchanges.
    quick=()
    ! few || quick=(quick)
    run "nodes:small" 240 -n 3 "${nodes[@]}" --mca coll_mscclpp_exchange_size 256k --mca coll_mscclpp_scratch_size 1m \
        "$bindir/test_counts" ${quick[@]+"${quick[@]}"}
}

# More ranks than a node may have, which takes most of its time to start and to end. test/host/test_many.c has more.
cases_many() {
    local n per shape transport shapes=(96/3/shm)
    # The others take some 90 s each on 2 busy processors, most of it to start and to end so many processes.
    [ "${MSCCLPP_TEST_LONG:-0}" != 1 ] || shapes+=({128/4,127/3,128/1,256/16}/{shm,ucx})
    if [ "$MSCCLPP_TEST_DEVICE" != host ]; then
        skip "many:RANKS/RANKS A NODE" "so many processes do not share a GPU"
        return
    fi
    for shape in "${shapes[@]}"; do
        IFS=/ read -r n per transport <<<"$shape"
        run_saying "many:$shape" "inter-node transport $transport: $(((n + per - 1) / per)) nodes of" \
            900 -n "$n" "${forced[@]}" --mca coll_mscclpp_ranks_per_node "$per" \
            --mca coll_mscclpp_transport "$transport" --mca coll_mscclpp_verbose 2 "$bindir/test_basic" served
    done
    run_saying "many:native:96/3" 'of the other blocking collectives all are served between nodes' 300 -n 96 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 3 --mca coll_mscclpp_transport shm \
        --mca coll_mscclpp_verbose 2 "$bindir/test_many"
    # With so many ranks the tree of the set-up has two levels: the rank above the late one names it.
    run_saying "many:late:70" 'rank 64 has waited [0-9.]+ s; ranks that have not arrived: 69$' 120 -n 70 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 10 --mca coll_mscclpp_warn_after 1 "$bindir/test_late" \
        warn 8 first
    run "many:native:65/-9/ucx" 300 -n 65 "${forced[@]}" --mca coll_mscclpp_ranks_per_node -9 \
        --mca coll_mscclpp_transport ucx "$bindir/test_many"
    run "split:12/2" 120 -n 12 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 "$bindir/test_split" 16
    if [ "${MSCCLPP_TEST_LONG:-0}" != 1 ]; then
        skip "split:64/2:1000" "set MSCCLPP_TEST_LONG=1"
        skip "many:66 on a node" "set MSCCLPP_TEST_LONG=1"
        return
    fi
    run "split:64/2:1000" 3600 -n 64 --mca mpi_yield_when_idle 1 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 \
        "$bindir/test_split" 1000
    run_saying "many:66 on a node" "66 ranks on one node: device buffers are staged .kernels serve up to 64" 300 -n 66 \
        "${forced[@]}" --mca coll_mscclpp_verbose 2 "$bindir/test_counts" staged
}

# Every algorithm between nodes by name; without a name the sizes of test_counts cross all thresholds.
cases_nodes_algorithms() {
    local algorithm n node_counts nodes=("${forced[@]}" --mca coll_mscclpp_ranks_per_node 2)
    for algorithm in nodes nodes_split nodes_ring nodes_halving nodes_trees nodes_packets nodes_doubling; do
        # On the twin, test_allreduce tries all of them with all numbers of nodes.
        node_counts='2 3 4'
        if few; then
            node_counts=4
            [[ $algorithm != @(nodes_split|nodes_ring|nodes_doubling) ]] || node_counts=3
            [ "$algorithm" != nodes_split ] || node_counts=2
        fi
        # Over what serves between real nodes, else over shared memory.
        for n in $node_counts; do
            run_saying "nodes:$algorithm:$n/1" "call [0-9]+: $algorithm, " 240 -n "$n" "${forced[@]}" \
                --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_transport network \
                --mca coll_mscclpp_algorithm "$algorithm" --mca coll_mscclpp_verbose 3 "$bindir/test_counts" quick
        done
        run_saying "nodes:$algorithm:5/2" "call [0-9]+: $algorithm, " 240 -n 5 "${nodes[@]}" \
            --mca coll_mscclpp_algorithm "$algorithm" --mca coll_mscclpp_verbose 3 "$bindir/test_counts" quick
        run "nodes:$algorithm:bitwise" 120 -n 4 "${nodes[@]}" --mca coll_mscclpp_algorithm "$algorithm" \
            "$bindir/test_bitwise"
    done
    [ "$node_counts" = '2 3 4' ] || skip "nodes:ALGORITHM:N/1, all numbers of nodes" \
        "one stands for them with each algorithm; set MSCCLPP_TEST_LONG=1"
    # A ring of more than two nodes; all of them by turns; and types of which a ring takes some only.
    run "nodes:nodes_ring:bitwise:5/1" 120 -n 5 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_transport network \
        --mca coll_mscclpp_algorithm nodes_ring "$bindir/test_bitwise"
    run "nodes:nodes_halving:bitwise:7/1" 120 -n 7 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_transport network \
        --mca coll_mscclpp_algorithm nodes_halving "$bindir/test_bitwise"
    run "nodes:nodes_trees:bitwise:7/1" 120 -n 7 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_transport network \
        --mca coll_mscclpp_algorithm nodes_trees "$bindir/test_bitwise"
    # In the smallest exchange area, each call goes through the windows many times.
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        for n in 9/1 12/4; do
            run_saying "nodes:windows:${n%/*} ranks:${n#*/} threads" 'scatter of blocks .* in windows of 8 nodes' 120 \
                -n "${n%/*}" --mca mpi_yield_when_idle 1 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
                --mca coll_mscclpp_exchange_size 64k --mca coll_mscclpp_verbose 2 \
                "$bindir/test_threads" --move "${n#*/}"
        done
    else
        skip "nodes:windows" "that many nodes have no GPU each"
    fi
    run "nodes:nodes_halving:types_ops" 240 -n 4 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_algorithm nodes_halving "$bindir/test_types_ops"
    run "nodes:nodes_ring:min" 240 -n 4 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_nodes_packets_max 300 --mca coll_mscclpp_nodes_split_min 2k \
        --mca coll_mscclpp_nodes_ring_min 10k "$bindir/test_counts"
    run "nodes:nodes_ring:types_ops" 240 -n 4 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_algorithm nodes_ring "$bindir/test_types_ops"
    run "nodes:nodes_packets:epoch_limit" 240 -n 3 "${nodes[@]}" --mca coll_mscclpp_algorithm nodes_packets \
        --mca coll_mscclpp_epoch_limit 16 "$bindir/test_counts" quick
    run "nodes:sockets" 240 -n 3 "${nodes[@]}" --mca coll_mscclpp_transport ucx \
        --mca coll_mscclpp_ucx_shared_memory 0 "$bindir/test_counts" quick
    local mock=$bindir/../unit/.libs/libmock_verbs.so
    if [ -e "$mock" ]; then
        MOCK_VERBS_USELESS=1 run_saying "nodes:next transport" 'inter-node transport ucx' 60 -n 3 "${nodes[@]}" \
            --mca coll_mscclpp_transport network --mca coll_mscclpp_verbs_library "$mock" \
            --mca coll_mscclpp_verbose 2 "$bindir/test_basic" served
    else
        skip "nodes:next transport" "no $mock, an HCA that does not do"
    fi
    run "nodes:proxy thread" 240 -n 3 "${nodes[@]}" --mca coll_mscclpp_transport network \
        --mca coll_mscclpp_proxy thread "$bindir/test_counts"
    run_saying "nodes:shm" 'inter-node transport shm: .* in pinned host memory' 240 -n 3 "${nodes[@]}" \
        --mca coll_mscclpp_verbose 2 "$bindir/test_counts"
    run_saying "nodes:cost model" 'over 2 nodes: nodes[a-z_]*; by the cost model nodes [0-9.]+ us, nodes_split' 240 \
        -n 3 "${nodes[@]}" --mca coll_mscclpp_verbose 2 "$bindir/test_counts" quick
    run_saying "nodes:exchange_stores" 'kernels store packets for other nodes' 120 -n 3 "${nodes[@]}" \
        --mca coll_mscclpp_verbose 2 --mca coll_mscclpp_algorithm nodes_packets "$bindir/test_counts" quick
    run_saying "nodes:exchange_stores 0" 'the proxy puts packets for other nodes' 120 -n 3 "${nodes[@]}" \
        --mca coll_mscclpp_verbose 2 --mca coll_mscclpp_algorithm nodes_packets \
        --mca coll_mscclpp_exchange_stores 0 "$bindir/test_counts" quick
    run_saying "nodes:exchange_memory refused" 'no transport ucx: coll_mscclpp_exchange_memory is device' 60 -n 3 \
        "${nodes[@]}" --mca coll_mscclpp_transport ucx \
        --mca coll_mscclpp_exchange_memory device --mca coll_mscclpp_verbose 2 "$bindir/test_counts" staged
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        run "nodes:grid" 240 -n 3 "${nodes[@]}" --mca coll_mscclpp_twin_blocks 3 --mca coll_mscclpp_twin_threads 2 \
            "$bindir/test_counts" quick
        run "nodes:exchange_memory device" 240 -n 3 "${nodes[@]}" --mca coll_mscclpp_transport shm \
            --mca coll_mscclpp_exchange_memory device "$bindir/test_counts" quick
    else
        run "nodes:cuda_ipc" 240 -n 3 "${nodes[@]}" --mca coll_mscclpp_transport cuda_ipc "$bindir/test_counts" quick
    fi
    # Calls queued in a stream, of the host library: whatever the parameter says, a thread serves their proxy.
    for n in 2 3; do
        run "nodes:stream:$n" 120 -n "$n" "${forced[@]}" --mca coll_mscclpp_ranks_per_node $((n - 1)) \
            --mca coll_mscclpp_transport "$([ "$n" = 2 ] && echo network || echo auto)" \
            "$bindir/../../mscclpp_bench" --device "$MSCCLPP_TEST_DEVICE" --mode stream --min 8 --max 256k --factor 32 \
            --iterations 5 --rounds 1 --check 3
    done
}

# The other collectives, which kernels have to serve, between nodes of one rank, of two, and of different sizes.
cases_nodes_collectives() {
    local n per shape transport kinds=() world=()
    local -a nodes
    # The test passes host memory on some ranks and device memory on others, where these differ.
    [ "$MSCCLPP_TEST_DEVICE" = host ] || kinds=(--mca coll_mscclpp_mixed_buffers 1)
    for shape in 2/1/ucx 3/2/ucx 4/2/shm 4/3/ucx 5/2/shm 5/-3/ucx; do
        IFS=/ read -r n per transport <<<"$shape"
        nodes=(-n "$n" "${forced[@]}" --mca coll_mscclpp_ranks_per_node "$per"
            --mca coll_mscclpp_transport "$transport")
        ! among "$shape" '@(2/1/ucx|4/2/shm|5/-3/ucx)' ||
            run "nodes:native:$shape" 120 "${nodes[@]}" "${kinds[@]}" "$bindir/test_stage"
        [[ $shape == @(4/3/ucx|5/-3/ucx) ]] || continue
        if among "$shape" 5/-3/ucx; then
            run "nodes:native_layout:$shape" 120 "${nodes[@]}" "$bindir/test_stage_layout"
            run "nodes:native_silent:$shape" 120 "${nodes[@]}" "$bindir/test_silent"
        fi
        ! among "$shape" 4/3/ucx || run "nodes:neighbor:$shape" 240 "${nodes[@]}" "$bindir/test_neighbor"
    done
    ! few || skip "nodes:native, native_layout, native_silent and neighbor with all shapes of nodes" \
        "three, one, one and one stand for them; set MSCCLPP_TEST_LONG=1"
    # What an algorithm does differs little between kinds of communicators, which have all been tried by now.
    if few; then
        world=(--world)
        skip "nodes:native by name, rules and grid on all kinds of communicators" \
            "MPI_COMM_WORLD stands for them; set MSCCLPP_TEST_LONG=1"
    fi
    # Packets and tiles by turns, as the size has it; none at all where the transport does not carry them.
    run_saying "nodes:native:packets" ': nodes_packets, blocks' 120 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 2 "${kinds[@]}" --mca coll_mscclpp_verbose 3 \
        "$bindir/test_stage" "${world[@]}"
    run_never_saying "nodes:native:no packets" ': nodes_packets, blocks' 120 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_nodes_packets_max 1 "${kinds[@]}" \
        --mca coll_mscclpp_verbose 3 "$bindir/test_stage" "${world[@]}"
    # By name.
    run_saying "nodes:native:named rounds" 'bcast call [0-9]+: nodes_rounds, blocks' 120 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_bcast_algorithm nodes_rounds "${kinds[@]}" \
        --mca coll_mscclpp_verbose 3 "$bindir/test_stage" "${world[@]}"
    run_never_saying "nodes:native:named tiles" 'bcast call [0-9]+: nodes_(packets|rounds), blocks' 120 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_bcast_algorithm nodes "${kinds[@]}" \
        --mca coll_mscclpp_verbose 3 "$bindir/test_stage" "${world[@]}"
    run_saying "nodes:native:named ring" 'allgather call [0-9]+: nodes_ring, blocks' 120 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_allgather_algorithm nodes_ring \
        --mca coll_mscclpp_allgatherv_algorithm nodes_ring "${kinds[@]}" --mca coll_mscclpp_verbose 3 \
        "$bindir/test_stage" "${world[@]}"
    run_saying "nodes:native:named merging ring" 'reduce_scatter(_block)? call [0-9]+: nodes_ring, blocks' 120 -n 5 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_reduce_scatter_algorithm nodes_ring \
        --mca coll_mscclpp_reduce_scatter_block_algorithm nodes_ring "${kinds[@]}" --mca coll_mscclpp_verbose 3 \
        "$bindir/test_stage" "${world[@]}"
    run_saying "nodes:native:named halving" \
        '(allgatherv?|reduce_scatter(_block)?) call [0-9]+: nodes_halving, blocks' 120 -n 7 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node -3 --mca coll_mscclpp_allgather_algorithm nodes_halving \
        --mca coll_mscclpp_allgatherv_algorithm nodes_halving \
        --mca coll_mscclpp_reduce_scatter_algorithm nodes_halving \
        --mca coll_mscclpp_reduce_scatter_block_algorithm nodes_halving "${kinds[@]}" --mca coll_mscclpp_verbose 3 \
        "$bindir/test_stage" "${world[@]}"
    run_saying "nodes:native:named trees" 'bcast call [0-9]+: nodes_trees, blocks' 120 -n 5 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_bcast_algorithm nodes_trees "${kinds[@]}" \
        --mca coll_mscclpp_verbose 3 "$bindir/test_stage" "${world[@]}"
    run_saying "nodes:native:named merging trees" 'reduce call [0-9]+: nodes_trees, blocks' 120 -n 5 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_reduce_algorithm nodes_trees "${kinds[@]}" \
        --mca coll_mscclpp_verbose 3 "$bindir/test_stage" "${world[@]}"
    # By a rules file, which may be for more ranks than a node can have.
    cat >"$scratch/between.rules" <<-EOF
	collective=allgather ranks=5 nodes=5 device=$MSCCLPP_TEST_DEVICE bytes<=1g algorithm=nodes_halving
	collective=reduce_scatter ranks=512 nodes=64 device=$MSCCLPP_TEST_DEVICE bytes<=1g algorithm=nodes_halving
	ranks=5 nodes=5 device=$MSCCLPP_TEST_DEVICE bytes<=1g algorithm=nodes_ring
	EOF
    run_saying "nodes:native:rules" 'allgather call [0-9]+: nodes_halving, blocks' 120 -n 5 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_rules "$scratch/between.rules" "${kinds[@]}" \
        --mca coll_mscclpp_verbose 3 "$bindir/test_stage" "${world[@]}"
    # Little room: many turns; and a grid of several blocks.
    nodes=("${forced[@]}" --mca coll_mscclpp_ranks_per_node 2)
    run_saying "nodes:native:small" 'of the other blocking collectives all are served between nodes' 120 -n 3 \
        "${nodes[@]}" "${kinds[@]}" --mca coll_mscclpp_exchange_size 256k --mca coll_mscclpp_scratch_size 1m \
        --mca coll_mscclpp_verbose 2 "$bindir/test_stage"
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        run "nodes:native:grid" 120 -n 3 "${nodes[@]}" --mca coll_mscclpp_twin_blocks 3 \
            --mca coll_mscclpp_twin_threads 2 --mca coll_mscclpp_proxy thread "$bindir/test_stage" "${world[@]}"
    fi
}

# Ranks of other nodes that do not come.
# However many ranks there are: one line for a rank that is late, one for a failure, and one where its rank calls again.
cases_nodes_named() {
    local late='ranks that have not arrived: ' n=16 last nodes=("${forced[@]}" --mca coll_mscclpp_ranks_per_node 2)
    local few many waiting name killed=1
    [ "$long" = 0 ] || n=32
    last=$((n - 1))
    few=(-x MSCCLPP_TEST_MESSAGES=$((6 * n))) # 2 a rank, 2 more for an end, and 2 if another one leads, too
    many=("${forced[@]}" --mca coll_mscclpp_ranks_per_node 8 --mca coll_mscclpp_transport shm
        --mca mpi_yield_when_idle 1 -x MSCCLPP_TEST_MESSAGES=$((6 * 96)))
    run_logging "nodes:named:warn" 1 "$late$last$" 60 -n "$n" "${nodes[@]}" --mca coll_mscclpp_transport shm \
        --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 5 later
    run_logging "nodes:named:timeout" 2 "$late$last(;|$)" 60 -n "$n" "${nodes[@]}" --mca coll_mscclpp_transport ucx \
        --mca coll_mscclpp_timeout 1 "$bindir/test_late" timeout 7 later
    if [ "$long" != 0 ]; then
        # A job of 96 ranks on two processors takes a minute, and comes seconds late to a call by itself.
        run_logging "nodes:named:warn:96" 1 "${late}95$" 300 -n 96 "${many[@]}" \
            --mca coll_mscclpp_warn_after 6 "$bindir/test_late" warn 24 later
        run_logging "nodes:named:timeout:96" 2 "${late}95(;|$)" 300 -n 96 "${many[@]}" \
            --mca coll_mscclpp_timeout 12 "$bindir/test_late" timeout 42 later
        run_logging "nodes:named:warn:alltoallv:96" 1 "agreement.*${late}95$" 300 -n 96 "${many[@]}" \
            --mca coll_mscclpp_warn_after 6 "$bindir/test_late" warn 24 later alltoallv
    fi
    # In the agreement before a call whose sizes only two ranks know. Rank 0 leads, or others if it is the late one.
    run_logging "nodes:named:warn:alltoallv" 1 "agreement.*$late$last$" 60 -n "$n" "${few[@]}" "${nodes[@]}" \
        --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 5 later alltoallv
    run_logging "nodes:named:timeout:alltoallv" 2 "agreement.*$late$last(;|$)" 60 -n "$n" "${few[@]}" "${nodes[@]}" \
        --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 9 later alltoallv
    run_logging "nodes:named:warn:first:alltoallv" 1 "agreement.*${late}0$" 60 -n "$n" -x MSCCLPP_TEST_REVERSED=1 \
        "${nodes[@]}" --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 5 later alltoallv
    run_logging "nodes:named:timeout:first:alltoallv" 2 "agreement.*${late}0(;|$)" 60 -n "$n" \
        -x MSCCLPP_TEST_REVERSED=1 "${nodes[@]}" --mca coll_mscclpp_timeout 2 \
        "$bindir/test_late" timeout 9 later alltoallv
    for name in nodes:named:killed:{waiting,leader,answered,agreed,shm,ucx}; do
        if wanted "$name" && ! lets_others_go_on; then
            skip "$name" "this mpirun ends all ranks where one is killed"
            killed=0
        fi
    done
    [ "$killed" = 1 ] || return 0
    # Of ranks that wait in the agreement for a late one, one is killed. If it leads, another one takes over.
    waiting=(60 -n 4 --enable-recovery "${nodes[@]}" --mca coll_mscclpp_transport shm --mca coll_mscclpp_timeout 4
        "$bindir/test_late" killed 13 waiting alltoallv)
    run_logging "nodes:named:killed:waiting" 2 "agreement.* did not end on rank 0 .*${late}3(;|$)" \
        "${waiting[@]}" 1 3000
    run_logging "nodes:named:killed:leader" 2 "agreement.* did not end on rank [12] .*${late}0, 3(;|$)" \
        "${waiting[@]}" 0 3000
    # The late rank comes before the deadline, and the killed one has told that it waits. Some need it to end the
    # agreement, or all have what they need, and wait for it in the call. A second deadline would end these after 22 s.
    waiting=(90 -n 4 --enable-recovery "${nodes[@]}" --mca coll_mscclpp_transport shm --mca coll_mscclpp_timeout 12
        "$bindir/test_late" killed 20 waiting alltoallv)
    run_logging "nodes:named:killed:answered" 2 "agreement.* did not end on rank 0 .*${late}2(;|$)" \
        "${waiting[@]}" 2 3000 10
    run_logging "nodes:named:killed:agreed" 2 " did not end on rank 0 .*${late}1(;|$)" "${waiting[@]}" 1 3000 10
    run_logging "nodes:named:killed:shm" 2 "$late$last" 60 -n "$n" --enable-recovery "${nodes[@]}" \
        --mca coll_mscclpp_transport shm --mca coll_mscclpp_timeout 1 "$bindir/test_late" killed 8 within 100
    run_logging "nodes:named:killed:ucx" 2 "the ucx connection to rank $last" 60 -n "$n" --enable-recovery \
        "${nodes[@]}" --mca coll_mscclpp_transport ucx --mca coll_mscclpp_timeout 1 \
        "$bindir/test_late" killed 8 within 100
}

cases_nodes_late() {
    local when nodes=("${forced[@]}" --mca coll_mscclpp_ranks_per_node 2)
    local tokens=shm late
    [ "$MSCCLPP_TEST_DEVICE" = host ] || tokens=cuda_ipc
    # Tokens in device memory, where the host has to ask for them.
    run_saying "nodes:late:warn:$tokens" 'ranks that have not (arrived|come): 2' 30 -n 3 "${nodes[@]}" \
        --mca coll_mscclpp_transport $tokens --mca coll_mscclpp_exchange_memory device \
        --mca coll_mscclpp_algorithm nodes --mca coll_mscclpp_warn_after 6 \
        "$bindir/test_late" warn 8 later
    # In a ring of four rank 1 is neither before nor behind the late one, and names it all the same.
    run_saying "nodes:late:warn:nodes_ring" 'rank [0-2] has waited .* ranks that have not arrived: 3$' 30 -n 4 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_algorithm nodes_ring \
        --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 5 later
    # Step by step, whoever waits for another one that waits itself asks it.
    run_saying "nodes:late:warn:nodes_halving" 'rank [0-3] has waited .* ranks that have not arrived: 4$' 30 -n 5 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_algorithm nodes_halving \
        --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 5 later
    # Over trees a node hears from its neighbours alone, and from those that it meets.
    run_saying "nodes:late:warn:nodes_trees" 'rank [0-3] has waited .* ranks that have not arrived: 4$' 30 -n 5 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_algorithm nodes_trees \
        --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 5 later
    for when in later first; do
        run_saying "nodes:late:warn:$when" 'ranks that have not (arrived|come): 2' 30 -n 3 "${nodes[@]}" \
            --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 5 $when
        run_saying "nodes:late:timeout:$when" 'ranks that have not (arrived|come): 2' 60 -n 3 "${nodes[@]}" \
            --mca coll_mscclpp_transport network --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 8 $when
    done
    # The other collectives: some need nobody's data at once, so they are called until they wait. In a scan nobody waits
    # for the last rank but those who wait for one another. A rank may be first to see its time run out that waits for
    # one that still waits for rank 2 in an earlier call.
    for coll in bcast reduce gather scatter allgather alltoall reduce_scatter_block; do
        late='[012]'
        [[ $coll != allgather && $coll != alltoall && $coll != reduce_scatter_block ]] || late=2
        run_saying "nodes:late:timeout:$coll" "$coll call .*ranks that have not (arrived|come): $late(;|$)" 60 -n 3 \
            "${nodes[@]}" --mca coll_mscclpp_transport network --mca coll_mscclpp_timeout 2 \
            "$bindir/test_late" timeout 8 later $coll
    done
    # Sizes that only two ranks know: all ranks agree first, and name who does not come to that.
    for coll in alltoallv/later alltoallv/first gatherv/later scatterv/first; do
        IFS=/ read -r coll when <<<"$coll"
        run_saying "nodes:late:timeout:$coll:$when" \
            "$coll call [0-9]+, agreement.* ranks that have not (arrived|come): 2(;|$)" 60 -n 3 "${nodes[@]}" \
            --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 8 "$when" "$coll"
    done
    run_saying "nodes:late:warn:alltoallv" 'agreement.* ranks that have not (arrived|come): 2' 60 -n 3 "${nodes[@]}" \
        --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 5 later alltoallv
    run_saying "nodes:late:killed:alltoallv" 'all that are left have ended well' 60 -n 3 --enable-recovery \
        "${nodes[@]}" --mca coll_mscclpp_timeout 2 "$bindir/test_late" killed 5 first alltoallv
    run_saying "nodes:late:killed:alltoall" 'all that are left have ended well' 60 -n 3 --enable-recovery \
        "${nodes[@]}" --mca coll_mscclpp_timeout 2 "$bindir/test_late" killed 5 first alltoall
    run_saying "nodes:late:timeout:shm" 'ranks that have not (arrived|come): 2' 60 -n 3 "${nodes[@]}" \
        --mca coll_mscclpp_transport shm --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 8 later
}
