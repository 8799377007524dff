/*
 * client/modules/printing.c - may kernels have printed output that has not been fetched? Asked at
 * exit.
 *
 * A reply says whether there is output, and a wait covers the kernels before it in its stream. So
 * only kernels that can print, launched after the last wait in their stream, are a reason to ask
 * the server when the program ends.
 */
#include "client/modules/printing.h"
#include "client/modules/state.h"
#include "client/link/hooks.h"

/* Have all of these kernels been waited for? Call with the lock held. */
static bool kernels_are_covered(const struct ckc_printing *p)
{
	return p->number == 0 ||
	       (!p->scattered && ckc_stream_waited(p->context, p->stream, p->number));
}

void ckc_printing_launched(struct ckc_context *context, uint64_t stream)
{
	struct ckc_printing *p = &context->client->modules->printing;

	ck_lock(&p->lock);
	if ((p->context != context || p->stream != stream) && !kernels_are_covered(p))
		p->scattered = true;
	p->context = context;
	p->stream = stream;
	p->number = ckc_command_last();
	ck_unlock(&p->lock);
}

void ckc_printing_graph_launched(struct ckc_context *context, uint64_t stream)
{
	if (context->client->modules->printing.possible)
		ckc_printing_launched(context, stream);
}

static bool may_have_printed(struct ckc_client *c)
{
	struct ckc_printing *p = &c->modules->printing;
	bool may;

	if (ck_trylock(&p->lock)) /* exit() was called in a signal handler, or beside a launch */
		return true;
	may = !kernels_are_covered(p);
	ck_unlock(&p->lock);
	return may;
}
CK_HOOK(exit, printing, may_have_printed);

/* The end of a context prints the rest of its kernels' output. */
static void context_ended(struct ckc_context *context)
{
	struct ckc_printing *p = &context->client->modules->printing;

	ck_lock(&p->lock);
	if (p->context == context && !kernels_are_covered(p))
		p->scattered = true;
	ck_unlock(&p->lock);
}
CK_ON_CONTEXT_END(CK_LAYER_MODULES, context_ended);
