/*
 * emu/ptx/language/module.h - a parsed text of one or more translation units: variables, functions
 * and resolved instructions.
 *
 * Registers of one warp are rows of 32 lanes, 64 bits each. An operand is a row number: from 0 up,
 * a row of the running function's frame; below 0, row ~n of the module's pool of constants
 * (immediates and addresses of symbols, spread over the lanes). The low bits of a lane hold the
 * value; its readers truncate it to the type. A register of 128 bits has two rows.
 */
#ifndef CK_EMU_PTX_LANGUAGE_MODULE_H
#define CK_EMU_PTX_LANGUAGE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/ptx/language/modifiers.h"
#include "emu/ptx/language/ptx.h"

#define CK_PTX_LANES 32
#define CK_PTX_MAX_VECTOR 8
#define CK_PTX_NONE UINT32_MAX /* no function, no variable, no return address */

/* Generic addresses below 2^56 are global; the top byte tells the other windows apart. */
#define CK_PTX_WINDOW_SHIFT 56
#define CK_PTX_SHARED_WINDOW (1ull << CK_PTX_WINDOW_SHIFT)
#define CK_PTX_LOCAL_WINDOW (2ull << CK_PTX_WINDOW_SHIFT)
#define CK_PTX_PARAM_WINDOW (3ull << CK_PTX_WINDOW_SHIFT)
#define CK_PTX_CODE_WINDOW (4ull << CK_PTX_WINDOW_SHIFT) /* + index of a function */
#define CK_PTX_OFFSET_MASK (CK_PTX_SHARED_WINDOW - 1)
/*
 * In an offset of shared memory, also one of 32 bits, the block of the cluster, + 1; 0: the own.
 */
#define CK_PTX_RANK_SHIFT 24

/* Limits for hostile texts. */
#define CK_PTX_MAX_SHARED (256u << 10)
#define CK_PTX_RESERVED_SHARED                                                                     \
	1024u /* the system's part of a block's, in the modules that use it */
#define CK_PTX_MAX_LOCAL (512u << 10)
#define CK_PTX_MAX_PARAM (32u << 10)
#define CK_PTX_MAX_DEPTH 64		 /* nested scopes, nested braces of an initialiser */
#define CK_PTX_MAX_ROWS (1u << 18)	 /* registers of a warp, all its frames together */
#define CK_PTX_STACK_RESERVE (32u << 10) /* local bytes for calls whose depth is not known */

/* The first rows of every frame. */
enum ck_ptx_row {
	CK_PTX_ROW_RETURN, /* pc after the call; CK_PTX_NONE in a kernel */
	CK_PTX_ROW_CALLER, /* the caller's frame, in rows */
	CK_PTX_ROW_LOCAL,  /* offset of the frame's variables in the lane's local memory */
	CK_PTX_ROW_SINK,   /* destination "_" */
	CK_PTX_ROW_CARRY,  /* CC.CF */
	CK_PTX_ROW_STACK,  /* bytes of alloca behind the frame's variables */
	CK_PTX_ROW_FIRST,
};

enum ck_ptx_type {
	CK_PTX_NOTYPE,
#define CK_PTX_TYPE(id, keyword, size, class) CK_PTX_##id,
#include "emu/ptx/language/types.def"
#undef CK_PTX_TYPE
	CK_PTX_TYPES
};

enum ck_ptx_class {
	CK_PTX_CLASS_NONE,
	CK_PTX_CLASS_UINT,
	CK_PTX_CLASS_SINT,
	CK_PTX_CLASS_BITS,
	CK_PTX_CLASS_FLOAT,
	CK_PTX_CLASS_PRED,
};

/* How the warp's loop treats an instruction. */
enum ck_ptx_kind {
	CK_PTX_PLAIN, /* fn() for the active lanes, then the next instruction */
	CK_PTX_BRANCH,
	CK_PTX_BRANCH_TABLE,
	CK_PTX_CALL,
	CK_PTX_RETURN,
	CK_PTX_EXIT,
	CK_PTX_CONVERGE, /* waits until the lanes of its member mask (s[mask_at]) are there */
	CK_PTX_BARRIER,
	CK_PTX_YIELD, /* let others run first: nanosleep */
};

struct ck_ptx_warp;
struct ck_ptx_insn;

/* Carry out @in for the lanes of @mask; 0 or a CUresult that ends the grid. */
typedef int (*ck_ptx_exec)(struct ck_ptx_warp *warp, const struct ck_ptx_insn *in, uint32_t mask);

