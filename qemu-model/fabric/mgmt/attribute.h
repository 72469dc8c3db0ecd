/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Management classes and attributes by the specification's names (14.2.5, 15.2.5, 16.1.2, 12.6). */
#ifndef OHCA_FABRIC_ATTRIBUTE_H
#define OHCA_FABRIC_ATTRIBUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAB_ANY_ATTRIBUTE	0x10000u	/* of a class */
#define FAB_ATTRIBUTE_LEN	48u	/* of a name with its class, and its terminator */

/**
 * struct fab_attribute - class and attribute of a request
 * @mgmt_class: IB_CLASS_SUBN_LID stands for SMPs of both kinds
 * @id: AttributeID, or FAB_ANY_ATTRIBUTE
 */
struct fab_attribute {
	uint8_t mgmt_class;
	uint32_t id;
};

/**
 * fab_attribute_find() - parse the name of an attribute
 * @text: an attribute that only one class has ("PathRecord"), a class and an attribute or its
 *	number ("Perf:ClassPortInfo", "SubnAdm:0x35"), or a class ("SubnAdm"): all its attributes
 *
 * Return: false: there is no such attribute, or several classes have it.
 */
bool fab_attribute_find(const char *text, struct fab_attribute *a);

/** fab_attribute_name() - a text for @a that fab_attribute_find() accepts, with the class */
void fab_attribute_name(const struct fab_attribute *a, char text[FAB_ATTRIBUTE_LEN]);

/** fab_attribute_short() - the name of attribute @id of @mgmt_class; NULL: none is known here */
const char *fab_attribute_short(uint8_t mgmt_class, uint32_t id);

#endif
