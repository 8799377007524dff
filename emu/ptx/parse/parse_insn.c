/*
 * emu/ptx/parse/parse_insn.c - one instruction: opcode, modifiers, operands, by its row of ops.def.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/ops/ops.h"
#include "emu/ptx/parse/parse.h"
#include "util/util.h"

/* The parts of an instruction before it is made. */
struct raw {
	unsigned int op;
	uint8_t type[4];
	uint8_t mod[CK_PTX_MODS];
	struct ck_ptx_operand o[CK_PTX_MAX_OPERANDS];
	unsigned int count;
	struct ck_ptx_lists lists; /* of matrix instructions */
	unsigned int list_count;
};

static int not_supported(struct ck_ptx_parser *p)
{
	return ck_ptx_fail(p, -EOPNOTSUPP, "instruction '%s' is not supported", p->stmt);
}

/* The opcode with all its modifiers, for messages; the lexer is left where it was. */
static void name_statement(struct ck_ptx_parser *p)
{
	struct ck_ptx_lex lex = p->lex;
	struct ck_ptx_token t = p->tok;
	size_t n = 0;

	do {
		int room = (int)(sizeof(p->stmt) - n);

		n += (size_t)snprintf(p->stmt + n, (size_t)room, "%s%.*s", n ? "." : "",
				      (int)ck_min(t.size, (size_t)70), t.text);
		ck_ptx_lex_next(&lex, &t);
	} while (t.kind == CK_PTX_DOT && n < sizeof(p->stmt) - 1);
}

/* The opcode, of one word or of several: as many as a row has. */
static unsigned int parse_opcode(struct ck_ptx_parser *p)
{
	char name[40];
	size_t size = ck_min(p->tok.size, sizeof(name));

	memcpy(name, p->tok.text, size);
	for (;;) {
		size_t more;

		ck_ptx_advance(p);
		more = p->tok.size;
		if (p->tok.kind != CK_PTX_DOT || size + 1 + more > sizeof(name))
			break;
		name[size] = '.';
		memcpy(name + size + 1, p->tok.text, more);
		if (!ck_ptx_op_extends(name, size + 1 + more))
			break;
		size += 1 + more;
	}
	return ck_ptx_op_find(name, size);
}

/* Take @type as the next of the opcode's types: false if it has no more, or not this one. */
static bool take_type(const struct ck_ptx_op_row *row, struct raw *raw, unsigned int type)
{
	bool many = row->mods >> CK_PTX_MOD_TYPES & 1;
	unsigned int i = 0;

	while (i < CK_ARRAY_SIZE(raw->type) && raw->type[i])
		i++;
	if (i >= (many ? 4u : 2u) || !((i ? row->types2 : row->types) >> type & 1))
		return false;
	raw->type[i] = (uint8_t)type;
	return true;
}

static int parse_modifiers(struct ck_ptx_parser *p, struct raw *raw)
{
	const struct ck_ptx_op_row *row = ck_ptx_op_row(raw->op);
	uint64_t open = row->mods;

	for (; p->tok.kind == CK_PTX_DOT; ck_ptx_advance(p)) {
		unsigned int category, value;
		unsigned int type = ck_ptx_type_find(p->tok.text, p->tok.size);

		if (type && take_type(row, raw, type))
			continue;
		if (type || !ck_ptx_mod_find(p->tok.text, p->tok.size, open, &category, &value))
			return not_supported(p);
		raw->mod[category] = (uint8_t)value;
		if (category != CK_PTX_MOD_CACHE)
			open &= ~(1ull << category);
	}
	if ((row->types && !(row->types & 1) && !raw->type[0]) ||
	    (row->types2 && !(row->types2 & 1) && !raw->type[1]))
		return not_supported(p);
	return 0;
}

static int parse_operands(struct ck_ptx_parser *p, struct raw *raw)
{
	int ret;

	if (ck_ptx_accept(p, ';'))
		return 0;
	do {
		if (raw->count == CK_PTX_MAX_OPERANDS)
			return ck_ptx_fail(p, -EINVAL, "too many operands");
		ret = ck_ptx_parse_operand(p, &raw->o[raw->count++]);
		if (ret < 0)
			return ret;
	} while (ck_ptx_accept(p, ','));
	return ck_ptx_expect(p, ';');
}

