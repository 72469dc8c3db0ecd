// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A topology file with a wrong byte, or cut short: it is refused, and the error names the line; or
 * it is another topology, which is written and read again as the same.
 */
#include "bad.h"

/* Everything that a line may contain, once. */
static const char good[] =
	"# two switches\n"
	"width=3\n"
	"vendid=0x2c9\n"
	"devid=0xbd36\n"
	"sysimgguid=0x100\n"
	"switchguid=0x100(100)\n"
	"Switch\t4 \"S-0100\"\t# \"leaf 1\" enhanced port 0 lid 3 lmc 0\n"
	"[1]\t\"H-0200\"[1](201)\t# \"host a\" lid 1 4xEDR\n"
	"[2]\t\"right\"[2]\n"
	"[3][ext 5]\t\"right\"[3]\tw=3 s=7 e=1\n"
	"Switch 4 \"right\"\n"
	"[1] \"b\"[2]\n"
	"[2] \"S-0100\"[2]\n"
	"[3] \"S-0100\"[3]\n"
	"caguid=0x200\n"
	"Ca\t1 \"H-0200\"\t# \"host a\"\n"
	"[1](201)\t\"S-0100\"[1]\t# lid 1 lmc 1 \"leaf 1\" lid 3 4xEDR\n"
	"Hca 2 \"b\"\n"
	"[2] \"right\"[1]\n";

static unsigned int accepted, refused;

/* Lines of a text, an unfinished one included. */
static unsigned int lines_of(const uint8_t *p, size_t len)
{
	unsigned int n = len && p[len - 1] != '\n';

	for (size_t i = 0; i < len; i++)
		n += p[i] == '\n';
	return n;
}

static bool all_up(const struct fab *f)
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].peer != FAB_NO_PORT && f->port[p].pi.state == IB_PS_DOWN)
			return false;
	return true;
}

/* Checks that the written text is read as the same fabric. */
static void survives(const struct fab *f)
{
	size_t len, len2;
	char *text = text_of(f, &len), *again;
	struct errors e;
	struct fab *g = from_text(text, len, &e);

	if (!g)
		fail_msg("line %u of what was written: %s", e.line[0], e.text[0]);
	assert_int_equal(g->nodes, f->nodes);
	assert_int_equal(cables_of(g), cables_of(f));
	again = text_of(g, &len2);
	assert_int_equal(len2, len);
	assert_memory_equal(again, text, len);
	fab_free(g);
	free(text);
	free(again);
}

/* Return: the line of the section that contains byte @at of the sample. */
static unsigned int section_of(size_t at)
{
	unsigned int line = 1, section = 1;

	for (size_t i = 0; i <= at; i++) {
		if ((!i || good[i - 1] == '\n') && good[i] >= 'C' && good[i] <= 'S')
			section = line;
		line += good[i] == '\n';
	}
	return section;
}

/* Return: whether an error is about this line. */
static bool about(const struct errors *e, unsigned int line)
{
	char text[32];

	snprintf(text, sizeof(text), "line %u", line);
	for (unsigned int i = 0; i < e->n && i < 64; i++)
		if (e->line[i] == line || strstr(e->text[i], text))
			return true;
	return false;
}

/*
 * Each error has a text, and a line that exists or none for the whole file. One of them is about
 * the line with the flipped bit, or about its section; a changed name is missed where it is used.
 */
static void names_place(const struct bad *b, const struct errors *e)
{
	const unsigned int lines = lines_of(b->p, b->len);
	bool missed = false;

	for (unsigned int i = 0; i < e->n && i < 64; i++) {
		assert_true(e->line[i] <= lines);
		assert_true(e->line[i] || strstr(e->text[i], "there is no node in it"));
		assert_true(strlen(e->text[i]) > 10);
		missed = missed || strstr(e->text[i], "there is no node");
	}
	if (b->bit != NO_BIT && !missed && !about(e, lines_of(b->p, b->bit / 8 + 1)) &&
	    !about(e, section_of(b->bit / 8)))
		fail_msg("bit %zu of byte %zu: line %u: %s", b->bit % 8, b->bit / 8, e->line[0],
			 e->text[0]);
}

