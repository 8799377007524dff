/*
 * client/objects/green.c - partitions of a device's multiprocessors, and green contexts that own
 * one.
 *
 * Objects made in a green context belong to the device's primary context, and outlive it.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/objects/context.h"
#include "libcuda/local.h"

#define GROUPS_MAX 1024u /* more than any device has multiprocessors */

static struct ckc_green *green_from(CUgreenCtx handle)
{
	return ckc_object_check(handle, CK_OBJECT_GREEN);
}

/* --- resources: opaque bytes made by the server, which accepts them only unchanged */

CK_EXPORT CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource,
				       CUdevResourceType type)
{
	struct ckc_context *context = ckc_context_from(hCtx);
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!context || !context->active)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (context->green)
		return ck_wire_cuGreenCtxGetDevResource(0, context->green->object.id, resource,
							type);
	return ck_wire_cuCtxGetDevResource(0, context->object.id, resource, type);
}

static CUresult copy_resources(void *bytes, size_t size, CUdevResource *out, size_t count)
{
	CUresult err = CUDA_SUCCESS;

	if (size != count * sizeof(*out))
		err = CUDA_ERROR_UNKNOWN;
	else if (out && size > 0)
		memcpy(out, bytes, size);
	return err;
}

CK_EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
					       const CUdevResource *input, CUdevResource *remaining,
					       unsigned int useFlags, unsigned int minCount)
{
	ck_resource_split_res r;
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!nbGroups || !input)
		return CUDA_ERROR_INVALID_VALUE;
	if (input->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	err = ck_wire_resource_split(
		&(ck_resource_split_args){.input = CK_LIST(input, sizeof(*input)),
					  .wanted = result != NULL,
					  .room = ck_min(*nbGroups, GROUPS_MAX),
					  .flags = useFlags,
					  .least = minCount},
		&r);
	if (!err && result && r.groups > *nbGroups)
		err = CUDA_ERROR_UNKNOWN;
	if (!err && result)
		err = copy_resources(r.parts.parts_val, r.parts.parts_len, result, r.groups);
	if (!err)
		err = copy_resources(r.rest.rest_val, r.rest.rest_len, remaining, 1);
	if (!err)
		*nbGroups = r.groups;
	xdr_free((xdrproc_t)xdr_ck_resource_split_res, &r);
	return err;
}

/* The values that the server has put in place of zeros, and its new groups. */
static CUresult copy_groups(const ck_resource_groups_res *r, CUdevResource *result,
			    CUdevResource *remainder, CU_DEV_SM_RESOURCE_GROUP_PARAMS *params,
			    unsigned int count)
{
	CUresult err = CUDA_SUCCESS;

	if (r->found.found_len != count * sizeof(*params))
		err = CUDA_ERROR_UNKNOWN;
	if (!err && result)
		err = copy_resources(r->parts.parts_val, r->parts.parts_len, result, count);
	if (!err)
		err = copy_resources(r->rest.rest_val, r->rest.rest_len, remainder, 1);
	if (!err)
		memcpy(params, r->found.found_val, r->found.found_len);
	return err;
}

CK_EXPORT CUresult cuDevSmResourceSplit(CUdevResource *result, unsigned int nbGroups,
					const CUdevResource *input, CUdevResource *remainder,
					unsigned int flags,
					CU_DEV_SM_RESOURCE_GROUP_PARAMS *groupParams)
{
	ck_resource_groups_res r;
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!input || !groupParams || nbGroups == 0 || nbGroups > GROUPS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (input->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	err = ck_wire_resource_groups(
		&(ck_resource_groups_args){
			.input = CK_LIST(input, sizeof(*input)),
			.wanted = result != NULL,
			.flags = flags,
			.groups = CK_LIST(groupParams, nbGroups * sizeof(*groupParams))},
		&r);
	if (!err)
		err = copy_groups(&r, result, remainder, groupParams, nbGroups);
	xdr_free((xdrproc_t)xdr_ck_resource_groups_res, &r);
	return err;
}

CK_EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
					     unsigned int nbResources)
{
	struct ckc_object *desc;
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!phDesc || !resources || nbResources == 0 || nbResources > GROUPS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	desc = ckc_object_new(CK_OBJECT_RESOURCES, NULL);
	if (!desc)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_wire_resource_desc(0, desc->id, resources, nbResources * sizeof(*resources));
	if (err)
		ckc_object_free(desc);
	else
		*phDesc = (CUdevResourceDesc)desc;
	return err;
}

