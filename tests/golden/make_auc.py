#!/usr/bin/env python3
"""Makes auc.json: the areas under ROC curves that scikit-learn finds, for tests/test_auc.c to compare with.

Run it in a virtual environment with scikit-learn and numpy:

    python tests/golden/make_auc.py            # writes tests/golden/auc.json

Scores and targets are not stored: both sides draw them as make_mnist_cnn.py describes. Element i = n * LABELS + l of sample n
and label l, in case c:

    score    float32(2 u - 1) with u = (word i of stream 300 + c >> 8) / 2^24; in case 1 only its upper 4 bits of 24 count, so that
             many scores are equal; in case 2 all scores of label 0 are equal
    target   1 where word i of stream 310 + c >> 24 is below 20 (l + 1), else 0; in case 2 label 1 is there in all samples and
             label 2 in none

roc_auc_score has no area for a label of one class only: null.

In case 1 there are besides, label by label, precision and recall of scores above 0 (null where no score is, or no sample has the label), and
the true positive rates at false positive rates 0, 0.02, ..., 1 on the lines between the points of roc_curve; where it rises at a rate, the top.
"""
import json
import pathlib

import numpy as np
from sklearn.metrics import precision_score, recall_score, roc_auc_score, roc_curve

from make_mnist_cnn import philox

SAMPLES, LABELS = 500, 7


def words(stream, count):
    return philox(stream, count).astype(np.uint64)


def case(c):
    count = SAMPLES * LABELS
    draws = words(300 + c, count) >> np.uint64(8)
    if c == 1:
        draws = (draws >> np.uint64(20)) << np.uint64(20)
    scores = (2 * (draws / 2.0**24) - 1).astype(np.float32).reshape(SAMPLES, LABELS)
    limits = 20 * (np.arange(LABELS) + 1)
    there = ((words(310 + c, count) >> np.uint64(24)).reshape(SAMPLES, LABELS) < limits).astype(np.float32)
    if c == 2:
        scores[:, 0] = 0.25
        there[:, 1] = 1
        there[:, 2] = 0
    areas = []
    for label in range(LABELS):
        one_class = len(set(there[:, label])) < 2
        areas.append(None if one_class else float(roc_auc_score(there[:, label], scores[:, label])))
    more = rates(scores, there) if c == 1 else {}
    return {**more, "areas": areas, "mean": float(np.mean([a for a in areas if a is not None]))}


def curve(there, scores):
    x, y, _ = roc_curve(there, scores, drop_intermediate=False)
    out = []
    for k in range(51):
        at = k / 50
        i = int(np.searchsorted(x, at + 1e-12, side="right")) - 1  # the last point that is not beyond
        rest = 0 if i + 1 == len(x) or at - x[i] < 1e-12 else (at - x[i]) / (x[i + 1] - x[i]) * (y[i + 1] - y[i])
        out.append(float(y[i] + rest))
    return out


def rates(scores, there):
    found = {"precision": [], "recall": [], "curves": []}
    for label in range(LABELS):
        said = scores[:, label] > 0
        found["precision"].append(float(precision_score(there[:, label], said)))
        found["recall"].append(float(recall_score(there[:, label], said)))
        found["curves"].append(curve(there[:, label], scores[:, label]))
    return found


def main():
    import sklearn

    golden = {"made_with": f"scikit-learn {sklearn.__version__}", "samples": SAMPLES, "labels": LABELS,
              "cases": [case(c) for c in range(3)]}
    path = pathlib.Path(__file__).with_name("auc.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
