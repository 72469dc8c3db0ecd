// SPDX-License-Identifier: GPL-2.0-or-later
/* Attributes by name; see attribute.h. */
#include "attribute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ib/mad.h"

static const struct {
	uint8_t mgmt_class;
	const char *name;
} classes[] = {
	{ IB_CLASS_SUBN_LID, "Subn" },
	{ IB_CLASS_SUBN_ADM, "SubnAdm" },
	{ IB_CLASS_PERF, "Perf" },
	{ IB_CLASS_DEV_MGT, "DevMgt" },
	{ IB_CLASS_CM, "ComMgt" },
	{ IB_CLASS_CC, "CC" },
};

static const struct {
	uint8_t mgmt_class;
	uint16_t id;
	const char *name;
} attributes[] = {
	{ IB_CLASS_SUBN_LID, 0x0002, "Notice" },
	{ IB_CLASS_SUBN_LID, 0x0010, "NodeDescription" },
	{ IB_CLASS_SUBN_LID, 0x0011, "NodeInfo" },
	{ IB_CLASS_SUBN_LID, 0x0012, "SwitchInfo" },
	{ IB_CLASS_SUBN_LID, 0x0014, "GUIDInfo" },
	{ IB_CLASS_SUBN_LID, 0x0015, "PortInfo" },
	{ IB_CLASS_SUBN_LID, 0x0016, "P_KeyTable" },
	{ IB_CLASS_SUBN_LID, 0x0017, "SLtoVLMappingTable" },
	{ IB_CLASS_SUBN_LID, 0x0018, "VLArbitrationTable" },
	{ IB_CLASS_SUBN_LID, 0x0019, "LinearForwardingTable" },
	{ IB_CLASS_SUBN_LID, 0x001b, "MulticastForwardingTable" },
	{ IB_CLASS_SUBN_LID, 0x0020, "SMInfo" },
	{ IB_CLASS_SUBN_LID, 0xff90, "MLNXExtendedPortInfo" },
	{ IB_CLASS_SUBN_ADM, 0x0001, "ClassPortInfo" },
	{ IB_CLASS_SUBN_ADM, 0x0002, "Notice" },
	{ IB_CLASS_SUBN_ADM, 0x0003, "InformInfo" },
	{ IB_CLASS_SUBN_ADM, 0x0011, "NodeRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0012, "PortInfoRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0013, "SLtoVLMappingTableRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0014, "SwitchInfoRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0015, "LinearForwardingTableRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0017, "MulticastForwardingTableRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0018, "SMInfoRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0020, "LinkRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0030, "GuidInfoRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0031, "ServiceRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0033, "P_KeyTableRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0035, "PathRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0036, "VLArbitrationTableRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0038, "MCMemberRecord" },
	{ IB_CLASS_SUBN_ADM, 0x0039, "TraceRecord" },
	{ IB_CLASS_SUBN_ADM, 0x003a, "MultiPathRecord" },
	{ IB_CLASS_SUBN_ADM, 0x003b, "ServiceAssociationRecord" },
	{ IB_CLASS_SUBN_ADM, 0x00f3, "InformInfoRecord" },
	{ IB_CLASS_PERF, 0x0001, "ClassPortInfo" },
	{ IB_CLASS_PERF, 0x0010, "PortSamplesControl" },
	{ IB_CLASS_PERF, 0x0011, "PortSamplesResult" },
	{ IB_CLASS_PERF, 0x0012, "PortCounters" },
	{ IB_CLASS_PERF, 0x0015, "PortRcvErrorDetails" },
	{ IB_CLASS_PERF, 0x0016, "PortXmitDiscardDetails" },
	{ IB_CLASS_PERF, 0x0018, "PortFlowCtlCounters" },
	{ IB_CLASS_PERF, 0x001b, "PortVLXmitFlowCtlUpdateErrors" },
	{ IB_CLASS_PERF, 0x001c, "PortVLXmitWaitCounters" },
	{ IB_CLASS_PERF, 0x001d, "PortCountersExtended" },
	{ IB_CLASS_PERF, 0x001e, "PortSamplesResultExtended" },
	{ IB_CLASS_PERF, 0x001f, "PortExtendedSpeedsCounters" },
	{ IB_CLASS_PERF, 0x0030, "SwPortVLCongestion" },
	{ IB_CLASS_PERF, 0x0031, "PortRcvConCtrl" },
	{ IB_CLASS_PERF, 0x0036, "PortXmitDataSL" },
	{ IB_CLASS_PERF, 0x0037, "PortRcvDataSL" },
	{ IB_CLASS_CM, 0x0001, "ClassPortInfo" },
	{ IB_CLASS_CM, 0x0010, "ConnectRequest" },
	{ IB_CLASS_CM, 0x0011, "MsgRcptAck" },
	{ IB_CLASS_CM, 0x0012, "ConnectReject" },
	{ IB_CLASS_CM, 0x0013, "ConnectReply" },
	{ IB_CLASS_CM, 0x0014, "ReadyToUse" },
	{ IB_CLASS_CM, 0x0015, "DisconnectRequest" },
	{ IB_CLASS_CM, 0x0016, "DisconnectReply" },
	{ IB_CLASS_CM, 0x0017, "ServiceIDResReq" },
	{ IB_CLASS_CM, 0x0018, "ServiceIDResReqResp" },
	{ IB_CLASS_CM, 0x0019, "LoadAlternatePath" },
	{ IB_CLASS_CM, 0x001a, "AlternatePathResponse" },
};

/* The class with the name of @len bytes at @text; 0: there is none. */
static uint8_t find_class(const char *text, size_t len)
{
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(classes); i++)
		if (strlen(classes[i].name) == len && !memcmp(classes[i].name, text, len))
			return classes[i].mgmt_class;
	return 0;
}

