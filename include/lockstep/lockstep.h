// Lockstep: distributed deep-learning training in C. This header is the whole public API.
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <lockstep/bench.h>
#include <lockstep/checkpoint.h>
#include <lockstep/comm.h>
#include <lockstep/context.h>
#include <lockstep/data.h>
#include <lockstep/exchange.h>
#include <lockstep/graph.h>
#include <lockstep/machine.h>
#include <lockstep/memory.h>
#include <lockstep/options.h>
#include <lockstep/predict.h>
#include <lockstep/program.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>
#include <lockstep/train.h>
#include <lockstep/version.h>
#include <lockstep/weights.h>

#endif
