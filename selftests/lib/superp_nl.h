/* SPDX-License-Identifier: GPL-2.0 */
/* Requests of the netlink family, for tests in C. */
#ifndef SUPERP_NL_H
#define SUPERP_NL_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/superp_netlink.h>

struct nl_request {
	struct nlmsghdr		nlh;
	struct genlmsghdr	genl;
	char			attrs[1024];
};

static inline void nl_begin(struct nl_request *req, int type, int cmd)
{
	memset(req, 0, sizeof(*req));
	req->nlh.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
	req->nlh.nlmsg_type = type;
	req->nlh.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	req->genl.cmd = cmd;
	req->genl.version = 1;
}

static inline void nl_put(struct nl_request *req, int type, const void *data,
			  size_t len)
{
	struct nlattr *attr = (void *)((char *)req +
				       NLMSG_ALIGN(req->nlh.nlmsg_len));

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	memcpy((char *)attr + NLA_HDRLEN, data, len);
	req->nlh.nlmsg_len = NLMSG_ALIGN(req->nlh.nlmsg_len) +
			     NLA_ALIGN(attr->nla_len);
}

static inline void nl_put_u8(struct nl_request *req, int type, uint8_t value)
{
	nl_put(req, type, &value, sizeof(value));
}

static inline void nl_put_u16(struct nl_request *req, int type, uint16_t value)
{
	nl_put(req, type, &value, sizeof(value));
}

static inline void nl_put_u32(struct nl_request *req, int type, uint32_t value)
{
	nl_put(req, type, &value, sizeof(value));
}

/* The attribute of this type in a message, or NULL. */
static inline const struct nlattr *nl_find(const struct nlmsghdr *nlh, int type)
{
	const char *at = (const char *)nlh + NLMSG_LENGTH(GENL_HDRLEN);
	const char *end = (const char *)nlh + nlh->nlmsg_len;

	while (at + NLA_HDRLEN <= end) {
		const struct nlattr *attr = (const void *)at;

		if (attr->nla_len < NLA_HDRLEN)
			break;
		if ((attr->nla_type & NLA_TYPE_MASK) == type)
			return attr;
		at += NLA_ALIGN(attr->nla_len);
	}
	return NULL;
}

static inline uint32_t nl_u32(const struct nlattr *attr)
{
	uint32_t value = 0;

	if (attr)
		memcpy(&value, (const char *)attr + NLA_HDRLEN, sizeof(value));
	return value;
}

/* Sends a request and waits for its end. The reply, if any, is left in @reply. */
static inline int nl_talk(int fd, struct nl_request *req, void *reply,
			  size_t size)
{
	char buffer[16384];

	if (send(fd, req, req->nlh.nlmsg_len, 0) < 0)
		return -errno;
	for (;;) {
		ssize_t len = recv(fd, buffer, sizeof(buffer), 0);
		struct nlmsghdr *nlh = (void *)buffer;

		if (len < 0)
			return -errno;
		for (; NLMSG_OK(nlh, (size_t)len); nlh = NLMSG_NEXT(nlh, len)) {
			if (nlh->nlmsg_type == NLMSG_ERROR) {
				struct nlmsgerr *err = NLMSG_DATA(nlh);

				return err->error;
			}
			if (reply && nlh->nlmsg_len <= size)
				memcpy(reply, nlh, nlh->nlmsg_len);
		}
	}
}

/* A generic netlink socket in the caller's network namespace, and the family's id. */
static inline int nl_open_here(int *family)
{
	char reply[16384] = {};
	struct nl_request req;
	int fd;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	if (fd < 0)
		return -1;
	nl_begin(&req, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	nl_put(&req, CTRL_ATTR_FAMILY_NAME, SUPERP_FAMILY_NAME,
	       sizeof(SUPERP_FAMILY_NAME));
	if (nl_talk(fd, &req, reply, sizeof(reply)) ||
	    !nl_find((void *)reply, CTRL_ATTR_FAMILY_ID)) {
		close(fd);
		return -1;
	}
	*family = nl_u32(nl_find((void *)reply, CTRL_ATTR_FAMILY_ID)) & 0xffff;
	return fd;
}

#endif /* SUPERP_NL_H */
