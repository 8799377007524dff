/*
 * emu/ptx/parse/parse.c - PTX text to a module: directives, functions, scopes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/ops/ops.h"
#include "emu/ptx/parse/parse.h"
#include "util/util.h"

/* .local and .param of a body: room in the frame. */
static int parse_slot(struct ck_ptx_parser *p, bool is_param)
{
	do {
		struct ck_ptx_name *entry;
		struct ck_ptx_decl decl;
		uint64_t offset;
		int ret = ck_ptx_parse_decl(p, &decl);

		if (ret < 0)
			return ret;
		if (p->func == CK_PTX_NONE)
			return ck_ptx_fail(p, -EOPNOTSUPP, ".local outside a function");
		ret = ck_ptx_slot(p, decl.size, ck_max(decl.align, (uint64_t)(is_param ? 8 : 1)),
				  &offset);
		if (ret < 0)
			return ret;
		entry = ck_ptx_names_add(&p->names, decl.text, decl.text_size, CK_PTX_NAME_SLOT,
					 p->depth);
		if (!entry)
			return ck_ptx_oom(p);
		entry->value = (int64_t)offset;
		entry->bytes = decl.size;
		entry->type = decl.type;
		entry->is_param = is_param;
	} while (ck_ptx_accept(p, ','));
	return ck_ptx_expect(p, ';');
}

/* A label at the next instruction, or a label's target: a prototype or branch targets. */
static int parse_label(struct ck_ptx_parser *p)
{
	struct ck_ptx_token label = p->tok;
	struct ck_ptx_name *entry;

	ck_ptx_advance(p);
	ck_ptx_advance(p);
	if (ck_ptx_token_is(&p->tok, CK_PTX_DOT, "branchtargets"))
		return ck_ptx_parse_branch_targets(p, label.text, label.size);
	if (ck_ptx_token_is(&p->tok, CK_PTX_DOT, "callprototype") ||
	    ck_ptx_token_is(&p->tok, CK_PTX_DOT, "calltargets")) {
		/* The callee knows its own parameters; sizes are compared when it is called. */
		while (p->tok.kind != CK_PTX_END && !ck_ptx_at(p, ';'))
			ck_ptx_advance(p);
		entry = ck_ptx_names_add(&p->names, label.text, label.size, CK_PTX_NAME_PROTO,
					 p->depth);
		return entry ? ck_ptx_expect(p, ';') : ck_ptx_oom(p);
	}
	entry = ck_ptx_names_find(&p->names, label.text, label.size);
	if (entry && entry->kind == CK_PTX_NAME_LABEL && entry->depth == p->depth)
		return ck_ptx_fail(p, -EINVAL, "label '%.*s' is defined twice",
				   (int)ck_min(label.size, (size_t)60), label.text);
	entry = ck_ptx_names_add(&p->names, label.text, label.size, CK_PTX_NAME_LABEL, p->depth);
	if (!entry)
		return ck_ptx_oom(p);
	entry->value = p->module->code_count;
	return 0;
}

static void fixup_apply(struct ck_ptx_parser *p, const struct ck_ptx_fixup *f, uint32_t target)
{
	if (f->insn != CK_PTX_NONE)
		p->module->code[f->insn].target = target;
	else
		p->module->tables[f->table].targets[f->entry] = target;
}

/* Leave scope p->depth: resolve the branches to its labels, pass the others outwards. */
static void close_scope(struct ck_ptx_parser *p)
{
	uint32_t kept = 0;

	while (kept < p->fixup_count && p->fixups[kept].depth < p->depth)
		kept++;
	for (uint32_t i = kept; i < p->fixup_count; i++) {
		struct ck_ptx_fixup f = p->fixups[i];
		struct ck_ptx_name *n = ck_ptx_names_find(&p->names, f.text, f.size);

		if (n && n->kind == CK_PTX_NAME_LABEL && n->depth == p->depth) {
			fixup_apply(p, &f, (uint32_t)n->value);
		} else {
			f.depth = p->depth - 1;
			p->fixups[kept++] = f;
		}
	}
	p->fixup_count = kept;
	ck_ptx_names_pop(&p->names, p->depth);
	p->depth--;
}

