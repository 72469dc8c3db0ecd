// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Device memory. */

#include <stdlib.h>
#include <sys/mman.h>

#include "ohca.h"
#include "ohca_abi.h"

/* Whether [offset, offset + length) may be accessed: 0, or an errno value. */
static int ohca_dm_check(const struct ohca_dm *dm, uint64_t offset,
			 size_t length)
{
	if (offset > dm->length || length > dm->length - offset)
		return EFAULT;
	if (offset % sizeof(__le32) || length % sizeof(__le32))
		return EINVAL;
	return 0;
}

/*
 * Device memory is a BAR: it is accessed with single loads and stores of 32 bits,
 * not with what memcpy() finds best.
 */
static int ohca_memcpy_to_dm(struct ibv_dm *ibdm, uint64_t offset,
			     const void *host_addr, size_t length)
{
	struct ohca_dm *dm = to_odm(ibdm);
	const uint8_t *src = host_addr;
	uint8_t *dst = dm->addr + offset;
	__le32 word;
	size_t n;
	int err;

	err = ohca_dm_check(dm, offset, length);
	if (err)
		return ohca_errno(err);
	for (n = 0; n < length; n += sizeof(word)) {
		memcpy(&word, src + n, sizeof(word));
		mmio_write32_le(dst + n, word);
	}
	mmio_flush_writes();
	return 0;
}

static int ohca_memcpy_from_dm(void *host_addr, struct ibv_dm *ibdm,
			       uint64_t offset, size_t length)
{
	struct ohca_dm *dm = to_odm(ibdm);
	const uint8_t *src = dm->addr + offset;
	uint8_t *dst = host_addr;
	__le32 word;
	size_t n;
	int err;

	err = ohca_dm_check(dm, offset, length);
	if (err)
		return ohca_errno(err);
	udma_from_device_barrier();
	for (n = 0; n < length; n += sizeof(word)) {
		word = mmio_read32_le(src + n);
		memcpy(dst + n, &word, sizeof(word));
	}
	return 0;
}

/* Maps the device memory that the kernel's response describes. 0 or an errno value. */
static int ohca_dm_map(struct ohca_dm *dm, int cmd_fd,
		       const struct ohca_dm_resp *resp)
{
	if (!resp->length || resp->mmap_size > SIZE_MAX ||
	    resp->length > resp->mmap_size)
		return EPROTO;
	dm->length = resp->length;
	dm->map_size = resp->mmap_size;
	dm->addr = mmap(NULL, dm->map_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			cmd_fd, resp->mmap_key);
	if (dm->addr == MAP_FAILED)
		return errno;
	dm->vdm.dm.memcpy_to_dm = ohca_memcpy_to_dm;
	dm->vdm.dm.memcpy_from_dm = ohca_memcpy_from_dm;
	return 0;
}

/** ohca_alloc_dm - ibv_alloc_dm(): zeroed memory, allocated in whole pages */
struct ibv_dm *ohca_alloc_dm(struct ibv_context *ibctx,
			     struct ibv_alloc_dm_attr *attr)
{
	DECLARE_COMMAND_BUFFER_LINK(drv, UVERBS_OBJECT_DM,
				    UVERBS_METHOD_DM_ALLOC, 1, NULL);
	struct ohca_dm_resp resp = {};
	struct ohca_dm *dm;
	int err;

	if (!ohca_has_feature(to_octx(ibctx), OHCA_FEATURE_DM)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	dm = calloc(1, sizeof(*dm));
	if (!dm) {
		errno = ENOMEM;
		return NULL;
	}
	fill_attr_out_ptr(drv, OHCA_ATTR_ALLOC_DM_RESP, &resp);
	err = ibv_cmd_alloc_dm(ibctx, attr, &dm->vdm, drv);
	if (err)
		goto err_free;
	err = ohca_dm_map(dm, ibctx->cmd_fd, &resp);
	if (err) {
		ibv_cmd_free_dm(&dm->vdm);
		goto err_free;
	}
	return &dm->vdm.dm;

err_free:
	free(dm);
	errno = err;
	return NULL;
}

/** ohca_free_dm - ibv_free_dm(); fails while a region is registered in it */
int ohca_free_dm(struct ibv_dm *ibdm)
{
	struct ohca_dm *dm = to_odm(ibdm);
	int err = ibv_cmd_free_dm(&dm->vdm);

	if (err)
		return err;
	/* the device allocates the pages to no other process before this */
	munmap(dm->addr, dm->map_size);
	free(dm);
	return 0;
}

/** ohca_import_dm - ibv_import_dm(): the device memory of another process */
struct ibv_dm *ohca_import_dm(struct ibv_context *ibctx, uint32_t handle)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, OHCA_METHOD_DM_QUERY, 2);
	struct ohca_dm_resp resp = {};
	struct ohca_dm *dm;
	int err;

	if (!ohca_has_feature(to_octx(ibctx), OHCA_FEATURE_DM)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	dm = calloc(1, sizeof(*dm));
	if (!dm) {
		errno = ENOMEM;
		return NULL;
	}
	fill_attr_in_obj(cmd, OHCA_ATTR_QUERY_DM_HANDLE, handle);
	fill_attr_out_ptr(cmd, OHCA_ATTR_QUERY_DM_RESP, &resp);
	err = execute_ioctl(ibctx, cmd) ? errno : 0;
	if (!err)
		err = ohca_dm_map(dm, ibctx->cmd_fd, &resp);
	if (err) {
		free(dm);
		errno = err;
		return NULL;
	}
	dm->vdm.handle = handle;
	dm->vdm.dm.handle = handle;
	dm->vdm.dm.comp_mask = IBV_DM_MASK_HANDLE;
	dm->vdm.dm.context = ibctx;
	return &dm->vdm.dm;
}

/** ohca_unimport_dm - ibv_unimport_dm(); the memory itself stays */
void ohca_unimport_dm(struct ibv_dm *ibdm)
{
	struct ohca_dm *dm = to_odm(ibdm);

	munmap(dm->addr, dm->map_size);
	free(dm);
}

/** ohca_reg_dm_mr - ibv_reg_dm_mr(): a zero-based region in device memory */
struct ibv_mr *ohca_reg_dm_mr(struct ibv_pd *ibpd, struct ibv_dm *ibdm,
			      uint64_t offset, size_t length,
			      unsigned int access)
{
	struct verbs_mr *vmr;
	int err;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr) {
		errno = ENOMEM;
		return NULL;
	}
	err = ibv_cmd_reg_dm_mr(ibpd, &to_odm(ibdm)->vdm, offset, length,
				access, vmr, NULL);
	if (err) {
		free(vmr);
		errno = err;
		return NULL;
	}
	return &vmr->ibv_mr;
}
