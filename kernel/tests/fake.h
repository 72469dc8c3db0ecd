/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A thread that acts as the device: it reads commands from the admin queue and answers them. */
#ifndef OHCA_FAKE_H
#define OHCA_FAKE_H

#include <linux/kthread.h>
#include <kunit/test.h>

#include "dev.h"

/**
 * struct ohca_fake - the device of a test
 * @dev: the driver's device
 * @ci: AQ entries read
 * @pi: ACQ entries written
 * @refuse: status of every command
 * @deaf: opcode that it never answers; 0: none
 * @pause_us: duration of a command
 * @mad: turns the request of a MAD, IB_MGMT_MAD_SIZE bytes, into the response; NULL: the response
 *	is equal to the request
 * @mads: MADs answered
 * @speed: LinkSpeedActive, used by @mad
 * @cmd: called with each command before it is answered; may be NULL
 * @priv: data of @cmd
 */
struct ohca_fake {
	struct ohca_dev *dev;
	u32 ci;
	u32 pi;
	u8 refuse;
	u8 deaf;
	u32 pause_us;
	void (*mad)(struct ohca_fake *f, void *mad);
	u32 mads;
	u8 speed;
	void (*cmd)(struct ohca_fake *f, const struct ohca_hw_aqe *aqe);
	void *priv;
};

struct ohca_fake *ohca_fake_make(struct kunit *test);
struct task_struct *ohca_fake_start(struct kunit *test, struct ohca_fake *f);
void ohca_fake_put(struct ohca_fake *f, __le32 cookie, u8 status, u8 opcode, u32 handle);

#endif /* OHCA_FAKE_H */