static int parse_body_directive(struct ck_ptx_parser *p)
{
	struct ck_ptx_token word = p->tok;

	ck_ptx_advance(p);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "reg"))
		return ck_ptx_parse_regs(p);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "local"))
		return parse_slot(p, false);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "param"))
		return parse_slot(p, true);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "shared"))
		return ck_ptx_parse_var(p, CK_PTX_SHARED, CK_PTX_LINK_NONE);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "global"))
		return ck_ptx_parse_var(p, CK_PTX_GLOBAL, CK_PTX_LINK_NONE);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "const"))
		return ck_ptx_parse_var(p, CK_PTX_CONST, CK_PTX_LINK_NONE);
	if (ck_ptx_token_is(&word, CK_PTX_DOT, "pragma")) {
		while (p->tok.kind != CK_PTX_END && !ck_ptx_at(p, ';'))
			ck_ptx_advance(p);
		return ck_ptx_expect(p, ';');
	}
	return ck_ptx_fail(p, -EOPNOTSUPP, "directive .%.*s is not supported",
			   (int)ck_min(word.size, (size_t)40), word.text);
}

/* "@p" and "@!p" in front of an opcode. */
static int parse_guard(struct ck_ptx_parser *p)
{
	unsigned int type;

	p->guard = CK_PTX_NO_GUARD;
	p->guard_not = 0;
	if (!ck_ptx_accept(p, '@'))
		return 0;
	p->guard_not = ck_ptx_accept(p, '!');
	if (p->tok.kind != CK_PTX_WORD || ck_ptx_find_register(p, &p->tok, &p->guard, &type) < 0)
		return ck_ptx_unexpected(p, "a predicate");
	if (type != CK_PTX_PRED)
		return ck_ptx_fail(p, -EINVAL, "the guard '%.*s' is not a predicate",
				   (int)ck_min(p->tok.size, (size_t)40), p->tok.text);
	ck_ptx_advance(p);
	return 0;
}

/* From an opcode to behind the ';' that ends its operands, which may be anything. */
static int skip_insn(struct ck_ptx_parser *p)
{
	unsigned int braces = 0;

	for (; !ck_ptx_at(p, ';'); ck_ptx_advance(p)) {
		if (p->tok.kind == CK_PTX_END || p->tok.kind == CK_PTX_BAD ||
		    (ck_ptx_at(p, '}') && !braces))
			return ck_ptx_unexpected(p, "';'");
		braces += ck_ptx_at(p, '{');
		braces -= ck_ptx_at(p, '}');
	}
	return ck_ptx_expect(p, ';');
}

/* The function being parsed cannot run, as the message of the last error says. */
static int refuse_func(struct ck_ptx_parser *p)
{
	struct ck_ptx_func *func = &p->module->funcs[p->func];

	if (!func->refusal)
		func->refusal = strdup(p->log_size && *p->log ? p->log : p->stmt);
	if (p->log_size)
		*p->log = '\0';
	return func->refusal ? 0 : ck_ptx_oom(p);
}

/*
 * An instruction. An unsupported one, of which nothing stays, refuses only its function; a word
 * that PTX does not have is an error.
 */
static int parse_insn(struct ck_ptx_parser *p)
{
	struct ck_ptx_module *m = p->module;
	uint32_t code_count = m->code_count, call_count = m->call_count;
	uint32_t fixup_count = p->fixup_count;
	const struct ck_ptx_lex lex = p->lex;
	const struct ck_ptx_token tok = p->tok;
	int ret = ck_ptx_parse_insn(p);

	if (ret != -EOPNOTSUPP || !ck_ptx_op_exists(tok.text, tok.size))
		return ret;
	m->code_count = code_count;
	p->fixup_count = fixup_count;
	while (call_count < m->call_count)
		m->calls[call_count++].callee = CK_PTX_NONE;
	p->lex = lex;
	p->tok = tok;
	ret = refuse_func(p);
	return ret < 0 ? ret : skip_insn(p);
}

static int parse_statement(struct ck_ptx_parser *p)
{
	int ret;

	p->stmt_line = p->line;
	p->stmt_source = p->lex.source;
	p->stmt_caller = p->lex.caller;
	p->temp_used = 0;
	if (p->tok.kind == CK_PTX_DOT)
		return parse_body_directive(p);
	if (p->tok.kind == CK_PTX_WORD && ck_ptx_lex_peek(&p->lex) == ':')
		return parse_label(p);
	if (ck_ptx_accept(p, ';'))
		return 0;
	ret = parse_guard(p);
	if (ret < 0)
		return ret;
	if (p->tok.kind != CK_PTX_WORD)
		return ck_ptx_unexpected(p, "an instruction");
	return parse_insn(p);
}

