/*
 * emu/graphs/graph_kernel.c - kernel nodes: the function in its parameters, attributes.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/modules/function.h"
#include "emu/graphs/graph_node.h"

CUresult ck_emu_node_kernel(CUgraphNode node, CUgraphNodeParams *params)
{
	CUresult result = ck_emu_node_params(node, CU_GRAPH_NODE_TYPE_KERNEL, params);
	CUDA_KERNEL_NODE_PARAMS_v3 *kernel = &params->kernel;
	const void *handle = kernel->func ? (const void *)kernel->func : (const void *)kernel->kern;
	struct ck_emu_function *function;

	if (result != CUDA_SUCCESS)
		return result;
	function = ck_emu_object_get(handle, CK_EMU_FUNCTION);
	if (!function) /* its module has been unloaded since */
		return CUDA_SUCCESS;
	if (function->library)
		kernel->kern = (CUkernel)(function->origin ? function->origin : function);
	kernel->func = function->library ? (CUfunction)kernel->kern : (CUfunction)function;
	ck_emu_object_put(&function->base);
	return CUDA_SUCCESS;
}

/* Those that a kernel node has. */
static bool is_known_attribute(CUkernelNodeAttrID id)
{
	switch (id) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		return true;
	default:
		return false;
	}
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
				       CUkernelNodeAttrValue *value_out)
{
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(hNode, &node);
	const struct ck_emu_step *step;

	if (result != CUDA_SUCCESS)
		return result;
	step = node->step;
	if (!value_out || !is_known_attribute(attr) ||
	    step->params.type != CU_GRAPH_NODE_TYPE_KERNEL) {
		ck_emu_graph_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	memset(value_out, 0, sizeof(*value_out));
	for (unsigned int i = 0; i < step->attribute_count; i++) {
		if (step->attributes[i].id == attr)
			*value_out = step->attributes[i].value;
	}
	ck_emu_graph_unlock();
	return CUDA_SUCCESS;
}

/* A step like @old with other attributes. */
static CUresult step_with(const struct ck_emu_step *old, const CUlaunchAttribute *attributes,
			  unsigned int count, struct ck_emu_step **step)
{
	const struct ck_emu_step_source source = {.params = &old->params,
						  .attributes = attributes,
						  .attribute_count = count,
						  .context = old->context};

	return ck_emu_step_create(&source, step);
}

/* A step like @old with one attribute set. */
static CUresult step_set(const struct ck_emu_step *old, const CUlaunchAttribute *attribute,
			 struct ck_emu_step **step)
{
	unsigned int count = old->attribute_count, at = 0;
	CUlaunchAttribute *all = calloc(count + 1, sizeof(*all));
	CUresult result;

	if (!all)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (count)
		memcpy(all, old->attributes, count * sizeof(*all));
	while (at < count && all[at].id != attribute->id)
		at++;
	all[at] = *attribute;
	result = step_with(old, all, ck_max(count, at + 1), step);
	free(all);
	return result;
}

/* The step of a kernel node, with a reference. */
static CUresult step_get(CUgraphNode handle, struct ck_emu_step **step)
{
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(handle, &node);

	if (result != CUDA_SUCCESS)
		return result;
	*step = node->step;
	if ((*step)->params.type == CU_GRAPH_NODE_TYPE_KERNEL)
		ck_emu_step_ref(*step);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	ck_emu_graph_unlock();
	return result;
}

/* Give a node a step, which it takes over, also on error. */
static CUresult step_give(CUgraphNode handle, struct ck_emu_step *step)
{
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(handle, &node);
	struct ck_emu_step *old = step;

	if (result == CUDA_SUCCESS) {
		old = node->step;
		node->step = step;
		ck_emu_graph_unlock();
	}
	ck_emu_step_put(old);
	return result;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
				       const CUkernelNodeAttrValue *value)
{
	CUlaunchAttribute attribute = {.id = attr};
	struct ck_emu_step *old, *step;
	CUresult result = step_get(hNode, &old);

	if (result != CUDA_SUCCESS)
		return result;
	if (value && is_known_attribute(attr)) {
		attribute.value = *value;
		result = step_set(old, &attribute, &step);
	} else {
		result = CUDA_ERROR_INVALID_VALUE;
	}
	ck_emu_step_put(old);
	return result == CUDA_SUCCESS ? step_give(hNode, step) : result;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	struct ck_emu_step *to, *from, *step;
	CUresult result = step_get(dst, &to);

	if (result != CUDA_SUCCESS)
		return result;
	result = step_get(src, &from);
	if (result == CUDA_SUCCESS) {
		/* both nodes have a context of the same device, or the attributes mean nothing */
		result = to->context == from->context
				 ? step_with(to, from->attributes, from->attribute_count, &step)
				 : CUDA_ERROR_INVALID_VALUE;
		ck_emu_step_put(from);
	}
	ck_emu_step_put(to);
	return result == CUDA_SUCCESS ? step_give(dst, step) : result;
}