/* The alternative of @shape for @count operands, or NULL. */
static const char *shape_of(const char *shape, unsigned int count)
{
	for (;;) {
		size_t size = strcspn(shape, "/");

		if (size == count)
			return shape;
		if (shape[size] == '\0')
			return NULL;
		shape += size + 1;
	}
}

static int source_type(char letter, const struct raw *raw)
{
	switch (letter) {
	case 'u':
		return CK_PTX_U32;
	case 'c':
		return CK_PTX_PRED;
	case 'U':
		return CK_PTX_U64;
	case 't':
		return raw->type[1];
	default:
		return raw->type[0];
	}
}

static int vector_operand(struct ck_ptx_parser *p, struct ck_ptx_operand *o, struct raw *raw,
			  struct ck_ptx_insn *out, bool dest, unsigned int *sources)
{
	int ret;

	/* A mov packs or unpacks, not both. */
	if (raw->op == CK_PTX_OP_MOV && out->space)
		return not_supported(p);
	ret = ck_ptx_vector_rows(p, o, raw->type[0], dest);
	for (unsigned int i = 0; ret == 0 && i < o->count; i++) {
		if (dest)
			out->d[i] = o->rows[i];
		else if (*sources < CK_ARRAY_SIZE(out->s))
			out->s[(*sources)++] = o->rows[i];
	}
	out->vec = (uint8_t)o->count;
	if (raw->op == CK_PTX_OP_MOV)
		out->space = dest ? CK_PTX_UNPACK : CK_PTX_PACK;
	return ret;
}

/* A list of registers, or one, of a matrix instruction. */
static int list_operand(struct ck_ptx_parser *p, struct ck_ptx_operand *o, struct raw *raw,
			bool dest)
{
	unsigned int at = raw->list_count++;
	int ret;

	if (at >= CK_PTX_LISTS)
		return not_supported(p);
	if (o->kind != CK_PTX_OP_VECTOR) {
		o->count = 1;
		ret = dest ? ck_ptx_operand_dest(p, o, &o->rows[0])
			   : ck_ptx_operand_row(p, o, raw->type[0], &o->rows[0]);
	} else {
		ret = ck_ptx_vector_rows(p, o, raw->type[0], dest);
	}
	raw->lists.count[at] = (uint8_t)o->count;
	memcpy(raw->lists.rows[at], o->rows, sizeof(o->rows));
	return ret;
}

/* An operand of which a video instruction takes a part. */
static int part_operand(struct ck_ptx_parser *p, struct ck_ptx_operand *o, struct ck_ptx_insn *out,
			bool dest, unsigned int *dests, unsigned int *sources)
{
	unsigned int at = dest ? 0 : *sources + 1;

	out->imm |= (int64_t)((uint64_t)o->select << (at * CK_PTX_SELECT_BITS));
	if (dest)
		return ck_ptx_operand_dest(p, o, &out->d[(*dests)++]);
	if (o->negative && o->kind == CK_PTX_OP_REG) {
		out->imm |= (int64_t)(1ull << (CK_PTX_SELECT_MINUS + *sources));
		o->negative = false;
	}
	return ck_ptx_operand_row(p, o, CK_PTX_U32, &out->s[(*sources)++]);
}

/* A register of 128 bits, both rows of it. */
static int wide_operand(struct ck_ptx_parser *p, const struct ck_ptx_operand *o,
			struct ck_ptx_insn *out, bool dest, unsigned int *dests,
			unsigned int *sources)
{
	bool sink = o->kind == CK_PTX_OP_SINK && dest;
	int32_t *rows = dest ? &out->d[*dests] : &out->s[*sources];

	if (!sink && (o->kind != CK_PTX_OP_REG || o->type != CK_PTX_B128 || o->not ))
		return ck_ptx_fail(p, -EINVAL, "%s needs a register of 128 bits", p->stmt);
	rows[0] = sink ? CK_PTX_ROW_SINK : o->row;
	rows[1] = sink ? CK_PTX_ROW_SINK : o->row + 1;
	*(dest ? dests : sources) += 2;
	return 0;
}

