/*
 * emu/ptx/parse_operand.c - operands: names to rows, immediates and addresses to constants.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/half.h"
#include "emu/ptx/ops.h"
#include "emu/ptx/parse.h"
#include "emu/ptx/sregs.h"
#include "util/util.h"

static int unknown_name(struct ck_ptx_parser *p, const struct ck_ptx_token *tok)
{
	return ck_ptx_fail(p, -EINVAL, "'%.*s' is not defined", (int)ck_min(tok->size, (size_t)60),
			   tok->text);
}

int ck_ptx_new_row(struct ck_ptx_parser *p, int32_t *row)
{
	if (p->rows >= CK_PTX_MAX_ROWS)
		return ck_ptx_fail(p, -EINVAL, "more than %u registers in a function",
				   CK_PTX_MAX_ROWS);
	*row = (int32_t)p->rows++;
	return 0;
}

int ck_ptx_register_rows(struct ck_ptx_parser *p, unsigned int type, int32_t *row)
{
	int32_t upper;
	int ret = ck_ptx_new_row(p, row);

	return ret == 0 && type == CK_PTX_B128 ? ck_ptx_new_row(p, &upper) : ret;
}

static int temp_row(struct ck_ptx_parser *p, int32_t *row)
{
	if (p->temp_used >= CK_PTX_MAX_OPERANDS)
		return ck_ptx_fail(p, -EINVAL, "too many operands");
	if (p->temps[p->temp_used] == 0) {
		int ret = ck_ptx_new_row(p, &p->temps[p->temp_used]);

		if (ret < 0)
			return ret;
	}
	*row = p->temps[p->temp_used++];
	return 0;
}

/* A new row of constants, not shared. */
static int pool_add(struct ck_ptx_parser *p, uint64_t value, uint32_t *index)
{
	struct ck_ptx_module *m = p->module;

	if (m->pool_count >= (uint32_t)INT32_MAX ||
	    ck_ptx_room(&m->pool, &m->pool_room, m->pool_count, CK_PTX_LANES * sizeof(*m->pool)) <
		    0)
		return ck_ptx_oom(p);
	for (int lane = 0; lane < CK_PTX_LANES; lane++)
		m->pool[(size_t)m->pool_count * CK_PTX_LANES + (size_t)lane] = value;
	*index = m->pool_count++;
	return 0;
}

/* Double the table that finds a constant by its value. */
static int constants_grow(struct ck_ptx_parser *p)
{
	uint32_t room = p->constant_room ? p->constant_room * 2 : 256;
	uint32_t *table = calloc(room, sizeof(*table));

	if (!table)
		return ck_ptx_oom(p);
	for (uint32_t i = 0; i < p->constant_room; i++) {
		uint64_t hash, value;

		if (!p->constants[i])
			continue;
		value = p->module->pool[(size_t)(p->constants[i] - 1) * CK_PTX_LANES];
		hash = value * 0x9e3779b97f4a7c15ull >> 32;
		while (table[hash & (room - 1)])
			hash++;
		table[hash & (room - 1)] = p->constants[i];
	}
	free(p->constants);
	p->constants = table;
	p->constant_room = room;
	return 0;
}

int ck_ptx_constant(struct ck_ptx_parser *p, uint64_t value, int32_t *row)
{
	uint64_t hash = value * 0x9e3779b97f4a7c15ull >> 32;
	uint32_t index;
	int ret;

	if (p->constant_count * 2 >= p->constant_room && (ret = constants_grow(p)) < 0)
		return ret;
	for (;; hash++) {
		uint32_t *at = &p->constants[hash & (p->constant_room - 1)];

		if (!*at) {
			ret = pool_add(p, value, &index);
			if (ret < 0)
				return ret;
			*at = index + 1;
			p->constant_count++;
		}
		if (p->module->pool[(size_t)(*at - 1) * CK_PTX_LANES] == value) {
			*row = ~(int32_t)(*at - 1);
			return 0;
		}
	}
}

struct ck_ptx_insn *ck_ptx_emit(struct ck_ptx_parser *p, const char *opcode)
{
	struct ck_ptx_module *m = p->module;
	struct ck_ptx_insn *in;

