/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requester of RC, UC and XRC. */
#ifndef OHCA_TRANSPORT_REQUESTER_H
#define OHCA_TRANSPORT_REQUESTER_H

#include <stdint.h>

#include "engine/engine.h"
#include "engine/transport/turn.h"

struct ohca_qp;

#define OHCA_REQ_WINDOW		2048u	/* packets in flight of one QP */
#define OHCA_ACK_EVERY		32u	/* one of so many packets has AckReq */
#define OHCA_READ_CHUNK		65536u	/* most response packets of one READ request */

/* Send one packet of @qp, RC, UC or XRC, or several as a series. */
enum ohca_sent ohca_req_send(ohca_engine *e, struct ohca_qp *qp, struct ohca_turn *t);

#endif /* OHCA_TRANSPORT_REQUESTER_H */
