/* How long the program's threads wait awake for each other. */
#ifndef MPT_CLI_WAITING_H
#define MPT_CLI_WAITING_H

/* To be called before anything is done or said. Starts the program anew, once, with a short
 * wait where the user chose none; comes back where that is not needed or not possible. */
void mpt_cli_wait_briefly(char **argv);

#endif
