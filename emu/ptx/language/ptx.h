/*
 * emu/ptx/language/ptx.h - the interface of the PTX interpreter for the emulated driver.
 *
 * PTX text in, a module out; kernels of the module run on the calling thread and, long ones, on
 * others that it starts and waits for; one grid a call. Language: "Parallel Thread Execution ISA",
 * version 9.0 (NVIDIA documentation). Functions return 0 or -errno unless they say otherwise, and
 * set outputs only on 0.
 */
#ifndef CK_EMU_PTX_LANGUAGE_PTX_H
#define CK_EMU_PTX_LANGUAGE_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

struct ck_ptx_module; /* one parsed text; immutable once placed */
struct ck_ptx_kernel; /* an .entry of a module; lives as long as its module */

/*
 * Parse @size bytes of PTX. On error -EINVAL (syntax, undefined name), -EOPNOTSUPP (a type or
 * directive that the interpreter does not know) or -ENOMEM, and @log (of @log_size bytes, always
 * terminated) says "line N: ..." and names the culprit. An unsupported instruction is no error:
 * the kernels that can reach it have a refusal, and the others run.
 * The text may be several translation units, one after the other, each with a .version of its
 * own: they are linked. The caller destroys *@module.
 */
int ck_ptx_parse(const char *text, size_t size, char *log, size_t log_size,
		 struct ck_ptx_module **module);
void ck_ptx_destroy(struct ck_ptx_module *module);

/* A variable that is to get its place. */
struct ck_ptx_room {
	const char *name;
	size_t size, align; /* bytes */
	bool managed;
	bool shared; /* set by who gives the place: it has its value already */
};

/*
 * Give every .global and .const variable its place: @alloc returns zeroed, writable memory
 * (an address of this process that is also the device address), or 0 when there is none
 * (then -ENOMEM). Initialisers, addresses of other variables included, are written. Once only.
 */
int ck_ptx_place(struct ck_ptx_module *module,
		 uint64_t (*alloc)(void *opaque, struct ck_ptx_room *room), void *opaque);
/*
 * The same for the .managed ones alone, of a module that is never run: for their addresses and
 * values, which modules of the same text then share. Addresses of other variables are written 0.
 */
int ck_ptx_place_managed(struct ck_ptx_module *module,
			 uint64_t (*alloc)(void *opaque, struct ck_ptx_room *room), void *opaque);

/* A placed variable by name: -ENOENT if there is none. */
int ck_ptx_variable(const struct ck_ptx_module *module, const char *name, uint64_t *address,
		    size_t *size);

/*
 * The address of a placed .texref or .surfref variable by name: 8 bytes, in which the host puts
 * the number of the object that it stands for. -ENOENT if there is none.
 */
int ck_ptx_reference(const struct ck_ptx_module *module, const char *name, bool surface,
		     uint64_t *address);

/* Kernels in the order of the text: NULL past the end; by name, for tests: NULL if there is
 * none. */
const struct ck_ptx_kernel *ck_ptx_kernel_at(const struct ck_ptx_module *module, unsigned int i);
const struct ck_ptx_kernel *ck_ptx_kernel_find(const struct ck_ptx_module *module,
					       const char *name);

/*
 * At the end of a unit: the value of CU_JIT_MAX_REGISTERS, so that it stays with the text where
 * that is linked and parsed again.
 */
#define CK_PTX_PRAGMA_REGISTERS "cricket max registers %u"

struct ck_ptx_param {
	uint32_t offset, size; /* bytes, in the parameter block */
};

struct ck_ptx_kernel_info {
	const char *name; /* the kernel's; not to be freed */
	unsigned int param_count;
	const struct ck_ptx_param *params;
	uint32_t param_bytes;  /* size of the whole block */
	uint32_t shared_bytes; /* static shared memory */
	uint32_t local_bytes;  /* local memory of one thread */
	uint32_t const_bytes;  /* the module's .const space */
	uint32_t target;       /* the target of its unit: 75 for sm_75 */
	uint32_t max_threads;  /* from .maxntid or .reqntid, else 1024 */
	uint32_t registers;    /* a plausible count for one thread, at most 255 */
	uint32_t cluster[3];   /* from .reqnctapercluster: required at a launch; 0: any */
	bool must_cluster;     /* .explicitcluster: a launch must ask for clusters */
	const char *refusal;   /* "line N: ...": why it cannot be launched; NULL: it can */
};

