/*
 * emu/modules/function.h - modules and functions: an image's text, its loaded form, launchable
 * functions.
 */
#ifndef CK_EMU_MODULES_FUNCTION_H
#define CK_EMU_MODULES_FUNCTION_H

#include "emu/core/emu.h"
#include "emu/core/locks.h"
#include "emu/ptx/language/ptx.h"

struct ck_emu_function {
	struct ck_emu_object base; /* its owner is the module, or a kernel's library */
	const struct ck_ptx_kernel *kernel;
	struct ck_ptx_kernel_info info;
	atomic_bool refused;		/* a launch has been, and why is in the log */
	struct ck_emu_module *module;	/* NULL for a CUkernel */
	struct ck_emu_library *library; /* NULL for a CUfunction that no kernel stands for */
	struct ck_emu_function
		*origin; /* of a library's CUfunction: the CUkernel; it outlives us */
	/* by device, -1 until set */
	atomic_int max_dynamic[CK_EMU_MAX_DEVICES];
	atomic_int carveout[CK_EMU_MAX_DEVICES];
	atomic_int wide_clusters[CK_EMU_MAX_DEVICES]; /* more than 8 blocks are allowed */
};

struct ck_emu_library {
	struct ck_emu_object base;
	char *text;		   /* the image, to load it into contexts */
	struct ck_ptx_module *ptx; /* never run: for names, parameters and managed variables */
	struct ck_emu_function *kernels;
	unsigned int kernel_count;
	struct ck_mutex load_lock; /* one load into a context at a time */
	bool unloaded;		   /* under that lock: load no more */
};

struct ck_emu_module {
	struct ck_emu_object base;
	struct ck_ptx_module *ptx;
	struct ck_emu_library *library; /* holds a reference; NULL for cuModuleLoad's */
	struct ck_emu_function *functions;
	unsigned int function_count;
	struct ck_emu_reference *references; /* texture references that were asked for */
};

/* PTX text, NUL-terminated. */
struct ck_emu_image {
	const char *text;
	void *owned; /* NULL, or the memory of text */
};

/* JIT options that we answer. */
struct ck_emu_jit {
	char *log[2]; /* information, errors; NULL: not asked for */
	size_t log_room[2];
	void **log_written[2];	    /* where the size written goes */
	unsigned int max_registers; /* 0: not asked for */
};

CUresult ck_emu_jit_read(unsigned int count, const CUjit_option *options, void **values,
			 struct ck_emu_jit *jit);
/*
 * The PTX text of an image: text itself, or out of a fat binary. NO_BINARY_FOR_GPU for machine
 * code, INVALID_IMAGE; says why in the error log of @jit and on stderr. Close a result.
 */
CUresult ck_emu_image_open(const void *image, const struct ck_emu_jit *jit,
			   struct ck_emu_image *out);
void ck_emu_image_close(struct ck_emu_image *image);
/* Parse PTX; messages as above, INVALID_PTX. *@ptx is the caller's. */
CUresult ck_emu_image_parse(const char *text, const struct ck_emu_jit *jit,
			    struct ck_ptx_module **ptx);
/* A whole file with a NUL after it, to be freed: FILE_NOT_FOUND and others. @bytes: NULL, or of the
 * file. */
CUresult ck_emu_image_read(const char *path, char **image, size_t *bytes);
/*
 * Place a parsed image in a context and publish module and functions. Takes over @ptx. The caller
 * gets a reference besides the handle's own. @library: NULL, or whose instance it is.
 */
CUresult ck_emu_module_create(struct ck_emu_context *context, struct ck_ptx_module *ptx,
			      struct ck_emu_library *library, struct ck_emu_module **module);
/* The functions of @ptx in an array, each owned by @owner; NULL only when out of memory. */
struct ck_emu_function *ck_emu_functions_create(const struct ck_ptx_module *ptx,
						struct ck_emu_object *owner,
						struct ck_emu_context *context,
						unsigned int *count);
struct ck_emu_function *ck_emu_functions_find(struct ck_emu_function *functions, unsigned int count,
					      const char *name);
/* Take a module's or library's functions out of the table. */
void ck_emu_functions_retract(struct ck_emu_function *functions, unsigned int count);
/* Give a library's managed variables their place: 0 or -errno. */
int ck_emu_library_place(struct ck_emu_library *library);
/* A library's module in @context, loaded at need, with a reference. */
CUresult ck_emu_library_instance(struct ck_emu_library *library, struct ck_emu_context *context,
				 struct ck_emu_module **module);
/*
 * The function for @context behind a CUfunction or CUkernel, with a reference (on its module):
 * INVALID_HANDLE, or the error of loading the kernel's module.
 */
CUresult ck_emu_function_get(const void *handle, struct ck_emu_context *context,
			     struct ck_emu_function **function);
/* Bytes of dynamic shared memory a launch may ask for. */
uint32_t ck_emu_function_max_dynamic(const struct ck_emu_function *function);
/* The blocks that its clusters may have. */
uint32_t ck_emu_function_max_cluster(const struct ck_emu_function *function);
/*
 * Whether the function can be launched with the clusters that @grid asks for; where it asks for
 * none it is given those that the function requires (launch.c).
 */
CUresult ck_emu_cluster_check(const struct ck_emu_function *function, struct ck_ptx_grid *grid);
/* The value of an attribute; INVALID_VALUE when there is none of that number. */
CUresult ck_emu_function_attribute(const struct ck_emu_function *function, int device,
				   CUfunction_attribute attribute, int *value);
CUresult ck_emu_function_set(struct ck_emu_function *function, int device,
			     CUfunction_attribute attribute, int value);

/* Copy a kernel's arguments, in either form, into a parameter block (launch.c). */
CUresult ck_emu_launch_params(const struct ck_ptx_kernel_info *info, void **params, void **extra,
			      char *block);
/* The driver's services for a running grid (grid.c); @context is its context. */
void ck_emu_grid_host(struct ck_emu_context *context, struct ck_ptx_host *host);

/* Blocks of @threads that one multiprocessor holds (occupancy.c). */
unsigned int ck_emu_occupancy(const struct ck_emu_function *function, uint32_t threads,
			      size_t dynamic_shared);

#endif
