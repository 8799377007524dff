/*
 * emu/modules/texref.h - texture and surface references, which name a module's variables; see
 * texref.c.
 */
#ifndef CK_EMU_MODULES_TEXREF_H
#define CK_EMU_MODULES_TEXREF_H

#include "emu/memory/texture.h"
#include "emu/modules/function.h"

/* A .texref or .surfref of a module, or one of cuTexRefCreate's. */
struct ck_emu_reference {
	struct ck_emu_object base;     /* its owner is the module */
	struct ck_emu_reference *next; /* of the module */
	char *name;
	bool surface;
	uint64_t slot; /* address of the variable that holds an object's number, or 0 */
	bool bound;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC desc;
	CUarray_format format; /* of linear memory */
	int channels;
	struct ck_emu_texture *current;
};

/*
 * The start of a call on a reference, found and locked: INVALID_VALUE unless @complete (texref.c).
 * Its end gives it back and returns @result.
 */
CUresult ck_emu_reference_begin(const void *handle, bool surface, bool complete,
				struct ck_emu_reference **ref);
CUresult ck_emu_reference_end(struct ck_emu_reference *ref, CUresult result);
/* The end of a call that has changed a setting. */
CUresult ck_emu_reference_changed(struct ck_emu_reference *ref);
/* Take a module's references out of the table of handles; free them (texref.c). */
void ck_emu_references_retract(struct ck_emu_module *module);
void ck_emu_references_free(struct ck_emu_module *module);

#endif
