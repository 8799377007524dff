/*
 * server/modules/link.c - the driver's linker, for the client's links and for modules of several
 * units.
 *
 * The driver writes a link's logs until the link is destroyed. Several lanes may use one link: they
 * take turns, and it stays until the last one is done.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/modules/jit.h"
#include "server/session/locks.h"
#include "server/modules/link.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_FETCH_MAX ((size_t)512 << 10) /* bytes per reply */

struct cks_link {
	struct ck_mutex lock; /* of all but the users */
	unsigned int users;   /* the session, while it has the link, and lanes */
	CUlinkState state;    /* NULL: destroyed */
	struct cks_build build;
	const char *cubin; /* owned by the driver until the link ends */
	size_t size;
};

static struct ck_mutex users_lock = CK_MUTEX(CK_RANK_LINK_USERS); /* of all links */

static bool linker_there(void)
{
	return ck_driver.cuLinkCreate_v2 && ck_driver.cuLinkAddData_v2 &&
	       ck_driver.cuLinkComplete && ck_driver.cuLinkDestroy;
}

/* Remove a user; the last one frees the link. */
static void release_link(struct cks_link *link)
{
	bool last;

	ck_lock(&users_lock);
	last = --link->users == 0;
	ck_unlock(&users_lock);
	if (!last)
		return;
	ck_mutex_destroy(&link->lock);
	free(link);
}

static CUresult create_link(const void *options, size_t size, struct cks_link **out)
{
	struct cks_link *link;
	CUresult err;

	if (!linker_there())
		return CUDA_ERROR_NOT_SUPPORTED;
	link = calloc(1, sizeof(*link));
	if (!link)
		return CUDA_ERROR_OUT_OF_MEMORY;
	link->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_LINK);
	link->users = 1;
	cks_build_init(&link->build);
	err = cks_build_options(&link->build, options, size);
	if (!err)
		err = ck_driver.cuLinkCreate_v2(link->build.count, link->build.option,
						link->build.value, &link->state);
	if (err)
		release_link(link);
	else
		*out = link;
	return err;
}

/* Destroy the link and remove the session as its user; it is no longer in the session's table. */
static CUresult destroy_link(struct cks_link *link)
{
	CUresult err = ck_driver.cuLinkDestroy(link->state);

	link->state = NULL;
	release_link(link);
	return err;
}

/* End a turn. */
static void unlock_link(struct cks_link *link)
{
	ck_unlock(&link->lock);
	release_link(link);
}

/* Wait for a turn; NULL: the link was destroyed meanwhile. The caller is counted as a user. */
static struct cks_link *lock_link(struct cks_link *link)
{
	ck_lock(&link->lock);
	if (link->state)
		return link;
	unlock_link(link);
	return NULL;
}

/* Find a link and wait for a turn; call unlock_link() after it. */
static struct cks_link *find_link(struct cks_request *q, uint64_t id)
{
	struct cks_link *link;

	ck_lock(&users_lock);
	link = cks_handles_get(q->session->handles, id, CK_KIND_LINK);
	if (link)
		link->users++;
	ck_unlock(&users_lock);
	return link ? lock_link(link) : NULL;
}

CUresult ck_serve_link_create(struct cks_request *q, ck_link_create_args *a,
			      ck_link_create_res *res)
{
	struct cks_link *link;
	CUresult err = create_link(a->options.options_val, a->options.options_len, &link);

	(void)res;
	if (err)
		return err;
	err = cks_handle_put(q, a->link, CK_KIND_LINK, link);
	if (err)
		destroy_link(link);
	return err;
}

/* Receive the payload into memory, with a NUL after it; the caller frees it. */
static CUresult receive_data(struct cks_request *q, char **data)
{
	CUresult err = CUDA_SUCCESS;

	*data = malloc(q->bulk_size + 1);
	if (!*data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*data)[q->bulk_size] = '\0';
	q->broken = ck_reader_bulk_begin(q->reader, q->bulk_offset);
	if (!q->broken)
		q->broken = ck_reader_bulk(q->reader, *data, q->bulk_size);
	if (q->broken)
		err = CUDA_ERROR_UNKNOWN;
	return err;
}

