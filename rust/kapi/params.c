// SPDX-License-Identifier: GPL-2.0
/*
 * Parameters of the module. They are defined in C because parameters of the kernel crate cannot be
 * read in /sys/module/superp/parameters, where programs look up the number of the address family.
 */
#include <linux/module.h>
#include <linux/superp.h>

#include "kapi_params.h"

static ushort family = SUPERP_DEFAULT_FAMILY;
module_param(family, ushort, 0444);
MODULE_PARM_DESC(family, "Number of the address family (default 22, AF_SNA, which Linux never implemented)");

static ushort ethertype = SUPERP_DEFAULT_ETHERTYPE;
module_param(ethertype, ushort, 0444);
MODULE_PARM_DESC(ethertype, "EtherType of SUNH (default 0x88b5, IEEE local experimental 1)");

static ushort lite_ethertype = SUPERP_DEFAULT_LITE_ETHERTYPE;
module_param(lite_ethertype, ushort, 0444);
MODULE_PARM_DESC(lite_ethertype, "EtherType of SUPERp-lite (default 0x88b6, IEEE local experimental 2)");

static u8 next_header = SUPERP_DEFAULT_NEXT_HEADER;
module_param(next_header, byte, 0444);
MODULE_PARM_DESC(next_header, "SUNH Next Header of SUPERp (default 253)");

/**
 * superp_param_family - number of the address family
 *
 * Context: any.
 * Return: the number.
 */
u16 superp_param_family(void)
{
	return family;
}

/**
 * superp_param_ethertype - EtherType of SUNH
 *
 * Context: any.
 * Return: the EtherType, host byte order.
 */
u16 superp_param_ethertype(void)
{
	return ethertype;
}

/**
 * superp_param_lite_ethertype - EtherType of SUNH with SUPERp-lite
 *
 * Context: any.
 * Return: the EtherType, host byte order.
 */
u16 superp_param_lite_ethertype(void)
{
	return lite_ethertype;
}

/**
 * superp_param_next_header - SUNH Next Header of SUPERp
 *
 * Context: any.
 * Return: the Next Header.
 */
u8 superp_param_next_header(void)
{
	return next_header;
}
