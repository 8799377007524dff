/*
 * tests/loader/toy.h - a lower half that does nothing of use: what the tests of the loader call.
 */
#ifndef TOY_H
#define TOY_H

#include <stddef.h>

long toy_add(long a, long b);
double toy_scale(double x, float y);
long toy_twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j,
		long k, long l);
void toy_errno(int value); /* sets the half's errno */
int *toy_word(void);	   /* a thread-local word of the half, 7 at first */
void *toy_malloc(size_t size);
void toy_free(void *p);
long toy_churn(int rounds); /* mallocs and frees; 0 when the heap is sound */
long toy_call(long (*function)(long), long value);
long toy_call_in_thread(long (*function)(long), long value); /* in one that the half makes */
long toy_wait(int *word); /* until *word is not 0, without a system call; makes 0 of -1 at first */
int toy_handle(int sig);  /* a handler of the half for it */
int toy_handled(void);	  /* how often it ran, and found its own thread word */
unsigned long toy_fact(int which); /* see toy_lh.c */
void toy_say(const char *text);	   /* printf, not flushed */
int toy_constructed(void);
void *toy_open(const char *path);		     /* dlopen */
void *toy_map(void *at, size_t size);		     /* mmap of memory, there if that can be */
void *toy_fix(void *at, size_t size);		     /* the same with MAP_FIXED_NOREPLACE */
void *toy_resize(void *at, size_t old, size_t size); /* mremap where it is */
int toy_files(void);	       /* opens some in every way, and leaves them open; how many */
int toy_threads(int more);     /* threads that never end */
int toy_fault_in_thread(void); /* in one that the half makes */

#endif
