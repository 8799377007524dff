/*
 * tests/loader/rseq.h - whether this half's libc has registered restartable sequences: the size of
 * their area, 0 when not. A libc before 2.35 does not know of them.
 */
#ifndef RSEQ_H
#define RSEQ_H

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define RSEQ_KNOWN 1
#define rseq_size() __rseq_size
#else
#define RSEQ_KNOWN 0
#define rseq_size() 0u
#endif
#endif
