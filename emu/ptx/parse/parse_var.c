/*
 * emu/ptx/parse/parse_var.c - declarations of variables, and their initialisers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/language/half.h"
#include "emu/ptx/parse/parse.h"
#include "util/util.h"

#define MAX_VAR (1ull << 40) /* bytes; the allocator knows the real limit */

/* "[n][m]"; the number of elements, and whether the first is "[]". */
static int parse_dimensions(struct ck_ptx_parser *p, uint64_t *elements, bool *unsized)
{
	int64_t n;
	int ret;

	*elements = 1;
	*unsized = false;
	while (ck_ptx_accept(p, '[')) {
		if (ck_ptx_accept(p, ']')) {
			*unsized = true;
			continue;
		}
		ret = ck_ptx_integer(p, &n);
		if (ret < 0 || (ret = ck_ptx_expect(p, ']')) < 0)
			return ret;
		if (n < 0 || ck_mul_overflow(*elements, (uint64_t)n, elements) ||
		    *elements > MAX_VAR)
			return ck_ptx_fail(p, -EINVAL, "an array is too large");
	}
	return 0;
}

/* .ptr .space .align of a kernel's parameter says nothing that is needed. */
static int skip_ptr(struct ck_ptx_parser *p)
{
	int64_t ignored;
	int ret = 0;

	while (ret == 0 && p->tok.kind == CK_PTX_DOT) {
		bool align = ck_ptx_token_is(&p->tok, CK_PTX_DOT, "align");

		ck_ptx_advance(p);
		if (align)
			ret = ck_ptx_integer(p, &ignored);
	}
	return ret;
}

/* ".align 8" after the .align. */
static int parse_align(struct ck_ptx_parser *p, struct ck_ptx_decl *decl)
{
	int64_t align;
	int ret = ck_ptx_integer(p, &align);

	if (ret < 0)
		return ret;
	if (align < 1 || align > 4096 || (align & (align - 1)))
		return ck_ptx_fail(p, -EINVAL, "alignment %lld", (long long)align);
	decl->align = (uint64_t)align;
	return 0;
}

static int parse_attributes(struct ck_ptx_parser *p, struct ck_ptx_decl *decl)
{
	int ret = 0;

	while (ret == 0 && p->tok.kind == CK_PTX_DOT) {
		struct ck_ptx_token word = p->tok;

		ck_ptx_advance(p);
		if (ck_ptx_token_is(&word, CK_PTX_DOT, "align")) {
			ret = parse_align(p, decl);
		} else if (ck_ptx_token_is(&word, CK_PTX_DOT, "v2")) {
			decl->vec = 2;
		} else if (ck_ptx_token_is(&word, CK_PTX_DOT, "v4")) {
			decl->vec = 4;
		} else if (ck_ptx_token_is(&word, CK_PTX_DOT, "ptr")) {
			ret = skip_ptr(p);
		} else if (ck_ptx_token_is(&word, CK_PTX_DOT, "attribute")) {
			while (p->tok.kind != CK_PTX_END && !ck_ptx_accept(p, ')')) {
				decl->managed |= ck_ptx_token_is(&p->tok, CK_PTX_DOT, "managed");
				ck_ptx_advance(p);
			}
		} else if (ck_ptx_token_is(&word, CK_PTX_DOT, "texref")) {
			decl->opaque = CK_PTX_TEXREF;
			decl->type = CK_PTX_B64;
		} else if (ck_ptx_token_is(&word, CK_PTX_DOT, "surfref")) {
			decl->opaque = CK_PTX_SURFREF;
			decl->type = CK_PTX_B64;
		} else {
			decl->type = ck_ptx_type_find(word.text, word.size);
			if (decl->type == CK_PTX_NOTYPE || decl->type == CK_PTX_B128)
				return ck_ptx_fail(p, -EOPNOTSUPP, ".%.*s is not supported here",
						   (int)ck_min(word.size, (size_t)40), word.text);
		}
	}
	return ret;
}

