/*
 * server/modules/launch.c - kernel launches.
 *
 * Parameters arrive in the packed buffer of the driver's `extra` form, so this file needs no
 * kernel's signature.
 */
#include <string.h>

#include "gen/handlers.h"
#include "rpc/launch.h"
#include "server/memory/status.h"
#include "server/modules/launch_pace.h"
#include "server/session/event_retime.h"
#include "server/session/faults.h"
#include "server/session/session.h"

/* The grid of a message about a launch or a cluster, as a CUlaunchConfig. */
#define SHAPE(a)                                                                                   \
	{                                                                                          \
		.gridDimX = (a)->gx, .gridDimY = (a)->gy, .gridDimZ = (a)->gz,                     \
		.blockDimX = (a)->bx, .blockDimY = (a)->by, .blockDimZ = (a)->bz,                  \
		.sharedMemBytes = (a)->shared                                                      \
	}

/* Launch a library's kernel by its own handle: the driver accepts it as a function. */
static bool find_function(struct cks_request *q, uint64_t id, CUfunction *out)
{
	struct cks_object object;

	if (!cks_handles_find(q->session->handles, id,
			      CK_KIND_BIT(CK_KIND_FUNCTION) | CK_KIND_BIT(CK_KIND_KERNEL), &object))
		return false;
	*out = object.handle;
	return true;
}

/* Replace an event's id in an attribute by its handle. */
static CUresult attribute_event(struct cks_request *q, CUevent *event)
{
	uint64_t id = (uintptr_t)*event;

	if (id == 0)
		return CUDA_SUCCESS;
	if (unlikely(q->session->captured)) /* a look at it would end the capture */
		cks_status_drop(q->session, id);
	return cks_event_find(q, id, event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* @updatable: the caller can return the handle that the driver writes to the attribute. */
static CUresult attribute_check(struct cks_request *q, CUlaunchAttribute *attribute, bool updatable)
{
	switch (attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		return attribute_event(q, &attribute->value.programmaticEvent.event);
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		return attribute_event(q, &attribute->value.launchCompletionEvent.event);
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		return updatable || !attribute->value.deviceUpdatableKernelNode.deviceUpdatable
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_SUCCESS;
	}
}

/* Copy attributes from the message, where they are unaligned. */
static CUresult attributes_copy(struct cks_request *q, const void *bytes, size_t size,
				CUlaunchAttribute out[CK_LAUNCH_ATTRIBUTES], CUlaunchConfig *config,
				bool updatable)
{
	CUresult err;

	if (size % sizeof(*out) != 0 || size / sizeof(*out) > CK_LAUNCH_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > 0)
		memcpy(out, bytes, size);
	config->attrs = out;
	config->numAttrs = (unsigned int)(size / sizeof(*out));
	for (unsigned int i = 0; i < config->numAttrs; i++) {
		err = attribute_check(q, &out[i], updatable);
		if (err)
			return err;
	}
	return CUDA_SUCCESS;
}

/* Return the handle of the node in *@device_node, unless that is NULL. */
static void tell_node(const CUlaunchConfig *config, uint64_t *device_node)
{
	for (unsigned int i = 0; device_node && i < config->numAttrs; i++) {
		const CUlaunchAttribute *a = &config->attrs[i];

		if (a->id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
			*device_node = (uintptr_t)a->value.deviceUpdatableKernelNode.devNode;
	}
}

static CUresult launch_ex(struct cks_request *q, CUfunction f, ck_launch_args *a, CUstream stream,
			  void **extra, uint64_t *device_node)
{
	CUlaunchAttribute attributes[CK_LAUNCH_ATTRIBUTES];
	CUlaunchConfig config = SHAPE(a);
	CUresult err;

	if (!ck_driver.cuLaunchKernelEx)
		return CUDA_ERROR_NOT_SUPPORTED;
	config.hStream = stream;
	err = attributes_copy(q, a->attributes.attributes_val, a->attributes.attributes_len,
			      attributes, &config, device_node != NULL);
	if (!err)
		err = ck_driver.cuLaunchKernelEx(&config, f, NULL, extra);
	if (!err)
		tell_node(&config, device_node);
	return err;
}

static CUresult launch_kernel(struct cks_request *q, ck_launch_args *a, uint64_t *device_node)
{
	size_t size = a->params.params_len;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, a->params.params_val,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	void **params = size > 0 ? extra : NULL;
	CUstream stream;
	CUfunction f;
	CUresult err;

	if (!find_function(q, a->function, &f) || !cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	cks_event_retime_launch(q, a->stream, stream);
	if (a->attributes.attributes_len > 0)
		err = launch_ex(q, f, a, stream, params, device_node);
	else if (!ck_driver.cuLaunchKernel)
		err = CUDA_ERROR_NOT_SUPPORTED;
	else
		err = ck_driver.cuLaunchKernel(f, a->gx, a->gy, a->gz, a->bx, a->by, a->bz,
					       a->shared, stream, NULL, params);
	if (!err)
		cks_launch_pace(q, stream);
	return err;
}

CUresult ck_serve_launch(struct cks_request *q, ck_launch_args *a, void *res)
{
	CUresult err = launch_kernel(q, a, NULL);

	(void)res;
	cks_faults_launch(q->session, a->function, a->stream);
	return err;
}

/* The same in a capture, for a node that kernels may update. */
CUresult ck_serve_launch_updatable(struct cks_request *q, ck_launch_updatable_args *a,
				   ck_launch_updatable_res *res)
{
	ck_launch_args plain = {
		.function = a->function,
		.gx = a->gx,
		.gy = a->gy,
		.gz = a->gz,
		.bx = a->bx,
		.by = a->by,
		.bz = a->bz,
		.shared = a->shared,
		.stream = a->stream,
		.attributes = {a->attributes.attributes_len, a->attributes.attributes_val},
		.params = {a->params.params_len, a->params.params_val},
	};

	return launch_kernel(q, &plain, &res->device_node);
}

CUresult ck_serve_cluster(struct cks_request *q, ck_cluster_args *a, ck_cluster_res *res)
{
	CUlaunchAttribute attributes[CK_LAUNCH_ATTRIBUTES];
	CUlaunchConfig config = SHAPE(a);
	CUresult (*ask)(int *, CUfunction, const CUlaunchConfig *) =
		a->which == 0 ? ck_driver.cuOccupancyMaxPotentialClusterSize
			      : ck_driver.cuOccupancyMaxActiveClusters;
	CUfunction f;
	CUresult err;

	if (a->which > 1)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ask)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!find_function(q, a->function, &f))
		return CUDA_ERROR_INVALID_HANDLE;
	err = attributes_copy(q, a->attributes.attributes_val, a->attributes.attributes_len,
			      attributes, &config, false);
	return err ? err : ask(&res->value, f, &config);
}