/* Put operand @o of shape @letter into @out; hidden instructions may be emitted. */
static int place_operand(struct ck_ptx_parser *p, char letter, struct ck_ptx_operand *o,
			 struct raw *raw, struct ck_ptx_insn *out, unsigned int *dests,
			 unsigned int *sources)
{
	bool vector = o->kind == CK_PTX_OP_VECTOR;

	if (vector && (letter == 'D' || letter == 'S'))
		return vector_operand(p, o, raw, out, letter == 'D', sources);
	if (raw->type[0] == CK_PTX_B128 && strchr("DSs", letter))
		return wide_operand(p, o, out, letter == 'D', dests, sources);
	if (letter == 'V' || letter == 'v')
		return list_operand(p, o, raw, letter == 'V');
	if ((o->has_pair && letter != 'P') || (o->select && letter != 'x' && letter != 'X'))
		return not_supported(p);
	switch (letter) {
	case 'X':
	case 'x':
		return part_operand(p, o, out, letter == 'X', dests, sources);
	case 'P':
		if (o->has_pair)
			out->d[1] = o->pair;
		/* fall through */
	case 'd':
	case 'D':
		return ck_ptx_operand_dest(p, o, &out->d[(*dests)++]);
	case 'm':
		return ck_ptx_address(p, o, raw->mod[CK_PTX_MOD_SPACE], &out->s[(*sources)++],
				      &out->imm, &out->space);
	case 'z':
		raw->mod[CK_PTX_MOD_BITS] = o->kind == CK_PTX_OP_REG && o->type == CK_PTX_PRED;
		return ck_ptx_operand_row(p, o, CK_PTX_U32, &out->s[(*sources)++]);
	case 'n':
		return ck_ptx_address_row(p, o, raw->mod[CK_PTX_MOD_SPACE2], &out->s[(*sources)++]);
	case 'i':
		if (o->kind != CK_PTX_OP_INT)
			return ck_ptx_fail(p, -EINVAL, "%s wants a constant", p->stmt);
		out->imm = o->integer;
		return 0;
	default:
		if (o->not &&letter != 'c')
			return ck_ptx_fail(p, -EINVAL, "'!' in front of an operand of %s", p->stmt);
		return ck_ptx_operand_row(p, o, (unsigned int)source_type(letter, raw),
					  &out->s[(*sources)++]);
	}
}

/* Emit the instruction with the operands that place_operand() collected in @draft. */
static int emit_raw(struct ck_ptx_parser *p, const struct raw *raw, const struct ck_ptx_insn *draft)
{
	const struct ck_ptx_op_row *row = ck_ptx_op_row(raw->op);
	struct ck_ptx_insn *in = ck_ptx_emit(p, row->name);

	if (!in)
		return ck_ptx_oom(p);
	if (raw->op == CK_PTX_OP_ALLOCA)
		p->module->funcs[p->func].own_stack = true;
	if (raw->list_count) {
		struct ck_ptx_module *m = p->module;

		if (ck_ptx_room(&m->lists, &m->list_room, m->list_count, sizeof(*m->lists)) < 0)
			return ck_ptx_oom(p);
		in->target = m->list_count;
		m->lists[m->list_count++] = raw->lists;
	}
	in->type = raw->type[0];
	in->type2 = raw->type[1];
	in->type3 = raw->type[2];
	in->type4 = raw->type[3];
	in->imm = draft->imm;
	in->space = draft->space;
	in->vec = draft->vec;
	memcpy(in->mod, raw->mod, sizeof(in->mod));
	memcpy(in->d, draft->d, sizeof(in->d));
	memcpy(in->s, draft->s, sizeof(in->s));
	in->fn = row->pick(in, raw->count);
	if (in->fn && raw->list_count && !ck_ptx_lists_fit(in, &raw->lists))
		return ck_ptx_fail(p, -EINVAL, "a list of the wrong size in %s", p->stmt);
	return in->fn ? 0 : not_supported(p);
}

