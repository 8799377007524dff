/*
 * launcher/text/number.h - numbers as text: exact, both ways.
 *
 * C++17's std::from_chars and std::to_chars do it, called by number.cc. Reading is correctly
 * rounded, printing gives the shortest text that reads back as the same bits, and neither depends
 * on the locale. They are several times as fast as strtod and printf, and the speed of JSON depends
 * on them. Lists of floats are read by the fast_float library, whose code is compiled into the
 * loop.
 */
#ifndef CK_LAUNCHER_TEXT_NUMBER_H
#define CK_LAUNCHER_TEXT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CK_NUMBER_TEXT 32 /* room that any number needs, without a NUL */

/* Bytes of the JSON number that starts at @at, 0 for none; *integral: no fraction, no exponent. */
size_t ckl_number_length(const char *at, const char *end, bool *integral);

/*
 * Read all of the @size bytes at @at, a JSON number or a word for one that is not finite (NaN,
 * Infinity, -Infinity). False: it is none, or too large for the type. A number that is too small is
 * 0.
 */
bool ckl_number_f32(const char *at, size_t size, float *out);
bool ckl_number_f64(const char *at, size_t size, double *out);

/*
 * Read a list of numbers between commas, up to @count of them, and return how many. *at moves
 * behind the last one that was read; @begun: a comma comes first. The run ends before an element
 * that is not a plain number of the type: the functions above judge it.
 */
size_t ckl_number_run_f32(const char **at, const char *end, bool begun, float *out, size_t count);
size_t ckl_number_run_f64(const char **at, const char *end, bool begun, double *out, size_t count);

/*
 * Read all of the @size bytes at @at, an integer; 8.0 and 1e3 are integers too. *negative is set
 * and *magnitude without the sign; false when it is none or needs more than 64 bits.
 */
bool ckl_number_integer(const char *at, size_t size, bool *negative, uint64_t *magnitude);

/*
 * Print without a NUL; returns the bytes. Floats always say that they are (8.0, 1e+20); those that
 * are not finite are a JSON string: "NaN", "Infinity", "-Infinity".
 */
size_t ckl_number_print_f32(char *out, float value);
size_t ckl_number_print_f64(char *out, double value);
size_t ckl_number_print_i64(char *out, int64_t value);
size_t ckl_number_print_u64(char *out, uint64_t value);

#ifdef __cplusplus
}
#endif

#endif
