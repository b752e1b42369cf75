/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Stands for the real libibverbs: one device, and a line for each call. */
#include <infiniband/verbs.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#undef ibv_reg_mr

static struct ibv_device device = { .name = "real0" };
static struct ibv_context context = { .device = &device };
static struct ibv_pd pd = { .context = &context };
static struct ibv_mr mr = { .context = &context, .pd = &pd };
static struct ibv_comp_channel channel = { .context = &context, .fd = -1 };
static struct ibv_cq cq = { .context = &context, .channel = &channel };
static struct ibv_qp qp = { .context = &context, .pd = &pd };

static int say(const char *name)
{
	printf("real %s\n", name);
	return 0;
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	say(__func__);
	list[0] = &device;
	*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	say(__func__);
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *of) { say(__func__); return of->name; }
struct ibv_context *ibv_open_device(struct ibv_device *of) { say(__func__); return of == &device ? &context : NULL; }
int ibv_close_device(struct ibv_context *of) { return say(__func__); }
int ibv_query_gid_type(struct ibv_context *of, uint8_t port, unsigned int index, unsigned int *type)
{
	say(__func__);
	*type = port + index;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *of) { say(__func__); return &pd; }
int ibv_dealloc_pd(struct ibv_pd *of) { return say(__func__); }
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *of, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	printf("real %s %zu %llu %u\n", __func__, length, (unsigned long long)iova, access);
	return &mr;
}

int ibv_dereg_mr(struct ibv_mr *of) { return say(__func__); }
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *of) { say(__func__); return &channel; }
struct ibv_cq *ibv_create_cq(struct ibv_context *of, int cqe, void *cq_context, struct ibv_comp_channel *to, int vector)
{
	printf("real %s %d %d\n", __func__, cqe, vector);
	return &cq;
}

int ibv_get_cq_event(struct ibv_comp_channel *of, struct ibv_cq **place, void **cq_context)
{
	say(__func__);
	*place = &cq;
	errno = EAGAIN;
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *of, unsigned int count) { printf("real %s %u\n", __func__, count); }
struct ibv_qp *ibv_create_qp(struct ibv_pd *of, struct ibv_qp_init_attr *attr) { say(__func__); return &qp; }
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *of) { say(__func__); return NULL; }
int ibv_modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask) { say(__func__); return EBUSY; }
