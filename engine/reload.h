/* SPDX-License-Identifier: Apache-2.0 */
/* reload.h - other contracts while the engine runs. Who owns the engine reads them, as
 * files may wait; the control thread passes the wish on, publishes and answers. */
#ifndef TENT_ENGINE_RELOAD_H
#define TENT_ENGINE_RELOAD_H

#include "engine/client.h"

/* TENT_QUERY_RELOAD: the client waits until its owner has read. */
void client_ask_reload(struct engine *e, struct client *c);
/* The engine stops: nobody will read any more. */
void reload_stop(struct engine *e);

#endif /* TENT_ENGINE_RELOAD_H */
