// SPDX-License-Identifier: GPL-2.0-or-later
/* Decides for how long a thread waits awake; see spin.h. */
#include "spin.h"

void fab_spin_init(struct fab_spin *s, uint32_t us, uint32_t processors)
{
	*s = (struct fab_spin){
		.automatic = us == FAB_SPIN_AUTO,
		.window_ns = us == FAB_SPIN_AUTO ? FAB_SPIN_LEAST_NS : us * 1000u,
		.processors = processors,
		.patience = FAB_SPIN_PATIENCE,
	};
}

void fab_spin_idled(struct fab_spin *s, uint64_t ns)
{
	const uint32_t w = s->window_ns;

	/* work that arrived within the window needs no wider one */
	if (!s->automatic || s->busy || ns <= w)
		return;
	if (ns <= FAB_SPIN_MAX_NS)
		s->window_ns = w < FAB_SPIN_MIN_NS ? FAB_SPIN_MIN_NS : 2 * w;
	else
		s->window_ns = w > FAB_SPIN_MIN_NS ? w / 2 : FAB_SPIN_LEAST_NS;
}

bool fab_spin_due(const struct fab_spin *s, uint64_t now_ns)
{
	return s->automatic && now_ns - s->looked_ns >= FAB_SPIN_LOOK_NS;
}

static bool found_busy(struct fab_spin *s)
{
	if (s->busy || (unsigned int)__builtin_popcount(s->found) < FAB_SPIN_BUSY)
		return false;
	if (s->patience < FAB_SPIN_PATIENCE_MAX)
		s->patience *= 2;
	s->busy = true;
	s->window_ns = FAB_SPIN_LEAST_NS;
	return true;
}

static bool found_free(struct fab_spin *s)
{
	if (s->calm < s->patience)
		s->calm++;
	if (s->calm < s->patience)
		return false;
	if (!s->busy) {
		s->patience = s->calm = FAB_SPIN_PATIENCE;
		return false;
	}
	s->busy = false;
	s->calm = 0;
	return true;
}

bool fab_spin_look(struct fab_spin *s, uint64_t now_ns, uint32_t runnable)
{
	const bool over = runnable > s->processors;

	s->looked_ns = now_ns;
	s->runnable = runnable;
	s->found = (uint8_t)(s->found << 1 | over);
	if (!over)
		return found_free(s);
	s->calm = 0;
	return found_busy(s);
}
