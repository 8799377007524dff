/*
 * command/login/files.c - see fetch.h.
 *
 * The server is trusted with code that runs here, but names from a network go nowhere else on this
 * disk.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "command/login/fetch.h"
#include "rpc/record.h"
#include "util/text.h"

#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+~.-"

/* Is it one name, without a dot or a dash in front, up to @end? */
static bool is_plain_name(const char *name, const char *end)
{
	size_t length = (size_t)(end - name);

	return length > 0 && *name != '.' && *name != '-' && strspn(name, NAME_CHARS) >= length;
}

static bool plain_name(const char *name)
{
	return is_plain_name(name, name + strlen(name));
}

static bool good_name(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash ? is_plain_name(name, slash) && plain_name(slash + 1) : plain_name(name);
}

/* In a folder, a link may lead out of it, but not further. */
static bool good_target(const ck_file *file)
{
	const char *target = file->target;

	if (strchr(file->name, '/') && strncmp(target, "../", 3) == 0)
		target += 3;
	return plain_name(target);
}

/* Is one of them the other, or its folder? */
static bool names_collide(const char *one, const char *other)
{
	size_t length = strlen(one);

	return strncmp(one, other, length) == 0 && (other[length] == '\0' || other[length] == '/');
}

static bool good_file(const ck_files_res *res, u_int i, uint64_t *bytes)
{
	const ck_file *file = &res->files.files_val[i];

	if (!good_name(file->name))
		return false;
	for (u_int k = 0; k < i; k++) {
		const char *earlier = res->files.files_val[k].name;

		if (names_collide(file->name, earlier) || names_collide(earlier, file->name))
			return false;
	}
	if (file->target[0])
		return good_target(file) && file->size == 0;
	*bytes += file->size <= CK_FILES_BYTES_MAX ? file->size : CK_FILES_BYTES_MAX;
	return file->size > 0 && *bytes <= CK_FILES_BYTES_MAX;
}

static bool has_file(const ck_files_res *res, const char *name)
{
	for (u_int i = 0; i < res->files.files_len; i++) {
		const ck_file *file = &res->files.files_val[i];

		if (strcmp(file->name, name) == 0 && !file->target[0])
			return true;
	}
	return false;
}

static bool good_list(const ck_files_res *res)
{
	uint64_t bytes = 0;

	for (u_int i = 0; i < res->files.files_len; i++) {
		if (!good_file(res, i, &bytes))
			return false;
	}
	return plain_name(res->release) && has_file(res, "cricket") &&
	       has_file(res, "cricket-client.so");
}

static int check_reply(const ck_files_res *res, char why[CKX_FILES_WHY])
{
	if (res->status == CK_FILES_OK) {
		snprintf(why, CKX_FILES_WHY, "its list of files is invalid");
		return good_list(res) ? 0 : -EPROTO;
	}
	ck_text_copy(why, CKX_FILES_WHY, res->message);
	return res->status == CK_FILES_DENIED ? -EACCES : -ENOENT;
}

int ckx_files_decode(const unsigned char *body, size_t size, ck_files_res *res,
		     char why[CKX_FILES_WHY])
{
	uint32_t xid, low, high;
	size_t results;
	XDR xdrs;
	int ret = ck_reply_decode(body, size, &xid, &results, &low, &high);

	snprintf(why, CKX_FILES_WHY, "%s",
		 ret == -EOPNOTSUPP ? "its release is older than `cricket login --install`"
				    : "it does not answer as a Cricket server");
	if (ret < 0)
		return ret;
	memset(res, 0, sizeof(*res));
	xdrmem_create(&xdrs, (char *)(uintptr_t)body + results, (u_int)(size - results),
		      XDR_DECODE);
	ret = xdr_ck_files_res(&xdrs, res) ? check_reply(res, why) : -EPROTO;
	if (ret < 0)
		xdr_free((xdrproc_t)xdr_ck_files_res, res);
	return ret;
}
