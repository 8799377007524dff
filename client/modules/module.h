/*
 * client/modules/module.h - shared by modules and libraries; the rest is in client.h.
 */
#ifndef CK_CLIENT_MODULES_MODULE_H
#define CK_CLIENT_MODULES_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#include "client/modules/jit.h"
#include "client/modules/state.h"

/* Guards the functions and variables of modules, and the modules of libraries. */
static inline struct ck_mutex *ck_modules_lock(void)
{
	return &ck_client_current()->modules->tables_lock;
}

/* Make a module of @ctx, or a library, which has no context. @jit may be NULL. */
CUresult ck_module_make(const void *image, struct ck_context *ctx, bool library,
			const struct ck_jit *jit, struct ck_module **out);
/* The module or library of a handle; NULL: not valid. */
struct ck_module *ck_module_from(const void *handle, bool library);

/* The following accept NULL for a module and return INVALID_HANDLE. */
CUresult ck_module_get_function(struct ck_module *m, const char *name, struct ck_function **out);
CUresult ck_module_get_global(struct ck_module *m, const char *name, CUdeviceptr *dptr,
			      size_t *bytes);
CUresult ck_module_count(struct ck_module *m, unsigned int *n);
CUresult ck_module_enumerate(struct ck_module *m, void **out, unsigned int n);

/* Free a module or library and its functions on this side, including the object. */
void ck_module_forget(struct ck_module *module);

/* Note a variable's memory in the table, for copies and pointer queries. */
void ck_module_note_variable(struct ck_module *m, CUdeviceptr at, size_t size,
			     enum ck_memory_kind kind, struct ck_context *ctx);
/* The same for a managed variable, whose pages are tracked at the address that the server's driver
 * chose. */
CUresult ck_module_note_managed(struct ck_module *m, CUdeviceptr at, size_t size,
				struct ck_context *ctx);

#endif
