/*
 * wcm/rows_job.h - what the host tells the kernels of kernels.cu; for both compilers.
 */
#ifndef CK_WCM_ROWS_JOB_H
#define CK_WCM_ROWS_JOB_H

/*
 * In bytes, except where it says otherwise. @whole: no row lies in two chunks. @lanes: threads that
 * share a row, a power of two.
 */
struct ck_wcm_rows_job {
	void *table; /* a handle, or plain memory */
	unsigned long long offset, stride;
	long long rows; /* of the table */
	unsigned long long row_size;
	const void *indices;
	long long count;
	void *data;
	unsigned long long data_stride;
	unsigned long long *bad; /* counts indices that are no row; or NULL */
	/* of an embedding */
	const void *bags;
	long long bag_count;
	long long columns;		/* elements; and of conversions */
	int indices_wide, bags_wide;	/* 64 bits */
	int type, data_type;		/* enum wcm_type */
	int lanes, whole, mean, vector; /* elements at a time, of conversions: 1 or 4 */
};

#endif
