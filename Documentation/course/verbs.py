# SPDX-License-Identifier: GPL-2.0-or-later
# pylint: disable=import-error,no-name-in-module,invalid-name  # the guests have them
"""One end of an RDMA WRITE: 'verbs.py' waits on node 1, 'verbs.py node1' writes from node 2."""
import json
import socket
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

SIZE, PSN = 4096, 1000
RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
OPCODE = e.IBV_WR_RDMA_WRITE

context = Context(name="ohca_0")
pd = PD(context)                        # queue pairs can use memory of the same PD only
mr = MR(pd, SIZE, RIGHTS)               # memory that the adapter may use, with its keys
cq = CQ(context, 10)                    # where completions arrive
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq,
                       cap=QPCap(max_send_wr=1, max_recv_wr=1)))

# both ends exchange their addresses by TCP, since no queue pair is connected yet
if len(sys.argv) == 1:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        text = f.read().strip()
    peer = socket.create_server(("", 4000)).accept()[0]
else:
    text = "written by RDMA"
    peer = socket.create_connection((sys.argv[1], 4000))
mr.write(text, len(text))
stream = peer.makefile("rw")
mine = {"lid": context.query_port(1).lid, "qpn": qp.qp_num, "addr": mr.buf, "rkey": mr.rkey}
print(json.dumps(mine), file=stream, flush=True)
other = json.loads(stream.readline())
print("the other end:", other)

# Reset, Init, Ready to Receive, Ready to Send
attr = QPAttr(port_num=1)
attr.qp_access_flags = RIGHTS
qp.to_init(attr)
attr.path_mtu, attr.dest_qp_num, attr.rq_psn = e.IBV_MTU_4096, other["qpn"], PSN
attr.max_dest_rd_atomic, attr.min_rnr_timer = 1, 12
attr.ah_attr = AHAttr(dlid=other["lid"], port_num=1)
qp.to_rtr(attr)
attr.sq_psn, attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.max_rd_atomic = PSN, 14, 7, 7, 1
qp.to_rts(attr)
print("ready", file=stream, flush=True)
stream.readline()

if len(sys.argv) > 1:
    wr = SendWR(opcode=OPCODE, num_sge=1, sg=[SGE(mr.buf, 64, mr.lkey)])
    wr.set_wr_rdma(other["rkey"], other["addr"])
    qp.post_send(wr)
    count = 0
    while not count:
        count, completions = cq.poll()
    print("completed, status", completions[0].status)
    print("done", file=stream, flush=True)
else:
    stream.readline()
print("my memory:", mr.read(64, 0).rstrip(b"\0").decode())
