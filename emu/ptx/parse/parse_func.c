/*
 * emu/ptx/parse/parse_func.c - headers of functions and kernels.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/parse/parse.h"
#include "util/util.h"

/* The text before a function's body. */
struct header {
	int64_t maxntid[3], reqntid[3], cluster[3];
	int64_t min_blocks, max_registers; /* 0: not said */
	bool must_cluster;
	struct ck_ptx_slot *slots; /* of the results, then of the parameters */
	uint32_t results, params;
	uint64_t block; /* bytes of a kernel's parameters */
};

/* Add the parameter to the kernel's block, a function's frame, or its registers. */
static int add_param(struct ck_ptx_parser *p, const struct ck_ptx_decl *decl,
		     struct ck_ptx_name **reg, uint64_t *block, struct ck_ptx_slot *slot)
{
	struct ck_ptx_name *entry;
	uint64_t align = decl->align;
	int32_t row = 0;
	int ret = 0;

	entry = ck_ptx_names_add(&p->names, decl->text, decl->text_size,
				 p->entry ? CK_PTX_NAME_KPARAM : CK_PTX_NAME_SLOT, p->depth);
	if (!entry)
		return ck_ptx_oom(p);
	slot->size = (uint32_t)decl->size;
	if (p->entry) {
		slot->offset = (uint32_t)CK_ALIGN_UP(*block, align);
		*block = slot->offset + decl->size;
	} else {
		uint64_t offset;

		ret = ck_ptx_slot(p, decl->size, ck_max(align, (uint64_t)8), &offset);
		slot->offset = (uint32_t)offset;
	}
	if (ret == 0 && *block > CK_PTX_MAX_PARAM)
		ret = ck_ptx_fail(p, -EINVAL, "more than %u bytes of parameters", CK_PTX_MAX_PARAM);
	if (ret == 0 && reg)
		ret = ck_ptx_new_row(p, &row);
	entry->kind = reg ? CK_PTX_NAME_REG : entry->kind;
	entry->value = reg ? row : (int64_t)slot->offset;
	entry->bytes = decl->size;
	entry->type = decl->type;
	entry->is_param = 1;
	if (reg)
		*reg = entry;
	return ret;
}

/* "(.param .type a, ...)"; the slots are appended to the function's. */
static int parse_params(struct ck_ptx_parser *p, bool result, uint64_t *block,
			struct ck_ptx_slot *slots, uint32_t first, uint32_t *count)
{
	int ret = ck_ptx_expect(p, '(');

	*count = 0;
	if (ret < 0 || ck_ptx_accept(p, ')'))
		return ret;
	do {
		bool reg = ck_ptx_token_is(&p->tok, CK_PTX_DOT, "reg");
		struct ck_ptx_decl decl;

		if (!reg && !ck_ptx_token_is(&p->tok, CK_PTX_DOT, "param"))
			return ck_ptx_unexpected(p, ".param");
		if (reg && p->entry)
			return ck_ptx_fail(p, -EINVAL, "a kernel's parameter in a register");
		ck_ptx_advance(p);
		ret = ck_ptx_parse_decl(p, &decl);
		if (ret < 0)
			return ret;
		if (*count >= 256 || first + *count >= 512)
			return ck_ptx_fail(p, -EINVAL, "more than 256 parameters");
		ret = add_param(p, &decl, reg ? &p->params[result][*count] : NULL, block,
				&slots[first + *count]);
		if (ret < 0)
			return ret;
		++*count;
	} while (ck_ptx_accept(p, ','));
	return ck_ptx_expect(p, ')');
}

static int parse_three(struct ck_ptx_parser *p, int64_t value[3])
{
	int ret = 0;

	for (int i = 0; i < 3 && ret == 0; i++) {
		value[i] = 1;
		if (i == 0 || ck_ptx_accept(p, ','))
			ret = ck_ptx_integer(p, &value[i]);
		if (ret == 0 && (value[i] < 1 || value[i] > 1024))
			ret = ck_ptx_fail(p, -EINVAL, "a size must be 1 to 1024");
	}
	return ret;
}

static int parse_header_directives(struct ck_ptx_parser *p, struct header *h)
{
	int64_t ignored;
	const struct {
		const char *word;
		int64_t *value;
	} one_number[] = {{"minnctapersm", &h->min_blocks}, {"maxnctapersm", &ignored},
			  {"maxnreg", &h->max_registers},   {"maxclusterrank", &ignored},
			  {"abi_preserve", &ignored},	    {"abi_preserve_control", &ignored}};
	int ret = 0;

	while (ret == 0 && p->tok.kind == CK_PTX_DOT) {
		struct ck_ptx_token word = p->tok;
		int64_t *number = NULL;

		for (size_t i = 0; i < CK_ARRAY_SIZE(one_number) && !number; i++)
			if (ck_ptx_token_is(&word, CK_PTX_DOT, one_number[i].word))
				number = one_number[i].value;
		ck_ptx_advance(p);
		if (number)
			ret = ck_ptx_integer(p, number);
		else if (ck_ptx_token_is(&word, CK_PTX_DOT, "maxntid"))
			ret = parse_three(p, h->maxntid);
		else if (ck_ptx_token_is(&word, CK_PTX_DOT, "reqntid"))
			ret = parse_three(p, h->reqntid);
		else if (ck_ptx_token_is(&word, CK_PTX_DOT, "reqnctapercluster"))
			ret = parse_three(p, h->cluster);
		else if (ck_ptx_token_is(&word, CK_PTX_DOT, "explicitcluster"))
			h->must_cluster = true;
		else if (ck_ptx_token_is(&word, CK_PTX_DOT, "pragma"))
			ret = ck_ptx_skip_statement(p);
		else if (!ck_ptx_token_is(&word, CK_PTX_DOT, "noreturn"))
			ret = ck_ptx_fail(p, -EOPNOTSUPP, "directive .%.*s is not supported",
					  (int)ck_min(word.size, (size_t)40), word.text);
	}
	return ret;
}

