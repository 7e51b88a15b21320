/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cm_env.h - the world of a connection manager that stands alone: one device with one RoCE
 * port at 10.0.0.1, which every odd address is too and can be reached from there.
 */
#ifndef TENT_SIM_HCA_CM_ENV_H
#define TENT_SIM_HCA_CM_ENV_H

#include "sim/hca/cm/core.h"

extern const uint8_t cm_env_ip[16];

struct cm_env cm_env_of_one_port(void (*send)(void *, uint32_t, const struct hca_packet *),
				 uint64_t (*now_ns)(void *));

#endif /* TENT_SIM_HCA_CM_ENV_H */
