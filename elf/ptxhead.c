/*
 * elf/ptxhead.c - scan PTX text at its outermost level; see ptxhead.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/ptxhead.h"
#include "elf/ptxdecl.h"
#include "elf/ptxlex.h"
#include "util/map.h"
#include "util/util.h"

/*
 * Is the token a linking directive of definitions? Names without one belong to their unit alone;
 * of those with one, several units may define the same (.weak), and the first counts.
 */
static bool is_linkage(const struct ck_ptxhead_lex *lex)
{
	return ck_ptx_is(lex, ".visible") || ck_ptx_is(lex, ".weak") || ck_ptx_is(lex, ".common");
}

/* 0 for the first definition of a name that is linked, -EEXIST for a further one. */
static int linked_once(struct ck_map *linked, const char *name)
{
	return ck_map_insert(linked, name, strlen(name), linked);
}

/* Skip to behind the bracket that closes the one just read, over nested ones. */
static int skip_block(struct ck_ptxhead_lex *lex)
{
	size_t depth = 1;

	while (depth > 0) {
		if (ck_ptx_next(lex) == CK_PTX_END)
			return -ENOEXEC;
		if (ck_ptx_is_punct(lex, '{'))
			depth++;
		else if (ck_ptx_is_punct(lex, '}'))
			depth--;
	}
	return 0;
}

static enum ck_param_kind kind_of(const struct ck_ptx_declaration *decl)
{
	if (decl->size != decl->element)
		return CK_PARAM_BYTES;
	if (decl->pointer)
		return CK_PARAM_POINTER;
	switch (decl->type) {
	case 'u':
	case 's':
		return CK_PARAM_INTEGER;
	case 'f':
		return CK_PARAM_FLOAT;
	default:
		return CK_PARAM_UNKNOWN;
	}
}

/* One parameter of a kernel, .param having been read; leaves `,` or `)`. */
static int parse_parameter(struct ck_ptxhead_lex *lex, struct ck_kernel *kernel)
{
	uint32_t count = kernel->param_count, offset;
	struct ck_ptx_declaration decl = {0};
	struct ck_kernel_param *params = kernel->params;
	int ret = ck_ptx_qualifiers(lex, &decl);

	if (ret == 0)
		ret = ck_ptx_declarator(lex, &decl);
	if (ret < 0)
		return ret;
	offset = CK_ALIGN_UP(kernel->param_bytes, decl.align);
	if (decl.open || decl.size > CK_KERNEL_PARAM_MAX ||
	    offset + decl.size > CK_KERNEL_PARAM_MAX)
		return -ENOEXEC;
	if ((count & (count - 1)) == 0) { /* full: capacities are powers of two */
		params = reallocarray(params, count ? count * 2 : 1, sizeof(*params));
		if (!params)
			return -ENOMEM;
		kernel->params = params;
	}
	params[count] = (struct ck_kernel_param){
		.offset = offset, .size = (uint32_t)decl.size, .kind = kind_of(&decl)};
	kernel->param_count++;
	kernel->param_bytes = offset + (uint32_t)decl.size;
	return 0;
}

/* `(.param ..., .param ...)`, the opening bracket having been read; leaves the token after. */
static int parse_parameters(struct ck_ptxhead_lex *lex, struct ck_kernel *kernel)
{
	int ret;

	ck_ptx_next(lex);
	while (!ck_ptx_is_punct(lex, ')')) {
		if (!ck_ptx_is(lex, ".param"))
			return -ENOEXEC;
		ret = parse_parameter(lex, kernel);
		if (ret < 0)
			return ret;
		if (ck_ptx_is_punct(lex, ','))
			ck_ptx_next(lex);
		else if (!ck_ptx_is_punct(lex, ')'))
			return -ENOEXEC;
	}
	ck_ptx_next(lex);
	return 0;
}

/* `nx, ny, nz` behind .maxntid or .reqntid, missing ones being 1; leaves the token after. */
static int block_size(struct ck_ptxhead_lex *lex, uint32_t block[3], uint32_t *threads)
{
	uint32_t product = 1;

	for (size_t i = 0; i < 3; i++)
		block[i] = 1;
	for (size_t i = 0; i < 3; i++) {
		ck_ptx_next(lex);
		if (!ck_ptx_number(lex, &block[i]) || block[i] == 0 ||
		    ck_mul_overflow(product, block[i], &product))
			return -ENOEXEC;
		ck_ptx_next(lex);
		if (!ck_ptx_is_punct(lex, ','))
			break;
	}
	*threads = product;
	return 0;
}