static enum ck_ptx_builtin builtin_find(const char *name)
{
	static const struct {
		const char *name;
		enum ck_ptx_builtin id;
	} table[] = {
		{"vprintf", CK_PTX_VPRINTF},
		{"__assertfail", CK_PTX_ASSERTFAIL},
		{"malloc", CK_PTX_MALLOC},
		{"free", CK_PTX_FREE},
		{"cudaGraphSetConditional", CK_PTX_SET_CONDITION},
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(table); i++)
		if (strcmp(table[i].name, name) == 0)
			return table[i].id;
	return CK_PTX_NOT_BUILTIN;
}

/* The function of that name, made if this is its first mention. */
static int func_get(struct ck_ptx_parser *p, const struct ck_ptx_token *t,
		    enum ck_ptx_linkage linkage, uint32_t *index)
{
	const struct ck_ptx_name name = {
		.text = t->text, .size = t->size, .kind = CK_PTX_NAME_FUNC};
	struct ck_ptx_module *m = p->module;
	struct ck_ptx_func *func;
	int ret = ck_ptx_symbol_find(p, &name, linkage, index);

	if (ret != 0)
		return ret < 0 ? ret : 0;
	if (ck_ptx_room(&m->funcs, &m->func_room, m->func_count, sizeof(*m->funcs)) < 0)
		return ck_ptx_oom(p);
	func = &m->funcs[m->func_count];
	memset(func, 0, sizeof(*func));
	func->name = strndup(t->text, t->size);
	if (!func->name)
		return ck_ptx_oom(p);
	func->builtin = builtin_find(func->name);
	func->line = p->line;
	*index = m->func_count++;
	return ck_ptx_symbol_add(p, &name, linkage, *index);
}

static int kernel_add(struct ck_ptx_parser *p, const struct header *h)
{
	struct ck_ptx_module *m = p->module;
	struct ck_ptx_func *func = &m->funcs[p->func];
	struct ck_ptx_kernel *k;
	int64_t threads = 1024;

	if (ck_ptx_room(&m->kernels, &m->kernel_room, m->kernel_count, sizeof(*k)) < 0)
		return ck_ptx_oom(p);
	k = &m->kernels[m->kernel_count++];
	memset(k, 0, sizeof(*k));
	k->func = p->func;
	k->params = calloc(func->param_count + 1, sizeof(*k->params));
	if (!k->params)
		return ck_ptx_oom(p);
	for (uint32_t i = 0; i < func->param_count; i++) {
		k->params[i].offset = func->params[i].offset;
		k->params[i].size = func->params[i].size;
	}
	if (h->reqntid[0])
		threads = h->reqntid[0] * h->reqntid[1] * h->reqntid[2];
	else if (h->maxntid[0])
		threads = h->maxntid[0] * h->maxntid[1] * h->maxntid[2];
	for (int i = 0; i < 3; i++)
		k->req[i] = (uint32_t)h->reqntid[i];
	for (int i = 0; i < 3; i++)
		k->info.cluster[i] = (uint32_t)h->cluster[i];
	k->info.must_cluster = h->must_cluster;
	k->max_registers = (uint32_t)ck_min(ck_max(h->max_registers, (int64_t)0), (int64_t)255);
	k->info.param_bytes = (uint32_t)h->block;
	k->info.param_count = func->param_count;
	k->info.target = p->target;
	k->info.max_threads = (uint32_t)ck_min(threads, (int64_t)1024);
	k->min_blocks = (uint32_t)ck_min(ck_max(h->min_blocks, (int64_t)1), (int64_t)64);
	return 0;
}

/* The function's slots are in the order parameters, results; they are parsed the other way. */
static int set_params(struct ck_ptx_parser *p, const struct header *h)
{
	struct ck_ptx_func *func = &p->module->funcs[p->func];
	struct ck_ptx_slot *copy = calloc(h->results + h->params + 1, sizeof(*copy));

	if (!copy)
		return ck_ptx_oom(p);
	memcpy(copy, h->slots + h->results, h->params * sizeof(*copy));
	memcpy(copy + h->params, h->slots, h->results * sizeof(*copy));
	free(func->params);
	func->params = copy;
	func->param_count = h->params;
	func->ret_count = h->results;
	return 0;
}

