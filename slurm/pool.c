/*
 * slurm/pool.c - see pool.h.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "slurm/pool.h"

#define LINE 256

int ck_slurm_address_parse(const char *text, char address[CK_SLURM_ADDRESS])
{
	size_t size = strlen(text);

	if (size < 1 || size >= CK_SLURM_ADDRESS || text[0] == '.')
		return -EINVAL;
	for (size_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr(".-:[]_%", text[i]))
			return -EINVAL;
	memcpy(address, text, size + 1);
	return 0;
}

static bool parse_line(char *line, struct ck_slurm_server *server)
{
	char *rest = NULL;
	const char *address = strtok_r(line, " \t\r", &rest);
	const char *type = strtok_r(NULL, " \t\r", &rest);
	const char *gpus = strtok_r(NULL, " \t\r", &rest);

	return address && type && gpus && !strtok_r(NULL, " \t\r", &rest) &&
	       ck_slurm_address_parse(address, server->address) == 0 &&
	       ck_slurm_type_parse(type, server->type) == 0 &&
	       ck_slurm_gpus_parse(gpus, &server->gpus) == 0;
}

static bool has_server(const struct ck_slurm_pool *pool, const char *address)
{
	for (unsigned int i = 0; i < pool->count; i++)
		if (strcmp(pool->servers[i].address, address) == 0)
			return true;
	return false;
}

static int add_server(struct ck_slurm_pool *pool, char *line, unsigned int number,
		      struct ck_slurm_why *why)
{
	struct ck_slurm_server server;

	if (!parse_line(line, &server))
		return ck_slurm_fail(
			why, -EINVAL,
			"line %u of the servers file is not ADDRESS TYPE GPUS (1 to %d)", number,
			CK_SLURM_GPUS);
	if (has_server(pool, server.address))
		return ck_slurm_fail(why, -EINVAL, "line %u of the servers file repeats %s", number,
				     server.address);
	if (pool->count == CK_SLURM_SERVERS)
		return ck_slurm_fail(why, -EINVAL, "the servers file has more than %d servers",
				     CK_SLURM_SERVERS);
	pool->servers[pool->count++] = server;
	return 0;
}

int ck_slurm_pool_parse(const char *text, struct ck_slurm_pool *pool, struct ck_slurm_why *why)
{
	char line[LINE];
	size_t size;
	int ret;

	pool->count = 0;
	for (unsigned int number = 1; *text; number++) {
		size = strcspn(text, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)(size < LINE ? size : 0), text);
		text += size + (text[size] == '\n');
		if (size < LINE && (!line[strspn(line, " \t\r")] || line[0] == '#'))
			continue;
		ret = add_server(pool, line, number, why);
		if (ret < 0)
			return ret;
	}
	return 0;
}
