// SPDX-License-Identifier: GPL-2.0
#include <linux/kconfig.h>

#include "superp_kapi.h"

/**
 * superp_udp_tunnel_available - was this kernel built with UDP tunnels?
 *
 * Context: any.
 */
bool superp_udp_tunnel_available(void)
{
	return IS_ENABLED(CONFIG_NET_UDP_TUNNEL);
}