static void func_begin(struct ck_ptx_parser *p, bool entry)
{
	p->entry = entry;
	p->depth = 1;
	p->rows = CK_PTX_ROW_FIRST;
	p->slot_top = p->slot_max = 0;
	p->temp_used = 0;
	p->guard = CK_PTX_NO_GUARD;
	p->guard_not = 0;
	for (int i = 0; i < CK_PTX_MAX_OPERANDS; i++)
		p->temps[i] = 0;
	memset(p->params, 0, sizeof(p->params));
}

/* Results, name, parameters and the rest; p->func comes out. */
static int parse_header(struct ck_ptx_parser *p, enum ck_ptx_linkage linkage, struct header *h)
{
	struct ck_ptx_token name, start;
	struct ck_ptx_lex saved;
	uint32_t func = 0;
	int ret = 0;

	h->slots = calloc(512, sizeof(*h->slots));
	if (!h->slots)
		return ck_ptx_oom(p);
	/* The results come before the name but belong to the function: look ahead for it. */
	saved = p->lex;
	start = p->tok;
	if (ck_ptx_at(p, '(')) {
		ck_ptx_lex_skip_past(&p->lex, ')');
		ck_ptx_advance(p);
	}
	name = p->tok;
	p->lex = saved;
	p->tok = start;
	if (name.kind != CK_PTX_WORD)
		ret = ck_ptx_fail(p, -EINVAL, "a function without a name");
	if (ret == 0)
		ret = func_get(p, &name, linkage, &func);
	if (ret == 0)
		p->func = func;
	if (ret == 0 && ck_ptx_at(p, '('))
		ret = parse_params(p, true, &h->block, h->slots, 0, &h->results);
	if (ret == 0)
		ck_ptx_advance(p);
	if (ret == 0 && ck_ptx_at(p, '('))
		ret = parse_params(p, false, &h->block, h->slots, h->results, &h->params);
	return ret < 0 ? ret : parse_header_directives(p, h);
}

/* The body of a definition that another unit's goes before. */
static int skip_body(struct ck_ptx_parser *p)
{
	size_t depth = 0;

	do {
		if (p->tok.kind == CK_PTX_END)
			return ck_ptx_unexpected(p, "'}'");
		if (ck_ptx_at(p, '{'))
			depth++;
		else if (ck_ptx_at(p, '}'))
			depth--;
		ck_ptx_advance(p);
	} while (depth > 0);
	return 0;
}

/* A weak definition loses: its code stays where it is, but nothing leads there. */
static void forget_body(struct ck_ptx_module *m, uint32_t index)
{
	struct ck_ptx_func *func = &m->funcs[index];

	func->defined = func->indirect = false;
	func->call_count = func->shared_count = 0;
	free(func->refusal);
	func->refusal = NULL;
	for (uint32_t i = 0; i < m->call_count; i++)
		if (m->calls[i].caller == index)
			m->calls[i].callee = CK_PTX_NONE;
	for (uint32_t i = 0; i < m->kernel_count; i++) {
		if (m->kernels[i].func != index)
			continue;
		free(m->kernels[i].params);
		m->kernel_count--;
		memmove(&m->kernels[i], &m->kernels[i + 1],
			(m->kernel_count - i) * sizeof(*m->kernels));
		return;
	}
}

static int declare_function(struct ck_ptx_parser *p, const struct header *h, bool entry)
{
	struct ck_ptx_func *func = &p->module->funcs[p->func];

	if (!ck_ptx_at(p, ';'))
		return ck_ptx_unexpected(p, "'{'");
	/* A defined name stays as it is. */
	if (func->defined)
		return 0;
	func->entry = entry;
	return set_params(p, h);
}

static int define_function(struct ck_ptx_parser *p, const struct header *h, bool entry,
			   enum ck_ptx_linkage linkage)
{
	struct ck_ptx_func *func = &p->module->funcs[p->func];
	int ret = ck_ptx_definition(p, func->name, &func->origin, linkage);

	if (ret < 0)
		return ret;
	if (ret == CK_PTX_KEEP)
		return skip_body(p);
	if (ret == CK_PTX_REPLACE)
		forget_body(p->module, p->func);
	func->entry = entry;
	func->origin = (struct ck_ptx_origin){.unit = p->unit, .linkage = (uint8_t)linkage};
	ret = set_params(p, h);
	if (ret == 0 && entry)
		ret = kernel_add(p, h);
	return ret < 0 ? ret : ck_ptx_parse_body(p);
}

int ck_ptx_parse_func(struct ck_ptx_parser *p, bool entry, enum ck_ptx_linkage linkage)
{
	struct header h = {0};
	int ret;

	func_begin(p, entry);
	ret = parse_header(p, linkage, &h);
	if (ret == 0)
		ret = ck_ptx_at(p, '{') ? define_function(p, &h, entry, linkage)
					: declare_function(p, &h, entry);
	free(h.slots);
	ck_ptx_names_pop(&p->names, 1);
	p->depth = 0;
	p->func = CK_PTX_NONE;
	if (ret == 0)
		ck_ptx_accept(p, ';');
	return ret;
}
