/* tests/data/gen/enums.h - the enums that small.api uses. */
typedef enum {
	CU_COLOUR_RED = 0,
	CU_COLOUR_BLUE = 1,
} CUcolour;