void ck_ptx_kernel_info(const struct ck_ptx_kernel *kernel, struct ck_ptx_kernel_info *info);

#define CK_PTX_MAX_LEVELS 20
#define CK_PTX_MAX_CLUSTER 16 /* blocks */

/* Texels in memory: one mipmap level of an array, or a piece of linear memory. */
struct ck_ptx_image {
	uint64_t base;	       /* an address of this process */
	uint64_t pitch, slice; /* bytes from row to row, from slice or layer to the next */
	uint32_t size[3];      /* width, height, depth or layers; at least 1 each */
};

/* The target of a texture or surface object. */
struct ck_ptx_texture {
	CUarray_format format;
	unsigned int channels;
	unsigned int texel; /* bytes */
	/* levels[0] and the next ones; surfaces have one level */
	struct ck_ptx_image levels[CK_PTX_MAX_LEVELS];
	unsigned int level_count;
	bool linear;  /* one row of linear memory: beyond its end there are zeroes */
	bool checked; /* the program's memory, which may go: look before each access */
	CUaddress_mode address[3];
	CUfilter_mode filter, mipmap_filter;
	unsigned int flags; /* CU_TRSF_ */
	float bias, min_level, max_level;
	float border[4];
};

/* Checks of shared memory, and counting, which slow kernels down. */
enum {
	CK_PTX_CHECK_RACE = 1,	/* accesses that nothing orders */
	CK_PTX_CHECK_INIT = 2,	/* reads of memory that no thread has written */
	CK_PTX_CHECK_COUNT = 4, /* instructions: reported when the grid has ended */
};

/* The driver's services for a running grid. Callbacks may be called from several threads. */
struct ck_ptx_host {
	void *opaque;
	/*
	 * The live device allocation that holds @address: 0 and [*@lo, *@hi), else -EFAULT.
	 * The interpreter keeps the answer for the rest of the launch.
	 */
	int (*range)(void *opaque, uint64_t address, uint64_t *lo, uint64_t *hi);
	/*
	 * For a message about @address: where it is in, or behind, an allocation. @text is empty if
	 * there is none. May be NULL.
	 */
	void (*describe)(void *opaque, uint64_t address, char *text, size_t size);
	/* Text of printf, and lines of failed assertions, in the order of one thread's calls. */
	void (*print)(void *opaque, const char *text, size_t size);
	void (*complain)(void *opaque, const char *text, size_t size);
	/* Device-side malloc and free; NULL makes malloc return NULL. */
	uint64_t (*alloc)(void *opaque, size_t size);
	void (*free)(void *opaque, uint64_t address);
	/* cudaGraphSetConditional(); may be NULL. */
	void (*set_condition)(void *opaque, uint64_t handle, uint32_t value);
	/* The object of that number, alive until the grid ends, or NULL. May itself be NULL. */
	const struct ck_ptx_texture *(*texture)(void *opaque, uint64_t object, bool surface);
	uint32_t stack;	      /* bytes of a thread's stack, where its depth is not known before */
	unsigned int threads; /* beside the caller's, that a grid may start */
	unsigned int check;   /* CK_PTX_CHECK_: the checks, reported on stderr */
	/* True once the grid should stop early (the context is being destroyed). */
	bool (*cancelled)(void *opaque);
};

struct ck_ptx_grid {
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared; /* bytes */
	bool cooperative;	 /* grid-wide barriers may be used */
	uint32_t cluster
		[3]; /* blocks of a cluster, of which the grid is a multiple; 0: none asked for */
};

/*
 * Run @kernel over @grid with the parameter block @params (ck_ptx_kernel_info.param_bytes long).
 * Returns CUDA_SUCCESS or the error of a device: ILLEGAL_ADDRESS, MISALIGNED_ADDRESS, ASSERT,
 * LAUNCH_FAILED (trap), ILLEGAL_INSTRUCTION, INVALID_ADDRESS_SPACE, LAUNCH_TIMEOUT (cancelled),
 * LAUNCH_OUT_OF_RESOURCES; NOT_SUPPORTED for a kernel with a refusal. A hostile kernel can read and
 * write only memory that @host->range allows, its own shared, local and parameter memory, and
 * placed variables.
 */
CUresult ck_ptx_run(const struct ck_ptx_kernel *kernel, const struct ck_ptx_grid *grid,
		    const void *params, const struct ck_ptx_host *host);

#endif
