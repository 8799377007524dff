/*
 * elf/fatbin.c - walk a container, choose and decompress an entry; see fatbin.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "elf/fatbin.h"
#include "util/util.h"

#define FLAG_OLD_COMPRESSION 0x1000u
#define FLAG_LZ4 0x2000u
#define FLAG_ZSTD 0x8000u
#define FLAG_ARCH_SPECIFIC 0x100000u
#define FLAG_FAMILY 0x200000u

/* One entry as stored, little-endian; optional fields follow up to header_size. */
struct stored_entry {
	uint16_t kind, unknown;
	uint32_t header_size;
	uint64_t payload_size; /* padded to 8; next entry = this + header + payload */
	uint32_t compressed_size, options_offset;
	uint16_t minor, major;
	uint32_t sm;
	uint32_t name_offset, name_size;
	uint64_t flags, hash, plain_size;
};

_Static_assert(sizeof(struct stored_entry) == 64, "layout of a stored entry");

int ck_fatbin_open(const void *container, size_t size, struct ck_fatbin_iter *it)
{
	struct ck_image image;
	uint16_t header_size;
	int ret;

	if (!container)
		return -EINVAL;
	ret = ck_image_classify_bounded(container, size, &image);
	if (ret < 0 || image.kind != CK_IMAGE_CONTAINER)
		return -ENOEXEC;
	memcpy(&header_size, (const char *)container + 6, sizeof(header_size));
	it->at = (const unsigned char *)container + header_size;
	it->end = (const unsigned char *)container + image.size;
	return 0;
}

/* Fill in how the payload is stored; false when the sizes contradict each other. */
static bool payload_describe(const struct stored_entry *stored, size_t room,
			     struct ck_fatbin_entry *entry)
{
	entry->stored_size = room;
	entry->size = room;
	if (stored->flags & FLAG_ZSTD)
		entry->compression = CK_FATBIN_ZSTD;
	else if (stored->flags & FLAG_LZ4)
		entry->compression = CK_FATBIN_LZ4;
	else if (stored->flags & FLAG_OLD_COMPRESSION)
		entry->compression = CK_FATBIN_OTHER;
	if (entry->compression == CK_FATBIN_PLAIN)
		return true;
	if (stored->compressed_size)
		entry->stored_size = stored->compressed_size;
	entry->size = stored->plain_size;
	return entry->stored_size <= room;
}

int ck_fatbin_next(struct ck_fatbin_iter *it, struct ck_fatbin_entry *entry)
{
	size_t left = (size_t)(it->end - it->at), name_end;
	struct stored_entry stored;
	uint64_t payload_size;

	if (left == 0)
		return 0;
	if (left < sizeof(stored))
		return -ENOEXEC;
	memcpy(&stored, it->at, sizeof(stored));
	if (stored.header_size < sizeof(stored) || stored.header_size > left)
		return -ENOEXEC;
	/* Some writers leave other things in the upper half; no payload needs it. */
	payload_size = (uint32_t)stored.payload_size;
	if (payload_size > left - stored.header_size)
		return -ENOEXEC;
	*entry = (struct ck_fatbin_entry){
		.kind = stored.kind,
		.sm = stored.sm,
		.arch_specific = stored.flags & FLAG_ARCH_SPECIFIC,
		.family = stored.flags & FLAG_FAMILY,
		.payload = it->at + stored.header_size,
		.version_major = stored.major,
		.version_minor = stored.minor,
		.flags = stored.flags,
	};
	if (!payload_describe(&stored, payload_size, entry))
		return -ENOEXEC;
	if (stored.name_offset && stored.name_size &&
	    !ck_add_overflow((size_t)stored.name_offset, stored.name_size, &name_end) &&
	    name_end <= stored.header_size) {
		entry->name = (const char *)it->at + stored.name_offset;
		entry->name_size = strnlen(entry->name, stored.name_size);
	}
	it->at += stored.header_size + payload_size;
	return 1;
}

