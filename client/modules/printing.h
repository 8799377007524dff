/*
 * client/modules/printing.h - may kernels have printed output that has not been fetched?
 */
#ifndef CK_CLIENT_MODULES_PRINTING_H
#define CK_CLIENT_MODULES_PRINTING_H

#include <stdint.h>

struct ckc_context;

/* A kernel that can print has been launched in stream @stream (0: legacy) of @context. */
void ckc_printing_launched(struct ckc_context *context, uint64_t stream);

/* The same for a graph. Any graph may have such a kernel, if there is one. */
void ckc_printing_graph_launched(struct ckc_context *context, uint64_t stream);

#endif