/* A cubin or an object; libraries and text are not looked at. */
static bool is_elf(const char *data, size_t size)
{
	return size >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0;
}

static CUresult add_data(struct cks_link *link, ck_link_add_args *a, char *data, size_t size)
{
	struct cks_build options = {.count = 0};
	const char *fault;
	CUresult err = cks_build_options(&options, a->options.options_val, a->options.options_len);

	if (!err && (size == 0 || a->type >= CU_JIT_NUM_INPUT_TYPES || link->cubin))
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err && is_elf(data, size) && (fault = cks_elf_fault(data, size))) {
		ck_info("an input of the linker of %zu bytes: %s", size, fault);
		err = CUDA_ERROR_INVALID_IMAGE;
	}
	if (!err) /* the length of text includes its NUL, as from callers of compilers */
		err = ck_driver.cuLinkAddData_v2(
			link->state, (CUjitInputType)a->type, data,
			a->type == CU_JIT_INPUT_PTX ? strlen(data) + 1 : size, a->name,
			options.count, options.option, options.value);
	return err;
}

CUresult ck_serve_link_add(struct cks_request *q, ck_link_add_args *a, ck_link_add_res *res)
{
	struct cks_link *link;
	char *data = NULL;
	/* a slow client must not hold a link, so receive first */
	CUresult err = receive_data(q, &data);

	if (err)
		goto free_data;
	link = find_link(q, a->link);
	err = link ? add_data(link, a, data, q->bulk_size) : CUDA_ERROR_INVALID_HANDLE;
	if (link) {
		res->info_log.info_log_val =
			cks_build_log(link->build.info, &res->info_log.info_log_len);
		res->error_log.error_log_val =
			cks_build_log(link->build.error, &res->error_log.error_log_len);
		unlock_link(link);
	}
free_data:
	free(data);
	return err;
}

static CUresult complete_link(struct cks_link *link)
{
	void *cubin = NULL;
	size_t size = 0;
	CUresult err = ck_driver.cuLinkComplete(link->state, &cubin, &size);

	if (err)
		return err;
	link->cubin = cubin;
	link->size = size;
	return CUDA_SUCCESS;
}

CUresult ck_serve_link_complete(struct cks_request *q, ck_link_complete_args *a,
				ck_link_complete_res *res)
{
	struct cks_link *link = find_link(q, a->link);
	CUresult err;

	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	err = link->cubin ? CUDA_SUCCESS : complete_link(link);
	res->size = link->size;
	res->info_log.info_log_val = cks_build_log(link->build.info, &res->info_log.info_log_len);
	res->error_log.error_log_val =
		cks_build_log(link->build.error, &res->error_log.error_log_len);
	unlock_link(link);
	return err;
}

