/*
 * slurm/record.c - see record.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/pool.h"
#include "slurm/record.h"

void ck_slurm_gpus_print(uint64_t gpus, char list[CK_SLURM_LIST])
{
	size_t at = 0;

	list[0] = '\0';
	for (unsigned int i = 0; i < CK_SLURM_GPUS; i++)
		if (gpus >> i & 1)
			at += (size_t)snprintf(list + at, CK_SLURM_LIST - at, "%s%u", at ? "," : "",
					       i);
}

size_t ck_slurm_record_print(const struct ck_slurm_record *record, char text[CK_SLURM_RECORD_TEXT])
{
	int n;

	if (record->error[0])
		n = snprintf(text, CK_SLURM_RECORD_TEXT, "error=%s\n", record->error);
	else
		n = snprintf(text, CK_SLURM_RECORD_TEXT,
			     "server=%s\ntype=%s\ngpus=%" PRIx64
			     "\ntoken=%s\nname=%s\nstart=%" PRId64 "\n",
			     record->server, record->type, record->gpus, record->token,
			     record->name, record->start);
	return (size_t)n;
}

static int copy_value(char *out, size_t room, const char *value)
{
	size_t size = strlen(value);

	if (size == 0 || size >= room)
		return -EINVAL;
	memcpy(out, value, size + 1);
	return 0;
}

static int parse_number(const char *value, int base, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(value, &end, base);
	return errno || end == value || *end ? -EINVAL : 0;
}

static int set_field(struct ck_slurm_record *record, const char *name, const char *value)
{
	uint64_t number;
	int ret = -EINVAL;

	if (strcmp(name, "error") == 0)
		return copy_value(record->error, sizeof(record->error), value);
	if (strcmp(name, "server") == 0)
		return ck_slurm_address_parse(value, record->server);
	if (strcmp(name, "type") == 0)
		return ck_slurm_type_parse(value, record->type);
	if (strcmp(name, "token") == 0)
		return copy_value(record->token, sizeof(record->token), value);
	if (strcmp(name, "name") == 0)
		return copy_value(record->name, sizeof(record->name), value);
	if (strcmp(name, "gpus") == 0)
		return parse_number(value, 16, &record->gpus);
	if (strcmp(name, "start") == 0) {
		ret = parse_number(value, 10, &number);
		record->start = (int64_t)number;
	}
	return ret;
}

int ck_slurm_record_parse(const char *text, struct ck_slurm_record *record)
{
	char line[CK_SLURM_RECORD_TEXT], *value;
	size_t size;

	memset(record, 0, sizeof(*record));
	for (; *text; text += size + (text[size] == '\n')) {
		size = strcspn(text, "\n");
		if (size >= sizeof(line))
			return -EINVAL;
		memcpy(line, text, size);
		line[size] = '\0';
		value = strchr(line, '=');
		if (!value)
			return -EINVAL;
		*value++ = '\0';
		if (set_field(record, line, value) < 0)
			return -EINVAL;
	}
	if (record->error[0])
		return 0;
	return record->server[0] && record->type[0] && record->gpus && record->token[0] &&
			       record->name[0]
		       ? 0
		       : -EINVAL;
}
