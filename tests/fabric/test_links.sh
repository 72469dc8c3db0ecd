#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The unmodified OpenSM brings a fabric up and handles machines that attach and leave, and
# infiniband-diags print the true state. Machines are processes with libohca-umad.so, which attach
# by links. Waits end with their condition; their limits are for a busy host. One line for each
# part: PASS, or FAIL with the error.
#	test_links.sh FABRIC LIBRARY FORK_UMAD
# shellcheck disable=SC2317 # cleanup is called by the trap

fabric=$1
library=$(realpath "$2")
forks=$3
dir=$(mktemp -d) || exit 1
pids=()
bad=0
patience=60
socket=$dir/s
export OSM_CACHE_DIR=$dir OSM_TMP_DIR=$dir

cleanup()
{
	for p in "${pids[@]}"; do
		kill -9 "$p" 2>/dev/null && wait "$p" 2>/dev/null
	done
	rm -rf "$dir"
}
trap cleanup EXIT

fail()
{
	echo "FAIL: links: $*"
	bad=1
	part_bad=1
}

# part NAME: ends the part before
part_name=
part()
{
	if [ -n "$part_name" ] && [ "$part_bad" -eq 0 ]; then
		echo "PASS: links $part_name"
	fi
	part_name=$1
	part_bad=0
}

# start GUID COMMAND...: starts it in the background, with its pid in $pid
start()
{
	OHCA_UMAD=$socket,host_$1,0x${1}00 LD_PRELOAD=$library "${@:2}" >"$dir/out.$1" 2>&1 </dev/null &
	pid=$!
	pids+=("$pid")
}

# wait_for TEXT FILE
wait_for()
{
	for ((i = 0; i < patience * 20; i++)); do
		grep -qa -- "$1" "$2" 2>/dev/null && return 0
		sleep 0.05
	done
	fail "no '$1' in $(basename "$2") within $patience s"
	return 1
}

# tool COMMAND...: runs it on the third node, with its output in $dir/tool
tool()
{
	OHCA_UMAD=$socket,host_103,0x10300 LD_PRELOAD=$library timeout -k 1 "$patience" "$@" \
		>"$dir/tool" 2>&1 </dev/null
}

# expect TEXT COMMAND...: it succeeds and prints TEXT (basic regular expression)
expect()
{
	if ! tool "${@:2}"; then
		fail "'${*:2}' failed: $(tail -3 "$dir/tool")"
	elif ! grep -q -- "$1" "$dir/tool"; then
		fail "'${*:2}' did not say '$1':"
		head -40 "$dir/tool"
	fi
}

# The errors that OpenSM logs because the link of a tool goes down when the tool ends: an SMP to the tool
# gets no response, and a port of the switch that is Down refuses a state with status 0x1C (14.2.5.6).
tools='ERR 3111: Received MAD with error status = 0x1C$|IB_TIMEOUT|ERR 3120: Timeout while getting'
tools+='|ERR 3119: Set method failed|ERR 3315: Unknown remote side'

# no_errors EXPECTED LOG...: the SM has logged no errors but the EXPECTED ones (extended regular expression)
no_errors()
{
	if grep -a 'ERR ' "${@:2}" | grep -avE "$1"; then
		fail 'OpenSM reported errors'
	fi
}

