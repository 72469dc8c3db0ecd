#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 12: the job once more, over verbs; all traffic except that of its start uses verbs.
. "$(dirname "$0")/lib.sh"
"$LAB" traffic --start
node 1 'export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	mpirun --host node1,node2 --mca pml ucx -x UCX_TLS=rc,self python3 /root/training.py >/root/two'
"$LAB" traffic --expect verbs
