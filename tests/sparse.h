/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/lint includes this before each file that sparse reads outside the kernel. sparse refuses
 * __leNN and __beNN as operands of atomic builtins. Here these are plain accesses of the same
 * types, which sparse checks.
 */
#include <stdatomic.h>

/* rdma-core's header for sparse uses the wrong variable in this one. */
#ifdef _SPARSE_STDATOMIC_H_
#undef atomic_exchange_explicit
#define atomic_exchange_explicit(p, v, o) \
	({ __typeof__((p)->__val) old_ = (p)->__val; (p)->__val = (v); old_; })
#endif

#define __atomic_load_n(p, o) (*(p))
#define __atomic_store_n(p, v, o) ((void)(*(p) = (v)))
#define __atomic_compare_exchange_n(p, e, d, weak, s, f) \
	(*(p) == *(e) ? (*(p) = (d), 1) : (*(e) = *(p), 0))