int ck_ptx_parse_decl(struct ck_ptx_parser *p, struct ck_ptx_decl *decl)
{
	uint64_t elements, unit;
	int ret;

	memset(decl, 0, sizeof(*decl));
	decl->vec = 1;
	ret = parse_attributes(p, decl);
	if (ret < 0)
		return ret;
	if (decl->type == CK_PTX_NOTYPE)
		return ck_ptx_unexpected(p, "a type");
	if (p->tok.kind != CK_PTX_WORD)
		return ck_ptx_unexpected(p, "a name");
	decl->text = p->tok.text;
	decl->text_size = p->tok.size;
	ck_ptx_advance(p);
	ret = parse_dimensions(p, &elements, &decl->unsized);
	if (ret < 0)
		return ret;
	unit = ck_max(ck_ptx_type_bytes(decl->type), 1u) * decl->vec;
	decl->align = ck_max(decl->align, unit);
	decl->size = decl->unsized ? 0 : elements * unit;
	return 0;
}

/* Room for an initialiser's bytes up to @end. */
static int init_reach(struct ck_ptx_parser *p, struct ck_ptx_var *var, uint64_t end)
{
	uint8_t *grown;
	size_t size;

	if (end <= var->data_size)
		return 0;
	size = ck_max((size_t)end, var->data_size * 2);
	grown = realloc(var->data, size);
	if (!grown)
		return ck_ptx_oom(p);
	memset(grown + var->data_size, 0, size - var->data_size);
	var->data = grown;
	var->data_size = size;
	return 0;
}

static int init_number(struct ck_ptx_parser *p, struct ck_ptx_var *var, unsigned int type,
		       uint64_t offset, bool negative)
{
	unsigned int size = ck_ptx_type_bytes(type);
	uint64_t bits = negative ? 0 - p->tok.integer : p->tok.integer;
	double real = negative ? -p->tok.real : p->tok.real;
	float single = (float)real;
	int ret = init_reach(p, var, offset + size);

	if (ret < 0)
		return ret;
	if (p->tok.kind == CK_PTX_INT && (type == CK_PTX_F32 || type == CK_PTX_F64))
		single = (float)(real = (double)(int64_t)bits);
	if (type == CK_PTX_F64 || (p->tok.kind == CK_PTX_FLOAT && size == 8))
		memcpy(&bits, &real, 8);
	else if (p->tok.kind == CK_PTX_FLOAT && p->tok.single && !negative)
		bits = p->tok.bits32;
	else if (type == CK_PTX_F32 || (p->tok.kind == CK_PTX_FLOAT && size == 4)) {
		bits = 0;
		memcpy(&bits, &single, 4);
	} else if (p->tok.kind == CK_PTX_FLOAT)
		bits = ck_ptx_half_from(real);
	memcpy(var->data + offset, &bits, size);
	ck_ptx_advance(p);
	return 0;
}

/* Another initialiser of @var, all zeros; NULL: out of memory. */
static struct ck_ptx_init *init_add(struct ck_ptx_var *var)
{
	struct ck_ptx_init *init, *grown;

	if (var->init_count == var->init_room) {
		grown = reallocarray(var->inits, var->init_room * 2 + 4, sizeof(*init));
		if (!grown)
			return NULL;
		var->inits = grown;
		var->init_room = var->init_room * 2 + 4;
	}
	init = &var->inits[var->init_count++];
	memset(init, 0, sizeof(*init));
	return init;
}

