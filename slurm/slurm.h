/*
 * slurm/slurm.h - what the parts of the plugin share: sizes, the reservation of a job, and small
 * files.
 */
#ifndef CK_SLURM_SLURM_H
#define CK_SLURM_SLURM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CK_SLURM_ADDRESS 128
#define CK_SLURM_TYPE 32
#define CK_SLURM_TOKEN 65   /* 64 hex digits and the NUL */
#define CK_SLURM_GPUS 64    /* of one server: a bit each */
#define CK_SLURM_NAME 49    /* of a token, as the server limits it */
#define CK_SLURM_FILE 65536 /* the server reads no larger token file */
#define CK_SLURM_WHY 256
#define CK_SLURM_PATH 512

/* Why something failed, as a message for the user or the log. */
struct ck_slurm_why {
	char text[CK_SLURM_WHY];
};

/* Set the message and return @ret. */
int ck_slurm_fail(struct ck_slurm_why *why, int ret, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* What a job asks for. */
struct ck_slurm_want {
	uint32_t job;
	uid_t uid;
	char type[CK_SLURM_TYPE];
	unsigned int gpus;
};

/* An option's value: a number of GPUs, or a type. -EINVAL. */
int ck_slurm_gpus_parse(const char *text, unsigned int *gpus);
int ck_slurm_type_parse(const char *text, char type[CK_SLURM_TYPE]);

/* Read a text file of less than CK_SLURM_FILE bytes: the caller frees it. NULL and *@ret -errno. */
char *ck_slurm_read(const char *path, int *ret);

/*
 * Replace or create @path by renaming a new file, so that readers see the old or the new content.
 * An existing file keeps its owner and mode; a new one has mode 0600. 0 or -errno.
 */
int ck_slurm_write(const char *path, const char *text, size_t size);

#endif