/* Statements up to the '}' that closes the body; nested scopes without recursion. */
static int parse_block(struct ck_ptx_parser *p)
{
	uint64_t tops[CK_PTX_MAX_DEPTH];
	unsigned int base = p->depth;

	for (;;) {
		int ret = 0;

		p->stmt_line = 0;
		if (ck_ptx_accept(p, '{')) {
			if (p->depth - base + 1 >= CK_PTX_MAX_DEPTH)
				return ck_ptx_fail(p, -EINVAL, "scopes are nested too deeply");
			tops[p->depth - base] = p->slot_top;
			p->depth++;
		} else if (ck_ptx_at(p, '}')) {
			if (p->depth == base)
				return 0;
			ck_ptx_advance(p);
			close_scope(p);
			p->slot_top = tops[p->depth - base];
		} else if (p->tok.kind == CK_PTX_END) {
			return ck_ptx_unexpected(p, "'}'");
		} else {
			ret = parse_statement(p);
		}
		if (ret < 0)
			return ret;
	}
}

/* A function, but not an entry, copies its parameters from its slots. */
static int copy_params(struct ck_ptx_parser *p)
{
	for (unsigned int i = 0; i < p->module->funcs[p->func].param_count && !p->entry; i++) {
		struct ck_ptx_name *n = p->params[0][i];
		int ret = 0;

		p->guard = CK_PTX_NO_GUARD;
		if (n) {
			struct ck_ptx_slot *slot = &p->module->funcs[p->func].params[i];

			ret = ck_ptx_copy_slot(p, false, slot->offset, n->type, (int32_t)n->value,
					       false);
		}
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* A function without a return at its end gets one. */
int ck_ptx_parse_body(struct ck_ptx_parser *p)
{
	struct ck_ptx_func *func;
	struct ck_ptx_insn *in;
	uint32_t first = p->module->code_count;
	int ret;

	p->depth = 2;
	ck_ptx_advance(p);
	ret = copy_params(p);
	if (ret == 0)
		ret = parse_block(p);
	if (ret < 0)
		return ret;
	p->guard = CK_PTX_NO_GUARD;
	ret = ck_ptx_store_results(p);
	if (ret < 0)
		return ret;
	in = ck_ptx_emit(p, "ret");
	if (!in)
		return ck_ptx_oom(p);
	p->line = p->lex.line;
	close_scope(p);
	if (p->fixup_count > 0)
		return ck_ptx_fail(p, -EINVAL, "label '%.*s' is not defined (used on line %u)",
				   (int)ck_min(p->fixups[0].size, (size_t)60), p->fixups[0].text,
				   p->fixups[0].line);
	func = &p->module->funcs[p->func];
	func->first = first;
	func->end = p->module->code_count;
	func->rows = p->rows;
	func->local_bytes = (uint32_t)CK_ALIGN_UP(p->slot_max, 16);
	func->defined = true;
	return ck_ptx_expect(p, '}');
}

static int parse_text(struct ck_ptx_parser *p)
{
	const char *culprit = NULL;
	int ret = 0;

	p->unit = 1;
	ck_ptx_advance(p);
	while (ret == 0 && p->tok.kind != CK_PTX_END) {
		p->stmt_line = 0;
		ret = ck_ptx_parse_directive(p);
	}
	if (ret < 0)
		return ret;
	p->stmt_line = 0;
	ret = ck_ptx_layout(p->module, &culprit);
	if (ret < 0)
		return ck_ptx_fail(p, ret, "%s", culprit ? culprit : "out of memory");
	return 0;
}

/* Without memory for a name, lines of that file are not reported. */
static void keep_file(void *opaque, uint32_t number, const char *name, size_t size)
{
	struct ck_ptx_parser *p = opaque;

	ck_ptx_source_name(p->module, p->unit, number, name, size);
}

int ck_ptx_parse(const char *text, size_t size, char *log, size_t log_size,
		 struct ck_ptx_module **module)
{
	struct ck_ptx_parser *p = calloc(1, sizeof(*p));
	int ret = -ENOMEM;

	if (log_size > 0)
		log[0] = '\0';
	if (!p)
		return -ENOMEM;
	p->log = log;
	p->log_size = log_size;
	p->func = CK_PTX_NONE;
	ck_ptx_lexer_init(&p->lex, text, size);
	p->lex.file = keep_file;
	p->lex.opaque = p;
	p->module = calloc(1, sizeof(*p->module));
	if (p->module)
		ret = parse_text(p);
	ck_ptx_names_pop(&p->names, 0);
	ck_ptx_names_pop(&p->linked, 0);
	free(p->fixups);
	free(p->constants);
	if (ret == 0)
		*module = p->module;
	else if (p->module)
		ck_ptx_destroy(p->module);
	free(p);
	return ret;
}
