/*
 * elf/fatbin.h - the entries of a fat binary container, and which of them a device would use.
 *
 * Layout of containers and entries: observed on output of nvcc 11 to 13. Input is not trusted:
 * nothing is read beyond the given size.
 */
#ifndef CK_ELF_FATBIN_H
#define CK_ELF_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/image.h"

/* No image that is decompressed may be larger; a guard against damaged or hostile sizes. */
#define CK_FATBIN_IMAGE_MAX ((size_t)1 << 30)

enum ck_fatbin_kind {
	CK_FATBIN_PTX = 1,
	CK_FATBIN_ELF = 2,
	CK_FATBIN_LTO = 8, /* intermediate code for link-time optimisation */
};

enum ck_fatbin_compression {
	CK_FATBIN_PLAIN,
	CK_FATBIN_LZ4,	 /* raw block */
	CK_FATBIN_ZSTD,	 /* frame */
	CK_FATBIN_OTHER, /* the scheme of toolkits before CUDA 11, not supported */
};

/* One entry; pointers lie in the container. */
struct ck_fatbin_entry {
	unsigned kind;	    /* enum ck_fatbin_kind, or a number unknown to us */
	unsigned sm;	    /* 10 * major + minor of the target: 90, 103 */
	bool arch_specific; /* sm_90a: this one architecture */
	bool family;	    /* sm_100f: this and later members of its family */
	enum ck_fatbin_compression compression;
	const void *payload;
	size_t stored_size; /* bytes at payload, without padding when compressed */
	size_t size;	    /* bytes after decompression; stored_size when plain */
	uint16_t version_major, version_minor; /* PTX: of the language */
	const char *name;		       /* source file, not NUL-terminated, or NULL */
	size_t name_size;
	uint64_t flags; /* as stored */
};

/* A walk over the entries of one container. */
struct ck_fatbin_iter {
	const unsigned char *at, *end;
};

/* Start a walk. -ENOEXEC: not a container, or one that is larger than `size`. */
int ck_fatbin_open(const void *container, size_t size, struct ck_fatbin_iter *it);

/* The next entry: 1 with *entry set, 0 at the end, -ENOEXEC for one that is damaged. */
int ck_fatbin_next(struct ck_fatbin_iter *it, struct ck_fatbin_entry *entry);

/* An image out of a container; free with ck_fatbin_choice_free when done. */
struct ck_fatbin_choice {
	enum ck_image_kind kind; /* CK_IMAGE_ELF or CK_IMAGE_PTX */
	unsigned sm;
	bool arch_specific, family;
	bool owned;	  /* data is malloc'ed; else it lies in the container */
	const void *data; /* PTX: always owned, without padding, NUL-terminated */
	size_t size;	  /* for PTX with the NUL */
};

/*
 * The bytes of one PTX or ELF entry, decompressed. -ENOTSUP: another kind, or a compression
 * that we lack; -ENOEXEC: damaged; -ENOMEM.
 */
int ck_fatbin_extract(const struct ck_fatbin_entry *entry, struct ck_fatbin_choice *out);
void ck_fatbin_choice_free(struct ck_fatbin_choice *choice);

struct ck_fatbin_device {
	unsigned major, minor; /* compute capability */
};

/*
 * The one image that a driver would use on this device: machine code for it, else of the same
 * major and the nearest lower minor version, else the PTX of the highest version that is not
 * above the device. Targets ending in `a` count for exactly their device, those ending in `f`
 * for later members of the same major version; of equal versions `a` goes before `f` before
 * neither, then the first cubin or the last PTX in the container (as driver 580 does on a device
 * 9.0, for all of this but `f`). Without accepts_cubin only PTX counts.
 * -ENOEXEC: nothing fits, or the container is damaged; -ENOMEM.
 */
int ck_fatbin_choose(const void *container, size_t size, struct ck_fatbin_device device,
		     bool accepts_cubin, struct ck_fatbin_choice *out);

/*
 * The PTX of a program built with relocatable device code (-rdc=true), for a device that takes no
 * machine code: of each container in the NULL-terminated list (ck_image.prelinked) the code that
 * such a device would use, joined into one text of several translation units. CUDA's device runtime
 * library, which is machine code, is left out. The list is trusted. out->sm is the highest of them.
 * -ENOEXEC: a container without such PTX, or none; -ENOMEM.
 */
int ck_fatbin_join(const void *const *containers, struct ck_fatbin_device device,
		   struct ck_fatbin_choice *out);

#endif
