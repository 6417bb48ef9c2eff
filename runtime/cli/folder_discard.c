/* A run folder that could not be filled: what was made in it is taken away again, so that the
 * same --out can be tried once there is room. */
#include <string.h>
#include <unistd.h>

#include "cli/folder.h"

static void take_away(const mpt_folder *folder, const char *name, const char *ending) {
    char path[2 * MPT_FOLDER_PATH];
    snprintf(path, sizeof path, "%s/%s%s", folder->path, name, ending);
    (void)unlink(path);
}

/* The folders that a name leads through, the innermost first; one that holds something stays.
 */
static void take_away_folders(const mpt_folder *folder, const char *name) {
    char path[2 * MPT_FOLDER_PATH];
    int n = snprintf(path, sizeof path, "%s/%s", folder->path, name);
    if (n < 0 || n >= (int)sizeof path)
        return;
    for (char *slash = strrchr(path, '/'); slash && slash > path + strlen(folder->path);
         slash = strrchr(path, '/')) {
        *slash = 0;
        if (rmdir(path) != 0)
            return;
    }
}

void mpt_folder_discard(mpt_folder *folder, const mpt_recipe *recipe) {
    static const char *const names[] = {"telemetry.jsonl", "timing.jsonl", "plan.json",
                                        "recipe.lua", "metrics.jsonl"};
    mpt_recipe_file file;
    if (!folder->metrics) /* it is another run's */
        return;
    for (int i = 0; mpt_recipe_get_file(recipe, i, &file); i++) {
        take_away(folder, file.name, "");
        take_away_folders(folder, file.name);
    }
    (void)mpt_folder_end(folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        take_away(folder, names[i], ".part");
        take_away(folder, names[i], "");
    }
    (void)rmdir(folder->path);
}
