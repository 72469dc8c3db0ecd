/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the files of the test host. */
#ifndef OHCA_TEST_HOST_PRIV_H
#define OHCA_TEST_HOST_PRIV_H

/* Ends the process: an error of the test or the engine after which no test can continue. */
_Noreturn void host_die(const char *what);

#endif
