#!/usr/bin/env python3
"""Prints the bytes that the tensorboard package writes for some scalars, for tests/test_metrics.c.

    python3 -m venv VENV && VENV/bin/pip install tensorboard && VENV/bin/python tests/golden/make_events.py
"""
import io

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

SCALARS = [(0, "epoch_loss", 0.5), (1, "epoch_accuracy", 0.0), (128, "batch_loss", -1.25e-3), (1 << 40, "x", float("inf"))]


class Kept(io.BytesIO):
    def close(self):
        pass


def main():
    out = Kept()
    writer = RecordWriter(out)
    writer.write(event_pb2.Event(wall_time=1700000000.25, file_version="brain.Event:2").SerializeToString())
    for step, tag, value in SCALARS:
        summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=value)])
        writer.write(event_pb2.Event(wall_time=1700000001.5, step=step, summary=summary).SerializeToString())
    writer.flush()
    text = out.getvalue().hex()
    for i in range(0, len(text), 96):
        print(f'    "{text[i:i + 96]}"')


if __name__ == "__main__":
    main()
