/*
 * client/modules/module.h - what modules and libraries have in common; the rest is in client.h.
 */
#ifndef CK_CLIENT_MODULES_MODULE_H
#define CK_CLIENT_MODULES_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#include "client/modules/jit.h"
#include "client/modules/state.h"

/* Of the functions and variables of modules, and the modules of libraries. */
static inline struct ck_mutex *ck_modules_lock(void)
{
	return &ck_client_current()->modules->tables_lock;
}

/* A module of @ctx, or a library, which is of none. @jit may be NULL. */
CUresult ck_module_make(const void *image, struct ck_context *ctx, bool library,
			const struct ck_jit *jit, struct ck_module **out);
/* What a handle of a module, or of a library, stands for; NULL: it is none. */
struct ck_module *ck_module_from(const void *handle, bool library);

/* The rest takes NULL for a module and says INVALID_HANDLE then. */
CUresult ck_module_get_function(struct ck_module *m, const char *name, struct ck_function **out);
CUresult ck_module_get_global(struct ck_module *m, const char *name, CUdeviceptr *dptr,
			      size_t *bytes);
CUresult ck_module_count(struct ck_module *m, unsigned int *n);
CUresult ck_module_enumerate(struct ck_module *m, void **out, unsigned int n);

/* What a module or library and its functions hold on this side; the object goes with it. */
void ck_module_forget(struct ck_module *module);

/* Note a variable's memory, so that copies and pointer queries know it. */
void ck_module_note_variable(struct ck_module *m, CUdeviceptr at, size_t size,
			     enum ck_memory_kind kind, struct ck_context *ctx);
/* The same for a managed one, whose pages are tracked where the server's driver has put it. */
CUresult ck_module_note_managed(struct ck_module *m, CUdeviceptr at, size_t size,
				struct ck_context *ctx);

#endif
