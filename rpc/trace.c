/*
 * rpc/trace.c - print messages as text, by the table that encodes them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "rpc/proc.h"

struct bytes {
	u_int len;
	const unsigned char *val;
};

static int print_field(const struct ck_field *f, const unsigned char *at, char *buf, size_t size)
{
	switch (f->kind) {
	case CK_FIELD_INT:
		return snprintf(buf, size, "%d", *(const int *)at);
	case CK_FIELD_UINT:
		return snprintf(buf, size, "%u", *(const unsigned int *)at);
	case CK_FIELD_U64:
		return snprintf(buf, size, "%" PRIu64, *(const uint64_t *)at);
	case CK_FIELD_FLOAT:
		return snprintf(buf, size, "%g", (double)*(const float *)at);
	case CK_FIELD_POINTER:
		return snprintf(buf, size, "0x%" PRIx64, *(const uint64_t *)at);
	case CK_FIELD_ID:
		return snprintf(buf, size, "#%" PRIu64, *(const uint64_t *)at);
	case CK_FIELD_IDS:
		return snprintf(buf, size, "%u ids", ((const struct bytes *)at)->len);
	case CK_FIELD_HASH:
		return snprintf(buf, size, "%02x%02x%02x%02x...", at[0], at[1], at[2], at[3]);
	case CK_FIELD_BYTES:
		return snprintf(buf, size, "%u bytes", ((const struct bytes *)at)->len);
	case CK_FIELD_STRING:
		return snprintf(buf, size, "\"%s\"", *(char *const *)at ? *(char *const *)at : "");
	case CK_FIELD_POD:
		return snprintf(buf, size, "{...}");
	case CK_FIELD_BULK:
		return snprintf(buf, size, "%u bytes", *(const unsigned int *)at);
	case CK_FIELD_END:
		break;
	}
	return 0;
}

size_t ck_fields_print(const struct ck_field *fields, const void *structure, char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (const struct ck_field *f = fields; f && f->name; f++) {
		const unsigned char *at = (const unsigned char *)structure + f->offset;
		int n = snprintf(buf + used, size - used, "%s%s ", used ? ", " : "", f->name);

		if (n < 0 || (size_t)n >= size - used)
			return size - 1;
		used += (size_t)n;
		n = print_field(f, at, buf + used, size - used);
		if (n < 0 || (size_t)n >= size - used)
			return size - 1;
		used += (size_t)n;
	}
	return used;
}
