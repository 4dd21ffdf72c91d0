# shellcheck shell=bash
# Faults in the FIFO, the proxy and the transports.
# shellcheck disable=SC2154 # faults/runs.sh sets the names of files

plant proxy-first-word-alone stream mca/common/base/mailbox.h mca/common/port/proxy.c \
    's/block = 0; block < blocks/block = 0; block < 1/'
fifo_test=test/unit/test_fifo.c # pushes itself
plant fifo-commit-relaxed fifo device/lib/fifo.h "$fifo_test" 's/st_release_sys_u64\(&slot/st_relaxed_sys_u64(\&slot/'
plant fifo-poll-relaxed fifo mca/common/port/fifo.c mca/common/port/fifo.c 's/__ATOMIC_ACQUIRE/__ATOMIC_RELAXED/'
plant fifo-no-lap-parity fifo device/lib/trigger.h "$fifo_test" 's/\(position & size\) == 0/size != 0/'
plant fifo-overrun fifo device/lib/fifo.h "$fifo_test" 's/(tail_seen\)) \+ fifo->size/\1 + (fifo->size << 40)/'
plant trigger-size-29 fifo device/lib/trigger.h "$fifo_test" 's/(HIGH_SIZE_MASK) 0x1f/\1 0x0f/'
carry=mca/common/port/carry.c
channel=device/lib/port_channel.h
plant flush-before-its-end ports "$carry" "$carry" \
    '/mscclpp_status_t test_flushes\(mscclpp_proxy/,/^}/s/status != MSCCLPP_OK/status < 0/'
plant flushed-relaxed ports "$carry" "$carry" 's/(channel->flushed, position), __ATOMIC_RELEASE/\1, __ATOMIC_RELAXED/'
plant triggers-overtake ports "$carry" "$carry" \
    '/take_trigger\(mscclpp_proxy_t/,/^}/s/if \(channel->job_count > 0\)/if (channel->job_count > 1000)/'
plant put-done-twice ports "$carry" "$carry" 's/request->type &= ~\(uint32_t\)MSCCLPP_TRIGGER_DATA;//'
plant signal-done-twice ports "$carry" "$carry" 's/request->type &= ~\(uint32_t\)MSCCLPP_TRIGGER_SIGNAL;//'
plant put-with-signal-twice ports "$carry" "$carry" 's/request->type &= ~put_and_signal;//'
plant port-wait-relaxed ports "$channel" "$launcher" \
    's/ld_acquire_sys_u64\((channel->inbound\) < )/ld_relaxed_sys_u64(\1/'
plant port-flush-relaxed ports "$channel" "$launcher" 's/ld_acquire_sys_u64\((channel->flushed)/ld_relaxed_sys_u64(\1/'
shm=mca/common/transport/shm.c
plant shm-signal-relaxed ports "$shm" "$shm" 's/token, 1, __ATOMIC_RELEASE/token, 1, __ATOMIC_RELAXED/'
plant shm-signal-before-put ports "$shm" "$shm" '/^static mscclpp_status_t shm_put_signal/,/^}/{/give_signal/d
    s/^        if \(length > 0\)/        give_signal(conn, token);\n&/}'
# The conformance test finds out transports that are wrong.
late=test/host/late_transport.c
plant transport-signal-overtakes transport "$late" "$late" \
    '/mscclpp_status_t late_signal/,/^}/s/begin\(conn.*/inner_ops()->signal(conn->inner, (uint32_t)op.to);/'
plant transport-flush-early transport "$late" "$late" 's/conn->done >= ticket/conn->done + 1 >= ticket/'
plant transport-short-put transport "$late" "$late" \
    's/op->from, op->length\)/op->from, op->length - (op->length > 9999))/'
plant transport-does-though-full transport "$late" "$late" \
    's/^    conn->ops\[.*= \*op;$/&\n    if (conn->begun % 97 == 0) {\n        return MSCCLPP_IN_PROGRESS;\n    }/'
plant transport-add-32 transport "$late" "$late" 's/op->to, op->length\);$/op->to, (uint32_t)op->length);/'
