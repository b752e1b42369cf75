/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What build.rs translates. */
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
