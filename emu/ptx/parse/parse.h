/*
 * emu/ptx/parse/parse.h - shared by the parser's files; nothing outside the parser includes it.
 *
 * Functions return 0 or -errno; the one that finds the error words it with ck_ptx_fail().
 */
#ifndef CK_EMU_PTX_PARSE_PARSE_H
#define CK_EMU_PTX_PARSE_PARSE_H

#include "emu/ptx/language/module.h"
#include "emu/ptx/parse/lex.h"
#include "emu/ptx/parse/names.h"

#define CK_PTX_MAX_OPERANDS 10

/* The linkage of a .func, .entry or variable in a joined text. */
enum ck_ptx_linkage {
	CK_PTX_LINK_NONE,
	CK_PTX_LINK_EXTERN,
	CK_PTX_LINK_VISIBLE,
	CK_PTX_LINK_WEAK,
	CK_PTX_LINK_COMMON,
};

/* A branch to a label that may come later. */
struct ck_ptx_fixup {
	const char *text;
	size_t size;
	unsigned int depth; /* scope in which the label is looked for next */
	uint32_t insn;	    /* or, if not CK_PTX_NONE, entry of table */
	uint32_t table, entry;
	uint32_t line;
};

struct ck_ptx_parser {
	struct ck_ptx_lex lex;
	struct ck_ptx_token tok; /* the next one */
	uint32_t line;		 /* of tok */
	struct ck_ptx_module *module;
	struct ck_ptx_names names;  /* of this unit */
	struct ck_ptx_names linked; /* names with linkage, of all units so far */
	uint32_t unit;		    /* which one, from 1; each .version begins another */
	uint32_t target;	    /* of this unit: 75 for sm_75 */
	unsigned int depth;	    /* scope: 0 module, 1 parameters of a function, 2 its body */
	char *log;
	size_t log_size;
	/* the function being parsed */
	uint32_t func; /* CK_PTX_NONE outside */
	bool entry;
	uint32_t rows;
	uint64_t slot_top, slot_max;		       /* local bytes of its frame: now, at most */
	int32_t temps[CK_PTX_MAX_OPERANDS], temp_used; /* rows of hidden instructions' results */
	struct ck_ptx_fixup *fixups;
	uint32_t fixup_count, fixup_room;
	struct ck_ptx_name *params[2][256]; /* register parameters [0], results [1]; else NULL */
	/* the statement being parsed */
	int32_t guard;
	uint8_t guard_not;
	uint32_t stmt_line;
	struct ck_ptx_line stmt_source, stmt_caller; /* of its .loc */
	char stmt[80];				     /* opcode with modifiers, for messages */
	/* constants by value: indices + 1 into the pool */
	uint32_t *constants, constant_room, constant_count;
	uint64_t family_total; /* registers of all %r<n> declared */
};

enum ck_ptx_operand_kind {
	CK_PTX_OP_REG,	   /* row */
	CK_PTX_OP_INT,	   /* integer */
	CK_PTX_OP_FLOAT,   /* tok */
	CK_PTX_OP_NAME,	   /* name + integer */
	CK_PTX_OP_SREG,	   /* integer: its number */
	CK_PTX_OP_SINK,	   /* _ */
	CK_PTX_OP_VECTOR,  /* elements */
	CK_PTX_OP_ADDRESS, /* [base + integer]: base is REG, INT or NAME */
};

struct ck_ptx_operand {
	enum ck_ptx_operand_kind kind, base;
	bool not ;     /* !p */
	bool has_pair; /* d|p */
	int32_t row, pair;
	unsigned int type; /* of a register */
	int64_t integer;
	struct ck_ptx_token tok;
	struct ck_ptx_name *name;
	unsigned int count;
	int32_t rows[CK_PTX_MAX_VECTOR]; /* of a VECTOR, once resolved */
	struct ck_ptx_token items[CK_PTX_MAX_VECTOR];
	uint16_t select; /* the part of a register that a video instruction takes: see module.h */
	bool negative;	 /* sign before a FLOAT */
};

