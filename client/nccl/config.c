/*
 * client/nccl/config.c - a communicator's configuration on the wire: its bytes, and the texts that
 * it points to.
 */
#include <stdlib.h>
#include <string.h>

#include "client/nccl/nccl.h"

#define HAS(config, field)                                                                         \
	((config)->size >= offsetof(ncclConfig_t, field) + sizeof((config)->field))

/* Bytes of a name with its NUL; 0: none. */
static size_t length_of(const char *name)
{
	return name ? strnlen(name, CK_NCCL_NAME_MAX) + 1 : 0;
}

static ncclResult_t check_config(const ncclConfig_t *config)
{
	if (config->magic != NCCL_CONFIG_MAGIC ||
	    config->size < offsetof(ncclConfig_t, cgaClusterSize))
		return ckc_nccl_fail(
			ncclInvalidArgument,
			"the configuration is not initialised (NCCL_CONFIG_INITIALIZER)");
	if (config->size > CK_NCCL_CONFIG_MAX)
		return ckc_nccl_fail(ncclInvalidArgument,
				     "a configuration of %zu bytes, more than %d", config->size,
				     CK_NCCL_CONFIG_MAX);
	return ncclSuccess;
}

static ncclResult_t measure_config(const ncclConfig_t *config, const char **names,
				   struct ck_nccl_init *head)
{
	size_t lengths[2];

	names[0] = HAS(config, netName) ? config->netName : NULL;
	names[1] = HAS(config, commName) ? config->commName : NULL;
	for (int i = 0; i < 2; i++) {
		lengths[i] = length_of(names[i]);
		if (lengths[i] > CK_NCCL_NAME_MAX)
			return ckc_nccl_fail(ncclInvalidArgument,
					     "a name in the configuration is too long");
	}
	head->config = (uint32_t)config->size;
	head->net_name = (uint32_t)lengths[0];
	head->comm_name = (uint32_t)lengths[1];
	return ncclSuccess;
}

ncclResult_t ckc_nccl_config_pack(const void *items, size_t item, int count,
				  const ncclConfig_t *config, void **extra, size_t *size)
{
	struct ck_nccl_init head = {.items = (uint32_t)count};
	size_t bytes = item * (size_t)count;
	const char *names[2] = {NULL, NULL};
	ncclResult_t ret = config ? check_config(config) : ncclSuccess;
	char *at;

	if (!ret && config)
		ret = measure_config(config, names, &head);
	if (ret)
		return ret;
	*size = sizeof(head) + bytes + head.config + head.net_name + head.comm_name;
	*extra = at = malloc(*size);
	if (!at)
		return ckc_nccl_fail(ncclSystemError, "out of memory");
	memcpy(at, &head, sizeof(head));
	at += sizeof(head);
	if (bytes > 0)
		memcpy(at, items, bytes);
	at += bytes;
	if (config)
		memcpy(at, config, head.config);
	at += head.config;
	if (head.net_name)
		memcpy(at, names[0], head.net_name);
	at += head.net_name;
	if (head.comm_name)
		memcpy(at, names[1], head.comm_name);
	return ncclSuccess;
}