/* "sym", "sym+4", "generic(sym)+4", and "0xFF00(...)": one byte of such an address. */
static int init_symbol(struct ck_ptx_parser *p, struct ck_ptx_var *var, unsigned int type,
		       uint64_t offset, uint64_t mask)
{
	bool generic = ck_ptx_token_is(&p->tok, CK_PTX_WORD, "generic");
	struct ck_ptx_init *init;
	struct ck_ptx_name *name;
	int ret;

	if (generic) {
		ck_ptx_advance(p);
		ret = ck_ptx_expect(p, '(');
		if (ret < 0)
			return ret;
	}
	name = p->tok.kind == CK_PTX_WORD ? ck_ptx_names_find(&p->names, p->tok.text, p->tok.size)
					  : NULL;
	if (!name || (name->kind != CK_PTX_NAME_VAR && name->kind != CK_PTX_NAME_FUNC))
		return ck_ptx_fail(p, -EINVAL, "'%.*s' in an initialiser is not defined",
				   (int)ck_min(p->tok.size, (size_t)60), p->tok.text);
	ck_ptx_advance(p);
	init = init_add(var);
	if (!init)
		return ck_ptx_oom(p);
	init->offset = offset;
	init->symbol = (uint32_t)name->value;
	init->is_function = name->kind == CK_PTX_NAME_FUNC;
	init->size = (uint8_t)ck_ptx_type_bytes(type);
	init->shift = mask ? (uint8_t)__builtin_ctzll(mask) : 0;
	if (init->is_function)
		p->module->funcs[init->symbol].address_taken = true;
	if (generic && (ret = ck_ptx_expect(p, ')')) < 0)
		return ret;
	if (ck_ptx_at(p, '+') || ck_ptx_at(p, '-')) {
		ret = ck_ptx_integer(p, &init->addend);
		if (ret < 0)
			return ret;
	}
	return init_reach(p, var, offset + init->size);
}

static int init_element(struct ck_ptx_parser *p, struct ck_ptx_var *var, unsigned int type,
			uint64_t offset)
{
	bool negative = false;
	uint64_t mask;
	int ret;

	if (p->tok.kind == CK_PTX_WORD)
		return init_symbol(p, var, type, offset, 0);
	while (ck_ptx_at(p, '-') || ck_ptx_at(p, '+')) {
		negative ^= ck_ptx_at(p, '-');
		ck_ptx_advance(p);
	}
	if (p->tok.kind == CK_PTX_INT && ck_ptx_lex_peek(&p->lex) == '(') {
		mask = p->tok.integer;
		ck_ptx_advance(p);
		ck_ptx_advance(p);
		ret = init_symbol(p, var, type, offset, mask);
		return ret < 0 ? ret : ck_ptx_expect(p, ')');
	}
	if (p->tok.kind != CK_PTX_INT && p->tok.kind != CK_PTX_FLOAT)
		return ck_ptx_unexpected(p, "an initial value");
	return init_number(p, var, type, offset, negative);
}

/*
 * "= value" or "= {...}" of nested braces. The elements are stored one after the other: nvcc
 * writes inner braces full or not at all.
 */
static int parse_init(struct ck_ptx_parser *p, struct ck_ptx_var *var,
		      const struct ck_ptx_decl *decl, uint64_t *used)
{
	unsigned int size = ck_max(ck_ptx_type_bytes(decl->type), 1u), depth = 0;
	int ret;

	*used = 0;
	do {
		while (ck_ptx_accept(p, '{'))
			if (++depth > CK_PTX_MAX_DEPTH)
				return ck_ptx_fail(p, -EINVAL, "braces are nested too deeply");
		if (!ck_ptx_at(p, '}')) {
			if (!decl->unsized && !ck_ptx_fits(*used, size, decl->size))
				return ck_ptx_fail(p, -EINVAL, "too many initial values");
			ret = init_element(p, var, decl->type, *used);
			if (ret < 0)
				return ret;
			*used += size;
		}
		while (depth > 0 && ck_ptx_accept(p, '}'))
			depth--;
	} while (depth > 0 && ck_ptx_accept(p, ','));
	return depth > 0 ? ck_ptx_unexpected(p, "'}'") : 0;
}

/* The variable that a declaration means, made if this is its first mention. */
static int var_get(struct ck_ptx_parser *p, const struct ck_ptx_decl *decl, uint8_t space,
		   enum ck_ptx_linkage linkage, uint32_t *index)
{
	const struct ck_ptx_name name = {.text = decl->text,
					 .size = decl->text_size,
					 .kind = CK_PTX_NAME_VAR,
					 .depth = p->depth};
	struct ck_ptx_module *m = p->module;
	struct ck_ptx_var *var;
	int ret = ck_ptx_symbol_find(p, &name, linkage, index);

