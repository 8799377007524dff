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
static inline struct ck_mutex *ckc_modules_lock(void)
{
	return &ckc_client_root()->modules->tables_lock; /* libraries are of all sessions */
}

/* Make a module of @ctx, or a library, which has no context. @jit may be NULL. */
CUresult ckc_module_make(const void *image, struct ckc_context *ctx, bool library,
			 const struct ckc_jit *jit, struct ckc_module **out);
/* The module or library of a handle; NULL: not valid. */
struct ckc_module *ckc_module_from(const void *handle, bool library);

/* The following accept NULL for a module and return INVALID_HANDLE. */
CUresult ckc_module_get_function(struct ckc_module *m, const char *name, struct ck_function **out);
CUresult ckc_module_get_global(struct ckc_module *m, const char *name, CUdeviceptr *dptr,
			       size_t *bytes);
CUresult ckc_module_count(struct ckc_module *m, unsigned int *n);
CUresult ckc_module_enumerate(struct ckc_module *m, void **out, unsigned int n);

/* Free a module or library and its functions on this side, including the object. */
void ckc_module_forget(struct ckc_module *module);

/* --- variable.c */

/* Note the memory of a managed variable in the table. Its pages are tracked at the address that the
 * server's driver chose. */
CUresult ckc_module_note_managed(struct ckc_module *m, CUdeviceptr at, size_t size,
				 struct ckc_context *ctx);
/* When @m ends: remove its variables from the table. */
void ckc_module_forget_variables(struct ckc_module *m);

#endif