static CUresult fetch_cubin(const struct cks_link *link, uint64_t offset, ck_link_fetch_res *res)
{
	size_t size;

	if (!link->cubin || offset >= link->size)
		return CUDA_ERROR_INVALID_VALUE;
	size = ck_min(link->size - offset, CK_FETCH_MAX);
	res->data.data_val = malloc(size);
	if (!res->data.data_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(res->data.data_val, link->cubin + offset, size);
	res->data.data_len = (u_int)size;
	return CUDA_SUCCESS;
}

CUresult ck_serve_link_fetch(struct cks_request *q, ck_link_fetch_args *a, ck_link_fetch_res *res)
{
	struct cks_link *link = find_link(q, a->link);
	CUresult err;

	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	err = fetch_cubin(link, a->offset, res);
	unlock_link(link);
	return err;
}

/*
 * This is a call, although it returns nothing: it must run in the thread that used the link. Driver
 * 580's compiler keeps memory per thread. After a failed link that another thread destroyed, the
 * next link in the thread crashes.
 */
CUresult ck_serve_cuLinkDestroy(struct cks_request *q, cuLinkDestroy_args *a,
				cuLinkDestroy_res *res)
{
	struct cks_link *link = find_link(q, a->state);
	CUresult err;

	(void)res;
	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	cks_handle_remove(q, a->state);
	err = destroy_link(link);
	unlock_link(link);
	return err;
}

/* The next link of the context after *@id, with the caller as a user; NULL: no more. */
static struct cks_link *next_of(struct cks_handles *handles, uint64_t ctx, uint64_t *id)
{
	struct cks_object object;
	struct cks_link *link = NULL;

	ck_lock(&users_lock);
	while (!link && cks_handles_next(handles, id, CK_KIND_LINK, &object)) {
		if (object.ctx == ctx)
			link = object.handle;
	}
	if (link)
		link->users++;
	ck_unlock(&users_lock);
	return link;
}

void cks_links_drop_context(struct cks_handles *handles, uint64_t ctx)
{
	struct cks_link *link;
	uint64_t id = 0;

	while ((link = next_of(handles, ctx, &id)) != NULL) {
		if (!lock_link(link))
			continue;
		cks_handles_remove(handles, id);
		link->state = NULL;
		release_link(link);
		unlock_link(link);
	}
}

/* --- text of several units, as from nvcc -rdc=true, for a driver that accepts one */

/* A unit begins with .version at the start of a line: the first one after @text, or NULL. */
static char *next_unit(const char *text)
{
	char *next = strstr(text, "\n.version");

	return next ? next + 1 : NULL;
}

static char *first_unit(const char *text)
{
	return strncmp(text, ".version", 8) == 0 ? (char *)(uintptr_t)text : next_unit(text);
}

bool cks_link_needed(const void *image)
{
	const char *first;

	if (strncmp(image, "\177ELF", 4) == 0 || !ck_driver.cuLinkCreate_v2)
		return false;
	first = first_unit(image);
	return first && next_unit(first);
}

/* Add each unit, split at the line where the next begins. */
static CUresult add_units(struct cks_link *link, char *text)
{
	CUresult err = CUDA_SUCCESS;

	text = first_unit(text);
	while (text && !err) {
		char *next = next_unit(text);

		if (next)
			next[-1] = '\0';
		err = ck_driver.cuLinkAddData_v2(link->state, CU_JIT_INPUT_PTX, text,
						 strlen(text) + 1, "unit", 0, NULL, NULL);
		text = next;
	}
	return err;
}

static CUresult link_units(const void *image, struct cks_build *build, void **cubin)
{
	char *text = strdup(image);
	struct cks_link *link = NULL;
	CUresult err = text ? create_link(NULL, 0, &link) : CUDA_ERROR_OUT_OF_MEMORY;

	if (!err)
		err = add_units(link, text);
	if (!err)
		err = complete_link(link);
	if (!err) {
		*cubin = malloc(link->size + 1);
		if (*cubin)
			memcpy(*cubin, link->cubin, link->size);
		else
			err = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (link) {
		memcpy(build->info, link->build.info, sizeof(build->info));
		memcpy(build->error, link->build.error, sizeof(build->error));
		destroy_link(link);
	}
	ck_debug("a module of several units is linked: %s", cks_error_name(err));
	free(text);
	return err;
}

/* A library loads without a context, but the linker needs one: use the first device's meanwhile. */
CUresult cks_link_units(const void *image, struct cks_build *build, void **cubin)
{
	CUcontext context = NULL;
	CUresult err;

	if (!ck_driver.cuCtxGetCurrent || !ck_driver.cuDevicePrimaryCtxRetain ||
	    !ck_driver.cuDevicePrimaryCtxRelease_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuCtxGetCurrent(&context);
	if (err || context)
		return err ? err : link_units(image, build, cubin);
	err = ck_driver.cuDevicePrimaryCtxRetain(&context, 0);
	if (err)
		return err;
	err = ck_driver.cuCtxSetCurrent(context);
	if (!err)
		err = link_units(image, build, cubin);
	ck_driver.cuCtxSetCurrent(NULL);
	ck_driver.cuDevicePrimaryCtxRelease_v2(0);
	return err;
}
