/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's C half as Rust sees it: the input of bindgen. Types of the kernel are declared, but
 * their headers are not included, so that they stay opaque to Rust. One line per header.
 */
#ifndef _SUPERP_KAPI_H
#define _SUPERP_KAPI_H

#include "kapi_defer.h"
#include "kapi_event.h"
#include "kapi_lock.h"
#include "kapi_map.h"
#include "kapi_net.h"
#include "kapi_nl.h"
#include "kapi_pages.h"
#include "kapi_params.h"
#include "kapi_path.h"
#include "kapi_process.h"
#include "kapi_range.h"
#include "kapi_ring.h"
#include "kapi_run.h"
#include "kapi_rx.h"
#include "kapi_skb.h"
#include "kapi_sock.h"
#include "kapi_timer.h"
#include "kapi_uapi.h"

#endif /* _SUPERP_KAPI_H */
