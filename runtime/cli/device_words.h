/* What people call a GPU, and which word of --device or --target that is.
 *
 * The words that the two options take are few and say little to whoever knows the name of a
 * card. The nearest of them by letters would mislead: h100 is one letter from sm100 and no
 * such GPU. */
#ifndef MPT_CLI_DEVICE_WORDS_H
#define MPT_CLI_DEVICE_WORDS_H

#include <stdbool.h>

/* The word that is meant; "" where none of them fits, NULL where the word says nothing: then it
 * may be a slip. */
const char *mpt_device_word_meant(const char *word);
const char *mpt_target_word_meant(const char *word);

/* Which GPUs a target is: "sm90 (H100, H200)"; NULL for a word that says it itself. */
const char *mpt_target_word_told(const char *target);

#endif
