/*
 * emu/ptx/parse/parse_tex.c - operands of texture and surface instructions:
 * "d, [object, {coordinates}], more" and "[object, {coordinates}], d".
 */
#include <errno.h>
#include <string.h>

#include "emu/ptx/ops/ops.h"
#include "emu/ptx/parse/parse.h"
#include "util/util.h"

static int not_supported(struct ck_ptx_parser *p)
{
	return ck_ptx_fail(p, -EOPNOTSUPP, "instruction '%s' is not supported", p->stmt);
}

/* How many coordinates a geometry has, the layer included; nvcc fills up to a power of two. */
static unsigned int count_coordinates(unsigned int geometry)
{
	static const uint8_t counts[] = {
		[CK_PTX_1D] = 1,  [CK_PTX_2D] = 2,   [CK_PTX_3D] = 3,	 [CK_PTX_A1D] = 2,
		[CK_PTX_A2D] = 3, [CK_PTX_CUBE] = 3, [CK_PTX_ACUBE] = 4,
	};

	return counts[geometry];
}

/* Rows of one operand, in braces or alone, of at least @need elements. */
static int parse_rows(struct ck_ptx_parser *p, unsigned int type, bool dest, unsigned int need,
		      unsigned int *count, int32_t rows[4])
{
	struct ck_ptx_operand o;
	int ret = ck_ptx_parse_operand(p, &o);

	if (ret < 0)
		return ret;
	*count = 1;
	if (o.kind == CK_PTX_OP_VECTOR) {
		*count = o.count;
		if (o.count > 4)
			return ck_ptx_fail(p, -EINVAL, "a vector of the wrong size in %s", p->stmt);
		ret = ck_ptx_vector_rows(p, &o, type, dest);
		memcpy(rows, o.rows, 4 * sizeof(*rows));
	} else if (dest) {
		ret = ck_ptx_operand_dest(p, &o, &rows[0]);
	} else {
		ret = ck_ptx_operand_row(p, &o, type, &rows[0]);
	}
	if (ret == 0 && *count < need)
		return ck_ptx_fail(p, -EINVAL, "a vector of the wrong size in %s", p->stmt);
	return ret;
}

/* The operand after the opcode: a vector and maybe "|p". */
static int parse_results(struct ck_ptx_parser *p, struct ck_ptx_insn *draft,
			 struct ck_ptx_access *access)
{
	unsigned int type, count;
	unsigned int wanted = draft->mod[CK_PTX_MOD_VEC] ? draft->mod[CK_PTX_MOD_VEC] : 1;
	int ret = parse_rows(p, draft->type, true, wanted, &count, draft->d);

	if (ret < 0)
		return ret;
	if (count != wanted)
		return ck_ptx_fail(p, -EINVAL, "a vector of the wrong size in %s", p->stmt);
	if (ck_ptx_accept(p, '|')) {
		if (p->tok.kind != CK_PTX_WORD ||
		    ck_ptx_find_register(p, &p->tok, &access->resident, &type) < 0)
			return ck_ptx_unexpected(p, "a predicate");
		ck_ptx_advance(p);
	}
	return ck_ptx_expect(p, ',');
}

/* The object: a register with its number, or the name of a .texref or .surfref. */
static int parse_object(struct ck_ptx_parser *p, struct ck_ptx_access *access)
{
	struct ck_ptx_operand o;
	int ret;

	if (p->tok.kind != CK_PTX_WORD)
		return ck_ptx_unexpected(p, "a texture or surface");
	ret = ck_ptx_parse_operand(p, &o);
	if (ret < 0)
		return ret;
	access->by_name = o.kind == CK_PTX_OP_NAME;
	if (access->by_name && (o.name->kind != CK_PTX_NAME_VAR || o.integer ||
				!p->module->vars[o.name->value].opaque))
		return ck_ptx_fail(p, -EOPNOTSUPP, "'%.*s' is not a texture or surface in %s",
				   (int)ck_min(o.name->size, (size_t)60), o.name->text, p->stmt);
	return ck_ptx_operand_row(p, &o, CK_PTX_U64, &access->object);
}

/* "[object, {coordinates}]"; a literal layer is an integer for any type of coordinates. */
static int parse_place(struct ck_ptx_parser *p, const struct ck_ptx_insn *draft,
		       struct ck_ptx_access *access)
{
	unsigned int geometry = draft->mod[CK_PTX_MOD_GEOMETRY], count;
	unsigned int type = draft->type2 ? draft->type2 : CK_PTX_S32;
	bool layered = geometry == CK_PTX_A1D || geometry == CK_PTX_A2D || geometry == CK_PTX_ACUBE;
	struct ck_ptx_token first;
	int ret = ck_ptx_expect(p, '[');

