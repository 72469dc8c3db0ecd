#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Command line of ohca-switch: what it refuses and how, that it starts, stops and
# cleans up, and that an idle switch uses no processor time.
#	test_cli.sh SWITCH

sw=$1
dir=$(mktemp -d) || exit 1
pid=
bad=0
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$dir"' EXIT

fail()
{
	echo "FAIL: $*"
	bad=1
}

# refuse TEXT ARGS...: must fail and say TEXT
refuse()
{
	text=$1
	shift
	if timeout 60 "$sw" "$@" >"$dir/out" 2>&1; then
		fail "'$*' was accepted"
	elif ! grep -q -- "$text" "$dir/out"; then
		fail "'$*' did not say '$text' but: $(cat "$dir/out")"
	fi
}

refuse '--listen PATH is missing'
refuse 'number from 1 to 254' -l "$dir/s" --ports 0
refuse 'number from 1 to 254' -l "$dir/s" --ports 255
refuse 'number from 1 to 254' -l "$dir/s" --ports -3
refuse 'number from 1 to 254' -l "$dir/s" --ports 3x
refuse 'not a GUID' -l "$dir/s" --guid xyz
refuse 'not a GUID' -l "$dir/s" --guid 0
refuse 'none of sdr' -l "$dir/s" --speed fast
refuse 'none of 1x' -l "$dir/s" --width 3x
refuse 'none of 256' -l "$dir/s" --mtu 1500
refuse 'none of 1, 2, 4' -l "$dir/s" --vls 3
refuse 'unexpected argument' -l "$dir/s" something
refuse 'not a number' -l "$dir/s" --uplink "$dir/x,y"
refuse 'more of them than ports' -l "$dir/s" -p 1 -u "$dir/x" -u "$dir/y"
refuse 'No such file' -l "$dir/none/s"
# as many uplinks as ports are right
refuse 'No such file' -l "$dir/none/s" -p 1 -u "$dir/x"
refuse 'the limit is 107' -l "$dir/$(printf '%0120d' 0)"
: >"$dir/file"
refuse 'is not a socket' -l "$dir/file"
# what is right is taken, and the next mistake is the one that is told
text64=$(printf '%064d' 0)
for o in ports=1 ports=10 ports=254 guid=1 guid=ffffffffffffffff sys-guid=2 "desc=$text64" speed=sdr \
	speed=edr speed=ndr width=1x width=12x mtu=256 mtu=4096 vls=1 vls=8 vls=15 credit-shift=0 \
	hoq-scale=0 hoq-scale=1000000 spin-us=0 spin-us=1000000 "uplink=$dir/x"; do
	refuse "unexpected argument 'more'" -l "$dir/s" "--$o" more
done
refuse 'longer than 64' -l "$dir/s" --desc "${text64}0"
refuse 'not a GUID' -l "$dir/s" --guid 10000000000000000
refuse 'not a GUID' -l "$dir/s" --sys-guid 12g
refuse 'number from 0 to 1000000' -l "$dir/s" --spin-us 1000001
refuse 'number from 0 to 1000000' -l "$dir/s" --hoq-scale 1000001
refuse 'number from 0 to 6' -l "$dir/s" --credit-shift 7
refuse 'number from 1 to 254' -l "$dir/s" --uplink "$dir/x,255"
refuse 'number from 256 to 4096' -l "$dir/s" --mtu 255
refuse 'number from 1 to 15' -l "$dir/s" --vls 16
refuse 'none of 1, 2, 4' -l "$dir/s" --vls 14
"$sw" --help | grep -q 'Usage: ohca-switch' || fail '--help'
"$sw" --version | grep -q 'link protocol 2' || fail '--version'

rm -f "$dir/out"
# SIGTERM ends it, with the socket removed; SIGUSR1 prints.
"$sw" -l "$dir/s" -p 12 --guid 1234 >"$dir/out" 2>"$dir/err" &
pid=$!
i=0
while [ ! -s "$dir/out" ] && [ $i -lt 600 ]; do
	sleep 0.05
	i=$((i + 1))
done
grep -q "ready, 12 ports, GUID 0x0000000000001234, listening on $dir/s" "$dir/out" ||
	fail "ready line: $(cat "$dir/out")"
refuse 'another process listens' -l "$dir/s"
kill -USR1 $pid
i=0
until grep -q 'MADs in' "$dir/err" || [ $i -ge 600 ]; do
	sleep 0.05
	i=$((i + 1))
done
grep -q 'MADs in 0' "$dir/err" || fail "SIGUSR1: $(cat "$dir/err")"
grep -q 'trying again' "$dir/err" && fail "an uplink that nobody wants: $(cat "$dir/err")"
before=$(awk '{ print $14 + $15 }' /proc/$pid/stat)
sleep 1
after=$(awk '{ print $14 + $15 }' /proc/$pid/stat)
[ "$before" = "$after" ] || fail "idle switch used $((after - before)) ticks in a second"
kill -TERM $pid
wait $pid || fail "exit status $? after SIGTERM"
pid=
[ ! -e "$dir/s" ] || fail 'the socket is still there'

# It says where an uplink leads, of its highest port; SIGHUP ends it, too.
"$sw" -l "$dir/s" -p 12 -u "$dir/x,7" >"$dir/out" 2>"$dir/err" &
pid=$!
i=0
until grep -q 'trying again' "$dir/err" || [ $i -ge 600 ]; do
	sleep 0.05
	i=$((i + 1))
done
grep -q "port 12: .*$dir/x" "$dir/err" || fail "uplink: $(cat "$dir/err")"
kill -HUP $pid
wait $pid || fail "exit status $? after SIGHUP"
pid=

[ $bad -eq 0 ] && echo 'PASS: command line'
exit $bad
