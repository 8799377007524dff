/*
 * server/objects/green.c - partitions of a device's multiprocessors, and green contexts.
 *
 * A resource consists of the driver's own bytes, partly undocumented. The driver's behaviour on
 * changed bytes is unknown, so a client's bytes are accepted only if the driver made them.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/objects/context.h"
#include "server/memory/delivery.h"
#include "server/policy/meter.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "util/util.h"

#define CK_GROUPS_MAX 1024u
#define CK_ISSUED_MAX 65536u

static struct ck_mutex issued_lock = CK_MUTEX(CK_RANK_GREEN);
static CUdevResource *issued; /* each content once */
static size_t issued_count;

/* Call with the lock held. */
static bool is_issued(const CUdevResource *r)
{
	for (size_t i = 0; i < issued_count; i++) {
		if (memcmp(&issued[i], r, sizeof(*r)) == 0)
			return true;
	}
	return false;
}

static CUresult record_resource(const CUdevResource *r)
{
	CUresult err = CUDA_SUCCESS;
	CUdevResource *more;

	ck_lock(&issued_lock);
	if (!is_issued(r)) {
		more = issued_count < CK_ISSUED_MAX
			       ? realloc(issued, (issued_count + 1) * sizeof(*more))
			       : NULL;
		if (more) {
			issued = more;
			memcpy(&issued[issued_count++], r, sizeof(*r));
		} else {
			err = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	ck_unlock(&issued_lock);
	return err;
}

/* Decode @count resources into @out; refuse those that this process has not issued. */
static CUresult decode_resources(CUdevResource *out, size_t count, const void *bytes, size_t size)
{
	bool known = true;

	if (size != count * sizeof(*out))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(out, bytes, size);
	ck_lock(&issued_lock);
	for (size_t i = 0; i < count; i++)
		known = known && is_issued(&out[i]);
	ck_unlock(&issued_lock);
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Note the resource that a query returned, and copy it to the reply. */
static CUresult reply_resource(CUresult err, const CUdevResource *r, char *out)
{
	if (!err)
		err = record_resource(r);
	if (!err)
		memcpy(out, r, sizeof(*r));
	return err;
}

CUresult ck_serve_cuDeviceGetDevResource(struct cks_request *q, cuDeviceGetDevResource_args *a,
					 cuDeviceGetDevResource_res *res)
{
	CUdevResource r;

	(void)q;
	if (!ck_driver.cuDeviceGetDevResource)
		return CUDA_ERROR_NOT_SUPPORTED;
	memset(&r, 0, sizeof(r));
	return reply_resource(
		ck_driver.cuDeviceGetDevResource(a->device, &r, (CUdevResourceType)a->type), &r,
		res->resource);
}

CUresult ck_serve_cuCtxGetDevResource(struct cks_request *q, cuCtxGetDevResource_args *a,
				      cuCtxGetDevResource_res *res)
{
	CUcontext context;
	CUdevResource r;

	if (!ck_driver.cuCtxGetDevResource)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_context_find(q, a->hCtx, &context))
		return CUDA_ERROR_INVALID_CONTEXT;
	memset(&r, 0, sizeof(r));
	return reply_resource(
		ck_driver.cuCtxGetDevResource(context, &r, (CUdevResourceType)a->type), &r,
		res->resource);
}

CUresult ck_serve_cuGreenCtxGetDevResource(struct cks_request *q, cuGreenCtxGetDevResource_args *a,
					   cuGreenCtxGetDevResource_res *res)
{
	CUgreenCtx green;
	CUdevResource r;

	if (!ck_driver.cuGreenCtxGetDevResource)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_green_find(q, a->hCtx, &green))
		return CUDA_ERROR_INVALID_CONTEXT;
	memset(&r, 0, sizeof(r));
	return reply_resource(
		ck_driver.cuGreenCtxGetDevResource(green, &r, (CUdevResourceType)a->type), &r,
		res->resource);
}

/* Copy @count resources to a reply, and note them as issued. */
static CUresult encode_resources(const CUdevResource *r, size_t count, char **bytes, u_int *size)
{
	CUresult err = CUDA_SUCCESS;

	for (size_t i = 0; i < count && !err; i++)
		err = record_resource(&r[i]);
	if (err || count == 0)
		return err;
	*bytes = malloc(count * sizeof(*r));
	if (!*bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(*bytes, r, count * sizeof(*r));
	*size = (u_int)(count * sizeof(*r));
	return CUDA_SUCCESS;
}

CUresult ck_serve_resource_split(struct cks_request *q, ck_resource_split_args *a,
				 ck_resource_split_res *res)
{
	unsigned int groups = ck_min(a->room, CK_GROUPS_MAX);
	CUdevResource input, rest, *parts;
	CUresult err;

	(void)q;
	if (!ck_driver.cuDevSmResourceSplitByCount)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = decode_resources(&input, 1, a->input.input_val, a->input.input_len);
	if (err)
		return err;
	parts = calloc(groups + 1, sizeof(*parts));
	if (!parts)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memset(&rest, 0, sizeof(rest));
	err = ck_driver.cuDevSmResourceSplitByCount(a->wanted ? parts : NULL, &groups, &input,
						    &rest, a->flags, a->least);
	if (!err && a->wanted)
		err = encode_resources(parts, ck_min(groups, CK_GROUPS_MAX), &res->parts.parts_val,
				       &res->parts.parts_len);
	if (!err)
		err = encode_resources(&rest, 1, &res->rest.rest_val, &res->rest.rest_len);
	res->groups = groups;
	free(parts);
	return err;
}

/* The groups as the driver has completed them, and the resources that it made of them. */
static CUresult reply_groups(const CU_DEV_SM_RESOURCE_GROUP_PARAMS *groups, size_t count,
			     const CUdevResource *parts, const CUdevResource *rest,
			     ck_resource_groups_res *res)
{
	CUresult err = CUDA_SUCCESS;

	if (parts)
		err = encode_resources(parts, count, &res->parts.parts_val, &res->parts.parts_len);
	if (!err)
		err = encode_resources(rest, 1, &res->rest.rest_val, &res->rest.rest_len);
	if (err)
		return err;
	res->found.found_val = malloc(count * sizeof(*groups));
	if (!res->found.found_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(res->found.found_val, groups, count * sizeof(*groups));
	res->found.found_len = (u_int)(count * sizeof(*groups));
	return CUDA_SUCCESS;
}

CUresult ck_serve_resource_groups(struct cks_request *q, ck_resource_groups_args *a,
				  ck_resource_groups_res *res)
{
	CU_DEV_SM_RESOURCE_GROUP_PARAMS *groups;
	size_t size = a->groups.groups_len, count = size / sizeof(*groups);
	CUdevResource input, rest, *parts;
	CUresult err;

	(void)q;
	if (!ck_driver.cuDevSmResourceSplit)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (count == 0 || count > CK_GROUPS_MAX || size % sizeof(*groups))
		return CUDA_ERROR_INVALID_VALUE;
	err = decode_resources(&input, 1, a->input.input_val, a->input.input_len);
	if (err)
		return err;
	parts = calloc(count, sizeof(*parts));
	groups = malloc(size);
	memset(&rest, 0, sizeof(rest));
	if (parts && groups) {
		memcpy(groups, a->groups.groups_val, size);
		err = ck_driver.cuDevSmResourceSplit(a->wanted ? parts : NULL, (unsigned int)count,
						     &input, &rest, a->flags, groups);
	} else {
		err = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!err)
		err = reply_groups(groups, count, a->wanted ? parts : NULL, &rest, res);
	free(parts);
	free(groups);
	return err;
}

CUresult ck_serve_resource_desc(struct cks_request *q, ck_resource_desc_args *a,
				ck_resource_desc_res *res)
{
	size_t size = a->resources.resources_len, count = size / sizeof(CUdevResource);
	CUdevResourceDesc desc = NULL;
	CUdevResource *resources;
	CUresult err;

	(void)res;
	if (!ck_driver.cuDevResourceGenerateDesc)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (count == 0 || count > CK_GROUPS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	resources = malloc(size);
	if (!resources)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = decode_resources(resources, count, a->resources.resources_val, size);
	if (!err)
		err = ck_driver.cuDevResourceGenerateDesc(&desc, resources, (unsigned int)count);
	if (!err)
		err = cks_resources_put(q, a->desc, desc);
	free(resources);
	return err;
}

CUresult ck_serve_green_context(struct cks_request *q, ck_green_context_args *a,
				ck_green_context_res *res)
{
	CUcontext context = NULL;
	CUgreenCtx green;
	CUresult err;

	(void)res;
	if (!ck_driver.cuCtxFromGreenCtx)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_green_find(q, a->green, &green))
		return CUDA_ERROR_INVALID_CONTEXT;
	err = ck_driver.cuCtxFromGreenCtx(&context, green);
	if (err)
		return err;
	err = cks_handles_put(q->session->handles, a->context, CK_KIND_CONTEXT, 0, context);
	atomic_fetch_add(&q->session->context_epoch, 1);
	return err;
}

CUresult ck_serve_green_destroy(struct cks_request *q, ck_green_destroy_args *a,
				ck_green_destroy_res *res)
{
	struct cks_session *s = q->session;
	CUcontext context;
	CUgreenCtx green;
	CUresult err;

	(void)res;
	if (!ck_driver.cuGreenCtxDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_green_find(q, a->green, &green))
		return CUDA_ERROR_INVALID_CONTEXT;
	/* First remove its converted form, so that no thread binds it again. */
	context = cks_handles_get(s->handles, a->context, CK_KIND_CONTEXT);
	if (context) {
		cks_handles_remove(s->handles, a->context);
		cks_context_retire(s, a->context, context);
	}
	cks_handle_remove(q, a->green);
	atomic_fetch_add(&s->context_epoch, 1);
	cks_meter_limits_end(context);
	err = ck_driver.cuGreenCtxDestroy(green);
	if (context)
		cks_deliveries_forget_context(s->deliveries, a->context);
	return err;
}
