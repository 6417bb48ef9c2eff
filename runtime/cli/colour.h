/* Colours for a plan on a terminal. The library's texts have none: whoever pipes them gets
 * plain text. */
#ifndef MPT_CLI_COLOUR_H
#define MPT_CLI_COLOUR_H

#include <stdbool.h>
#include <stddef.h>

/* Whether stdout is a terminal that is to show colours: NO_COLOR and TERM=dumb say no. */
bool mpt_cli_colours(void);

/* A mpt_write_fn to stdout: headings bold, names of lines and titles of tables dim, warnings
 * yellow, where mpt_cli_colours allows it. Takes whole lines. */
bool mpt_cli_write_plan(void *ud, const char *text, size_t length);

#endif
