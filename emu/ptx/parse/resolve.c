/*
 * emu/ptx/parse/resolve.c - from a written operand to a row: literals and addresses become
 * constants; values known only at run time come from a hidden instruction in front.
 */
#include <errno.h>
#include <string.h>

#include "emu/ptx/language/half.h"
#include "emu/ptx/language/sregs.h"
#include "emu/ptx/ops/ops.h"
#include "emu/ptx/parse/parse.h"
#include "util/util.h"

/* The bits of a literal in an operand of @type. */
static uint64_t literal_bits(const struct ck_ptx_operand *o, unsigned int type)
{
	bool wide = ck_ptx_type_bytes(type) == 8;
	double real = o->kind == CK_PTX_OP_INT ? (double)o->integer : o->tok.real;
	uint64_t bits = o->kind == CK_PTX_OP_INT ? (uint64_t)o->integer : o->tok.bits64;
	float single;
	uint32_t low;

	if (o->kind == CK_PTX_OP_INT && type != CK_PTX_F32 && type != CK_PTX_F64)
		return bits;
	if (o->kind == CK_PTX_OP_INT)
		memcpy(&bits, &real, sizeof(bits));
	if (wide)
		return o->kind == CK_PTX_OP_FLOAT && o->negative ? bits ^ 1ull << 63 : bits;
	if (o->kind == CK_PTX_OP_FLOAT && o->negative)
		real = -real;
	if (ck_ptx_type_bytes(type) == 2)
		return ck_ptx_half_from(real);
	single = (float)real;
	memcpy(&low, &single, sizeof(low));
	if (o->kind == CK_PTX_OP_FLOAT && o->tok.single)
		low = o->tok.bits32 ^ (uint32_t)o->negative << 31;
	return low;
}

/* *@row + @addend in a row of our own. */
static int add_constant(struct ck_ptx_parser *p, int64_t addend, int32_t *row)
{
	struct ck_ptx_insn *in;
	int32_t base = *row, more;
	int ret = ck_ptx_constant(p, (uint64_t)addend, &more);

	if (ret == 0)
		ret = ck_ptx_emit_hidden(p, "add", 0, row);
	if (ret < 0)
		return ret;
	in = &p->module->code[p->module->code_count - 1];
	in->type = CK_PTX_U64;
	in->s[0] = base;
	in->s[1] = more;
	in->fn = ck_ptx_pick_add(in, 3);
	return 0;
}

/* A constant that becomes the address of variable @index + @addend. */
static int var_address(struct ck_ptx_parser *p, uint32_t index, int64_t addend, int32_t *row)
{
	struct ck_ptx_module *m = p->module;
	struct ck_ptx_func *func;
	uint32_t pool;
	int ret;

	if (p->func != CK_PTX_NONE && m->vars[index].space == CK_PTX_SHARED) {
		func = &m->funcs[p->func];
		if (ck_ptx_room(&func->shared, &func->shared_room, func->shared_count,
				sizeof(*func->shared)) < 0)
			return ck_ptx_oom(p);
		func->shared[func->shared_count++] = index;
		if (m->vars[index].dynamic) {
			ret = ck_ptx_emit_hidden(p, "(sreg)", CK_PTX_SREG_DYNAMIC_BASE, row);
			return ret < 0 || addend == 0 ? ret : add_constant(p, addend, row);
		}
	}
	ret = ck_ptx_pool_add(p, 0, &pool);
	if (ret < 0)
		return ret;
	if (ck_ptx_room(&m->relocs, &m->reloc_room, m->reloc_count, sizeof(*m->relocs)) < 0)
		return ck_ptx_oom(p);
	m->relocs[m->reloc_count++] =
		(struct ck_ptx_reloc){.pool = pool, .symbol = index, .addend = addend};
	*row = ~(int32_t)pool;
	return 0;
}

static int name_row(struct ck_ptx_parser *p, const struct ck_ptx_operand *o, int32_t *row)
{
	struct ck_ptx_name *n = o->name;
	uint64_t value = (uint64_t)n->value + (uint64_t)o->integer;

	switch (n->kind) {
	case CK_PTX_NAME_VAR:
		return var_address(p, (uint32_t)n->value, o->integer, row);
	case CK_PTX_NAME_SLOT:
		if (n->is_param)
			value += CK_PTX_LOCAL_WINDOW;
		return ck_ptx_emit_hidden(p, "(address)", (int64_t)value, row);
	case CK_PTX_NAME_KPARAM:
		return ck_ptx_constant(p, CK_PTX_PARAM_WINDOW + value, row);
	case CK_PTX_NAME_FUNC:
		p->module->funcs[n->value].address_taken = true;
		return ck_ptx_constant(p, CK_PTX_CODE_WINDOW + (uint64_t)n->value, row);
	default:
		return ck_ptx_fail(p, -EOPNOTSUPP, "'%.*s' cannot be an operand of %s",
				   (int)ck_min(n->size, (size_t)60), n->text, p->stmt);
	}
}

