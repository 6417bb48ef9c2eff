/* Threads that wait for each other, on a machine that others use too.
 *
 * GNU OpenMP lets a thread spin for milliseconds at the end of each parallel loop. Where
 * another program runs on the same cores, the thread it waits for is often not running, so the
 * spinning eats the time that thread needs: two training runs side by side were measured to
 * lose a factor of twenty. A short spin costs nothing on a quiet machine (adr/0003). The
 * library reads this setting while it is loaded, before main, so it can only be given to a new
 * start. */
#include "cli/waiting.h"

#include <stdlib.h>
#include <unistd.h>

void mpt_cli_wait_briefly(char **argv) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
        return;
    if (setenv("GOMP_SPINCOUNT", "5000", 1) == 0)
        execv("/proc/self/exe", argv);
}
