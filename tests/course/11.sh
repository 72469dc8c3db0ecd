#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 11: ftree, and a core switch that is switched off.
. "$(dirname "$0")/lib.sh"
node 1 "printf '%s\\n' 'routing_engine ftree' 'force_log_flush TRUE' >/etc/opensm/opensm.conf"
restart_sm
until_true 120 node 1 "grep -q 'ftree tables configured' /var/log/opensm.log"
# a core switch on the route to the last host, which then needs another route
core=$(fabric trace host1 host128 | sed -n 's/.*"\(core[0-9]*\)".*/\1/p')
fabric node kill "$core"
until_true 120 fabric trace host1 host128
# all other routes, too
until_true 120 "$LAB" course 11 --check