int ck_ptx_fail(struct ck_ptx_parser *p, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int ck_ptx_oom(struct ck_ptx_parser *p);

/* Tokens (parse_token.c) */
void ck_ptx_advance(struct ck_ptx_parser *p);
bool ck_ptx_at(const struct ck_ptx_parser *p, char punct);
bool ck_ptx_accept(struct ck_ptx_parser *p, char punct); /* consume it if it is there */
int ck_ptx_expect(struct ck_ptx_parser *p, char punct);
int ck_ptx_skip_statement(struct ck_ptx_parser *p); /* behind the next ';' */
int ck_ptx_unexpected(struct ck_ptx_parser *p, const char *wanted);
int ck_ptx_integer(struct ck_ptx_parser *p, int64_t *value);  /* with sign; consumes */
unsigned int ck_ptx_type_find(const char *text, size_t size); /* CK_PTX_NOTYPE if none */

/* Registers, from after ".reg" to the ';'; local memory of the function (parse_reg.c) */
int ck_ptx_parse_regs(struct ck_ptx_parser *p);
int ck_ptx_slot(struct ck_ptx_parser *p, uint64_t size, uint64_t align, uint64_t *offset);

/* A declaration's .align, type and vector, name and dimensions (parse_var.c) */
struct ck_ptx_decl {
	uint64_t align, size; /* bytes; 0 for [] */
	unsigned int type, vec;
	const char *text;
	size_t text_size;
	bool unsized, managed;
	uint8_t opaque; /* enum ck_ptx_opaque */
};
int ck_ptx_parse_decl(struct ck_ptx_parser *p, struct ck_ptx_decl *decl);
/* .global, .const, .shared, from after the space to the ';' */
int ck_ptx_parse_var(struct ck_ptx_parser *p, uint8_t space, enum ck_ptx_linkage linkage);

/* Symbols (link.c). Of @n count text, size, kind (VAR or FUNC) and depth. */
/* At each .version: names without linkage are forgotten. */
void ck_ptx_unit_begin(struct ck_ptx_parser *p);
/* 1: *@index is the symbol that a declaration of @n means, known in this unit from now; 0: none. */
int ck_ptx_symbol_find(struct ck_ptx_parser *p, const struct ck_ptx_name *n,
		       enum ck_ptx_linkage linkage, uint32_t *index);
/* Enter the new symbol @index, after ck_ptx_symbol_find gave 0. */
int ck_ptx_symbol_add(struct ck_ptx_parser *p, const struct ck_ptx_name *n,
		      enum ck_ptx_linkage linkage, uint32_t index);
/*
 * Handle a definition: of weak ones in several units the first counts, unless another unit has one
 * that is not weak. -EINVAL for a second one that is not allowed.
 */
enum { CK_PTX_TAKE, CK_PTX_KEEP, CK_PTX_REPLACE };
int ck_ptx_definition(struct ck_ptx_parser *p, const char *name, const struct ck_ptx_origin *old,
		      enum ck_ptx_linkage linkage);

/* Rows, constants, instructions of the function being parsed (emit.c) */
int ck_ptx_new_row(struct ck_ptx_parser *p, int32_t *row);
/* The rows of a new register: one, or two of 128 bits; *@row is the first. */
int ck_ptx_register_rows(struct ck_ptx_parser *p, unsigned int type, int32_t *row);
int ck_ptx_constant(struct ck_ptx_parser *p, uint64_t value, int32_t *row);
/* A new row of constants, not shared. */
int ck_ptx_pool_add(struct ck_ptx_parser *p, uint64_t value, uint32_t *index);
struct ck_ptx_insn *ck_ptx_emit(struct ck_ptx_parser *p, const char *opcode);
/* An instruction of our own in front of the one being parsed; it ignores the guard. */
int ck_ptx_emit_hidden(struct ck_ptx_parser *p, const char *opcode, int64_t imm, int32_t *row);

/* Operands as they are written (parse_operand.c) */
int ck_ptx_parse_operand(struct ck_ptx_parser *p, struct ck_ptx_operand *o);
/* A register by name: -ENOENT, without a word, if there is none. */
int ck_ptx_find_register(struct ck_ptx_parser *p, const struct ck_ptx_token *tok, int32_t *row,
			 unsigned int *type);
int ck_ptx_unknown_name(struct ck_ptx_parser *p, const struct ck_ptx_token *tok);

/* Operands to rows (resolve.c) */
int ck_ptx_operand_row(struct ck_ptx_parser *p, const struct ck_ptx_operand *o, unsigned int type,
		       int32_t *row);
int ck_ptx_operand_dest(struct ck_ptx_parser *p, const struct ck_ptx_operand *o, int32_t *row);
int ck_ptx_vector_rows(struct ck_ptx_parser *p, struct ck_ptx_operand *o, unsigned int type,
		       bool dest);
int ck_ptx_address(struct ck_ptx_parser *p, const struct ck_ptx_operand *o, uint8_t space,
		   int32_t *row, int64_t *offset, uint8_t *actual);
/* An address whose offset is already added: that of a second or third bracket. */
int ck_ptx_address_row(struct ck_ptx_parser *p, const struct ck_ptx_operand *o, uint8_t space,
		       int32_t *row);

/* A statement that starts with an opcode, from p->tok to the ';' (parse_insn.c, parse_call.c) */
int ck_ptx_parse_insn(struct ck_ptx_parser *p);
int ck_ptx_parse_call(struct ck_ptx_parser *p);
/* Operands of a texture or surface instruction; op, types and modifiers are in @draft. */
int ck_ptx_parse_access(struct ck_ptx_parser *p, const struct ck_ptx_insn *draft);
int ck_ptx_parse_brx(struct ck_ptx_parser *p);
int ck_ptx_parse_branch_targets(struct ck_ptx_parser *p, const char *label, size_t size);
int ck_ptx_branch_to(struct ck_ptx_parser *p, uint32_t insn);
/* The stores of register results before a return (parse_call.c) */
int ck_ptx_store_results(struct ck_ptx_parser *p);
int ck_ptx_copy_slot(struct ck_ptx_parser *p, bool store, uint64_t offset, unsigned int type,
		     int32_t row, bool guarded);

/* --- a module and a function's body (parse_func.c) */

/* One directive of the module, p->tok its first token. */
int ck_ptx_parse_directive(struct ck_ptx_parser *p);
/* After .func or .entry. */
int ck_ptx_parse_func(struct ck_ptx_parser *p, bool entry, enum ck_ptx_linkage linkage);
/* From the '{' to the '}' (parse.c). */
int ck_ptx_parse_body(struct ck_ptx_parser *p);

#endif