struct ck_ptx_insn {
	ck_ptx_exec fn;
	int32_t guard; /* predicate row; CK_PTX_NO_GUARD without one */
	uint8_t guard_not;
	uint8_t kind, type, type2;
	uint8_t vec;	 /* elements of a vector or a packed mov, else 1 */
	uint8_t space;	 /* as the executor sees it: kernel parameters are PARAM, others LOCAL */
	uint8_t mask_at; /* the source that is the member mask; of plain ones unused */
	uint8_t type3, type4; /* of matrix and video instructions */
	int32_t d[CK_PTX_MAX_VECTOR], s[CK_PTX_MAX_VECTOR + 1];
	/* byte offset of an address; special register; table of lop3; parts of video operands */
	int64_t imm;
	/*
	 * branch: instruction; call, table, ret, texture, matrix: index of call, table, function,
	 * access, list of registers
	 */
	uint32_t target;
	uint32_t line;
	uint16_t op;
	uint8_t mod[CK_PTX_MODS];
};

#define CK_PTX_NO_GUARD INT32_MIN
#define CK_PTX_WHOLE_WARP UINT8_MAX /* as mask_at: all lanes are members */

/*
 * Parts of a register, 16 bits for each operand, the destination's lowest in imm: a number for
 * each of at most four, 3 bits each, the lowest first; their count; and whether they are halves.
 * 0: the operand is written without. From bit 48 on: whether source i is negated.
 */
#define CK_PTX_SELECT_HALF 0x8000u
#define CK_PTX_SELECT_BITS 16
#define CK_PTX_SELECT_MINUS 48

/* The registers of a matrix instruction's operands: rows. */
#define CK_PTX_LISTS 4
struct ck_ptx_lists {
	uint8_t count[CK_PTX_LISTS];
	int32_t rows[CK_PTX_LISTS][CK_PTX_MAX_VECTOR];
};

struct ck_ptx_slot {
	uint32_t offset, size; /* in the frame's local bytes */
};

struct ck_ptx_call {
	uint32_t caller, callee; /* functions; callee CK_PTX_NONE: s[0] holds the address */
	uint32_t arg_count, ret_count;
	struct ck_ptx_slot *args; /* arg_count, then ret_count; of the caller's frame */
};

struct ck_ptx_table {
	uint32_t *targets, count;
};

/* The operands of a texture or surface instruction, beside its destinations: rows. */
struct ck_ptx_access {
	int32_t object;	  /* its number; or, with by_name, the address of a reference */
	int32_t coord[4]; /* the layer first, where there are layers */
	int32_t lod, dx[4], dy[4];
	int32_t data[4];  /* the data for a surface */
	int32_t resident; /* predicate that says whether memory was there */
	bool by_name;
};

/* The program's view of a .global variable: memory, or a reference of an opaque type. */
enum ck_ptx_opaque { CK_PTX_NOT_OPAQUE, CK_PTX_TEXREF, CK_PTX_SURFREF };

enum ck_ptx_builtin {
	CK_PTX_NOT_BUILTIN,
	CK_PTX_VPRINTF,
	CK_PTX_ASSERTFAIL,
	CK_PTX_MALLOC,
	CK_PTX_FREE,
	CK_PTX_SET_CONDITION, /* cudaGraphSetConditional */
};

struct ck_ptx_init {
	uint64_t offset; /* in the variable */
	int64_t addend;
	uint32_t symbol;		  /* variable, or function with is_function */
	uint8_t is_function, size, shift; /* size bytes of (address >> shift) are stored */
};

/* Where a symbol's definition stands in a text of several units (see link.c). */
struct ck_ptx_origin {
	uint32_t unit; /* from 1; 0: nowhere yet */
	uint8_t linkage;
};

struct ck_ptx_var {
	char *name;
	struct ck_ptx_origin origin;
	uint8_t space;		/* GLOBAL, CONST or SHARED */
	uint8_t opaque;		/* enum ck_ptx_opaque: it then holds an object's number */
	bool external, dynamic; /* declared only; extern .shared of unknown size */
	bool managed;		/* the host uses it too */
	bool shared;		/* it had its place, and a value, before this module */
	uint64_t size, align;
	uint8_t *data; /* first bytes of the initialiser, or NULL */
	size_t data_size;
	struct ck_ptx_init *inits;
	size_t init_count, init_room;
	uint64_t address; /* once placed; of .shared: its offset */
};