	if (m->code_count >= (uint32_t)INT32_MAX ||
	    ck_ptx_room(&m->code, &m->code_room, m->code_count, sizeof(*m->code)) < 0)
		return NULL;
	in = &m->code[m->code_count++];
	memset(in, 0, sizeof(*in));
	in->guard = p->guard;
	in->guard_not = p->guard_not;
	in->line = p->stmt_line ? p->stmt_line : p->line;
	in->vec = 1;
	for (size_t i = 0; i < CK_ARRAY_SIZE(in->d); i++)
		in->d[i] = CK_PTX_ROW_SINK;
	for (size_t i = 0; i < CK_ARRAY_SIZE(in->s); i++)
		in->s[i] = CK_PTX_ROW_SINK;
	in->op = (uint16_t)ck_ptx_op_find(opcode, strlen(opcode));
	in->kind = (uint8_t)ck_ptx_op_row(in->op)->kind;
	in->target = p->func;
	in->fn = ck_ptx_op_row(in->op)->pick(in, 0);
	return in;
}

/* An instruction of our own in front of the one being parsed; it runs whatever the guard says. */
static int emit_hidden(struct ck_ptx_parser *p, const char *opcode, int64_t imm, int32_t *row)
{
	struct ck_ptx_insn *in;
	int ret = temp_row(p, row);

	if (ret < 0)
		return ret;
	in = ck_ptx_emit(p, opcode);
	if (!in)
		return ck_ptx_oom(p);
	in->guard = CK_PTX_NO_GUARD;
	in->d[0] = *row;
	in->imm = imm;
	return 0;
}

/* %r12 of the family %r<n>: the digits may be cut off at several places. */
static int family_register(struct ck_ptx_parser *p, const struct ck_ptx_token *tok, int32_t *row,
			   unsigned int *type)
{
	size_t digits = tok->size;

	while (digits > 1 && tok->text[digits - 1] >= '0' && tok->text[digits - 1] <= '9')
		digits--;
	for (; digits < tok->size; digits++) {
		struct ck_ptx_name *n = ck_ptx_names_find(&p->names, tok->text, digits);
		uint64_t index = 0;

		if (!n || n->kind != CK_PTX_NAME_FAMILY || tok->size - digits > 7 ||
		    (tok->text[digits] == '0' && tok->size - digits > 1))
			continue;
		for (size_t i = digits; i < tok->size; i++)
			index = index * 10 + (uint64_t)(tok->text[i] - '0');
		if (index >= n->bytes)
			continue;
		if (n->rows[index] == 0) {
			int ret = ck_ptx_register_rows(p, n->type, &n->rows[index]);

			if (ret < 0)
				return ret;
		}
		*row = n->rows[index];
		*type = n->type;
		return 0;
	}
	return -ENOENT;
}

int ck_ptx_find_register(struct ck_ptx_parser *p, const struct ck_ptx_token *tok, int32_t *row,
			 unsigned int *type)
{
	struct ck_ptx_name *n = ck_ptx_names_find(&p->names, tok->text, tok->size);

	if (n && n->kind == CK_PTX_NAME_REG) {
		*row = (int32_t)n->value;
		*type = n->type;
		return 0;
	}
	return n ? -ENOENT : family_register(p, tok, row, type);
}

/* A special register, its .x .y .z included; -ENOENT if the name is none. */
static int parse_sreg(struct ck_ptx_parser *p, int64_t *id)
{
	struct ck_ptx_token name = p->tok;
	int found = ck_ptx_sreg_find(name.text, name.size);

	if (found < 0)
		return -ENOENT;
	*id = found;
	ck_ptx_advance(p);
	if (!ck_ptx_sreg_is_vector((unsigned int)found % CK_PTX_SREG_STRIDE))
		return 0;
	if (p->tok.kind != CK_PTX_DOT || p->tok.size != 1 || !memchr("xyzw", *p->tok.text, 4))
		return ck_ptx_fail(p, -EOPNOTSUPP, "%.*s without .x .y .z is not supported",
				   (int)name.size, name.text);
	*id += CK_PTX_SREG_STRIDE * (*p->tok.text == 'w' ? 3 : *p->tok.text - 'x');
	ck_ptx_advance(p);
	return 0;
}

