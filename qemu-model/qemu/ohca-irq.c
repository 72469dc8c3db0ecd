/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts from the HCA to the guest.
 *
 * The process ohca-fabric collects vectors in the page that it shares with the
 * device. The thread "ohca-irq" waits until there are vectors. MSI-X needs the
 * BQL. A thread that holds the BQL delivers the vectors at once. Other threads
 * must not wait for the BQL: they queue the delivery on a vCPU, which takes the
 * BQL anyway to handle its interrupt. A bottom half in the main loop would need
 * one more thread switch, which on a busy host doubles the latency of a
 * completion event.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "hw/pci/msix.h"
#include "ohca.h"
#include "trace.h"

/* Under the BQL. */
static void ohca_irq_deliver(OhcaState *s)
{
    uint64_t vec[OHCA_PAGE_VECTORS / 64];
    unsigned int i;

    if (!ohca_front_irqs(ohca_front_of(s), s->num_vectors, vec)) {
        return;
    }
    ohca_hosted_told(s);
    for (i = 0; i < ARRAY_SIZE(vec); i++) {
        for (; vec[i]; vec[i] &= vec[i] - 1) {
            trace_ohca_irq(i * 64 + ctz64(vec[i]));
            msix_notify(PCI_DEVICE(s), i * 64 + ctz64(vec[i]));
        }
    }
}

/* In the thread of a vCPU, under the BQL. */
static void ohca_irq_on_cpu(CPUState *cpu, run_on_cpu_data data)
{
    OhcaState *s = data.host_ptr;

    qatomic_xchg(&s->irq_queued, 0);
    ohca_irq_deliver(s);
    object_unref(OBJECT(s));
}

/**
 * ohca_irq_flush: deliver raised vectors; never waits
 *
 * In an RCU critical section, under the BQL, or in the thread "ohca-irq", which
 * ends before its connection is freed.
 */
void ohca_irq_flush(OhcaState *s)
{
    if (likely(!ohca_front_irq_any(ohca_front_of(s)))) {
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