	if (ret < 0)
		return ret;
	if (ret > 0 && m->vars[*index].space != space)
		return ck_ptx_fail(p, -EINVAL, "'%.60s' is declared in two state spaces",
				   m->vars[*index].name);
	if (ret > 0)
		return 0;
	if (ck_ptx_room(&m->vars, &m->var_room, m->var_count, sizeof(*m->vars)) < 0)
		return ck_ptx_oom(p);
	var = &m->vars[m->var_count];
	memset(var, 0, sizeof(*var));
	var->space = space;
	var->external = true;
	var->name = strndup(decl->text, decl->text_size);
	if (!var->name)
		return ck_ptx_oom(p);
	*index = m->var_count++;
	return ck_ptx_symbol_add(p, &name, linkage, *index);
}

static void init_free(struct ck_ptx_var *var)
{
	free(var->data);
	free(var->inits);
	var->data = NULL;
	var->inits = NULL;
	var->data_size = var->init_count = var->init_room = 0;
}

/* An .extern one; without a size it is the memory that a launch brings. */
static void var_declare(struct ck_ptx_var *var, const struct ck_ptx_decl *decl)
{
	if (var->dynamic)
		var->align = ck_max(var->align, decl->align);
	if (!var->external)
		return;
	var->dynamic = var->space == CK_PTX_SHARED && decl->size == 0;
	var->external = !var->dynamic;
	var->align = decl->align;
	var->size = decl->size;
	var->opaque = decl->opaque;
}

/* Up to the ',' or ';'. */
static int var_define(struct ck_ptx_parser *p, struct ck_ptx_var *var,
		      const struct ck_ptx_decl *decl, enum ck_ptx_linkage linkage)
{
	int choice = ck_ptx_definition(p, var->name, &var->origin, linkage), ret = 0;
	struct ck_ptx_var read = {.name = var->name};
	uint64_t used = 0;

	if (choice < 0)
		return choice;
	if (var->dynamic)
		return ck_ptx_fail(p, -EINVAL, "'%.60s' is .extern without a size, and defined",
				   var->name);
	if (ck_ptx_accept(p, '='))
		ret = parse_init(p, &read, decl, &used);
	read.size = decl->unsized ? used : decl->size;
	if (ret < 0 || choice == CK_PTX_KEEP) {
		init_free(&read);
		/* Of .common ones the largest counts. */
		if (var->origin.linkage == CK_PTX_LINK_COMMON && linkage == CK_PTX_LINK_COMMON)
			var->size = ck_max(var->size, read.size);
		return ret;
	}
	init_free(var);
	read.space = var->space;
	read.align = decl->align;
	read.opaque = decl->opaque;
	read.managed = decl->managed;
	read.origin = (struct ck_ptx_origin){.unit = p->unit, .linkage = (uint8_t)linkage};
	*var = read;
	return 0;
}

int ck_ptx_parse_var(struct ck_ptx_parser *p, uint8_t space, enum ck_ptx_linkage linkage)
{
	struct ck_ptx_decl decl;
	struct ck_ptx_var *var;
	uint32_t index = 0;
	int ret;

	do {
		ret = ck_ptx_parse_decl(p, &decl);
		if (ret < 0)
			return ret;
		if (decl.opaque && (space != CK_PTX_GLOBAL || decl.size != sizeof(uint64_t)))
			return ck_ptx_fail(p, -EOPNOTSUPP, "a reference is one .global variable");
		ret = var_get(p, &decl, space, linkage, &index);
		if (ret < 0)
			return ret;
		var = &p->module->vars[index];
		if (linkage == CK_PTX_LINK_EXTERN)
			var_declare(var, &decl);
		else
			ret = var_define(p, var, &decl, linkage);
		if (ret < 0)
			return ret;
		if (space != CK_PTX_GLOBAL && var->size > CK_PTX_MAX_SHARED)
			return ck_ptx_fail(p, -EINVAL, "'%s' has more than %u bytes", var->name,
					   CK_PTX_MAX_SHARED);
	} while (ck_ptx_accept(p, ','));
	return ck_ptx_expect(p, ';');
}
