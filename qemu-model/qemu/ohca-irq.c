/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts, from the HCA to the guest.
 *
 * The fabric's process collects vectors in the page that it shares with the
 * device, and a thread of ours waits for it to say that there are any. MSI-X
 * belongs to the BQL. A vCPU or the main loop that holds the BQL delivers at once.
 * Any other thread must not wait for the BQL and leaves it to a vCPU, between two
 * instructions of it or out of its sleep: that vCPU takes the BQL anyway to see
 * its interrupt. By way of the main loop one more thread would have to be
 * scheduled, which on a busy host doubles the time a completion event takes.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "hw/pci/msix.h"
#include "ohca.h"
#include "trace.h"

/* BQL. */
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

/* In a vCPU's thread, under the BQL. */
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
 * In an RCU critical section, under the BQL, or of the thread that ends before its
 * front does.
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