/* Skip the text between the parameters and the body; stops at `{` or `;`. */
static int parse_directives(struct ck_ptxhead_lex *lex, struct ck_kernel *kernel)
{
	uint32_t block[3];
	int ret;

	while (!ck_ptx_is_punct(lex, '{') && !ck_ptx_is_punct(lex, ';')) {
		bool required = ck_ptx_is(lex, ".reqntid");

		if (lex->kind == CK_PTX_END)
			return -ENOEXEC;
		if (required || ck_ptx_is(lex, ".maxntid")) {
			ret = block_size(lex, block, &kernel->max_threads);
			if (ret < 0)
				return ret;
			if (required)
				memcpy(kernel->block, block, sizeof(block));
		} else if (ck_ptx_is(lex, ".pragma")) {
			do { /* its `;` does not end the declaration */
				if (ck_ptx_next(lex) == CK_PTX_END)
					return -ENOEXEC;
			} while (!ck_ptx_is_punct(lex, ';'));
			ck_ptx_next(lex);
		} else {
			ck_ptx_next(lex);
		}
	}
	return 0;
}

/* A .shared declaration in a body: add its variables to the kernel's. */
static int shared_variables(struct ck_ptxhead_lex *lex, struct ck_kernel *kernel)
{
	struct ck_ptx_declaration decl = {0};
	uint64_t element, end;
	int ret = ck_ptx_qualifiers(lex, &decl);

	if (ret < 0)
		return ret;
	element = decl.size;
	for (;;) {
		decl.size = element;
		ret = ck_ptx_declarator(lex, &decl);
		if (ret < 0)
			return ret;
		if (ck_add_overflow((uint64_t)CK_ALIGN_UP((uint64_t)kernel->shared, decl.align),
				    decl.open ? 0 : decl.size, &end) ||
		    end > INT32_MAX)
			return -ENOEXEC;
		kernel->shared = (uint32_t)end;
		if (!ck_ptx_is_punct(lex, ','))
			return ck_ptx_is_punct(lex, ';') ? 0 : -ENOEXEC;
		ck_ptx_next(lex);
	}
}

/*
 * The body, its `{` having been read. `.shared` starts a declaration where a statement may
 * start; elsewhere it is part of an instruction (ld.shared), where no blank stands before it.
 */
static int parse_body(struct ck_ptxhead_lex *lex, struct ck_kernel *kernel)
{
	bool starts = true, external = false;
	size_t depth = 1;
	int ret;

	while (depth > 0) {
		if (ck_ptx_next(lex) == CK_PTX_END)
			return -ENOEXEC;
		if (starts && !external && ck_ptx_is(lex, ".shared")) {
			ret = shared_variables(lex, kernel);
			if (ret < 0)
				return ret;
		}
		external = starts && ck_ptx_is(lex, ".extern");
		if (ck_ptx_is_punct(lex, '{'))
			depth++;
		else if (ck_ptx_is_punct(lex, '}'))
			depth--;
		starts = external || ck_ptx_is_punct(lex, '{') || ck_ptx_is_punct(lex, '}') ||
			 ck_ptx_is_punct(lex, ';') || ck_ptx_is_punct(lex, ':');
	}
	return 0;
}

/*
 * A kernel, .entry having been read. Nothing is left in the list of one that is only declared, or
 * that is in @linked already; that is NULL for a kernel without linkage.
 */
static int parse_entry(struct ck_ptxhead_lex *lex, struct ck_map *linked,
		       struct ck_kernels *kernels)
{
	struct ck_kernel *kernel;
	int ret = 0;

	if (ck_ptx_next(lex) != CK_PTX_NAME)
		return -ENOEXEC;
	kernel = ck_kernels_add(kernels, lex->token, lex->length);
	if (!kernel)
		return -ENOMEM;
	ck_ptx_next(lex);
	if (ck_ptx_is_punct(lex, '('))
		ret = parse_parameters(lex, kernel);
	if (ret == 0)
		ret = parse_directives(lex, kernel);
	if (ret < 0)
		return ret;
	if (ck_ptx_is_punct(lex, '{')) {
		ret = parse_body(lex, kernel);
		if (ret == 0 && linked)
			ret = linked_once(linked, kernel->name);
		if (ret != -EEXIST)
			return ret;
	}
	free(kernel->name);
	free(kernel->params);
	kernels->count--;
	return 0;
}

/* A .global declaration of the module: add its variables. One that cannot be read counts for
 * nothing. */
