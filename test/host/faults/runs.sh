# shellcheck shell=bash
# What planted faults are looked for with: each function is a few runs of tests. planted_faults.sh has `run`.
# shellcheck disable=SC2034,SC2154,SC2317 # planted_faults.sh and the lists of faults use these; it sets the deadline

# The kernels of the twin are compiled here.
launcher=device/launch/twin.c
barrier=device/lib/barrier.h
# Runs the bodies itself.
schedule=test/host/test_schedule.c

# The runs of each fault, called by name.
run_barriers() {
    run test_allreduce --algo scratch --ranks 3 --grid 2x3 --cases 40 --timeout "$deadline" &&
        run test_allreduce --algo zerocopy --ranks 3 --grid 2x3 --cases 40 --timeout "$deadline"
}

run_scratch() {
    run test_allreduce --algo scratch --ranks 3 --grid 1x2 --cases 60 --timeout "$deadline"
}

run_zerocopy() {
    run test_allreduce --algo zerocopy --ranks 3 --grid 1x2 --cases 60 --timeout "$deadline"
}

run_put() {
    run test_allreduce --algo oneshot_put --ranks 3 --grid 1x2 --cases 60 --timeout "$deadline" &&
        run test_allreduce --algo oneshot_put --ranks 2 --grid 2x2 --cases 60 --timeout "$deadline"
}

run_mapped() {
    run test_mapped --quick --timeout "$deadline"
}

run_collectives() {
    run test_collectives --timeout "$deadline" matrix
}

run_collectives_in_place() {
    run test_collectives --timeout "$deadline" in_place
}

run_fanout() {
    run test_fanout
}

run_unsized() {
    run test_unsized --timeout "$deadline"
}

run_pair() {
    run test_pair --timeout "$deadline"
}

run_strided() {
    run test_strided --timeout "$deadline"
}

run_area() {
    run test_area --timeout "$deadline" growth
}

run_collectives_nodes() {
    run test_collectives --timeout "$deadline" nodes
}

run_collectives_rounds() {
    run test_coll_storm --timeout "$deadline" rounds
}

run_collectives_sparse() {
    run test_coll_storm --timeout "$deadline" sparse
}

run_collectives_prefixes() {
    run test_collectives --timeout "$deadline" rounds
}

run_collectives_ring() {
    run test_coll_storm --timeout "$deadline" ring
}

run_collectives_merging() {
    run test_coll_storm --timeout "$deadline" merging_ring
}

run_collectives_halving() {
    run test_coll_storm --timeout "$deadline" halving
}

run_collectives_windows() {
    run test_coll_storm --timeout "$deadline" windows
}

run_collectives_reduce() {
    run test_coll_storm --timeout "$deadline" merging_trees
}

run_collectives_trees() {
    run test_coll_storm --timeout "$deadline" trees
}

run_collectives_storm() {
    run test_coll_storm --timeout "$deadline" storm
}

run_collectives_rung() {
    run test_coll_storm --timeout "$deadline" rung
}

run_collectives_rung_wide() {
    run test_coll_storm --timeout "$deadline" rung_wide
}

run_leases() {
    run test_leases --timeout "$deadline" many
}

run_dead_node() {
    run test_dead node
}

run_dead_nodes() {
    run test_dead nodes
}

run_dead_whole_node() {
    run test_dead 'whole node'
}

run_dead_left() {
    run test_dead left
}

run_dead_left_nodes() {
    run test_dead left:nodes
}

run_dead_away() {
    run test_dead away
}

run_dead_away_nodes() {
    run test_dead away:nodes
}

run_leases_nodes() {
    run test_leases --timeout "$deadline" nodes
}

run_leases_small() {
    run test_leases --timeout "$deadline" small
}

run_leases_packets() {
    run test_leases --timeout "$deadline" packets
}

run_leases_together() {
    run test_leases --timeout "$deadline" together
}

run_stream() {
    run test_enqueue --quick --timeout "$deadline" nodes
}

run_queue() {
    run test_queue --quick --timeout "$deadline"
}

run_queue_grow() {
    run test_queue_grow --quick --timeout "$deadline"
}

run_queue_grow_kinds() {
    run test_queue_grow --quick --timeout "$deadline" kinds
}

run_stale() {
    run test_queue --quick --timeout "$deadline" stale
}