	if (ret == 0)
		ret = parse_object(p, access);
	if (ret < 0 || !geometry)
		return ret < 0 ? ret : ck_ptx_expect(p, ']');
	ret = ck_ptx_expect(p, ',');
	if (ret < 0)
		return ret;
	first = p->tok;
	if (ck_ptx_at(p, '{')) {
		struct ck_ptx_lex lex = p->lex;

		ck_ptx_lex_next(&lex, &first);
	}
	ret = parse_rows(p, type, false, count_coordinates(geometry), &count, access->coord);
	if (ret == 0 && layered && first.kind == CK_PTX_INT)
		ret = ck_ptx_constant(p, first.integer, &access->coord[0]);
	/* a sampler of its own, as .texmode_independent has it */
	if (ret == 0 && ck_ptx_at(p, ','))
		return not_supported(p);
	return ret < 0 ? ret : ck_ptx_expect(p, ']');
}

/* The level of detail, or the gradients that it is found from. */
static int parse_level(struct ck_ptx_parser *p, const struct ck_ptx_insn *draft,
		       struct ck_ptx_access *access)
{
	unsigned int geometry = draft->mod[CK_PTX_MOD_GEOMETRY], count, need;
	int32_t rows[4];
	int ret;

	if (draft->mod[CK_PTX_MOD_LEVEL] != CK_PTX_LEVEL &&
	    draft->mod[CK_PTX_MOD_LEVEL] != CK_PTX_GRAD)
		return 0;
	ret = ck_ptx_expect(p, ',');
	if (ret < 0)
		return ret;
	if (draft->mod[CK_PTX_MOD_LEVEL] == CK_PTX_LEVEL) {
		ret = parse_rows(p, draft->op == CK_PTX_OP_TXQ ? CK_PTX_B32 : CK_PTX_F32, false, 1,
				 &count, rows);
		access->lod = rows[0];
		return ret;
	}
	if (geometry == CK_PTX_CUBE || geometry == CK_PTX_ACUBE)
		return not_supported(p);
	need = count_coordinates(geometry) - (geometry == CK_PTX_A1D || geometry == CK_PTX_A2D);
	ret = parse_rows(p, CK_PTX_F32, false, need, &count, access->dx);
	if (ret == 0)
		ret = ck_ptx_expect(p, ',');
	return ret < 0 ? ret : parse_rows(p, CK_PTX_F32, false, need, &count, access->dy);
}

static int parse_operands(struct ck_ptx_parser *p, struct ck_ptx_insn *draft,
			  struct ck_ptx_access *access)
{
	bool stores = draft->op == CK_PTX_OP_SUST || draft->op == CK_PTX_OP_SURED;
	unsigned int wanted = draft->mod[CK_PTX_MOD_VEC] ? draft->mod[CK_PTX_MOD_VEC] : 1, count;
	int ret = stores ? 0 : parse_results(p, draft, access);

	if (ret == 0)
		ret = parse_place(p, draft, access);
	if (ret == 0)
		ret = parse_level(p, draft, access);
	if (ret < 0 || !stores)
		return ret;
	ret = ck_ptx_expect(p, ',');
	if (ret == 0)
		ret = parse_rows(p, draft->type, false, wanted, &count, access->data);
	if (ret == 0 && count != wanted)
		return ck_ptx_fail(p, -EINVAL, "a vector of the wrong size in %s", p->stmt);
	return ret;
}

int ck_ptx_parse_access(struct ck_ptx_parser *p, const struct ck_ptx_insn *given)
{
	struct ck_ptx_insn draft = *given, *in;
	struct ck_ptx_module *m = p->module;
	struct ck_ptx_access access = {.resident = CK_PTX_ROW_SINK};
	bool query = draft.op == CK_PTX_OP_TXQ || draft.op == CK_PTX_OP_SUQ;
	int ret;

	if (query ? !draft.mod[CK_PTX_MOD_QUERY] : !draft.mod[CK_PTX_MOD_GEOMETRY])
		return not_supported(p);
	for (size_t i = 0; i < CK_ARRAY_SIZE(draft.d); i++)
		draft.d[i] = CK_PTX_ROW_SINK;
	ret = parse_operands(p, &draft, &access);
	if (ret < 0)
		return ret;
	/* an offset, or a depth to compare with */
	if (ck_ptx_at(p, ','))
		return not_supported(p);
	if (ck_ptx_room(&m->accesses, &m->access_room, m->access_count, sizeof(access)) < 0)
		return ck_ptx_oom(p);
	in = ck_ptx_emit(p, ck_ptx_op_name(draft.op));
	if (!in)
		return ck_ptx_oom(p);
	m->accesses[m->access_count] = access;
	in->target = m->access_count++;
	in->type = draft.type;
	in->type2 = draft.type2;
	in->vec = draft.mod[CK_PTX_MOD_VEC] ? draft.mod[CK_PTX_MOD_VEC] : 1;
	memcpy(in->mod, draft.mod, sizeof(in->mod));
	memcpy(in->d, draft.d, sizeof(in->d));
	in->fn = ck_ptx_op_row(in->op)->pick(in, 0);
	return in->fn ? ck_ptx_expect(p, ';') : not_supported(p);
}
