/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts, from the engine to the guest.
 *
 * The engine raises vectors under the lock; they are collected, and delivered
 * when the lock was released. MSI-X belongs to the BQL. A vCPU or the main loop
 * that holds the BQL delivers at once. Any other thread, above all the owner
 * thread, must not wait for the BQL and leaves it to a vCPU, between two
 * instructions of it or out of its sleep: that vCPU takes the BQL anyway to see
 * its interrupt. By way of the main loop one more thread would have to be
 * scheduled, which on a busy host doubles the time a completion event takes.
 *
 * With host=daemon the vectors are collected in the page that the device shares
 * with the fabric's process, and a thread waits for it to say that there are any.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "hw/pci/msix.h"
#include "ohca.h"
#include "trace.h"

/* Host operation; owner. */
void ohca_irq(void *opaque, unsigned int vec)
{
    OhcaState *s = opaque;

    if (vec < s->num_vectors) {
        qatomic_or(&s->irq[vec / 64], 1ull << (vec % 64));
        qatomic_store_release(&s->irq_any, 1);
    }
}

/**
 * ohca_irq_clear: drop vectors that are raised and not delivered; owner, BQL
 *
 * After a reset no earlier interrupt may be delivered.
 */
void ohca_irq_clear(OhcaState *s)
{
    unsigned int i;

    for (i = 0; i < OHCA_IRQ_WORDS; i++) {
        qatomic_set(&s->irq[i], 0);
    }
    qatomic_set(&s->irq_any, 0);
}

static void ohca_irq_raise(void *opaque, unsigned int vec)
{
    trace_ohca_irq(vec);
    msix_notify(opaque, vec);
}

/* Of the process that hosts the engine: in an RCU critical section or under the BQL. */
static struct ohca_front *ohca_irq_front(OhcaState *s)
{
    return qatomic_rcu_read(&s->host.front)->f;
}

/* BQL. */
static void ohca_irq_deliver(OhcaState *s)
{
    unsigned int i;

    if (s->hosted) {
        ohca_front_irqs(ohca_irq_front(s), s->num_vectors, ohca_irq_raise, s);
        return;
    }
    qatomic_xchg(&s->irq_any, 0);
    for (i = 0; i < DIV_ROUND_UP(s->num_vectors, 64); i++) {
        uint64_t mask = qatomic_xchg(&s->irq[i], 0);

        for (; mask; mask &= mask - 1) {
            ohca_irq_raise(s, i * 64 + ctz64(mask));
        }
    }
}

/* In a vCPU's thread, under the BQL. */
static void ohca_irq_on_cpu(CPUState *cpu, run_on_cpu_data data)
{
    OhcaState *s = data.host_ptr;

    qatomic_xchg(&s->irq_queued, 0);
    ohca_irq_deliver(s);
    object_unref(OBJECT(s));
}

/**
 * ohca_irq_flush: deliver raised vectors; not the owner, never waits
 *
 * With host=daemon in an RCU critical section, under the BQL, or of the thread
 * that ends before its front does.
 */
void ohca_irq_flush(OhcaState *s)
{
    if (likely(!(s->hosted ? ohca_front_irq_any(ohca_irq_front(s))
                           : qatomic_read(&s->irq_any)))) {
        return;
    }
    if (bql_locked()) {
        ohca_irq_deliver(s);
    } else if (!qatomic_xchg(&s->irq_queued, 1)) {
        object_ref(OBJECT(s));
        async_run_on_cpu(current_cpu ?: first_cpu, ohca_irq_on_cpu,
                         RUN_ON_CPU_HOST_PTR(s));
    }
}
