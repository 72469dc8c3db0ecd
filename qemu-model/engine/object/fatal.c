/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fatal state of the device: an event to the driver, and no operation until reset. */
#include "engine/base/guestmem.h"
#include "engine/base/state.h"
#include "engine/object/eq.h"
#include "engine/object/fatal.h"
#include "ohca_hw.h"

void ohca_fatal(ohca_engine *e, enum ohca_fatal reason)
{
	uint32_t s = atomic_load(&e->status);

	if (s & OHCA_STATUS_FATAL)
		return;
	ohca_trace(e, OHCA_TR_FATAL, reason, 0, 0, 0);
	/* report it to the driver, unless an EQ has failed */
	if (reason != OHCA_FATAL_EQ_DMA && e->async_eq && ohca_running(e) &&
	    ohca_eq_room(e->async_eq)) {
		ohca_dma_enter(e);
		ohca_eq_push(e, e->async_eq, OHCA_EVENT_DEVICE_FATAL, 0, 0, 0);
		ohca_dma_exit(e);
	}
	/* writing the EQE may have failed and set FATAL already */
	if (atomic_load(&e->status) & OHCA_STATUS_FATAL)
		return;
	atomic_store(&e->fatal_reason, reason);
	atomic_store(&e->status, s | OHCA_STATUS_FATAL);
}
