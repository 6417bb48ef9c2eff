/* Where the files of a run were found from: the directory that it was started in, and that of
 * its recipe. A run folder keeps both, for a run that goes on from elsewhere. */
#ifndef MPT_CLI_ORIGIN_H
#define MPT_CLI_ORIGIN_H

#include "cli/folder.h"

enum { MPT_ORIGINS = 2 };

typedef struct mpt_origin {
    int n;
    char path[MPT_ORIGINS][MPT_FOLDER_PATH]; /* absolute, without a newline */
} mpt_origin;

/* Those of this process and a recipe's path; what has no such name is left out. */
void mpt_origin_find(mpt_origin *origin, const char *recipe);

/* Takes one that was written down. */
void mpt_origin_add(mpt_origin *origin, const char *path);

#endif