static int parse_name(struct ck_ptx_parser *p, struct ck_ptx_operand *o)
{
	struct ck_ptx_token tok = p->tok;
	int ret;

	if (ck_ptx_token_is(&tok, CK_PTX_WORD, "_")) {
		o->kind = CK_PTX_OP_SINK;
		ck_ptx_advance(p);
		return 0;
	}
	if (ck_ptx_token_is(&tok, CK_PTX_WORD, "WARP_SZ")) {
		o->kind = CK_PTX_OP_INT;
		o->integer = CK_PTX_LANES;
		ck_ptx_advance(p);
		return 0;
	}
	o->kind = CK_PTX_OP_REG;
	ret = ck_ptx_find_register(p, &tok, &o->row, &o->type);
	if (ret != -ENOENT) {
		if (ret == 0)
			ck_ptx_advance(p);
		return ret;
	}
	o->name = ck_ptx_names_find(&p->names, tok.text, tok.size);
	if (o->name) {
		o->kind = CK_PTX_OP_NAME;
		ck_ptx_advance(p);
		if (ck_ptx_at(p, '+') || ck_ptx_at(p, '-'))
			return ck_ptx_integer(p, &o->integer);
		return 0;
	}
	o->kind = CK_PTX_OP_SREG;
	ret = parse_sreg(p, &o->integer);
	return ret == -ENOENT ? unknown_name(p, &tok) : ret;
}

static int parse_literal(struct ck_ptx_parser *p, struct ck_ptx_operand *o)
{
	while (ck_ptx_at(p, '-') || ck_ptx_at(p, '+')) {
		o->negative ^= ck_ptx_at(p, '-');
		ck_ptx_advance(p);
	}
	o->tok = p->tok;
	if (p->tok.kind == CK_PTX_FLOAT) {
		o->kind = CK_PTX_OP_FLOAT;
	} else if (p->tok.kind == CK_PTX_INT) {
		o->kind = CK_PTX_OP_INT;
		o->integer = (int64_t)(o->negative ? 0 - p->tok.integer : p->tok.integer);
	} else {
		return ck_ptx_unexpected(p, "an operand");
	}
	ck_ptx_advance(p);
	return 0;
}

/* "[base+offset]" after the bracket. */
static int parse_address(struct ck_ptx_parser *p, struct ck_ptx_operand *o)
{
	int64_t more = 0;
	int ret;

	ret = p->tok.kind == CK_PTX_WORD ? parse_name(p, o) : parse_literal(p, o);
	if (ret < 0)
		return ret;
	if (o->kind != CK_PTX_OP_REG && o->kind != CK_PTX_OP_NAME && o->kind != CK_PTX_OP_INT)
		return ck_ptx_fail(p, -EINVAL, "an address must be a register or a name");
	o->base = o->kind;
	o->kind = CK_PTX_OP_ADDRESS;
	if (ck_ptx_at(p, '+') || ck_ptx_at(p, '-')) {
		ret = ck_ptx_integer(p, &more);
		if (ret < 0)
			return ret;
	}
	o->integer = (int64_t)((uint64_t)o->integer + (uint64_t)more);
	return ck_ptx_expect(p, ']');
}

/* A literal with a minus in front of it. */
static void token_negate(struct ck_ptx_token *tok)
{
	tok->integer = 0 - tok->integer;
	tok->real = -tok->real;
	tok->bits32 ^= 1u << 31;
	tok->bits64 ^= 1ull << 63;
}

/* "{a, b}" after the brace; elements are looked up when it is known what they are for. */
static int parse_vector(struct ck_ptx_parser *p, struct ck_ptx_operand *o)
{
	o->kind = CK_PTX_OP_VECTOR;
	do {
		bool negative = ck_ptx_accept(p, '-');

		if (o->count >= CK_PTX_MAX_VECTOR)
			return ck_ptx_fail(p, -EOPNOTSUPP, "a vector of more than %d elements",
					   CK_PTX_MAX_VECTOR);
		if ((p->tok.kind != CK_PTX_WORD || negative) && p->tok.kind != CK_PTX_INT &&
		    p->tok.kind != CK_PTX_FLOAT)
			return ck_ptx_unexpected(p, "an element");
		if (negative)
			token_negate(&p->tok);
		o->items[o->count++] = p->tok;
		ck_ptx_advance(p);
	} while (ck_ptx_accept(p, ','));
	return ck_ptx_expect(p, '}');
}