/* "!p": its opposite in a row of our own. */
static int negated_row(struct ck_ptx_parser *p, int32_t *row)
{
	int32_t source = *row;
	int ret = ck_ptx_emit_hidden(p, "not", 0, row);

	if (ret == 0) {
		struct ck_ptx_insn *in = &p->module->code[p->module->code_count - 1];

		in->type = CK_PTX_PRED;
		in->s[0] = source;
		in->fn = ck_ptx_pick_not(in, 2);
	}
	return ret;
}

int ck_ptx_operand_row(struct ck_ptx_parser *p, const struct ck_ptx_operand *o, unsigned int type,
		       int32_t *row)
{
	int ret = 0;

	if (o->negative && o->kind != CK_PTX_OP_INT && o->kind != CK_PTX_OP_FLOAT)
		return ck_ptx_fail(p, -EINVAL, "'-' in front of an operand of %s", p->stmt);
	switch (o->kind) {
	case CK_PTX_OP_REG:
		*row = o->row;
		break;
	case CK_PTX_OP_INT:
	case CK_PTX_OP_FLOAT:
		ret = ck_ptx_constant(p, literal_bits(o, type), row);
		break;
	case CK_PTX_OP_NAME:
		ret = name_row(p, o, row);
		break;
	case CK_PTX_OP_SREG:
		ret = ck_ptx_emit_hidden(p, "(sreg)", o->integer, row);
		break;
	default:
		return ck_ptx_fail(p, -EINVAL, "an operand of %s has the wrong form", p->stmt);
	}
	return ret == 0 && o->not ? negated_row(p, row) : ret;
}

int ck_ptx_operand_dest(struct ck_ptx_parser *p, const struct ck_ptx_operand *o, int32_t *row)
{
	if (o->kind == CK_PTX_OP_SINK)
		*row = CK_PTX_ROW_SINK;
	else if (o->kind == CK_PTX_OP_REG && !o->not &&!o->negative)
		*row = o->row;
	else
		return ck_ptx_fail(p, -EINVAL, "the destination of %s is not a register", p->stmt);
	return 0;
}

int ck_ptx_vector_rows(struct ck_ptx_parser *p, struct ck_ptx_operand *o, unsigned int type,
		       bool dest)
{
	for (unsigned int i = 0; i < o->count; i++) {
		struct ck_ptx_operand item = {.kind = CK_PTX_OP_INT, .tok = o->items[i]};
		int ret = 0;

		item.integer = (int64_t)o->items[i].integer;
		if (o->items[i].kind == CK_PTX_FLOAT)
			item.kind = CK_PTX_OP_FLOAT;
		if (o->items[i].kind == CK_PTX_WORD) {
			item.kind = CK_PTX_OP_REG;
			if (ck_ptx_token_is(&o->items[i], CK_PTX_WORD, "_"))
				item.kind = CK_PTX_OP_SINK;
			else if (ck_ptx_find_register(p, &o->items[i], &item.row, &item.type) < 0)
				return ck_ptx_unknown_name(p, &o->items[i]);
		}
		ret = dest ? ck_ptx_operand_dest(p, &item, &o->rows[i])
			   : ck_ptx_operand_row(p, &item, type, &o->rows[i]);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int ck_ptx_address(struct ck_ptx_parser *p, const struct ck_ptx_operand *o, uint8_t space,
		   int32_t *row, int64_t *offset, uint8_t *actual)
{
	struct ck_ptx_operand base = {.name = o->name, .kind = o->base};

	if (o->kind != CK_PTX_OP_ADDRESS)
		return ck_ptx_fail(p, -EINVAL, "%s needs an address in brackets", p->stmt);
	*offset = o->integer;
	*actual = space;
	if (o->base == CK_PTX_OP_REG) {
		*row = o->row;
		/* Only a kernel's parameters can be reached through a register: generic. */
		if (space == CK_PTX_PARAM)
			*actual = CK_PTX_GENERIC;
		return 0;
	}
	if (o->base == CK_PTX_OP_INT) {
		*offset = 0;
		return ck_ptx_constant(p, (uint64_t)o->integer, row);
	}
	if (o->name->kind == CK_PTX_NAME_SLOT) {
		*row = CK_PTX_ROW_LOCAL;
		*offset = (int64_t)((uint64_t)*offset + (uint64_t)o->name->value);
		*actual = CK_PTX_LOCAL;
		return 0;
	}
	if (o->name->kind == CK_PTX_NAME_KPARAM)
		*actual = CK_PTX_PARAM;
	return name_row(p, &base, row);
}

int ck_ptx_address_row(struct ck_ptx_parser *p, const struct ck_ptx_operand *o, uint8_t space,
		       int32_t *row)
{
	int64_t offset;
	uint8_t actual;
	int ret = ck_ptx_address(p, o, space, row, &offset, &actual);

	return ret < 0 || offset == 0 ? ret : add_constant(p, offset, row);
}