/* Decompress into `to`, which has entry->size bytes; false unless it comes out at exactly that. */
static bool decompress_entry(const struct ck_fatbin_entry *entry, char *to)
{
	if (entry->compression == CK_FATBIN_ZSTD) {
		size_t n = ZSTD_decompress(to, entry->size, entry->payload, entry->stored_size);

		return !ZSTD_isError(n) && n == entry->size;
	}
	/* sizes are below 2^31: CK_FATBIN_IMAGE_MAX, checked by the caller */
	return LZ4_decompress_safe(entry->payload, to, (int)entry->stored_size, (int)entry->size) ==
	       (int)entry->size;
}

/* A malloc'ed copy of the entry's plain bytes with a NUL behind them. */
static int copy_out(const struct ck_fatbin_entry *entry, char **out)
{
	char *bytes;

	if (entry->size > CK_FATBIN_IMAGE_MAX || entry->stored_size > CK_FATBIN_IMAGE_MAX)
		return -ENOEXEC;
	/* LZ4 cannot expand more than 255 times: do not even allocate for a size that is absurd. */
	if (entry->compression == CK_FATBIN_LZ4 && entry->size / 255 > entry->stored_size)
		return -ENOEXEC;
	bytes = malloc(entry->size + 1);
	if (!bytes)
		return -ENOMEM;
	if (entry->compression == CK_FATBIN_PLAIN) {
		memcpy(bytes, entry->payload, entry->size);
	} else if (!decompress_entry(entry, bytes)) {
		free(bytes);
		return -ENOEXEC;
	}
	bytes[entry->size] = '\0';
	*out = bytes;
	return 0;
}

int ck_fatbin_extract(const struct ck_fatbin_entry *entry, struct ck_fatbin_choice *out)
{
	struct ck_fatbin_choice found = {.sm = entry->sm,
					 .arch_specific = entry->arch_specific,
					 .family = entry->family,
					 .data = entry->payload,
					 .size = entry->size};
	char *bytes = NULL;
	int ret;

	if ((entry->kind != CK_FATBIN_PTX && entry->kind != CK_FATBIN_ELF) ||
	    entry->compression == CK_FATBIN_OTHER)
		return -ENOTSUP;
	if (entry->size == 0)
		return -ENOEXEC;
	found.kind = entry->kind == CK_FATBIN_PTX ? CK_IMAGE_PTX : CK_IMAGE_ELF;
	if (found.kind == CK_IMAGE_PTX || entry->compression != CK_FATBIN_PLAIN) {
		ret = copy_out(entry, &bytes);
		if (ret < 0)
			return ret;
		found.owned = true;
		found.data = bytes;
		if (found.kind == CK_IMAGE_PTX)
			found.size = strlen(bytes) + 1;
	}
	*out = found;
	return 0;
}

void ck_fatbin_choice_free(struct ck_fatbin_choice *choice)
{
	if (choice->owned)
		free((void *)choice->data);
	*choice = (struct ck_fatbin_choice){0};
}

/* Does the entry's target, an `a` or `f` one included, run on the device at all? */
static bool target_fits(const struct ck_fatbin_entry *entry, unsigned device_sm)
{
	if (entry->arch_specific)
		return entry->sm == device_sm;
	if (entry->family || entry->kind == CK_FATBIN_ELF)
		return entry->sm / 10 == device_sm / 10 && entry->sm <= device_sm;
	return entry->sm <= device_sm;
}

/*
 * How good an entry is for the device, 0 when it cannot be used. Machine code always goes before
 * PTX, then the higher target, then the more specific form of it.
 */