/* ld and st with .v2 want braces of that many, and the others none. */
static bool vector_fits(const struct raw *raw, const struct ck_ptx_insn *draft)
{
	unsigned int wanted = raw->mod[CK_PTX_MOD_VEC] ? raw->mod[CK_PTX_MOD_VEC] : 1;

	return raw->op == CK_PTX_OP_MOV || raw->list_count || draft->vec == wanted;
}

static int parse_plain(struct ck_ptx_parser *p, struct raw *raw)
{
	const char *shape;
	struct ck_ptx_insn draft = {.vec = 1};
	unsigned int dests = 0, sources = 0;
	int ret = parse_operands(p, raw);

	if (ret < 0)
		return ret;
	shape = shape_of(ck_ptx_op_row(raw->op)->shape, raw->count);
	if (!shape)
		return ck_ptx_fail(p, -EINVAL, "%u operands are wrong for %s", raw->count, p->stmt);
	for (size_t i = 0; i < CK_ARRAY_SIZE(draft.d); i++)
		draft.d[i] = CK_PTX_ROW_SINK;
	for (size_t i = 0; i < CK_ARRAY_SIZE(draft.s); i++)
		draft.s[i] = CK_PTX_ROW_SINK;
	for (unsigned int i = 0; i < raw->count; i++) {
		ret = place_operand(p, shape[i], &raw->o[i], raw, &draft, &dests, &sources);
		if (ret < 0)
			return ret;
	}
	if (!vector_fits(raw, &draft))
		return ck_ptx_fail(p, -EINVAL, "a vector of the wrong size in %s", p->stmt);
	return emit_raw(p, raw, &draft);
}

static int parse_bra(struct ck_ptx_parser *p, struct raw *raw)
{
	struct ck_ptx_insn draft = {.vec = 1};
	int ret;

	for (size_t i = 0; i < CK_ARRAY_SIZE(draft.s); i++)
		draft.s[i] = CK_PTX_ROW_SINK;
	for (size_t i = 0; i < CK_ARRAY_SIZE(draft.d); i++)
		draft.d[i] = CK_PTX_ROW_SINK;
	ret = emit_raw(p, raw, &draft);
	if (ret == 0)
		ret = ck_ptx_branch_to(p, p->module->code_count - 1);
	return ret < 0 ? ret : ck_ptx_expect(p, ';');
}

static int parse_access(struct ck_ptx_parser *p, const struct raw *raw)
{
	struct ck_ptx_insn draft = {
		.op = (uint16_t)raw->op, .type = raw->type[0], .type2 = raw->type[1]};

	memcpy(draft.mod, raw->mod, sizeof(draft.mod));
	return ck_ptx_parse_access(p, &draft);
}

int ck_ptx_parse_insn(struct ck_ptx_parser *p)
{
	struct raw *raw = calloc(1, sizeof(*raw));
	int ret;

	if (!raw)
		return ck_ptx_oom(p);
	name_statement(p);
	raw->op = parse_opcode(p);
	if (raw->op == CK_PTX_OP_NONE) {
		ret = not_supported(p);
		goto out;
	}
	ret = parse_modifiers(p, raw);
	if (ret < 0)
		goto out;
	if (raw->op == CK_PTX_OP_BRA)
		ret = parse_bra(p, raw);
	else if (raw->op == CK_PTX_OP_CALL)
		ret = ck_ptx_parse_call(p);
	else if (raw->op >= CK_PTX_OP_TEX && raw->op <= CK_PTX_OP_SUQ)
		ret = parse_access(p, raw);
	else if (raw->op == CK_PTX_OP_BRX)
		ret = ck_ptx_parse_brx(p);
	else if (raw->op == CK_PTX_OP_RET && (ret = ck_ptx_store_results(p)) < 0)
		goto out;
	else
		ret = parse_plain(p, raw);
out:
	free(raw);
	return ret;
}
