/* SPDX-License-Identifier: Apache-2.0 */
/* contract_set.h - what contract.c and contract_choose.c share; everyone else sees
 * contract.h. */
#ifndef TENT_ENGINE_CONTRACT_SET_H
#define TENT_ENGINE_CONTRACT_SET_H

#include "engine/contract.h"

struct contract_set {
	struct contract_config config;	/* a copy */
	uint8_t by_name[POLICIES_MAX];	/* places in policies; of equal names in their order */
	const struct contract *rest;	/* of users of no tenant */
	struct contract contracts[];	/* as config.tenants, and one for nobody */
};

#endif /* TENT_ENGINE_CONTRACT_SET_H */