static unsigned entry_rank(const struct ck_fatbin_entry *entry, unsigned device_sm,
			   bool accepts_cubin)
{
	unsigned rank;

	if (entry->kind == CK_FATBIN_ELF ? !accepts_cubin : entry->kind != CK_FATBIN_PTX)
		return 0;
	if (entry->compression == CK_FATBIN_OTHER || !target_fits(entry, device_sm))
		return 0;
	rank = entry->sm * 4 + (entry->arch_specific ? 3 : entry->family ? 2 : 1);
	return entry->kind == CK_FATBIN_ELF ? rank + (1u << 30) : rank;
}

int ck_fatbin_choose(const void *container, size_t size, struct ck_fatbin_device device,
		     bool accepts_cubin, struct ck_fatbin_choice *out)
{
	unsigned device_sm = device.major * 10 + device.minor, rank, best_rank = 0;
	struct ck_fatbin_entry entry, best;
	struct ck_fatbin_iter it;
	int ret;

	ret = ck_fatbin_open(container, size, &it);
	if (ret < 0)
		return ret;
	while ((ret = ck_fatbin_next(&it, &entry)) > 0) {
		rank = entry_rank(&entry, device_sm, accepts_cubin);
		/* of equal ones the driver takes the first cubin, but the last PTX */
		if (rank > best_rank ||
		    (rank == best_rank && rank && entry.kind == CK_FATBIN_PTX)) {
			best_rank = rank;
			best = entry;
		}
	}
	if (ret < 0)
		return ret;
	if (best_rank == 0)
		return -ENOEXEC;
	return ck_fatbin_extract(&best, out);
}

/* Append a text with its NUL to the one so far; each begins on a line of its own. */
static int text_append(struct ck_fatbin_choice *joined, const struct ck_fatbin_choice *text)
{
	size_t before = joined->size ? joined->size - 1 : 0, size = before + 1 + text->size;
	char *bytes;

	if (size > CK_FATBIN_IMAGE_MAX)
		return -ENOEXEC;
	bytes = realloc((void *)joined->data, size);
	if (!bytes)
		return -ENOMEM;
	bytes[before] = '\n';
	memcpy(bytes + before + 1, text->data, text->size);
	joined->data = bytes;
	joined->size = size;
	joined->sm = ck_max(joined->sm, text->sm);
	joined->arch_specific |= text->arch_specific;
	joined->family |= text->family;
	return 0;
}

/*
 * Is it CUDA's device runtime library? nvcc, when it leaves linking to the driver, adds it to every
 * program: machine code for all devices, and next to no PTX.
 */
static bool is_device_runtime(const struct ck_image *image, struct ck_fatbin_device device)
{
	static const char source[] = "cuda_device_runtime_cu";
	struct ck_fatbin_choice choice;
	bool is;

	if (ck_fatbin_choose(image->data, image->size, device, true, &choice) < 0)
		return false;
	is = choice.kind == CK_IMAGE_ELF &&
	     memmem(choice.data, choice.size, source, strlen(source));
	ck_fatbin_choice_free(&choice);
	return is;
}

int ck_fatbin_join(const void *const *containers, struct ck_fatbin_device device,
		   struct ck_fatbin_choice *out)
{
	struct ck_fatbin_choice joined = {.kind = CK_IMAGE_PTX, .owned = true}, text;
	struct ck_image image;
	int ret = 0;

	for (; ret == 0 && *containers; containers++) {
		ret = ck_image_classify(*containers, &image);
		if (ret == 0 && image.kind != CK_IMAGE_CONTAINER)
			ret = -ENOEXEC;
		if (ret == 0)
			ret = ck_fatbin_choose(image.data, image.size, device, false, &text);
		if (ret == -ENOEXEC && is_device_runtime(&image, device)) {
			ret = 0;
			continue;
		}
		if (ret < 0)
			break;
		ret = text_append(&joined, &text);
		ck_fatbin_choice_free(&text);
	}
	if (ret == 0 && !joined.data)
		ret = -ENOEXEC;
	if (ret < 0)
		ck_fatbin_choice_free(&joined);
	else
		*out = joined;
	return ret;
}
