/*
 * elf/image.h - the kind of a module image that an application passed, and its length.
 *
 * cuModuleLoadData and its kin take a pointer without a length; the length lies in the image.
 * Nothing here allocates; results point into the image.
 */
#ifndef CK_ELF_IMAGE_H
#define CK_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_IMAGE_WRAPPER_MAGIC 0x466243B1u
#define CK_IMAGE_CONTAINER_MAGIC 0xBA55ED50u
#define CK_IMAGE_CONTAINER_HEADER 16 /* bytes, at least; the header says its own size */

enum ck_image_kind {
	CK_IMAGE_CONTAINER = 1, /* fat binary: several images, see fatbin.h */
	CK_IMAGE_ELF,		/* cubin, see cubin.h */
	CK_IMAGE_PTX,		/* NUL-terminated text, see ptxhead.h */
};

struct ck_image {
	enum ck_image_kind kind;
	const void *data;
	size_t size;		      /* of data; for PTX with the NUL */
	unsigned wrapper;	      /* version of the wrapper that led to data, 0 for none */
	const void *const *prelinked; /* wrapper 2: NULL-terminated list of containers, or NULL */
};

/*
 * Tell the kind of `image`, and follow a wrapper to its container. Trusts the lengths in the image,
 * as the driver does: for images that the application passed.
 * -EINVAL: NULL. -ENOEXEC: none of the known kinds. *out is set only on 0.
 */
int ck_image_classify(const void *image, struct ck_image *out);

/*
 * The same for `size` untrusted bytes (from a file or the wire): reads nothing beyond them. A
 * wrapper holds pointers and is refused. PTX must have its NUL within the bound.
 */
int ck_image_classify_bounded(const void *image, size_t size, struct ck_image *out);

#endif