# Two operations at once are a race, so races are not looked for.
run_overlap() {
    MSCCLPP_TEST_RACES=1 tsan_options=report_bugs=0 run test_queue --quick --timeout "$deadline" overlap
}

run_outlived() {
    run test_queue --quick --timeout "$deadline" outlived
}

run_user() {
    run test_user --timeout "$deadline"
}

run_partitions() {
    run test_partitions
}

run_late() {
    run test_enqueue late
}

run_engines() {
    run test_allreduce --algo engines --ranks 3 --grid 2x2 --cases 80 --timeout "$deadline" &&
        run test_engines --calls
}

run_unsettled() {
    run test_engines
}

run_schedule() {
    run test_schedule
}

run_lines() {
    # Often enough: every other time, one set of calls sees nothing of formats that share memory.
    run test_ll128 --long --timeout "$deadline" &&
        run test_allreduce --algo ll128 --ranks 3 --grid 2x2 --cases 40 --timeout "$deadline"
}

run_chains() {
    run test_enqueue --quick --timeout "$deadline" chains
}

run_nodes() {
    run test_allreduce --algo nodes1 --ranks 3 --grid 2x2 --cases 40 --timeout "$deadline" &&
        run test_allreduce --algo nodes2 --ranks 4 --grid 2x2 --cases 40 --timeout "$deadline" &&
        run test_allreduce --algo split1 --ranks 3 --grid 2x2 --cases 40 --timeout "$deadline" &&
        run test_allreduce --algo split2 --ranks 5 --grid 1x2 --cases 40 --timeout "$deadline" && run_halving
}

run_ring() {
    run test_allreduce --algo ring1 --ranks 4 --grid 2x2 --cases 40 --timeout "$deadline" &&
        run test_allreduce --algo ring2 --ranks 5 --grid 1x2 --cases 40 --timeout "$deadline" &&
        run test_stress --quick --timeout "$deadline" turns
}

run_packets() {
    run test_allreduce --algo packets1 --ranks 3 --grid 2x2 --cases 60 --timeout "$deadline" &&
        run test_allreduce --algo packets2 --ranks 4 --grid 2x2 --cases 40 --timeout "$deadline" &&
        run test_allreduce --algo stored1 --ranks 3 --grid 2x2 --cases 30 --timeout "$deadline" && run_storms
}

run_halving() {
    run test_allreduce --algo halving1 --ranks 4 --grid 2x2 --cases 60 --timeout "$deadline" &&
        run test_allreduce --algo halving2 --ranks 11 --grid 1x2 --cases 40 --timeout "$deadline"
}

run_trees() {
    run test_allreduce --algo trees1 --ranks 5 --grid 2x2 --cases 60 --timeout "$deadline" &&
        run test_allreduce --algo trees2 --ranks 8 --grid 3x4 --cases 40 --timeout "$deadline"
}

run_doubling() {
    run test_allreduce --algo doubling1 --ranks 5 --grid 2x2 --cases 60 --timeout "$deadline" &&
        run test_allreduce --algo doubling2 --ranks 6 --grid 2x2 --cases 40 --timeout "$deadline" &&
        run test_allreduce --algo doubled1 --ranks 4 --grid 2x2 --cases 30 --timeout "$deadline" && run_storms
}

run_storms() {
    run test_stress --quick --timeout "$deadline" nodes
}

run_renewal() {
    run test_stress --quick --timeout "$deadline" renewal
}

run_linger() {
    # The longest last.
    run test_linger --quick --timeout "$deadline" sets dismissals absence &&
        run test_linger --quick --timeout "$deadline" rings
}

run_linger_kernel() {
    run test_linger_kernel
}

run_linger_lists() {
    run test_linger_lists
}

run_room() {
    run test_admissions --quick --timeout "$deadline" crowd
}

run_shared() {
    run test_admissions --quick --timeout "$deadline" engines
}

run_known() {
    run test_known --quick --timeout "$deadline"
}

run_early() {
    run test_early --quick --timeout "$deadline" orders
}

run_apart() {
    run test_early --quick --timeout "$deadline" apart
}

run_apart_engines() {
    run test_early --quick --timeout "$deadline" engines
}

run_fifo() {
    run test_fifo
}

run_ports() {
    run test_port_channel && run test_proxy
}

run_transport() {
    local one
    for one in stream outstanding flush add; do
        run test_transport --transport late --ends threads --case "$one" --timeout "$deadline" || return
    done
}