# topology: a file of nodes from standard input, one a line: NAME GUID PORTS, and cables: A PORT B PORT.
# A switch has an S before its PORTS. A host's port has the GUID of its node.
topology()
{
	awk '
	NF == 3 { guid[$1] = $2; ports[$1] = $3; order[++n] = $1; next }
	{ cable[$1, $2] = $3 " " $4; cable[$3, $4] = $1 " " $2 }
	function id(node) { return sprintf("%s-%016s", ports[node] ~ /S/ ? "S" : "H", guid[node]) }
	END {
		for (i = 1; i <= n; i++) {
			node = order[i]
			sw = ports[node] ~ /S/
			count = substr(ports[node], sw + 1) + 0
			name = id(node)
			gsub(/ /, "0", name)
			printf "%sguid=0x%s\n", sw ? "switch" : "ca", guid[node]
			printf "%s %d \"%s\" # \"%s\"", sw ? "Switch" : "Ca", count, name, node
			print sw ? " enhanced port 0 lid 0 lmc 0" : ""
			for (p = 1; p <= count; p++) {
				if (!((node, p) in cable))
					continue
				split(cable[node, p], peer, " ")
				other = id(peer[1])
				gsub(/ /, "0", other)
				printf "[%d]%s \"%s\"[%d]\n", p, sw ? "" : "(" guid[node] ")", other, peer[2]
			}
			print ""
		}
	}'
}

# star NAME GUID HOSTS: a switch with that GUID and hosts
star()
{
	{
		echo "$1 $2 S$3"
		for ((i = 1; i <= $3; i++)); do
			echo "host$i 100${i}0 1"
			echo "$1 $i host$i 1"
		done
	} | topology
}

# serve NAME TOPOLOGY: starts a fabric that listens at the socket NAME; its pid is in $pid
serve()
{
	"$fabric" serve -l "$dir/$1" -t "$2" --hosts-off >"$dir/out-$1" 2>&1 </dev/null &
	pid=$!
	pids+=("$pid")
	wait_for ready "$dir/out-$1"
}

