/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Management classes and their attributes by the specification's names (14.2.5, 15.2.5, 16.1.2, 12.6). */
#ifndef OHCA_FABRIC_ATTRIBUTE_H
#define OHCA_FABRIC_ATTRIBUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAB_ANY_ATTRIBUTE	0x10000u	/* of a class */
#define FAB_ATTRIBUTE_LEN	48u	/* of a name with its class, and its end */

/**
 * struct fab_attribute - what a request is about
 * @mgmt_class: IB_CLASS_SUBN_LID is SMPs of both kinds
 * @id: AttributeID, or FAB_ANY_ATTRIBUTE
 */
struct fab_attribute {
	uint8_t mgmt_class;
	uint32_t id;
};

/**
 * fab_attribute_find() - what @text names
 * @text: an attribute that one class alone has ("PathRecord"), a class and an attribute or its number
 *	("Perf:ClassPortInfo", "SubnAdm:0x35"), or a class ("SubnAdm"): all that it has
 *
 * Return: false: there is no such thing, or several classes have it.
 */
bool fab_attribute_find(const char *text, struct fab_attribute *a);

/** fab_attribute_name() - a text that fab_attribute_find() takes for @a, with the class */
void fab_attribute_name(const struct fab_attribute *a, char text[FAB_ATTRIBUTE_LEN]);

/** fab_attribute_short() - the name of attribute @id of @mgmt_class, NULL: it has none here */
const char *fab_attribute_short(uint8_t mgmt_class, uint32_t id);

#endif
