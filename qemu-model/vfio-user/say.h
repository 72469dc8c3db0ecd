/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages for the user; tests have a function of their own. */
#ifndef OHCA_VFIO_USER_SAY_H
#define OHCA_VFIO_USER_SAY_H

/** vu_say() - print a line to standard error */
void vu_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif /* OHCA_VFIO_USER_SAY_H */