/* --- green contexts */

CK_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
				    unsigned int flags)
{
	struct ckc_object *resources = ckc_object_check(desc, CK_OBJECT_RESOURCES);
	struct ckc_green *green;
	int ordinal;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_device_id(dev, &ordinal);
	if (err)
		return err;
	if (!phCtx || !resources || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	green = ckc_object_new(CK_OBJECT_GREEN, NULL);
	if (!green)
		return CUDA_ERROR_OUT_OF_MEMORY;
	green->device = dev;
	err = ck_wire_cuGreenCtxCreate(0, green->object.id, resources->id, ordinal, flags);
	if (err)
		ckc_object_free(green);
	else
		*phCtx = (CUgreenCtx)green;
	return err;
}

/* Its converted form dies with it, and the slot is not reused; the objects made in it live on. */
CK_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	struct ckc_green *green = green_from(hCtx);
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!green)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (green->context) {
		ck_local_forget((CUcontext)green->context);
		green->context->active = false;
		green->context->green = NULL;
		ckc_cache_clear();
	}
	err = ck_wire_green_destroy(0, green->object.id,
				    green->context ? green->context->object.id : 0);
	ckc_object_free(green);
	return err;
}

static CUresult convert_green(struct ckc_green *green)
{
	struct ckc_context *context = ckc_object_new(CK_OBJECT_CONTEXT, NULL);
	CUresult err;

	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_wire_green_context(0, context->object.id, green->object.id);
	if (err) {
		ckc_object_free(context);
		return err;
	}
	context->client = ckc_gpu(green->device)->primary->client;
	context->device = green->device;
	context->green = green;
	context->retained = 1;
	context->was_active = true;
	context->unique_id = ckc_context_number();
	atomic_store(&context->active, true);
	green->context = context;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	struct ckc_green *green = green_from(hCtx);
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!pContext)
		return CUDA_ERROR_INVALID_VALUE;
	if (!green)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!green->context)
		err = convert_green(green);
	if (!err)
		*pContext = (CUcontext)green->context;
	return err;
}

CK_EXPORT CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx,
					  unsigned int flags, int priority)
{
	struct ckc_green *green = green_from(greenCtx);
	struct ckc_stream *s;
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!green)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!phStream || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	s = ckc_object_new(CK_OBJECT_STREAM, ckc_gpu(green->device)->primary);
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->flags = flags;
	s->priority = priority;
	s->green = greenCtx;
	s->born = ckc_command_last();
	s->object.context->client->unordered_streams = true;
	err = ck_wire_cuGreenCtxStreamCreate(0, s->object.id, green->object.id, flags, priority);
	if (err)
		ckc_object_free(s);
	else
		*phStream = (CUstream)s;
	return err;
}

/* --- contexts with a share of the multiprocessors; these need MPS on the server's host */

CK_EXPORT CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	int ordinal;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_device_id(dev, &ordinal);
	if (err)
		return err;
	if (!pi || (unsigned int)type >= CU_EXEC_AFFINITY_TYPE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*pi = 0;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!pExecAffinity || (unsigned int)type >= CU_EXEC_AFFINITY_TYPE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

CK_EXPORT CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
				  unsigned int flags, CUdevice dev)
{
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (numParams < 0 || (numParams > 0 && !paramsArray))
		return CUDA_ERROR_INVALID_VALUE;
	return numParams ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : cuCtxCreate_v2(pctx, flags, dev);
}
