// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Topology files with one mistake: each byte of a small file of each format is omitted, doubled or
 * changed, and each line is omitted or doubled. The fabric of each file, or its errors, are as
 * recorded (recorded.h).
 */
#include "recorded.h"

/* A router, a base port 0, masks, external ports, rates that differ or are unknown. */
static const char ibnet[] =
	"src/x.c:1; bad\n"
	"width=0x3\nspeed=7\nextspeed=1 # masks\n"
	"vendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0xb3\nswitchguid=0xb0(b1)\n"
	"Switch\t3 \"S-00000000000000b0\"\t# \"MF0;a \"b\":X/U1\" enhanced port 0 lid 4 lmc 1\n"
	"[1]\t\"H-a0\"[1](a1)\t# \"n1\" lid 9 2xHDR s=4\n"
	"[2][ext 2]\t\"R\"[2](77)\tw=2 s=0 e=3 # \"r\" lid 7 4x???\n"
	"[3]\t\"B\"\n"
	"Chassis 1\nextspeed=0\n"
	"caguid=0xa0\nCa 1 \"H-a0\" # \"n1\"\n[1](a1) \"S-00000000000000b0\"[1] # lid 9 lmc 1 "
	"\"s\" lid 4 4xEDR\n"
	"Rt 2 \"R\"\n[2](77) \"S-00000000000000b0\"[2] # lid 7 lmc 0 \"s\"\n"
	"Switch 1 \"B\" # \"b\" base port 0 lid 12 lmc 0\n[1] \"S-00000000000000b0\"[3]\n";

static const char ports[] =
	"SW 3 1 0x10 4x EDR - CA 2 1 0x21 ( 'a' - 'b' c' )\n"
	"SW  3 2 0x10 2x HDR - RT 9 3 0x33 ( 'a' - 'r' )\n"
	"CA 2 1 0x21 4x EDR - SW 3 1 0x10 ( 'b' c' - 'a' )\n"
	"CA 5 2 0x22 1x ??? - SW 3 4 0x10 ( 'b' c' - 'a' )\n"
	"SW 3 5 0x10 ?? SDR       'a'\n";

static const char lst[] =
	"{ SW Ports:04 SystemGUID:11 NodeGUID:10 PortGUID:10 VenID:2c9 DevID:d2f0 Rev:1 {a}b} "
	"LID:3 PN:01 } "
	"{ CA-SM Ports:02 SystemGUID:21 NodeGUID:20 PortGUID:22 VenID:2ca DevID:10050000 Rev:0 "
	"{n} LID:2 "
	"PN:02 } PHY=4x LOG=ACT SPD=25\n"
	"{ Rt Ports:01 SystemGUID:33 NodeGUID:30 PortGUID:31 VenID:2cb DevID:7 Rev:0 {r} LID:5 "
	"PN:01 } "
	"{ SW Ports:04 SystemGUID:11 NodeGUID:10 PortGUID:10 VenID:2c9 DevID:d2f00000 Rev:0 "
	"{a}b} LID:3 "
	"PN:02 } PHY=1x LOG=INI\n"
	"{ CA Ports:02 SystemGUID:21 NodeGUID:20 PortGUID:21 VenID:2ca DevID:1005 Rev:0 {n} "
	"LID:0 PN:01 } "
	"{ SW Ports:04 SystemGUID:11 NodeGUID:10 PortGUID:10 VenID:2c9 DevID:d2f0 Rev:0 {a}b} "
	"LID:3 "
	"PN:04 } PHY=4x LOG=DWN SPD=5\n";