static void try(struct bad *b)
{
	struct errors e;
	struct fab *f = from_text((const char *)b->p, b->len, &e);

	if (!f) {
		refused++;
		names_place(b, &e);
		return;
	}
	accepted++;
	assert_int_equal(e.n, 0);
	cables_of(f);
	/* a link that is down is not written */
	if (all_up(f))
		survives(f);
	fab_free(f);
}

static void truncated(void **st)
{
	(void)st;
	accepted = refused = 0;
	each_truncation(good, sizeof(good) - 1, try, NULL);
	assert_int_equal(accepted + refused, sizeof(good) - 1);
	/* a switch alone, and a last line that may omit port 1 */
	assert_in_range(accepted, 10, 50);
}

static void flipped(void **st)
{
	(void)st;
	accepted = refused = 0;
	each_flip(good, sizeof(good) - 1, 0, sizeof(good) - 1, try, NULL);
	assert_int_equal(accepted + refused, 8 * (sizeof(good) - 1));
	/* comments, descriptions, GUIDs and LIDs may change */
	assert_in_range(accepted, 800, 2000);
}

/* The same for small files of the formats that list cables. */
static const char * const lists[] = {
	"SW 1 1 0x10 4x EDR - CA 2 1 0x21 ( 'a' - 'b' )\n"
	"SW 1 2 0x10 4x SDR      'a'\n"
	"CA 2 1 0x21 4x EDR - SW 1 1 0x10 ( 'b' - 'a' )\n",
	"{ SW Ports:24 SystemGUID:10 NodeGUID:10 PortGUID:10 VenID:0002C9 DevID:C738 Rev:A1 {a} "
	"LID:0001 PN:01 } { CA-SM Ports:01 SystemGUID:20 NodeGUID:20 PortGUID:21 VenID:000002C9 "
	"DevID:10030000 Rev:0 {b} LID:0002 PN:01 } PHY=4x LOG=ACT SPD=25\n",
	"START_NODES\nNodeDesc,NumPorts,NodeType,SystemImageGUID,NodeGUID,DeviceID,VendorID\n"
	"\"a, b\",4,2,0x10,0x10,51000,713\n\"c\",1,1,0x20,0x20,4099,713\nEND_NODES\n"
	"START_PORTS\nNodeGuid,PortGuid,PortNum,LID,LMC,LinkWidthActv,LinkSpeedActv\n"
	"0x10,0x10,3,1,0,2,512\n0x20,0x21,1,2,1,2,512\nEND_PORTS\n"
	"START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n0x20,1,0x10,3\nEND_LINKS\n",
	"MTS2400 a\n P1 -4x-10G-> MT23108 h P1\n P13 -> MTS2400 b U1/P2\n",
};

/*
 * Each error has a line that exists, and a text; a file that is accepted is written and read again.
 */
static void try_list(struct bad *b)
{
	struct errors e;
	struct fab *f = from_text((const char *)b->p, b->len, &e);

	if (!f) {
		refused++;
		assert_in_range(e.n, 1, 51);
		for (unsigned int i = 0; i < e.n && i < 64; i++) {
			assert_true(e.line[i] <= lines_of(b->p, b->len));
			assert_true(strlen(e.text[i]) > 10);
		}
		return;
	}
	accepted++;
	if (all_up(f))
		survives(f);
	fab_free(f);
}

static void lists_damaged(void **st)
{
	(void)st;
	for (unsigned int i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const size_t len = strlen(lists[i]);

		accepted = refused = 0;
		each_truncation(lists[i], len, try_list, NULL);
		each_flip(lists[i], len, 0, len, try_list, NULL);
		assert_int_equal(accepted + refused, 9 * len);
		assert_true(accepted > len / 8 && refused > len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(truncated),
		cmocka_unit_test(flipped),
		cmocka_unit_test(lists_damaged),
	};

	return cmocka_run_group_tests_name("bad topology files", tests, NULL, NULL);
}