struct ck_ptx_func {
	char *name;
	struct ck_ptx_origin origin;
	bool defined, entry;
	enum ck_ptx_builtin builtin;
	uint32_t first, end;	    /* its instructions */
	uint32_t rows;		    /* of a frame */
	uint32_t local_bytes;	    /* of a frame: arguments, results, call slots, .local */
	struct ck_ptx_slot *params; /* param_count, then ret_count */
	uint32_t param_count, ret_count;
	uint32_t *calls, call_count, call_room;	     /* functions called by name */
	uint32_t *shared, shared_count, shared_room; /* .shared variables that it names */
	bool indirect;				     /* has a call through a register */
	bool address_taken;
	bool own_stack; /* has an alloca */
	char *refusal;	/* why it cannot run: an unknown instruction; or NULL */
	uint32_t line;
	uint8_t mark; /* of the walk over the call graph */
};

struct ck_ptx_kernel {
	const struct ck_ptx_module *module;
	uint32_t func;
	struct ck_ptx_kernel_info info;
	struct ck_ptx_param *params;
	uint32_t dynamic_offset; /* of extern .shared arrays */
	uint32_t local_bytes;	 /* of a lane: frames of the deepest call chain */
	bool unbounded;		 /* that is not known: recursion, calls through registers, alloca */
	uint32_t req[3];	 /* .reqntid, 0 if none */
	uint32_t min_blocks;	 /* .minnctapersm, at least 1 */
	uint32_t max_registers;	 /* .maxnreg, 0 if none */
};

struct ck_ptx_reloc {
	uint32_t pool, symbol; /* the constant that is the variable's address + addend */
	int64_t addend;
};

struct ck_ptx_span {
	uint64_t lo, hi;
};

struct ck_ptx_line { /* of a source file (.loc); line 0: not known */
	uint32_t file, line;
};

/* Where instructions from @insn on come from; where the function that they are in was inlined. */
struct ck_ptx_source {
	uint32_t insn, unit;
	struct ck_ptx_line at, caller;
};

struct ck_ptx_source_file { /* .file */
	uint32_t unit, number;
	char *name;
};

struct ck_ptx_module {
	struct ck_ptx_insn *code;
	uint32_t code_count, code_room;
	uint64_t *pool; /* rows of CK_PTX_LANES */
	uint32_t pool_count, pool_room;
	struct ck_ptx_reloc *relocs;
	uint32_t reloc_count, reloc_room;
	struct ck_ptx_var *vars;
	uint32_t var_count, var_room;
	struct ck_ptx_func *funcs;
	uint32_t func_count, func_room;
	struct ck_ptx_kernel *kernels;
	uint32_t kernel_count, kernel_room;
	struct ck_ptx_call *calls;
	uint32_t call_count, call_room;
	struct ck_ptx_table *tables;
	uint32_t table_count, table_room;
	struct ck_ptx_access *accesses;
	uint32_t access_count, access_room;
	struct ck_ptx_lists *lists;
	uint32_t list_count, list_room;
	struct ck_ptx_span *spans; /* of the placed variables, by address */
	uint32_t span_count;
	struct ck_ptx_source *sources; /* where instructions come from, by instruction */
	uint32_t source_count, source_room;
	struct ck_ptx_source_file *files; /* of all units */
	uint32_t file_count, file_room;
	uint32_t max_registers; /* of kernels that say nothing themselves; 0: no limit */
	bool placed;
	bool reserved_shared;		/* it uses the system's part of shared memory */
	struct ck_ptx_hazards *hazards; /* places that checks have reported, changed while it
					 * runs */
};

/* The size in bytes of a value of @type; its class. */
unsigned int ck_ptx_type_bytes(unsigned int type);
enum ck_ptx_class ck_ptx_type_class(unsigned int type);

/* source.c: instructions from @source.insn on come from there; of one instruction, the last call
 * counts. Remember the name of a file. 0 or -ENOMEM. */
int ck_ptx_source_add(struct ck_ptx_module *module, struct ck_ptx_source source);
int ck_ptx_source_name(struct ck_ptx_module *module, uint32_t unit, uint32_t number,
		       const char *name, size_t size);
void ck_ptx_sources_free(struct ck_ptx_module *module);
/* "line 12 of the PTX (kernel.cu:3)" of instruction @in, the part in brackets if it is known; of
 * an inlined function, also where it was called. */
const char *ck_ptx_source_format(const struct ck_ptx_module *module, const struct ck_ptx_insn *in,
				 char *text, size_t size);

/* Make room for one more of the @count elements of @size bytes at *@array; 0 or -ENOMEM. */
int ck_ptx_room(void *array, uint32_t *room, uint32_t count, size_t size);

/* After the last line: shared offsets, call graph, kernel figures. -errno with *@culprit set. */
int ck_ptx_layout(struct ck_ptx_module *module, const char **culprit);

/* Offset @off of @size bytes fits in [0, limit). */
static inline bool ck_ptx_fits(uint64_t off, uint64_t size, uint64_t limit)
{
	return size <= limit && off <= limit - size;
}

#endif
