/* Where the shipped models and recipes of this very executable are, and its modules. */
#ifndef MPT_CLI_TREE_H
#define MPT_CLI_TREE_H

#include <stdbool.h>
#include <stddef.h>

/* The folder share/mpt that was installed together with the running executable, wherever both
 * were moved since. False where there is none, as for one that is run where it was built: then
 * the library knows the tree it was made from. */
bool mpt_cli_tree(char *out, size_t size);

/* The folder of libraries that was installed together with it, there or not. */
bool mpt_cli_libraries(char *out, size_t size);

#endif
