#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 2: OpenSM gives each port two LIDs.
. "$(dirname "$0")/lib.sh"
node 1 'echo "lmc 1" >/etc/opensm/opensm.conf'
restart_sm
two() { node 3 "grep -q '^1$' /sys/class/infiniband/ohca_0/ports/1/lid_mask_count"; }
until_true 60 two