/* The attribute @name of @mgmt_class, 0: of any. Return: how many there are. */
static unsigned int find_name(const char *name, uint8_t mgmt_class, struct fab_attribute *a)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < IB_ARRAY_SIZE(attributes); i++) {
		if (strcmp(attributes[i].name, name) ||
		    (mgmt_class && attributes[i].mgmt_class != mgmt_class))
			continue;
		a->mgmt_class = attributes[i].mgmt_class;
		a->id = attributes[i].id;
		n++;
	}
	return n;
}

bool fab_attribute_find(const char *text, struct fab_attribute *a)
{
	const size_t len = strcspn(text, ":");
	const uint8_t mgmt_class = find_class(text, len);
	const char *name = text + len + 1;
	unsigned long id;
	char *end;

	if (!text[len] && !mgmt_class)
		return find_name(text, 0, a) == 1;
	if (!mgmt_class)
		return false;
	a->mgmt_class = mgmt_class;
	a->id = FAB_ANY_ATTRIBUTE;
	if (!text[len] || find_name(name, mgmt_class, a))
		return true;
	if (*name < '0' || *name > '9')
		return false;
	id = strtoul(name, &end, name[1] == 'x' ? 16 : 10);
	a->id = (uint32_t)id;
	return !*end && id <= UINT16_MAX;
}

const char *fab_attribute_short(uint8_t mgmt_class, uint32_t id)
{
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(attributes); i++)
		if (attributes[i].mgmt_class == mgmt_class && attributes[i].id == id)
			return attributes[i].name;
	return NULL;
}

void fab_attribute_name(const struct fab_attribute *a, char text[FAB_ATTRIBUTE_LEN])
{
	const char *name = fab_attribute_short(a->mgmt_class, a->id), *of = "?";

	for (unsigned int i = 0; i < IB_ARRAY_SIZE(classes); i++)
		if (classes[i].mgmt_class == a->mgmt_class)
			of = classes[i].name;
	if (a->id == FAB_ANY_ATTRIBUTE)
		snprintf(text, FAB_ATTRIBUTE_LEN, "%s", of);
	else if (name)
		snprintf(text, FAB_ATTRIBUTE_LEN, "%s:%s", of, name);
	else
		snprintf(text, FAB_ATTRIBUTE_LEN, "%s:0x%04x", of, (unsigned int)a->id);
}
