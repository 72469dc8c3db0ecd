// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is not provided until a test requests it, like a file of a server that does not
 * respond. A fault of a mapping waits, also one that a driver causes.
 */
#include <linux/atomic.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "stall.h"

static DECLARE_WAIT_QUEUE_HEAD(stall_wait);
static atomic_t stall_waiting;
static bool stall_hold;

static vm_fault_t stall_fault(struct vm_fault *vmf)
{
	long left;

	atomic_inc(&stall_waiting);
	left = wait_event_timeout(stall_wait, !READ_ONCE(stall_hold), STALL_SECONDS * HZ);
	atomic_dec(&stall_waiting);
	if (!left)
		return VM_FAULT_SIGBUS;
	/* the mapping has the only reference */
	vmf->page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	return vmf->page ? 0 : VM_FAULT_OOM;
}

static const struct vm_operations_struct stall_vm_ops = {
	.fault = stall_fault,
};

static int stall_mmap(struct file *file, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vma->vm_ops = &stall_vm_ops;
	return 0;
}

static long stall_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case STALL_HOLD:
		WRITE_ONCE(stall_hold, true);
		return 0;
	case STALL_COME:
		WRITE_ONCE(stall_hold, false);
		wake_up_all(&stall_wait);
		return 0;
	case STALL_WAITING:
		return put_user(atomic_read(&stall_waiting), (u32 __user *)arg);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations stall_fops = {
	.owner = THIS_MODULE,
	.mmap = stall_mmap,
	.unlocked_ioctl = stall_ioctl,
};

static struct miscdevice stall_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "stall",
	.fops = &stall_fops,
	.mode = 0600,
};
module_misc_device(stall_misc);

MODULE_DESCRIPTION("Memory that does not come, for tests");
MODULE_LICENSE("GPL");