static void global_variables(struct ck_ptxhead_lex *lex, struct ck_kernels *kernels)
{
	struct ck_ptx_declaration decl = {0};
	uint64_t element;

	if (ck_ptx_qualifiers(lex, &decl) < 0)
		return;
	element = decl.size;
	do {
		decl.size = element;
		if (ck_ptx_declarator(lex, &decl) < 0 ||
		    ck_add_overflow(kernels->variables, decl.open ? 0 : decl.size,
				    &kernels->variables))
			return;
	} while (ck_ptx_is_punct(lex, ',') && ck_ptx_next(lex) == CK_PTX_NAME);
}

int ck_ptx_kernels(const char *text, size_t size, struct ck_kernels *out)
{
	struct ck_map *linked = ck_map_create();
	struct ck_kernels kernels = {0};
	int ret = linked ? 0 : -ENOMEM;
	struct ck_ptxhead_lex lex;
	bool linkage = false, external = false;

	ck_ptx_lex_init(&lex, text, size);
	while (ret == 0 && ck_ptx_next(&lex) != CK_PTX_END) {
		if (ck_ptx_is(&lex, ".entry"))
			ret = parse_entry(&lex, linkage ? linked : NULL, &kernels);
		else if (ck_ptx_is(&lex, ".global") && !external)
			global_variables(&lex, &kernels);
		else if (ck_ptx_is_punct(&lex, '{'))
			ret = skip_block(&lex);
		else if (lex.kind == CK_PTX_NAME)
			kernels.print |= ck_kernels_prints_by(lex.token, lex.length);
		linkage = is_linkage(&lex);
		external = ck_ptx_is(&lex, ".extern");
	}
	ck_map_destroy(linked);
	if (ret == 0)
		*out = kernels;
	else
		ck_kernels_free(&kernels);
	return ret;
}

/* `sm_90a`: the number and the letters behind it. */
static int target_read(const struct ck_ptxhead_lex *lex, struct ck_ptx_head *head)
{
	size_t at = 3;

	if (lex->kind != CK_PTX_NAME || lex->length < 4 || memcmp(lex->token, "sm_", 3) != 0)
		return -ENOEXEC;
	for (; at < lex->length && lex->token[at] >= '0' && lex->token[at] <= '9'; at++) {
		head->sm = head->sm * 10 + (unsigned)(lex->token[at] - '0');
		if (head->sm > 9999)
			return -ENOEXEC;
	}
	if (at == lex->length)
		return 0;
	head->arch_specific = lex->token[at] == 'a';
	head->family = lex->token[at] == 'f';
	return at + 1 == lex->length && (head->arch_specific || head->family) ? 0 : -ENOEXEC;
}

/* `9.0`, in digits. */
static int version_read(const struct ck_ptxhead_lex *lex, struct ck_ptx_head *head)
{
	unsigned *part = &head->version_major;

	if (lex->kind != CK_PTX_NUMBER || lex->length > 8)
		return -ENOEXEC;
	for (size_t i = 0; i < lex->length; i++) {
		char c = lex->token[i];

		if (c == '.' && i > 0 && part == &head->version_major)
			part = &head->version_minor;
		else if (c >= '0' && c <= '9')
			*part = *part * 10 + (unsigned)(c - '0');
		else
			return -ENOEXEC;
	}
	return part == &head->version_minor ? 0 : -ENOEXEC;
}

int ck_ptx_head(const char *text, size_t size, struct ck_ptx_head *out)
{
	struct ck_ptx_head head = {0};
	struct ck_ptxhead_lex lex;
	int ret = 0;

	ck_ptx_lex_init(&lex, text, size);
	ck_ptx_next(&lex);
	if (!ck_ptx_is(&lex, ".version"))
		return -ENOEXEC;
	ck_ptx_next(&lex);
	ret = version_read(&lex, &head);
	ck_ptx_next(&lex);
	if (ret < 0 || !ck_ptx_is(&lex, ".target"))
		return -ENOEXEC;
	ck_ptx_next(&lex);
	ret = target_read(&lex, &head);
	if (ret < 0)
		return ret;
	/* the target may go on: `, texmode_independent, debug` */
	while (ck_ptx_next(&lex) == CK_PTX_PUNCT && ck_ptx_is_punct(&lex, ','))
		ck_ptx_next(&lex);
	if (ck_ptx_is(&lex, ".address_size")) {
		ck_ptx_next(&lex);
		if (!ck_ptx_number(&lex, &head.address_size))
			return -ENOEXEC;
	}
	*out = head;
	return 0;
}
