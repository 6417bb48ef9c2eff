/* The reference of the recipe language as Markdown: `mptrun --help-recipe`, recipes/README.md.
 *
 * reference.c prints the schema's rows and the tables of formats, kinds, warnings and model
 * words; reference_text.c holds what no table says, reference_shipped.c what comes with mpt.
 * Beside the path: it reads tables only. */
#ifndef MPT_PLAN_REFERENCE_H
#define MPT_PLAN_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "recipe/schema.h"

/* A section of prose and the words that it answers. */
typedef struct mpt_reference_text {
    const char *title, *body;
    const char *words[8]; /* ends with NULL */
} mpt_reference_text;

/* A word, how it is written, and what it means. */
typedef struct mpt_reference_word {
    const char *name, *example, *doc;
} mpt_reference_word;

/* All end with a NULL title or name. */
extern const mpt_reference_text mpt_reference_texts[];
extern const mpt_reference_word mpt_reference_selectors[];
extern const mpt_reference_word mpt_reference_examples[]; /* by record; no doc */
extern const mpt_reference_word mpt_reference_builders[]; /* words of nn that are no ops */
extern const mpt_reference_word mpt_reference_model[];    /* fields of model{...} */
extern const mpt_reference_word mpt_reference_models[];   /* the shipped ones */
extern const mpt_reference_word mpt_reference_recipes[];

/* Whether the beginning of a word, of `length`, is a path to the record: "train.lr" leads to
 * wsd, "precision.rules.use.weight" and "nvfp4" to quantizer. */
bool mpt_reference_leads(const mpt_record *record, const char *word, size_t length);

#endif
