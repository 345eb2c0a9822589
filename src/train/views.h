// The ways in which evaluation looks at images several times (test-time augmentation).
#ifndef LS_TRAIN_VIEWS_H
#define LS_TRAIN_VIEWS_H

// Views are numbered as LS_AUGMENT_VIEW has them (data/augment.h).
typedef struct ls_views_kind {
    const char *name, *help;
    int count;             // 0: images are looked at once, as they are
    const double *weight;  // (count), 1 together
} ls_views_kind;

const ls_views_kind *ls__views_kind(int index);  // NULL past the last

#endif
