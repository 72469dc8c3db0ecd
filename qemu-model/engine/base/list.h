/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Intrusive doubly linked list, without a lock. The owner of the list calls. */
#ifndef OHCA_BASE_LIST_H
#define OHCA_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct ohca_list {
	struct ohca_list *next, *prev;
};

static inline void ohca_list_init(struct ohca_list *l)
{
	l->next = l->prev = l;
}

static inline bool ohca_list_empty(const struct ohca_list *l)
{
	return l->next == l;
}

static inline void ohca_list_del(struct ohca_list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	ohca_list_init(n);
}

/* Insert @n at the tail of @head; @n must not be on a list */
static inline void ohca_list_add_tail(struct ohca_list *head, struct ohca_list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

/* Move all of @from to the tail of @head */
static inline void ohca_list_splice_tail(struct ohca_list *head, struct ohca_list *from)
{
	if (ohca_list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	ohca_list_init(from);
}

#define ohca_container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#endif /* OHCA_BASE_LIST_H */
