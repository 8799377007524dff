/*
 * elf/nvinfo.c - read .nv.info records; see nvinfo.h.
 *
 * A record is a byte of form, a byte of attribute, and two bytes that are a value (forms 1 to 3)
 * or the length of a payload that follows (form 4).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "elf/nvinfo.h"

static uint32_t read_u32(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static uint16_t read_u16(const unsigned char *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

int ck_nvinfo_next(struct ck_nvinfo_iter *it, struct ck_nvinfo_record *record)
{
	size_t payload;
	unsigned form;

	if (it->left == 0)
		return 0;
	if (it->left < 4)
		return -ENOEXEC;
	form = it->at[0];
	if (form < 1 || form > 4)
		return -ENOEXEC;
	*record = (struct ck_nvinfo_record){.attribute = it->at[1], .value = read_u16(it->at + 2)};
	payload = form == 4 ? record->value : 0;
	if (payload > it->left - 4)
		return -ENOEXEC;
	if (form == 4) {
		record->payload = it->at + 4;
		record->size = payload;
	}
	it->at += 4 + payload;
	it->left -= 4 + payload;
	return 1;
}

static bool is_parameter(const struct ck_nvinfo_record *record)
{
	return (record->attribute == CK_NVINFO_KPARAM ||
		record->attribute == CK_NVINFO_KPARAM_V2) &&
	       record->payload;
}

/* Count the parameters and make room for them. Also sees that the section is sound. */
static int parameters_prepare(struct ck_nvinfo_iter it, struct ck_kernel *kernel)
{
	struct ck_nvinfo_record record;
	uint32_t count = 0;
	int ret;

	while ((ret = ck_nvinfo_next(&it, &record)) > 0)
		count += is_parameter(&record);
	if (ret < 0 || count == 0)
		return ret;
	kernel->params = calloc(count, sizeof(*kernel->params));
	if (!kernel->params)
		return -ENOMEM;
	/* the offset, which no parameter can have, of an ordinal that never appears */
	for (uint32_t i = 0; i < count; i++)
		kernel->params[i].offset = UINT32_MAX;
	kernel->param_count = count;
	return 0;
}

static int parameter_read(const struct ck_nvinfo_record *record, struct ck_kernel *kernel)
{
	struct ck_kernel_param *param;
	uint16_t ordinal;

	if (record->size < 12)
		return -ENOEXEC;
	ordinal = read_u16(record->payload + 4);
	if (ordinal >= kernel->param_count || kernel->params[ordinal].offset != UINT32_MAX)
		return -ENOEXEC;
	param = &kernel->params[ordinal];
	param->offset = read_u16(record->payload + 6);
	if (record->attribute == CK_NVINFO_KPARAM)
		param->size = read_u32(record->payload + 8) >> 18;
	else
		param->size = read_u16(record->payload + 8);
	return 0;
}

/* x * y * z, each at most 2^16 so that the product cannot pass 64 bits; false if out of reason. */
static bool block_read(const struct ck_nvinfo_record *record, uint32_t block[3])
{
	if (record->size < 12)
		return false;
	for (size_t i = 0; i < 3; i++) {
		block[i] = read_u32(record->payload + 4 * i);
		if (block[i] == 0 || block[i] > 0xFFFF)
			return false;
	}
	return (uint64_t)block[0] * block[1] * block[2] <= UINT32_MAX;
}

/* Read the records other than parameters; the first malformed one gives -ENOEXEC. */
static int limits_read(const struct ck_nvinfo_record *record, struct ck_kernel *kernel,
		       uint32_t *bank_size)
{
	uint32_t block[3];

	switch (record->attribute) {
	case CK_NVINFO_CBANK_PARAM_SIZE:
		kernel->param_bytes = record->value;
		break;
	case CK_NVINFO_PARAM_CBANK:
		if (record->size >= 8)
			*bank_size = read_u16(record->payload + 6);
		break;
	case CK_NVINFO_MAX_THREADS:
	case CK_NVINFO_REQUIRED_THREADS:
		if (!block_read(record, block))
			return -ENOEXEC;
		kernel->max_threads = block[0] * block[1] * block[2];
		if (record->attribute == CK_NVINFO_REQUIRED_THREADS)
			memcpy(kernel->block, block, sizeof(block));
		break;
	}
	return 0;
}

/* Parameters come in order, do not overlap, and lie within the block. */
static int layout_check(const struct ck_kernel *kernel)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < kernel->param_count; i++) {
		if (kernel->params[i].offset < end)
			return -ENOEXEC;
		end = kernel->params[i].offset + kernel->params[i].size;
		if (end > kernel->param_bytes)
			return -ENOEXEC;
	}
	return kernel->param_bytes > CK_KERNEL_PARAM_MAX ? -ENOEXEC : 0;
}

int ck_nvinfo_kernel(const void *section, size_t size, struct ck_kernel *kernel)
{
	struct ck_nvinfo_iter it = {.at = section, .left = size};
	struct ck_nvinfo_record record;
	uint32_t bank_size = 0;
	int ret;

	ret = parameters_prepare(it, kernel);
	if (ret < 0)
		return ret;
	while (ck_nvinfo_next(&it, &record) > 0) {
		ret = is_parameter(&record) ? parameter_read(&record, kernel)
					    : limits_read(&record, kernel, &bank_size);
		if (ret < 0)
			return ret;
	}
	/* the size in PARAM_CBANK may count padding, so it is the second choice */
	if (kernel->param_bytes == 0)
		kernel->param_bytes = bank_size;
	return layout_check(kernel);
}
