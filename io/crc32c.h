/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h - the checksum of payloads: CRC-32C (Castagnoli), as iSCSI has it. */
#ifndef TENT_IO_CRC32C_H
#define TENT_IO_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of what crc is of, and these bytes behind it; 0: of these alone. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size);
/* The same without what this CPU may have for it: what the tests compare with. */
uint32_t crc32c_plain(uint32_t crc, const void *bytes, size_t size);

#endif /* TENT_IO_CRC32C_H */
