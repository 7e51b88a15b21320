/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prometheus.h - judges Prometheus' text format, stricter than Prometheus: each family
 * once, with HELP and TYPE before its samples; counters are called so; buckets grow up to
 * +Inf, which is the count.
 */
#ifndef TENT_TESTS_PROMETHEUS_H
#define TENT_TESTS_PROMETHEUS_H

#include <stddef.h>

/* How many families there are; fails the test where something is wrong. */
size_t prometheus_judge(const char *text);

#endif /* TENT_TESTS_PROMETHEUS_H */
