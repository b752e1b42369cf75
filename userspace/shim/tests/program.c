/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A program for libibverbs, with a device that is not SUPERp's. */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, unsigned int *type);

int main(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int count = 0, access = IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_LOCAL_WRITE;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = ibv_open_device(list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 7, NULL, channel, 3);
	struct ibv_mr *mr = ibv_reg_mr_iova2(pd, NULL, 5, 6, access);
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	unsigned int type = 0;
	void *cq_context;
	int status, (*destroy_qp)(struct ibv_qp *);

	printf("%d %s %d\n", count, ibv_get_device_name(list[0]), list[1] == NULL);
	status = ibv_query_gid_type(context, 1, 9, &type);
	printf("%d %u\n", status, type);
	status = ibv_get_cq_event(channel, &cq, &cq_context);
	printf("%d %d\n", status, errno == EAGAIN);
	ibv_ack_cq_events(cq, 2);
	printf("%d\n", ibv_qp_to_qp_ex(qp) == NULL);
	printf("%d\n", ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EBUSY);
	/* Only the preloaded library has it: refused, and no crash. */
	destroy_qp = (int (*)(struct ibv_qp *))dlsym(RTLD_DEFAULT, "ibv_destroy_qp");
	printf("%d\n", destroy_qp && destroy_qp(qp) == ENOSYS);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	return 0;
}
