// SPDX-License-Identifier: GPL-2.0-or-later
/* Decides whether a thread waits awake; see spin.h. */
#include "spin.h"

void fab_spin_init(struct fab_spin *s, uint32_t us)
{
	*s = (struct fab_spin){
		.automatic = us == FAB_SPIN_AUTO,
		.window_ns = us == FAB_SPIN_AUTO ? 0 : us * 1000u,
		.patience = FAB_SPIN_PATIENCE,
	};
}

void fab_spin_idled(struct fab_spin *s, uint64_t ns)
{
	/* work that arrived within the window needs no wider one */
	if (!s->automatic || s->busy || ns <= s->window_ns)
		return;
	if (ns <= FAB_SPIN_MAX_NS)
		s->window_ns = s->window_ns ? s->window_ns * 2 : FAB_SPIN_MIN_NS;
	else
		s->window_ns = s->window_ns > FAB_SPIN_MIN_NS ? s->window_ns / 2 : 0;
}

bool fab_spin_due(const struct fab_spin *s, uint64_t now_ns)
{
	return s->automatic && now_ns - s->looked_ns >= FAB_SPIN_LOOK_NS;
}

/* Delay since the last look that sleeps do not explain, in tenths of a percent of the time. */
static uint32_t delay_since(const struct fab_spin *s, uint64_t ns, const struct fab_spin_look *look)
{
	const uint64_t delay = look->delay_ns - s->last.delay_ns;
	const uint64_t sleeps = (look->sleeps - s->last.sleeps) * FAB_SPIN_WAKE_NS;

	return delay > sleeps ? (uint32_t)((delay - sleeps) * 1000 / ns) : 0;
}

static bool found_busy(struct fab_spin *s)
{
	const bool news = !s->busy;

	s->calm = 0;
	if (news && s->patience < FAB_SPIN_PATIENCE_MAX)
		s->patience *= 2;
	s->busy = true;
	s->window_ns = 0;
	return news;
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

bool fab_spin_look(struct fab_spin *s, uint64_t now_ns, const struct fab_spin_look *look)
{
	const uint64_t ns = now_ns - s->looked_ns;
	const bool first = !s->looked_ns;

	if (!first)
		s->delay = delay_since(s, ns, look);
	s->looked_ns = now_ns;
	s->last = *look;
	if (first)
		return false;
	return s->delay > FAB_SPIN_BUSY * 10 ? found_busy(s) : found_free(s);
}
