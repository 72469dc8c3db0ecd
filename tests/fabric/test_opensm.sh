#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Unmodified OpenSM and infiniband-diags at hosts of ohca-fabric, by ibsim's libumad2sim. One line
# for each part.
#	test_opensm.sh FABRIC MANY_SMPS
# shellcheck disable=SC2317 # functions are called by check

fabric=$1
many=$2
lib=$(echo /usr/lib/*/umad2sim/libumad2sim.so)
dir=$(mktemp -d) || exit 1
cd "$dir" || exit 1			# the library makes directories where it is started
export IBSIM_SOCKNAME=test-$$ OSM_TMP_DIR=$dir OSM_CACHE_DIR=$dir
pids=()
bad=0

# Ends all processes of this script; timeout(1) passes the signal on, and kills those that do not end.
finish()
{
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null
	wait 2>/dev/null
	rm -rf "$dir"
}
trap finish EXIT

# check NAME COMMAND...: the command succeeds
check()
{
	if "${@:2}" >log 2>&1; then
		echo "PASS: $1"
	else
		echo "FAIL: $1: status $?: $(tail -5 log)"
		bad=1
	fi
}

not()
{
	! "$@"
}

# at HOST COMMAND...: a program at that host
at()
{
	SIM_HOST=$1 LD_PRELOAD=$lib timeout -k 1 20 "${@:2}" 2>err || { cat err; return 1; }
}

# says TEXT COMMAND...: the command succeeds and prints the TEXT
says()
{
	"${@:2}" >out 2>&1 && grep -q -- "$1" out && return
	head -40 out
	return 1
}

# within SECONDS COMMAND...: it succeeds by then
within()
{
	local end=$((SECONDS + $1))
	until "${@:2}" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

# serve ARGUMENT...: runs a fabric until stop. Without --foreground, timeout sends SIGCONT after a signal,
# and LeakSanitizer, which stops the process at its end, may hang.
serve()
{
	: >ready	# not what the one before has said
	timeout --foreground -k 9 100 "$fabric" serve "$@" --umad2sim="$IBSIM_SOCKNAME" \
		--control control >ready &
	pids=($!)
	within 10 grep -q ready ready
}

stop()
{
	kill "${pids[0]}"
	wait "${pids[0]}"
	local rc=$?
	pids=()
	return "$rc"
}

# Nodes and cables of a topology file, without LIDs and comments.
shape()
{
	sed 's/[[:space:]]*#.*//' "$@" | grep -E '^(Switch|Ca|Rt|\[)' | sed 's/([0-9a-f]*)//g' |
		tr -d ' \t' | sort
}

same_shape()
{
	at host1 ibnetdiscover >found && "$fabric" check found && diff <(shape found) <(shape "$1")
}

# all_active COUNT: that many ends of links are Active, and no other one is up.
all_active()
{
	at host1 iblinkinfo >links || return
	[ "$(grep -o 'Active/ *LinkUp' links | wc -l)" = "$1" ] && ! grep -E 'Init|Armed' links
}

# IsSM of host 1, which has LID 1, from its PortInfo
is_sm()
{
	says IsSM at host2 smpquery portinfo 1 1
}

no_sm()
{
	at host2 smpquery portinfo 1 1 >caps && ! grep -w IsSM caps
}

opensm_once()
{
	at host1 opensm -o -f osm.log || return
	grep -q 'SUBNET UP' osm.log && ! grep ' ERR ' osm.log
}

# Quality of service, and one SMP for all SLtoVLMappingTables of a switch
opensm_qos()
{
	printf '%s\n' 'qos TRUE' 'use_optimized_slvl TRUE' 'qos_max_vls 4' \
		'qos_sl2vl 3,2,1,0,3,2,1,0,3,2,1,0,3,2,1,0' >qos.conf
	at host1 opensm -o -F qos.conf -f qos.log || return
	grep -q 'SUBNET UP' qos.log && ! grep ' ERR ' qos.log
}

# opensm_stays NUMBER HOST: starts OpenSM as a child of pids[NUMBER]; only traps make it sweep again
opensm_stays()
{
	printf '%s\n' 'force_log_flush TRUE' 'sweep_interval 0' 'sminfo_polling_timeout 300' \
		'polling_retry_number 2' >conf
	SIM_HOST=$2 LD_PRELOAD=$lib timeout -k 1 60 opensm -F conf -f "osm$1.log" >/dev/null 2>&1 &
	pids[$1]=$!
}

# up NUMBER COUNT: OpenSM has set the subnet up that many times
up()
{
	[ "$(grep -c 'SUBNET UP' "osm$1.log")" -ge "$2" ]
}

# lid_of NODE: its LID from ibnetdiscover
lid_of()
{
	at host2 ibnetdiscover -p >list || return
	awk -v n="[(] '$1' - " '$0 ~ n { print $2; exit }' list
}

counters_of_switch()
{
	local lid
	lid=$(lid_of switch1) && says 'PortXmitPkts:\.*[1-9]' at host2 perfquery -a "$lid"
}

# Every host reaches every other one by its LID.
all_to_all()
{
	local from to lid
	for to in 1 2 3 4; do
		lid=$(lid_of "host$to") || return
		for from in 1 2 3 4; do
			says "host$to" at "host$from" smpquery nodedesc "$lid" || return
		done
	done
}

"$fabric" generate star:4 >star
check 'a fabric is served' serve --generate star:4
check 'its name is taken' says 'another one runs' not "$fabric" serve --generate star:2 \
	--umad2sim="$IBSIM_SOCKNAME"
check 'no such host' not at nobody smpquery -D nodeinfo 0
check 'ibnetdiscover finds the topology' same_shape star
check 'a directed route without hops' says 'Channel Adapter' at host3 smpquery -D nodeinfo 0
check 'of one, from a host named by its GUID' says 'LocalPort:.*2$' at H-5254010000000200 \
	smpquery -D nodeinfo 0,1
check 'of two' says 'host4' at host2 smpquery -D nodedesc 0,1,4
check 'OpenSM sets the subnet up' opensm_once
check 'all links are Active' all_active 8
check 'every host reaches every other one' all_to_all
check 'OpenSM with quality of service' opensm_qos
check 'sets all mappings of a switch at once' \
	says 'smps SLtoVLMappingTable: Get 0, Set 5$' "$fabric" status -c control
check 'of every pair of ports' says 'ports: in  2, out  3: | 3| 2| 1| 0| 3' \
	at host2 smpquery sl2vl "$(lid_of switch1)" 3
check 'counters of a host' says 'PortRcvPkts:\.*[1-9]' at host2 perfquery 1 1
check 'counters of all ports of a switch' counters_of_switch
check 'no subnet manager is left' no_sm
check '1,000 SMPs outstanding' at host3 "$many" 1000
check '20,000 of a program that sleeps before it reads' at host3 "$many" 20000 1
check 'it tells what it answered' says 'smps NodeInfo: Get [1-9]' "$fabric" status -c control
check 'and of links' says 'links_active: 4' "$fabric" status -c control
check 'it ends' stop

# remote COMMAND...: runs a program that connects by UDP
remote()
{
	IBSIM_SERVER_NAME=127.0.0.1 IBSIM_SERVER_PORT=$port at host1 "$@"
}

# If the port is not free, another one is tried.
serve_udp()
{
	for port in 27070 28070 29070; do
		serve --generate star:4 --umad2sim-udp "127.0.0.1:$port" && return
	done
	return 1
}

check 'a fabric for other hosts' serve_udp
check 'ibnetdiscover from there' says 'host4' remote ibnetdiscover
check 'OpenSM from there' says 'SUBNET UP' remote opensm -o -f stdout
check 'all its links are Active' all_active 8
check 'it ends, too' stop

# A second daemon, of another site, whose switch a wire joins to that of the first
second()
{
	timeout --foreground -k 9 100 "$fabric" serve --generate star:3 --site 2 --token token --quiet \
		--wire "switch1:1=$address/switch1:4" --umad2sim="$IBSIM_SOCKNAME-2" \
		--control control2 >ready2 &
	pids[1]=$!
	within 10 grep -q ready ready2
}

joined()
{
	echo 'a secret of this test' >token
	serve --generate star:4 --site 1 --token token --listen-tcp 0 --wire switch1:4 || return
	address=$(sed -n 's/.*listens at tcp://p' ready)
	second
}

# Nodes of both: two switches and five hosts
both_found()
{
	at host1 ibnetdiscover >found && "$fabric" check found &&
		[ "$(grep -c '^Switch' found) $(grep -c '^Ca' found)" = '2 5' ]
}

# second_at HOST COMMAND...: a program at a host of the second
second_at()
{
	IBSIM_SOCKNAME=$IBSIM_SOCKNAME-2 at "$@"
}

wire_counted()
{
	says 'LinkDownedCounter 1' "$fabric" counters switch1 -c control
}

end_second()
{
	kill "${pids[1]}"
	wait "${pids[1]}"
}

check 'two fabrics that a wire joins' joined
check 'are one' within 10 both_found
check 'that OpenSM sets up' opensm_once
check 'with all links Active' all_active 12
check 'from one end to the other' says host3 second_at host2 smpquery nodedesc "$(lid_of host3)"
check 'the second ends' end_second
check 'and the wire is counted down' within 10 wire_counted
check 'it comes back' second
check 'and so does the wire' within 10 both_found
check 'OpenSM sets it up again' opensm_once
check 'they end' end_second
check 'both' stop

check 'another fabric' serve --generate fat-tree:4
opensm_stays 1 host1
check 'OpenSM stays' within 10 up 1 1
check 'and its port says so' is_sm
check 'the subnet administration, from afar' says host8 at host6 saquery NR "$(lid_of host8)"
spine=$(lid_of spine1)
check 'a route by LID to a spine, directed from there' says host4 at host6 smpquery -c nodedesc \
	"$spine" 0,2,2
check 'a link is taken down' at host3 ibportstate "$spine" 1 disable
check 'its other end tells OpenSM, which routes anew' within 10 up 1 2
check 'all but this link are Active' all_active 30
check 'it comes back' at host3 ibportstate "$spine" 1 enable
check 'and is found' within 10 all_active 32
opensm_stays 2 host5
check 'another one stands by' within 10 grep -q 'Entering STANDBY' osm2.log
kill -9 "$(cat "/proc/${pids[1]}/task/${pids[1]}/children")"
wait "${pids[1]}" 2>/dev/null
check 'the first one, killed, is no subnet manager any more' no_sm
check 'the other one takes over' within 10 up 2 1
check 'and says so to all' says "SMLid:\.*$(lid_of host5)$" at host2 smpquery -D portinfo 0 1
exit $bad
