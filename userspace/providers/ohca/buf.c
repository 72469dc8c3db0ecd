// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory of queues. */

#include <sys/mman.h>

#include "ohca.h"

/**
 * ohca_buf_alloc - allocate zeroed, page aligned memory for a queue
 * @ctx: open device
 * @buf: filled in
 * @pd: parent domain whose allocator is tried first, or NULL
 * @size: bytes wanted; rounded up to pages
 * @type: resource_type for the parent domain's allocator
 *
 * Return: 0 or ENOMEM. The caller holds a reference on @pd until it frees the memory.
 */
int ohca_buf_alloc(struct ohca_context *ctx, struct ohca_buf *buf,
		   struct ohca_pd *pd, uint64_t size, enum ohca_res_type type)
{
	void *addr;

	if (size > SIZE_MAX - ctx->page_size)
		return ENOMEM;
	buf->size = align(size, ctx->page_size);
	buf->type = type;
	buf->pd = NULL;

	if (pd && pd->alloc) {
		addr = pd->alloc(&pd->ibv_pd, pd->pd_context, buf->size,
				 ctx->page_size, type);
		if (!addr)
			return ENOMEM;
		if (addr != IBV_ALLOCATOR_USE_DEFAULT) {
			memset(addr, 0, buf->size);
			buf->addr = addr;
			buf->pd = pd;
			return 0;
		}
	}

	addr = mmap(NULL, buf->size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (addr == MAP_FAILED)
		return ENOMEM;
	if (ibv_dontfork_range(addr, buf->size)) {
		munmap(addr, buf->size);
		return ENOMEM;
	}
	buf->addr = addr;
	return 0;
}

/**
 * ohca_buf_free - free a queue's memory; the device must have stopped using it
 *
 * Does nothing for a queue without memory (of an XRC target).
 */
void ohca_buf_free(struct ohca_buf *buf)
{
	if (!buf->addr)
		return;
	if (buf->pd) {
		if (buf->pd->free)
			buf->pd->free(&buf->pd->ibv_pd, buf->pd->pd_context,
				      buf->addr, buf->type);
		return;
	}
	ibv_dofork_range(buf->addr, buf->size);
	munmap(buf->addr, buf->size);
}