static const char csv[] =
	"START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID,DeviceID,SystemImageGUID,VendorID,Odd\n"
	"\"a,x\",4,2,0x10,0xd2f0,0x11,713,1\n\"b\", 2 ,1,0x20,4101,N/A,0x10002c9,\n"
	"\"r\",1,3,48,7,0,0,\n"
	"END_NODES\nodd\n"
	"START_PORTS\nNodeGuid,PortGuid,PortNum,LID,LMC,LinkWidthActv,LinkSpeedActv\n"
	"0x10,0x10,0,3,1,0,0\n0x20,0x21,1,9,2,2,512\n0x20,0x22,2,49152,0,1,4\n"
	"48,0x31,1,7,0,2,65536\n"
	"END_PORTS\n"
	"START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n0x10,1,0x20,1\n0x10,2,0x30,1\n"
	"0x20,2,0x10,4\n";

static const char ibdm[] =
	"MTS2400 SL1 # chip\n\tP1 -4x-5G-> HCA h1 P1\n\tU1/P2 -> SW S2 P3 # far\n 3 -12x-2.5-> "
	"XX y 1\n"
	"MSX S2\nP3 -> MTS2400 SL1 U1/P2\nP1 -1x-14G-> HCA h2 P2\n";

static const struct {
	const char *name, *text;
} files[] = {
	{ "ibnetdiscover", ibnet }, { "ports", ports }, { "lst", lst }, { "csv", csv },
	{ "ibdm", ibdm },
};

static void say(void *ctx, unsigned int line, const char *text)
{
	fprintf(ctx, "%u: %s\n", line, text);
}

static void say_warning(void *ctx, unsigned int line, const char *text)
{
	fprintf(ctx, "%u: warning: %s\n", line, text);
}

/* Reads a file and records the result. */
static void try_file(struct recorded *r, const char *what, const char *text, size_t len)
{
	struct fab *f = fab_new();
	size_t size;
	char *out;
	FILE *s = open_memstream(&out, &size);
	const struct fab_report report = { .say = say, .ctx = s, .warn = say_warning };

	assert_non_null(f);
	assert_non_null(s);
	if (fab_topology_parse(f, text, len, &report)) {
		assert_true(fab_seal(f));
		fab_topology_write(f, s);
		for (uint32_t p = 1; p < f->ports; p++)
			fprintf(s, "%u.%u.%u ", f->port[p].pi.width_supported,
				f->port[p].pi.speed_supported, f->port[p].pi.speed_ext_supported);
	}
	fclose(s);
	recorded_case(r, what, out, size);
	free(out);
	fab_free(f);
}

/* Reads the file with @cut bytes from @at on replaced by the @n bytes @put. */
static void edit(struct recorded *r, const char *text, size_t at, size_t cut, const char *put,
		 size_t n)
{
	static char now[4096];
	const size_t len = strlen(text);

	assert_true(len + n < sizeof(now));
	memcpy(now, text, at);
	memcpy(now + at, put, n);
	memcpy(now + at + n, text + at + cut, len - at - cut);
	now[len - cut + n] = 0;
	try_file(r, now, now, len - cut + n);
}

static void one_file(struct recorded *r, const char *name, const char *text)
{
	char section[64];
	unsigned int line = 0;

	snprintf(section, sizeof(section), "%s", name);
	recorded_section(r, section);
	try_file(r, text, text, strlen(text));
	for (size_t at = 0; text[at];) {
		const size_t len = strcspn(text + at, "\n") + 1;

		snprintf(section, sizeof(section), "%s %u", name, ++line);
		recorded_section(r, section);
		edit(r, text, at, len, "", 0);
		edit(r, text, at, 0, text + at, len);
		for (size_t i = at; i < at + len; i++) {
			edit(r, text, i, 1, "", 0);
			edit(r, text, i, 0, text + i, 1);
			edit(r, text, i, 1, text[i] == '9' ? "0" : "9", 1);
		}
		at += len;
	}
}

static void damaged(void **st)
{
	struct recorded r;

	(void)st;
	recorded_begin(&r, "damaged");
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(files); i++)
		one_file(&r, files[i].name, files[i].text);
	recorded_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests_name("topology files with a mistake", tests, NULL, NULL);
}