# Programs of Debian 12 have glibc 2.36. Documentation/fabric.rst states the oldest one.
part 'the library: old hosts'
newest=$(objdump -T "$library" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
[ "$newest" = GLIBC_2.34 ] || fail "libohca-umad.so needs $newest, not GLIBC_2.34"

part 'masters and a standby'
star the_switch abc123 12 >"$dir/topology"
serve s "$dir/topology" || exit 1
swpid=$pid

# OpenSM ignores traps in bursts, which our short-lived nodes cause: let it sweep by
# itself, too.
printf '%s\n' 'force_log_flush TRUE' 'sweep_interval 1' 'sminfo_polling_timeout 500' \
	'polling_retry_number 2' >"$dir/conf"
printf 'force_log_flush TRUE\nsweep_interval 0\n' >"$dir/conf-traps"

# One SM with the switch, then a second one as standby.
start 101 opensm -F "$dir/conf" -f "$dir/sm1.log"
sm1=$pid
wait_for 'SUBNET UP' "$dir/sm1.log"
start 102 opensm -F "$dir/conf" -f "$dir/sm2.log"
wait_for 'Entering STANDBY' "$dir/sm2.log"
no_errors '^$' "$dir"/sm?.log

# A third node becomes Active and reaches the master.
expect 'SMINFO_MASTER' sminfo

part tools
lid=$(tool ibnetdiscover; sed -n 's/^Switch.*"S-0000000000abc123".*"the_switch" enhanced port 0 lid \([0-9]*\) .*/\1/p' "$dir/tool")
[ -n "$lid" ] || { fail "ibnetdiscover: $(cat "$dir/tool")"; exit 1; }
# OpenSM activates a host's port before the switch's
for ((i = 0, n = 0; i < patience * 20 && n != 6; i++)); do
	[ "$i" = 0 ] || sleep 0.05
	tool iblinkinfo
	n=$(grep -c 'Active/  LinkUp' "$dir/tool")
done
[ "$n" = 6 ] || fail "iblinkinfo shows $n link ends instead of 6: $(cat "$dir/tool")"
n=$(grep -c 'Down/ Polling' "$dir/tool")
[ "$n" = 9 ] || fail "iblinkinfo shows $n free ports instead of 9"
expect 'NodeType:.*Switch' smpquery nodeinfo "$lid"
expect 'LinearFdbCap:.*49152' smpquery switchinfo "$lid"
expect 'StateChange:.*0' smpquery switchinfo "$lid"
expect '0x0000000000abc123' smpquery guidinfo "$lid"
expect 'LinkState:.*Active' smpquery portinfo "$lid" 2
expect 'MTU:.*4096' smpquery portinfo "$lid" 2
expect '0xffff' smpquery pkeys "$lid" 1
expect 'in  0, out  1: | 0| 1| 2|' smpquery sl2vl "$lid" 1
expect 'WEIGHT' smpquery vlarb "$lid" 1
expect 'host_102' smpquery -c nodedesc "$lid" 0,2
tool smpquery portinfo "$lid" 13 && fail 'smpquery of port 13 of 12 succeeded'
tool smpquery -D cableinfo 0,1 && fail 'an attribute that is not there was answered'
grep -q 'Connection timed out' "$dir/tool" && fail 'an unsupported attribute timed out'

tool "$forks" || fail "a program that forks: $(cat "$dir/tool")"

part 'subnet administration'
# The list of all nodes does not fit into one MAD, so it uses RMPP.
tool saquery NR || fail "saquery: $(tail -3 "$dir/tool")"
n=$(grep -c 'NodeDescription' "$dir/tool")
[ "$n" = 4 ] || fail "saquery shows $n nodes instead of 4: $(cat "$dir/tool")"
expect 'host_102' saquery NR host_102

part 'places'
# refused TEXT PLACE: a program with that OHCA_UMAD ends and prints TEXT
refused()
{
	OHCA_UMAD=$2 LD_PRELOAD=$library timeout -k 1 "$patience" sminfo >"$dir/tool" 2>&1 </dev/null &&
		fail "OHCA_UMAD='$2': succeeded"
	grep -q -- "$1" "$dir/tool" || fail "OHCA_UMAD='$2': $(cat "$dir/tool")"
}
refused 'OHCA_UMAD must be SOCKET' ''
refused "$dir/none" "$dir/none"
refused 'is attached to switch port 1 already' "$socket,host_101,0x10100"
refused "place of 'host1' is taken" "$socket,host1,0x77700"
refused 'the name has 64 characters' "$socket,$(printf '%064d' 0)"
# A program can attach in a host's place by the host's name alone.
OHCA_UMAD=$socket,host5 LD_PRELOAD=$library timeout -k 1 "$patience" smpquery nodedesc -D 0 \
	>"$dir/tool" 2>&1 </dev/null || fail "host5: $(cat "$dir/tool")"
grep -q 'host5' "$dir/tool" || fail "host5: $(cat "$dir/tool")"
wait_for "port 5: .*'host5'" "$dir/out-s"

part 'by TCP'
# A program of another host, with the secret of the fabric.
printf '0123456789abcdef' >"$dir/secret"
printf '0123456789abcdeX' >"$dir/wrong"
"$fabric" serve -g star:4 --hosts-off --listen-tcp 0 --token "$dir/secret" >"$dir/out-tcp" 2>&1 </dev/null &
pids+=("$!")
wait_for 'ready' "$dir/out-tcp"
by_tcp=$(sed -n 's/.*listens at \(tcp:.*\)/\1/p' "$dir/out-tcp")
OHCA_UMAD_TOKEN=$dir/wrong refused 'the token is wrong, or missing' "$by_tcp,host2"
OHCA_UMAD_TOKEN='' refused 'token' "$by_tcp,host2"
OHCA_UMAD_TOKEN=$dir/none refused 'No such file' "$by_tcp,host2"
refused 'the token is wrong, or missing' "$by_tcp,host2"
# A program without a name of its own also prints once that it has no secret.
n=$(grep -c 'refused' "$dir/out-tcp")
refused 'the token is wrong, or missing' "$by_tcp"
[ "$(grep -c 'refused' "$dir/out-tcp")" = $((n + 1)) ] || fail "by TCP: $(cat "$dir/out-tcp")"
refused 'is not HOST:PORT' 'tcp:host2'
OHCA_UMAD=$by_tcp,host1 OHCA_UMAD_TOKEN=$dir/secret LD_PRELOAD=$library timeout -k 1 "$patience" \
	opensm -o -f "$dir/log-tcp" >"$dir/tool" 2>&1 </dev/null
grep -q 'SUBNET UP' "$dir/log-tcp" || fail "by TCP: $(tail -3 "$dir/tool" "$dir/log-tcp")"
OHCA_UMAD=$by_tcp,host2 OHCA_UMAD_TOKEN=$dir/secret OHCA_UMAD_WAIT=0 LD_PRELOAD=$library \
	timeout -k 1 "$patience" smpquery nodedesc -D 0,1 >"$dir/tool" 2>&1 </dev/null
grep -q 'switch1' "$dir/tool" || fail "by TCP: $(cat "$dir/tool")"

# A fabric without a secret accepts wires, but no programs, because any user could start them.
"$fabric" serve -g star:4 --hosts-off --listen-tcp 0 --wire switch1:4 >"$dir/out-open" 2>&1 </dev/null &
pids+=("$!")
wait_for 'ready' "$dir/out-open"
refused 'to a fabric that has a --token' "$(sed -n 's/.*listens at \(tcp:.*\)/\1/p' "$dir/out-open"),host2"

part 'forwarding tables'
# The forwarding tables match the ports of the nodes.
tool ibroute "$lid"
n=$(grep -c 'Channel Adapter portguid\|Switch portguid' "$dir/tool")
[ "$n" = 4 ] || fail "ibroute shows $n LIDs instead of 4: $(cat "$dir/tool")"
expect 'MLIDs\|mlids dumped' ibroute -M "$lid"

part counters
# Counters increase with GS packets, and only with these.
tool perfquery -R "$lid" 3
sleep 0.2
tool perfquery "$lid" 3
rx=$(sed -n 's/^PortRcvPkts:\.*//p' "$dir/tool")
tool perfquery "$lid" 3
rx2=$(sed -n 's/^PortRcvPkts:\.*//p' "$dir/tool")
[ "${rx2:-0}" -gt "${rx:-0}" ] || fail "PortRcvPkts of port 3 did not move: $rx, $rx2"
expect 'PortUnicastXmitPkts' perfquery -x "$lid" 3
expect 'PortSelect:.*255' perfquery -a "$lid"
tool perfquery "$lid" 13 && fail 'perfquery of port 13 of 12 succeeded'

no_errors "$tools" "$dir/sm1.log"

part 'a port disabled and enabled'
# A port is disabled and enabled by a command.
expect 'PhysLinkState:.*Disabled' ibportstate "$lid" 2 disable
wait_for 'port 2: link down' "$dir/out-s"
expect 'LinkState:.*Down' smpquery portinfo "$lid" 2
expect 'PhysLinkState' ibportstate "$lid" 2 enable
for ((i = 0; i < 30; i++)); do
	tool smpquery portinfo "$lid" 2
	grep -q 'LinkState:.*Active' "$dir/tool" && break
	sleep 0.2
done
grep -q 'LinkState:.*Active' "$dir/tool" || fail 'port 2 did not come back'

part 'the master dies'
# The master ends; the standby subnet manager becomes master.
kill -9 "$sm1"
wait "$sm1" 2>/dev/null
wait_for "port 1: 'host_101' detached" "$dir/out-s"
wait_for 'Entering MASTER' "$dir/sm2.log"
expect 'guid 0x10201,.*SMINFO_MASTER' sminfo
kill -0 "$swpid" 2>/dev/null || fail 'the fabric died'
kill "$swpid"
wait "$swpid" 2>/dev/null

part 'two switches'
# Two switches with two cables between them, and a machine at each. This OpenSM never sweeps by
# itself: whatever becomes Active here does so because of trap 128.
topology >"$dir/topology" <<EOF
switch_a a1 S8
switch_b b1 S8
host_201 20100 1
host_103 10300 1
switch_a 7 switch_b 5
switch_a 8 switch_b 1
switch_a 1 host_201 1
switch_b 2 host_103 1
EOF
serve two "$dir/topology"
socket=$dir/two
start 201 opensm -F "$dir/conf-traps" -f "$dir/sm3.log"
wait_for 'SUBNET UP' "$dir/sm3.log"
expect '^\[7\].*"S-00000000000000b1"\[5\]' ibnetdiscover
expect '^\[8\].*"S-00000000000000b1"\[1\]' ibnetdiscover
expect '^\[2\].*"H-0000000000010300"\[1\]' ibnetdiscover
# Across both switches, by an SA path record and data packets.
expect 'PortXmitData' perfquery -G 0xa1

part 'partitions'
# As many P_Keys as a port of an adapter holds: the switch's port holds them, too, and enforces.
star switch_p c1 4 >"$dir/topology"
serve p "$dir/topology"
socket=$dir/p
for ((i = 1; i < 128; i++)); do
	printf 'p%d=0x%x: ALL=full;\n' "$i" "$i"
done >"$dir/parts"
echo 'Default=0x7fff: ALL=full;' >>"$dir/parts"
start 301 opensm -F "$dir/conf-traps" -P "$dir/parts" -f "$dir/sm4.log"
wait_for 'SUBNET UP' "$dir/sm4.log"
expect '^ *96:.* 0x80' smpquery -D pkeys 0,1 1
for ((i = 1; i < 128; i++)); do
	grep -q "0x80$(printf %02x "$i")" "$dir/tool" || fail "the switch lacks P_Key $i"
done
expect 'PartEnforceInb:\.*1' smpquery -D portinfo 0,1 1
expect 'PartEnforceOutb:\.*1' smpquery -D portinfo 0,1 1
if grep -a 'pkey_mgr.* ERR ' "$dir/sm4.log"; then
	fail 'OpenSM does without enforcement'
fi

part 'two subnets'
# An OpenSM in each, machines at all hosts; their GUIDs differ from those of the topology.
serve r ../opensm/two-subnets
socket=$dir/r
# at HOST COMMAND...: runs it in the place of that host
at()
{
	OHCA_UMAD=$socket,$1 LD_PRELOAD=$library "${@:2}" </dev/null
}
for net in 1 2; do
	printf '%s\n' 'force_log_flush TRUE' 'sweep_interval 0' "subnet_prefix 0xfec000000000000$net" \
		"prefix_routes_file $dir/routes$net" >"$dir/conf-r$net"
	echo "0xfec000000000000$((3 - net)) 0xc$net" >"$dir/routes$net"
	OHCA_UMAD=$socket,host$((2 * net - 1)) LD_PRELOAD=$library opensm -F "$dir/conf-r$net" \
		-f "$dir/sm-r$net.log" >/dev/null 2>&1 </dev/null &
	pids+=("$!")
	wait_for 'SUBNET UP' "$dir/sm-r$net.log"
	at "host$((2 * net))" timeout -k 1 "$patience" ibnetdiscover >"$dir/tool" 2>&1
	n=$(grep -c "^\[$net\](c$net).*\"S-00000000000000[ab]0\"\[8\]" "$dir/tool")
	[ "$n/$(grep -c '^Switch' "$dir/tool")" = 1/1 ] || fail "ibnetdiscover: $(cat "$dir/tool")"
done
lid=$(sed -n 's/^\[8\].*"R-00000000000000c0"\[2\](c2).* lid \([0-9]*\) .*/\1/p' "$dir/tool")
at host4 timeout -k 1 "$patience" saquery PR --dgid fec0:0:0:1::1 >"$dir/tool" 2>&1
grep -q "^[[:space:]]*dlid\.*$lid$" "$dir/tool" || fail "no path to LID $lid: $(cat "$dir/tool")"
# 7518: a tool has come to its host, or has gone, while OpenSM looked at the cable
no_errors "$tools|ERR 7518" "$dir"/sm-r?.log

part ''
exit $bad
