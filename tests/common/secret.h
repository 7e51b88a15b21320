/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h - a file with a secret, in a folder of its own. */
#ifndef TENT_TESTS_SECRET_H
#define TENT_TESTS_SECRET_H

#include <sys/types.h>

#define SECRET "0123456789abcdef0123456789abcdef"

extern char secret_path[64];

void secret_write(const char *text, mode_t mode);
/* A group's, for cmocka. */
int secret_setup(void **state);
int secret_teardown(void **state);

#endif /* TENT_TESTS_SECRET_H */