/* ".b3", ".h10", ".b7531": the bytes or halves of a register that a video instruction takes. */
static int parse_select(struct ck_ptx_parser *p, struct ck_ptx_operand *o)
{
	const char *text = p->tok.text;
	size_t count = p->tok.size - 1;

	if ((*text != 'b' && *text != 'h') || count < 1 || count > 4)
		return ck_ptx_unexpected(p, "a part of a register");
	o->select = (uint16_t)(count << 12 | (*text == 'h' ? CK_PTX_SELECT_HALF : 0));
	for (size_t i = 0; i < count; i++) {
		/* written with the highest first */
		char digit = text[count - i];

		if (digit < '0' || digit > '7')
			return ck_ptx_unexpected(p, "a part of a register");
		o->select |= (uint16_t)((digit - '0') << (3 * i));
	}
	ck_ptx_advance(p);
	return 0;
}

int ck_ptx_parse_operand(struct ck_ptx_parser *p, struct ck_ptx_operand *o)
{
	unsigned int type;
	int ret;

	memset(o, 0, sizeof(*o));
	if (ck_ptx_accept(p, '['))
		return parse_address(p, o);
	if (ck_ptx_accept(p, '{'))
		return parse_vector(p, o);
	o->not = ck_ptx_accept(p, '!');
	if (ck_ptx_at(p, '-') && !strchr("+-.0123456789", ck_ptx_lex_peek(&p->lex))) {
		ck_ptx_advance(p);
		o->negative = true;
	}
	ret = p->tok.kind == CK_PTX_WORD ? parse_name(p, o) : parse_literal(p, o);
	if (ret == 0 && o->kind == CK_PTX_OP_REG && p->tok.kind == CK_PTX_DOT)
		return parse_select(p, o);
	if (ret < 0 || !ck_ptx_accept(p, '|'))
		return ret;
	o->has_pair = true;
	o->pair = CK_PTX_ROW_SINK;
	if (!ck_ptx_token_is(&p->tok, CK_PTX_WORD, "_") &&
	    (p->tok.kind != CK_PTX_WORD || ck_ptx_find_register(p, &p->tok, &o->pair, &type) < 0))
		return ck_ptx_unexpected(p, "a predicate");
	ck_ptx_advance(p);
	return 0;
}

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
		return ck_ptx_half_from(real, CK_PTX_RN);
	single = (float)real;
	memcpy(&low, &single, sizeof(low));
	if (o->kind == CK_PTX_OP_FLOAT && o->tok.single)
		low = o->tok.bits32 ^ (uint32_t)o->negative << 31;
	return low;
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
			int64_t id = CK_PTX_SREG_DYNAMIC_BASE;

			ret = emit_hidden(p, "(sreg)", id, row);
			m->code[m->code_count - 1].s[0] = CK_PTX_ROW_SINK;
			if (ret == 0 && addend != 0)
				ret = ck_ptx_fail(p, -EOPNOTSUPP, "dynamic shared memory + offset");
			return ret;
		}
	}
	ret = pool_add(p, 0, &pool);
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
		return emit_hidden(p, "(address)", (int64_t)value, row);
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
	int ret = emit_hidden(p, "not", 0, row);

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
		ret = emit_hidden(p, "(sreg)", o->integer, row);
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
	else if (o->kind == CK_PTX_OP_REG && !o->not )
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
				return unknown_name(p, &o->items[i]);
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
		return ck_ptx_fail(p, -EINVAL, "%s wants an address in brackets", p->stmt);
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
	struct ck_ptx_insn *in;
	int64_t offset;
	int32_t base, more;
	uint8_t actual;
	int ret = ck_ptx_address(p, o, space, &base, &offset, &actual);

	*row = base;
	if (ret < 0 || offset == 0)
		return ret;
	ret = ck_ptx_constant(p, (uint64_t)offset, &more);
	if (ret == 0)
		ret = emit_hidden(p, "add", 0, row);
	if (ret < 0)
		return ret;
	in = &p->module->code[p->module->code_count - 1];
	in->type = CK_PTX_U64;
	in->s[0] = base;
	in->s[1] = more;
	in->fn = ck_ptx_pick_add(in, 3);
	return 0;
}
