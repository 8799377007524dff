/*
 * client/copy/upload_source.h - where the bytes of a large upload come from: the part of a file
 * that is mapped there, or other memory.
 */
#ifndef CK_CLIENT_COPY_UPLOAD_SOURCE_H
#define CK_CLIENT_COPY_UPLOAD_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "client/copy/chunk_index.h"

struct ckc_upload_source {
	const char *bytes;
	struct ckc_chunk_key key; /* of the first byte; its length is 0 */
	bool file;		  /* a file is mapped; else other memory */
	uintptr_t lo, hi;	  /* bounds of the mapping; 0: not known */
	bool sure;  /* its state cannot change without a change of the key, as far as it is known */
	char *path; /* of the file */
	bool private;	/* a page of the mapping may differ from the file */
	int64_t now_ns; /* as of time(2), at the start */
};

/*
 * Describe [@bytes, @bytes+@size). -ENOENT: nothing can be said of it: it is not one mapping that
 * can be read, or the file has been replaced, or is shorter; -ENOMEM. The caller must call
 * ckc_upload_source_close in any case.
 */
int ckc_upload_source_open(const void *bytes, size_t size, struct ckc_upload_source *source);
void ckc_upload_source_close(struct ckc_upload_source *source);

/* Are the bytes at [@at, @at+@size) those of the key: the file as it was, and pages that the
 * program has not written? For bytes that were hashed, ask after that. True for other memory. */
bool ckc_upload_source_is_intact(const struct ckc_upload_source *source, size_t at, size_t size);

/* The key of a chunk. */
struct ckc_chunk_key ckc_upload_source_key(const struct ckc_upload_source *source, size_t at,
					   size_t size);

/* Where the chunk that begins at @at ends: at the next multiple of CK_CHUNK in the file, so that
 * all uploads from a file, and `cricket put`, divide it in the same way. */
size_t ckc_upload_source_chunk_end(const struct ckc_upload_source *source, size_t at);

/* The key of the file's chunk, from multiple to multiple, that contains @at; *@begin: where in it
 * @at is. */
struct ckc_chunk_key ckc_upload_source_whole(const struct ckc_upload_source *source, size_t at,
					     size_t *begin);

/* Read the chunk of @key from the file to @bytes. -errno; -ENODATA: the file has become shorter. */
int ckc_upload_source_read(const struct ckc_upload_source *source, const struct ckc_chunk_key *key,
			   void *bytes);

/* May a file that changed at @mtime_ns and @ctime_ns, and was hashed at @now_ns, be taken for
 * unchanged while these times stay the same? */
bool ckc_upload_source_is_old(int64_t mtime_ns, int64_t ctime_ns, int64_t now_ns);

#endif
