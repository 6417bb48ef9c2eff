/* What a run leaves behind beside its lines of metrics: TensorBoard event files, and the report
 * of a run folder.
 *
 * Same rules as mpt.h. Writing an event allocates nothing, so it may stand between two steps.
 */
#ifndef MPT_EVIDENCE_H
#define MPT_EVIDENCE_H

#include "mpt/mpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- TensorBoard ---- */

typedef struct mpt_events mpt_events;

/* Makes FOLDER/events.out.tfevents.SECONDS.HOST.PID.N, which must not be there: each process
 * writes a file of its own, also one that resumes a run. Where the first thing written is of a
 * step past 0, the file says that the run goes on there, and TensorBoard drops what older files
 * hold of that step and later ones. */
MPT_API MPT_CHECKED mpt_status mpt_events_create(mpt_ctx *ctx, const char *folder,
                                                 mpt_events **out);
/* Writes what is not yet written, without a word where it fails, and closes the file. */
MPT_API void mpt_events_destroy(mpt_events *events);

/* One number of one step; NaN and infinities too. Tags are cut at 600 bytes. It is written when
 * much has gathered, or by mpt_events_flush; only whole records ever are. After a failed write,
 * which is MPT_IO and names the file, every later call fails. */
MPT_API MPT_CHECKED mpt_status mpt_events_scalar(mpt_events *events, const char *tag,
                                                 int64_t step, float value);
MPT_API MPT_CHECKED mpt_status mpt_events_flush(mpt_events *events);

/* The numbers of a step, flushed: train/loss, train/lr, train/grad_norm, train/loss_scale, and
 * train/skipped, 1 where it changed no weight. */
MPT_API MPT_CHECKED mpt_status mpt_events_step(mpt_events *events,
                                               const mpt_step_result *result);
/* Of an evaluation, flushed: eval/loss. `step` counts the steps before it. */
MPT_API MPT_CHECKED mpt_status mpt_events_eval(mpt_events *events, int64_t step, double loss);
/* What mpt_trainer_operand tells of this step, flushed; nothing where it was not counted. For
 * each operand quant/LAYER/SLOT/amax, sqnr (dB), overflow, underflow (shares of elements). */
MPT_API MPT_CHECKED mpt_status mpt_events_operands(mpt_events *events,
                                                   const mpt_trainer *trainer, int64_t step);

/* ---- telemetry ---- */

/* Steps between two counts of all operands in a run of so many steps: `every` where it is not
 * 0, else a hundredth of the run and at least 10. */
MPT_API int64_t mpt_telemetry_every(int64_t every, int64_t steps);

/* ---- the report of a run ---- */

/* Reads what a run folder holds and writes report.html into it, one page that needs nothing
 * else: how the run ended, its loss, learning rate, gradient norm and speed over the tokens,
 * the noise of every quantized operand over time, what it skipped and the plan. The run may
 * still be going on or have been killed: what is there is drawn, a torn last line is left out,
 * and a file that is missing or that cannot be understood is told in the page. MPT_NOT_FOUND:
 * `folder` is no run folder; MPT_DATA: nothing in its metrics can be understood; MPT_INVALID:
 * report.html is another's file. */
MPT_API MPT_CHECKED mpt_status mpt_report_run(mpt_ctx *ctx, const char *folder);

#ifdef __cplusplus
}
#endif

#endif
