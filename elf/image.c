/*
 * elf/image.c - classify a module image by its first bytes; see image.h.
 *
 * Both entry points share one walk with a limit: the unbounded one uses a limit that no image
 * reaches. All fields are copied out, since text need not be aligned.
 */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "elf/image.h"
#include "util/util.h"

#define EM_CUDA_MACHINE 190
#define UNBOUNDED ((size_t)1 << 40)

struct wrapper {
	uint32_t magic, version;
	const void *data;
	const void *list; /* version 1: a file name or NULL */
};

struct container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t files_size;
};

/* Raise *end to offset + size; false when that passes the limit. */
static bool extend_end(size_t *end, uint64_t offset, uint64_t size, size_t limit)
{
	uint64_t sum;

	if (ck_add_overflow(offset, size, &sum) || sum > limit)
		return false;
	*end = ck_max(*end, (size_t)sum);
	return true;
}

/*
 * A section count of 0 beside a table means that the count did not fit 16 bits, and is in the
 * size field of section 0 (ELF specification).
 */
static int section_count(const char *elf, const Elf64_Ehdr *header, size_t limit, uint64_t *count)
{
	Elf64_Shdr first;
	size_t end = 0;

	*count = header->e_shnum;
	if (header->e_shoff == 0 || header->e_shnum != 0)
		return 0;
	if (!extend_end(&end, header->e_shoff, sizeof(first), limit))
		return -ENOEXEC;
	memcpy(&first, elf + header->e_shoff, sizeof(first));
	*count = first.sh_size;
	return 0;
}

static int sections_end(const char *elf, const Elf64_Ehdr *header, size_t limit, size_t *end)
{
	uint64_t count, bytes;
	Elf64_Shdr section;
	int ret = section_count(elf, header, limit, &count);

	if (ret < 0)
		return ret;
	if (count && header->e_shentsize != sizeof(section))
		return -ENOEXEC;
	if (ck_mul_overflow(count, sizeof(section), &bytes) ||
	    !extend_end(end, header->e_shoff, bytes, limit))
		return -ENOEXEC;
	for (uint64_t i = 0; i < count; i++) {
		memcpy(&section, elf + header->e_shoff + i * sizeof(section), sizeof(section));
		if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS)
			continue;
		if (!extend_end(end, section.sh_offset, section.sh_size, limit))
			return -ENOEXEC;
	}
	return 0;
}

static int segments_end(const char *elf, const Elf64_Ehdr *header, size_t limit, size_t *end)
{
	Elf64_Phdr segment;

	if (header->e_phnum == 0)
		return 0;
	if (header->e_phentsize != sizeof(segment) ||
	    !extend_end(end, header->e_phoff, header->e_phnum * sizeof(segment), limit))
		return -ENOEXEC;
	for (size_t i = 0; i < header->e_phnum; i++) {
		memcpy(&segment, elf + header->e_phoff + i * sizeof(segment), sizeof(segment));
		if (!extend_end(end, segment.p_offset, segment.p_filesz, limit))
			return -ENOEXEC;
	}
	return 0;
}

/*
 * The highest end of the four parts. All four must be checked: CUDA 13 puts the program headers
 * behind the section table.
 */
static int elf_size(const char *elf, size_t limit, size_t *size)
{
	size_t end = sizeof(Elf64_Ehdr);
	Elf64_Ehdr header;
	int ret;

	if (limit < sizeof(header))
		return -ENOEXEC;
	memcpy(&header, elf, sizeof(header));
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_machine != EM_CUDA_MACHINE)
		return -ENOEXEC;
	ret = sections_end(elf, &header, limit, &end);
	if (ret < 0)
		return ret;
	ret = segments_end(elf, &header, limit, &end);
	if (ret < 0)
		return ret;
	*size = end;
	return 0;
}

static int container_size(const void *data, size_t limit, size_t *size)
{
	struct container container;
	size_t end = 0;

	if (limit < sizeof(container))
		return -ENOEXEC;
	memcpy(&container, data, sizeof(container));
	if (container.header_size < CK_IMAGE_CONTAINER_HEADER ||
	    !extend_end(&end, container.header_size, container.files_size, limit))
		return -ENOEXEC;
	*size = end;
	return 0;
}

/*
 * PTX begins with blanks, a comment or a directive, in ASCII except for comments. Other text is
 * refused here; the driver would fail to parse it.
 */
static int text_size(const char *text, size_t limit, size_t *size)
{
	size_t start = 0;
	const char *end;

	while (start < limit && text[start] && strchr(" \t\r\n\f\v", text[start]))
		start++;
	if (start == limit || (text[start] != '.' && text[start] != '/'))
		return -ENOEXEC;
	end = limit == UNBOUNDED ? text + strlen(text) : memchr(text, 0, limit);
	if (!end)
		return -ENOEXEC;
	*size = (size_t)(end - text) + 1;
	return 0;
}

/* Everything but wrappers. */
static int classify_image(const void *image, size_t limit, struct ck_image *out)
{
	struct ck_image found = {.data = image};
	unsigned char first[4] = {0};
	uint32_t magic;
	int ret;

	/* Byte by byte, because a text may be shorter than four. */
	for (size_t i = 0; i < sizeof(first) && i < limit; i++) {
		first[i] = ((const unsigned char *)image)[i];
		if (first[i] == 0)
			break;
	}
	memcpy(&magic, first, sizeof(magic));
	if (magic == CK_IMAGE_CONTAINER_MAGIC) {
		found.kind = CK_IMAGE_CONTAINER;
		ret = container_size(image, limit, &found.size);
	} else if (memcmp(first, ELFMAG, SELFMAG) == 0) {
		found.kind = CK_IMAGE_ELF;
		ret = elf_size(image, limit, &found.size);
	} else {
		found.kind = CK_IMAGE_PTX;
		ret = text_size(image, limit, &found.size);
	}
	if (ret == 0)
		*out = found;
	return ret;
}

int ck_image_classify(const void *image, struct ck_image *out)
{
	static const unsigned char magic[] = {0xB1, 0x43, 0x62, 0x46};
	struct ck_image found;
	struct wrapper wrapper;
	int ret;

	if (!image)
		return -EINVAL;
	/* strncmp stops at a NUL, so that a short text is not read beyond its end */
	if (strncmp(image, (const char *)magic, sizeof(magic)) != 0)
		return classify_image(image, UNBOUNDED, out);
	memcpy(&wrapper, image, sizeof(wrapper));
	if ((wrapper.version != 1 && wrapper.version != 2) || !wrapper.data)
		return -ENOEXEC;
	ret = classify_image(wrapper.data, UNBOUNDED, &found);
	if (ret < 0)
		return ret;
	if (found.kind != CK_IMAGE_CONTAINER)
		return -ENOEXEC;
	found.wrapper = wrapper.version;
	if (wrapper.version == 2)
		found.prelinked = wrapper.list;
	*out = found;
	return 0;
}

int ck_image_classify_bounded(const void *image, size_t size, struct ck_image *out)
{
	if (!image)
		return -EINVAL;
	return classify_image(image, ck_min(size, UNBOUNDED - 1), out);
}
