/*
 * server/nccl/batch.c - check a batch of operations that has arrived; read what follows an
 * operation.
 */
#include <string.h>

#include "server/nccl/nccl.h"

/* Bytes of an item behind an operation that makes a communicator; 0: it makes none. */
static size_t item_size(uint32_t what)
{
	switch (what) {
	case CK_NCCL_INIT:
	case CK_NCCL_INIT_SCALABLE:
		return NCCL_UNIQUE_ID_BYTES;
	case CK_NCCL_SHRINK:
		return sizeof(int);
	case CK_NCCL_SPLIT:
		return 1; /* none */
	default:
		return 0;
	}
}

static bool is_known(uint32_t what)
{
	return cks_nccl_is_op(what) || (what >= CK_NCCL_INIT && what <= CK_NCCL_REDOP_END);
}

/* Read a name of @size bytes, which has its NUL at the end and nowhere else. */
static bool read_name(char *name, const char *from, size_t size)
{
	if (size == 0)
		return true;
	if (size > CK_NCCL_NAME_MAX || strnlen(from, size) != size - 1)
		return false;
	memcpy(name, from, size);
	return true;
}

/* Put the names' addresses into the configuration, as far as it reaches; the client's are of no use
 * here. */
static bool read_config(struct cks_nccl_extra *x, const void *from, const struct ck_nccl_init *head)
{
	ncclConfig_t *config = (ncclConfig_t *)x->config;

	memcpy(x->config, from, head->config);
	if (config->size != head->config || config->magic != NCCL_CONFIG_MAGIC)
		return false;
	if (head->config >= offsetof(ncclConfig_t, netName) + sizeof(config->netName))
		config->netName = head->net_name ? x->net_name : NULL;
	if (head->config >= offsetof(ncclConfig_t, commName) + sizeof(config->commName))
		config->commName = head->comm_name ? x->comm_name : NULL;
	return true;
}

bool cks_nccl_extra_read(const struct ck_nccl_op *o, struct cks_nccl_extra *x)
{
	const char *at = (const char *)(o + 1);
	size_t size = o->size - sizeof(*o), items;
	struct ck_nccl_init head;

	memset(x, 0, sizeof(*x));
	if (size < sizeof(head))
		return false;
	memcpy(&head, at, sizeof(head));
	if (head.items > CK_NCCL_BATCH_MAX || head.config > CK_NCCL_CONFIG_MAX ||
	    (head.config > 0 && head.config < offsetof(ncclConfig_t, cgaClusterSize)))
		return false;
	items = head.items * item_size(o->what);
	if (size < sizeof(head) + items + head.config + (size_t)head.net_name + head.comm_name)
		return false;
	x->items = at + sizeof(head);
	x->count = head.items;
	at += sizeof(head) + items;
	if (!read_name(x->net_name, at + head.config, head.net_name) ||
	    !read_name(x->comm_name, at + head.config + head.net_name, head.comm_name))
		return false;
	x->has_config = head.config > 0;
	return !x->has_config || read_config(x, at, &head);
}

static bool check_op(const struct ck_nccl_op *o, size_t left)
{
	struct cks_nccl_extra x;

	if (o->size < sizeof(*o) || o->size % 8 != 0 || o->size > left || !is_known(o->what))
		return false;
	if (o->comm >= CK_NCCL_COMMS || o->newcomm >= CK_NCCL_COMMS)
		return false;
	return item_size(o->what) == 0 || cks_nccl_extra_read(o, &x);
}

bool cks_nccl_batch_check(const void *bytes, size_t size)
{
	const struct ck_nccl_batch *head = bytes;
	const struct ck_nccl_op *o;
	size_t left;

	if (size < sizeof(*head) || size > CK_NCCL_BATCH_MAX || head->grouped > CK_NCCL_SIMULATED)
		return false;
	left = size - sizeof(*head);
	o = cks_nccl_batch_first(bytes);
	for (uint32_t i = 0; i < head->count; i++) {
		if (left < sizeof(*o) || !check_op(o, left))
			return false;
		left -= o->size;
		o = cks_nccl_batch_next(o);
	}
	return left == 0;
}
