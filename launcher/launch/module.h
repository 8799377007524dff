/*
 * launcher/launch/module.h - modules that are loaded, and finding or making the one a request
 * names.
 */
#ifndef CK_LAUNCHER_LAUNCH_MODULE_H
#define CK_LAUNCHER_LAUNCH_MODULE_H

#include "elf/kernels.h"
#include "launcher/compile/includes.h"
#include "launcher/driver/driver.h"
#include "launcher/request/request.h"
#include "launcher/text/file.h"
#include "util/hash.h"

#define CK_MODULES_MAX 64 /* loaded at a time; the one longest unused goes */

struct ckl_cache; /* launcher/compile/cache.h */

struct ckl_module {
	struct ck_hash key;	      /* of path or text, and options */
	struct ckl_file_state state;  /* zeroes for a text */
	struct ckl_includes includes; /* that it was compiled with */
	struct ck_kernels kernels;
	bool unread; /* only the driver can read it: kernels has those that it was asked for */
	CUmodule handle;
	uint64_t used; /* when, in uses of the table */
};

struct ckl_modules {
	struct ckl_driver *driver;
	struct ckl_cache *cache; /* or NULL */
	const char *compiler;	 /* as of struct ckl_compile */
	struct ckl_module items[CK_MODULES_MAX];
	size_t count;
	uint64_t uses;
};

/*
 * The module of a launch: one that is loaded, else its file or text is read, compiled through the
 * cache when it is CUDA C++, and loaded. Valid until the next call. NULL: the failure is set.
 */
struct ckl_module *ckl_modules_get(struct ckl_modules *modules, const struct ckl_request *request,
				   struct ckl_fail *fail);

#endif
