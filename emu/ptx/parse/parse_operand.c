/*
 * emu/ptx/parse/parse_operand.c - operands as they are written: registers, names, literals,
 * addresses, vectors. resolve.c turns them into rows.
 */
#include <errno.h>
#include <string.h>

#include "emu/ptx/language/sregs.h"
#include "emu/ptx/parse/parse.h"
#include "util/util.h"

int ck_ptx_unknown_name(struct ck_ptx_parser *p, const struct ck_ptx_token *tok)
{
	return ck_ptx_fail(p, -EINVAL, "'%.*s' is not defined", (int)ck_min(tok->size, (size_t)60),
			   tok->text);
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
	p->module->reserved_shared |= ck_ptx_sreg_is_reserved((unsigned int)found);
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
		o->integer = o->negative ? -CK_PTX_LANES : CK_PTX_LANES;
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
	return ret == -ENOENT ? ck_ptx_unknown_name(p, &tok) : ret;
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

/* "{a, b}" after the brace; elements are looked up when their use is known. */
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
