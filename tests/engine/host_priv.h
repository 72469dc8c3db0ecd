/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the files of the test host. */
#ifndef OHCA_TEST_HOST_PRIV_H
#define OHCA_TEST_HOST_PRIV_H

/* Something is wrong with the test or the engine that no test can go on from. */
_Noreturn void host_die(const char *what);

#endif
