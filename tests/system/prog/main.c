// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-peer TEST ARGUMENT [HOST]: with HOST it is the client of the server at HOST. */
#include "local.h"
#include "peer.h"
#include "rail.h"
#include "session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct pattern *const patterns[] = { &slices, &lists, &blocks };

int main(int argc, char **argv)
{
	struct peer p = { .sock = -1 };

	signal(SIGPIPE, SIG_IGN);
	if (argc < 3) {
		fprintf(stderr, "usage: ohca-peer verify rc|uc|ud [HOST]\n"
			"       ohca-peer error SCENARIO [HOST]\n"
			"       ohca-peer stream SECONDS [HOST]\n"
			"       ohca-peer until-error SECONDS [HOST]\n"
			"       ohca-peer endure SECONDS [HOST]\n"
			"       ohca-peer alltoall SECONDS NODE NODES\n"
			"       ohca-peer allreduce SECONDS RANK RANKS\n"
			"       ohca-peer slices|lists|blocks SECONDS [HOST]\n"
			"       ohca-peer deceived SECONDS\n"
			"       ohca-peer migrate link|driver [HOST]\n"
			"       ohca-peer tenant P_KEY,MLID,0|1 [HOST]\n"
			"       ohca-peer movable dmabuf [HOST]\n"
			"       ohca-peer placed event|doorbell [HOST]\n"
			"       ohca-peer hostile SCENARIO\n"
			"       ohca-peer attack spin|err|index SECONDS\n"
			"       ohca-peer limits WHAT\n"
			"       ohca-peer probe dmabuf|speed|iova2|ece|events\n"
			"       ohca-peer roce write [HOST]\n"
			"       ohca-peer queues builder|resize|clock\n"
			"       ohca-peer resize qp\n"
			"       ohca-peer scale QPS MRS\n"
			"       ohca-peer srq resize\n"
			"       ohca-peer xrc share\n"
			"       ohca-peer paged odp[_moving|_swapped|_squeezed|_killed]\n"
			"       ohca-peer paged odp_stalled_prefetches|odp_stalled_faults|odp_tables\n"
			"       ohca-peer paged odp_srq|odp_xrc|odp_uc|odp_ud\n"
			"       ohca-peer paged dmabuf[_moving|_revoked|_pinned|_killed|_held]\n"
			"       ohca-peer local SCENARIO\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(120);
	if (!strcmp(argv[1], "hostile")) {
		hostile_main(argv[2]);
		return 0;
	}
	if (!strcmp(argv[1], "attack") && argc > 3) {
		attack_main(argv[2], atof(argv[3]));
		return 0;
	}
	if (!strcmp(argv[1], "xrc")) {
		xrc_main(argv[2]);
		return 0;
	}
	if (!strcmp(argv[1], "local")) {
		local_main(argv[2]);
		return 0;
	}
	if (!strcmp(argv[1], "limits")) {
		limits_main(argv[2]);
		return 0;
	}
	if (!strcmp(argv[1], "probe")) {
		probe_main(&p, argv[2]);
		return 0;
	}
	if (!strcmp(argv[1], "queues")) {
		queues_main(argv[2]);
		return 0;
	}
	if (!strcmp(argv[1], "srq")) {
		srq_main(argv[2]);
		return 0;
	}
	if (!strcmp(argv[1], "resize")) {
		resize_main(argv[2]);
		return 0;
	}
	if (!strcmp(argv[1], "scale") && argc > 3) {
		scale_main((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
		return 0;
	}
	if (!strcmp(argv[1], "endure")) {
		endure_main(atof(argv[2]), argv[3]);
		return 0;
	}
	if (!strcmp(argv[1], "alltoall") && argc > 4) {
		alltoall_main(atof(argv[2]), atoi(argv[3]), atoi(argv[4]));
		return 0;
	}
	if (!strcmp(argv[1], "allreduce") && argc > 4) {
		allreduce_main(atof(argv[2]), atoi(argv[3]), atoi(argv[4]));
		return 0;
	}
	for (unsigned int i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		if (!strcmp(argv[1], patterns[i]->name)) {
			session_main(patterns[i], atof(argv[2]), argv[3]);
			return 0;
		}
	}
	if (!strcmp(argv[1], "deceived")) {
		deceived_main(atof(argv[2]));
		return 0;
	}
	if (!strcmp(argv[1], "paged")) {
		paged_main(&p, argv[2]);
		return 0;
	}
	p.client = argc > 3;
	p.sock = peer_meet(argv[3]);
	if (!strcmp(argv[1], "verify"))
		verify_main(&p, argv[2]);
	else if (!strcmp(argv[1], "error"))
		errors_main(&p, argv[2]);
	else if (!strcmp(argv[1], "stream"))
		stream_main(&p, atof(argv[2]), false);
	else if (!strcmp(argv[1], "until-error"))
		stream_main(&p, atof(argv[2]), true);
	else if (!strcmp(argv[1], "movable"))
		movable_main(&p);
	else if (!strcmp(argv[1], "tenant"))
		tenant_main(&p, argv[2]);
	else if (!strcmp(argv[1], "roce"))
		roce_main(&p);
	else if (!strcmp(argv[1], "placed"))
		placed_main(&p, argv[2]);
	else if (!strcmp(argv[1], "migrate"))
		migrate_main(&p, argv[2]);
	else
		fail("no such test: %s", argv[1]);
	return 0;
}
