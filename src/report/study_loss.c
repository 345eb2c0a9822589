// An epoch of a row takes T seconds. With the efficiency of its base, whose epoch takes T0, it would have taken T * efficiency: that is
// the ideal, and the rest is lost. Every moment of an epoch is in one phase of each replica; P is the mean of a phase over
// replicas, P0 that of the base. What the phase lost is P - P0 * ideal / T0: what it takes beyond its share of the ideal epoch. As far as
// phases add up to the epoch, in both, their losses add up to the loss; what is missing is shown, not dealt out.
#include "report/study_loss.h"

#include <math.h>
#include <string.h>

enum {
    LOAD = LS_STUDY_PHASE_LOAD,
    FORWARD = LS_STUDY_PHASE_FORWARD,
    BACKWARD = LS_STUDY_PHASE_BACKWARD,
    EXCHANGE = LS_STUDY_PHASE_EXCHANGE,
    WAIT = LS_STUDY_PHASE_WAIT,
    UPDATE = LS_STUDY_PHASE_UPDATE,
    SERIAL = LS_STUDY_PHASE_SERIAL,
    PHASES = LS_STUDY_PHASES,
};

const char *ls_study_phase_name(ls_study_phase_kind phase) {
    static const char *const names[] = {
#define X(name, text, field) text,
        LS_STUDY_PHASE_LIST(X)
#undef X
    };
    return names[phase];
}

double *ls_study_phase_at(ls_study_row *row, ls_study_phase_kind phase) {
    double *const fields[] = {
#define X(name, text, field) &row->field,
        LS_STUDY_PHASE_LIST(X)
#undef X
    };
    return fields[phase];
}

double ls_study_phase(const ls_study_row *row, ls_study_phase_kind phase) {
    return *ls_study_phase_at((ls_study_row *)row, phase);
}

static double *phase(ls_study_row *row, int i) { return ls_study_phase_at(row, (ls_study_phase_kind)i); }
static double value(const ls_study_row *row, int i) { return ls_study_phase(row, (ls_study_phase_kind)i); }
static const char *name(int i) { return ls_study_phase_name((ls_study_phase_kind)i); }

// The indices of the one or two in the middle of `count` values, NAN not counting: the median is the mean of theirs. -1: there is
// none.
static void middle(const double *values, int count, int out[2]) {
    int known = 0;
    out[0] = out[1] = -1;
    for (int i = 0; i < count; i++) known += isfinite(values[i]) != 0;
    for (int i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        int before = 0;  // how many stand before it in order, equal ones as they came
        for (int j = 0; j < count; j++) before += values[j] < values[i] || (values[j] == values[i] && j < i);
        if (before == (known - 1) / 2) out[0] = i;
        if (before == known / 2) out[1] = i;
    }
}

void ls__phases_read(ls_study_row *row, const json_t *record, const double *seconds, int count, int first) {
    const json_t *by_epoch = json_object_get(record, "epoch_phases"), *all = json_object_get(record, "phases");
    double batch = json_number_value(json_object_get(record, "global_batch"));
    double steps = batch > 0 ? ceil(json_number_value(json_object_get(record, "train_count")) / batch) : 0;
    int at[2], known = json_is_object(by_epoch) && steps > 0;
    middle(seconds, count, at);
    for (int i = 0; i < PHASES; i++) {
        const json_t *list = json_object_get(by_epoch, name(i));
        double sum = 0;
        for (int k = 0; k < 2; k++) {
            const json_t *x = at[k] < 0 ? NULL : json_array_get(list, (size_t)(first + at[k]));
            sum += json_is_number(x) ? json_number_value(x) / 2 : NAN;
        }
        *phase(row, i) = steps > 0 ? sum / steps : NAN;
        known &= isfinite(sum) != 0;
    }
    row->steps = (int64_t)steps;
    if (known) return;
    for (int i = 0; i < PHASES; i++) *phase(row, i) = json_number_value(json_object_get(all, name(i)));
    row->wait = row->serial = NAN;  // its "exchange" has the waiting in it
}

void ls__phases_join(ls_study_row *row, const ls_study_row *(*at)(const void *user, int i), const void *user,
                     int count) {
    double seconds[64], sum[PHASES] = {0};
    int pick[2], some_unknown = 0;
    if (count > 64) count = 64;  // repeats; more of them change a median little
    for (int i = 0; i < count; i++) {
        const ls_study_row *r = at(user, i);
        seconds[i] = r->repeats ? r->epoch_seconds : NAN;
        some_unknown |= r->repeats && !isfinite(r->wait);
    }
    middle(seconds, count, pick);
    if (pick[0] < 0) return;
    for (int k = 0; k < 2; k++) {
        const ls_study_row *r = at(user, pick[k]);
        for (int i = 0; i < PHASES; i++) sum[i] += value(r, i) / 2;
        if (some_unknown && isfinite(r->wait)) sum[EXCHANGE] += r->wait / 2;  // all of a kind
    }
    for (int i = 0; i < PHASES; i++) *phase(row, i) = sum[i];
    if (some_unknown) row->wait = row->serial = NAN;
}

void ls__loss_find(ls_study_row *row, const ls_study_row *base) {
    double t = row->epoch_seconds, share = row->efficiency * t / base->epoch_seconds, lost[PHASES];
    row->loss = (ls_study_loss){NAN, NAN, NAN, NAN, NAN, NAN};
    if (!(row->efficiency > 0) || !(t > 0) || !isfinite(share)) return;
    for (int i = 0; i < PHASES; i++)
        lost[i] = (value(row, i) * (double)row->steps - share * value(base, i) * (double)base->steps) / t;
    row->loss = (ls_study_loss){.compute = lost[FORWARD] + lost[BACKWARD],
                                .exchange = lost[EXCHANGE],
                                .wait = lost[WAIT],
                                .input = lost[LOAD],
                                .serial = lost[UPDATE] + lost[SERIAL],
                                .unexplained = 1 - row->efficiency};
    for (int i = 0; i < PHASES; i++) row->loss.unexplained -= lost[i];
    // Without the waiting told apart nothing is told.
    if (!isfinite(row->loss.unexplained)) row->loss = (ls_study_loss){NAN, NAN, NAN, NAN, NAN, NAN};
}
