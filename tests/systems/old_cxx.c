/*
 * tests/systems/old_cxx.c - the three functions of the C++ library that test programs use, so that
 * they run on systems whose C++ library is older than the compiler that built them.
 */
#include <stdlib.h>

void *_Znwm(size_t size);
void _ZdlPvm(void *p, size_t size);
_Noreturn void _ZSt20__throw_length_errorPKc(const char *what);

/* operator new */
void *_Znwm(size_t size)
{
	void *p = malloc(size);

	if (!p)
		abort();
	return p;
}

/* operator delete */
void _ZdlPvm(void *p, size_t size)
{
	(void)size;
	free(p);
}

/* std::__throw_length_error */
_Noreturn void _ZSt20__throw_length_errorPKc(const char *what)
{
	(void)what;
	abort();
}
