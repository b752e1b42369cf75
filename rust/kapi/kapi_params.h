/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_PARAMS_H
#define _SUPERP_KAPI_PARAMS_H

#include <linux/types.h>

u16 superp_param_family(void);
u16 superp_param_ethertype(void);
u16 superp_param_lite_ethertype(void);
u8 superp_param_next_header(void);

#endif /* _SUPERP_KAPI_PARAMS_H */
