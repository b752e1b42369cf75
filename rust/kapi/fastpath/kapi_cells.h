/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_CELLS_H
#define _SUPERP_KAPI_CELLS_H

#include <linux/types.h>

struct net_device;
struct sk_buff;
struct sk_buff_head;
struct superp_cell;

/**
 * struct superp_cells - received packets of each CPU, until its softirq round is over
 * @deliver: takes packets, in softirq and under RCU; those that it leaves in the list are freed
 * @dummy: device that the NAPI instances belong to
 * @cell: the packets of each CPU
 */
struct superp_cells {
	void (*deliver)(struct superp_cells *cells, struct sk_buff_head *packets);
	struct net_device *dummy;
	struct superp_cell __percpu *cell;
};

int superp_cells_init(struct superp_cells *cells,
		      void (*deliver)(struct superp_cells *cells, struct sk_buff_head *packets));
void superp_cells_stop(struct superp_cells *cells);
void superp_cells_free(struct superp_cells *cells);
void superp_cells_queue(struct superp_cells *cells, struct sk_buff *list, bool more);

#endif /* _SUPERP_KAPI_CELLS_H */
