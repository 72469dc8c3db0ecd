#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 1: writes the results of the discovery tools to the file.
. "$(dirname "$0")/lib.sh"
guid=$(node 3 'ibstat ohca_0 1' | sed -n 's/.*Port GUID: 0x//p')
node 1 "{
	echo switches=\$(ibswitches | wc -l)
	echo hosts=\$(ibhosts | wc -l)
	echo guid=0x$guid
	ibnetdiscover | sed -n '/^Switch/{s/.*# \"\\([^\"]*\\)\".*/\\1/;h}
		/($guid)/{/^\\[[0-9]*\\]\\t\"H-/{s/^\\[\\([0-9]*\\)\\].* lid \\([0-9]*\\) .*/port=\\1\\nlid=\\2/p;x;s/^/switch=/p}}'
} >/root/discovery; cat /root/discovery"
