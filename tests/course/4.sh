#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 4: partition 0x8123 of nodes 1 and 2, and IPoIB in it.
. "$(dirname "$0")/lib.sh"
for k in 1 2; do
	guid[k]=0x$(node $k 'ibstat ohca_0 1' | sed -n 's/.*Port GUID: 0x//p')
done
node 1 "printf '%s\n' 'Default=0x7fff,ipoib: ALL=full;' \
	'blue=0x123,ipoib: ${guid[1]}=full, ${guid[2]}=full;' >/etc/opensm/partitions.conf
	pkill -HUP -x opensm"
for k in 1 2; do
	until_true 60 node $k 'grep -qx 0x8123 /sys/class/infiniband/ohca_0/ports/1/pkeys/*'
	node $k "ip link add link ib0 name ib0.8123 type ipoib pkey 0x8123
		ip addr add 10.79.0.$k/24 dev ib0.8123 && ip link set ib0.8123 up"
done
until_true 60 node 1 'ping -c 1 -W 1 10.79.0.2'
