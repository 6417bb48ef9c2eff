/* Numbers and counts of a comparison in words. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/compare.h"

/* ---- shares ---- */

/* Two digits that count, one to four of them behind the point. Nothing but zero is told as
 * zero. */
void mpt_compare_percent(double x, bool sign, char out[MPT_COMPARE_PERCENT]) {
    double size = fabs(100 * x);
    int digits = size >= 0.995 ? 1 : size >= 0.0995 || size == 0 ? 2 : size >= 0.00995 ? 3 : 4;
    if (size >= 1e6)
        digits = -1;
    if (isnan(x))
        snprintf(out, MPT_COMPARE_PERCENT, "-");
    else if (digits < 0)
        snprintf(out, MPT_COMPARE_PERCENT, sign ? "%+.2g %%" : "%.2g %%", 100 * x);
    else
        snprintf(out, MPT_COMPARE_PERCENT, sign ? "%+.*f %%" : "%.*f %%", digits, 100 * x);
}

void mpt_compare_words(double difference, double noise, char out[MPT_COMPARE_WORDS]) {
    char one[MPT_COMPARE_PERCENT], other[MPT_COMPARE_PERCENT];
    mpt_compare_percent(difference, true, one);
    mpt_compare_percent(noise, false, other);
    if (isnan(noise))
        snprintf(out, MPT_COMPARE_WORDS, "%s", one);
    else
        snprintf(out, MPT_COMPARE_WORDS, "%s +- %s", one, other);
}

void mpt_compare_bound(double x, char out[MPT_COMPARE_PERCENT]) {
    snprintf(out, MPT_COMPARE_PERCENT, "%.3g %%", 100 * x);
}

/* ---- what ran ---- */

static void pair_name(const mpt_gemms_ran *row, char out[64]) {
    snprintf(out, 64, "%s%s%s", row->a, strcmp(row->a, row->b) ? " x " : "",
             strcmp(row->a, row->b) ? row->b : "");
}

bool mpt_gemm_list_pair(const mpt_gemm_list *list, int index, char name[64],
                        uint64_t *out_runs) {
    char other[64];
    for (int i = 0; i < list->n; i++) {
        bool seen = false;
        pair_name(&list->of[i], name);
        for (int k = 0; k < i && !seen; k++) {
            pair_name(&list->of[k], other);
            seen = strcmp(name, other) == 0;
        }
        if (seen || index-- > 0)
            continue;
        *out_runs = 0;
        for (int k = i; k < list->n; k++) {
            pair_name(&list->of[k], other);
            *out_runs += strcmp(name, other) == 0 ? list->of[k].runs : 0;
        }
        return true;
    }
    return false;
}

void mpt_gemm_list_text(const mpt_gemm_list *list, char *out, size_t size) {
    char name[64];
    uint64_t runs, all = 0;
    size_t used = 0;
    for (int i = 0; i < list->n; i++)
        all += list->of[i].runs;
    snprintf(out, size, "%s", all > 0 ? "" : "unknown");
    for (int i = 0; mpt_gemm_list_pair(list, i, name, &runs) && used < size; i++)
        if (runs > 0 && all > 0)
            used += (size_t)snprintf(out + used, size - used, "%s%s %.1f %%", used ? ", " : "",
                                     name, 100 * (double)runs / (double)all);
}
