/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mad.c - packs and unpacks CM messages by one table: where the bits of each field lie.
 */
#include <stddef.h>
#include <string.h>

#include "sim/hca/cm/mad.h"

enum {
	MAD_BASE_VERSION = 1,
	MAD_CLASS_CM = 7,
	MAD_CLASS_VERSION = 2,
	MAD_METHOD_SEND = 3,
	MAD_HEADER_BYTES = 24,
};

/* A number of `width` bits, the first of which is bit `bit` of byte `byte` behind the MAD
 * header, the highest bit of a byte being its first; or, of width 0, `length` bytes. */
struct field {
	uint16_t member;		/* offset in struct cm_mad */
	uint8_t byte, bit, width, length;
};

#define NUMBER(name, byte, bit, width)	{ offsetof(struct cm_mad, name), byte, bit, width, 0 }
#define BYTES(name, byte, length)	{ offsetof(struct cm_mad, name), byte, 0, 0, length }
#define PRIVATE(byte)			BYTES(private_data, byte, CM_PRIVATE_BYTES - (byte))
#define END				{ 0, 0, 0, 0, 0 }

static const struct field req_fields[] = {
	NUMBER(local_id, 0, 0, 32), NUMBER(vendor_id, 5, 0, 24), NUMBER(service_id, 8, 0, 64),
	NUMBER(ca_guid, 16, 0, 64), NUMBER(qkey, 28, 0, 32), NUMBER(qpn, 32, 0, 24),
	NUMBER(responder_resources, 35, 0, 8), NUMBER(initiator_depth, 39, 0, 8),
	NUMBER(remote_response_timeout, 43, 0, 5), NUMBER(transport, 43, 5, 2),
	NUMBER(flow_control, 43, 7, 1), NUMBER(psn, 44, 0, 24),
	NUMBER(local_response_timeout, 47, 0, 5), NUMBER(retry_count, 47, 5, 3),
	NUMBER(pkey, 48, 0, 16), NUMBER(mtu, 50, 0, 4), NUMBER(rnr_retry_count, 50, 5, 3),
	NUMBER(max_cm_retries, 51, 0, 4), NUMBER(srq, 51, 4, 1), NUMBER(path.slid, 52, 0, 16),
	NUMBER(path.dlid, 54, 0, 16), BYTES(path.sgid, 56, 16), BYTES(path.dgid, 72, 16),
	NUMBER(path.flow_label, 88, 0, 20), NUMBER(path.rate, 91, 2, 6),
	NUMBER(path.traffic_class, 92, 0, 8), NUMBER(path.hop_limit, 93, 0, 8),
	NUMBER(path.sl, 94, 0, 4), NUMBER(path.subnet_local, 94, 4, 1),
	NUMBER(path.ack_timeout, 95, 0, 5), PRIVATE(140), END
};

static const struct field mra_fields[] = {
	NUMBER(local_id, 0, 0, 32), NUMBER(remote_id, 4, 0, 32), NUMBER(message, 8, 0, 2),
	NUMBER(service_timeout, 9, 0, 5), PRIVATE(10), END
};

static const struct field rej_fields[] = {
	NUMBER(local_id, 0, 0, 32), NUMBER(remote_id, 4, 0, 32), NUMBER(message, 8, 0, 2),
	NUMBER(ari_length, 9, 0, 7), NUMBER(reason, 10, 0, 16), BYTES(ari, 12, CM_ARI_BYTES),
	PRIVATE(84), END
};

static const struct field rep_fields[] = {
	NUMBER(local_id, 0, 0, 32), NUMBER(remote_id, 4, 0, 32), NUMBER(qkey, 8, 0, 32),
	NUMBER(qpn, 12, 0, 24), NUMBER(psn, 20, 0, 24), NUMBER(responder_resources, 24, 0, 8),
	NUMBER(initiator_depth, 25, 0, 8), NUMBER(target_ack_delay, 26, 0, 5),
	NUMBER(failover, 26, 5, 2), NUMBER(flow_control, 26, 7, 1),
	NUMBER(rnr_retry_count, 27, 0, 3), NUMBER(srq, 27, 3, 1), NUMBER(ca_guid, 28, 0, 64),
	PRIVATE(36), END
};

static const struct field rtu_fields[] = {
	NUMBER(local_id, 0, 0, 32), NUMBER(remote_id, 4, 0, 32), PRIVATE(8), END
};

static const struct field dreq_fields[] = {
	NUMBER(local_id, 0, 0, 32), NUMBER(remote_id, 4, 0, 32), NUMBER(qpn, 8, 0, 24),
	PRIVATE(12), END
};

static const struct field sidr_req_fields[] = {
	NUMBER(local_id, 0, 0, 32), NUMBER(pkey, 4, 0, 16), NUMBER(service_id, 8, 0, 64),
	PRIVATE(16), END
};

static const struct field sidr_rep_fields[] = {
	NUMBER(local_id, 0, 0, 32), NUMBER(status, 4, 0, 8), NUMBER(ari_length, 5, 0, 8),
	NUMBER(qpn, 8, 0, 24), NUMBER(service_id, 12, 0, 64), NUMBER(qkey, 20, 0, 32),
	BYTES(ari, 24, CM_ARI_BYTES), PRIVATE(96), END
};

static const struct field *const layouts[] = {
	[CM_REQ - CM_REQ] = req_fields,
	[CM_MRA - CM_REQ] = mra_fields,
	[CM_REJ - CM_REQ] = rej_fields,
	[CM_REP - CM_REQ] = rep_fields,
	[CM_RTU - CM_REQ] = rtu_fields,
	[CM_DREQ - CM_REQ] = dreq_fields,
	[CM_DREP - CM_REQ] = rtu_fields,
	[CM_SIDR_REQ - CM_REQ] = sidr_req_fields,
	[CM_SIDR_REP - CM_REQ] = sidr_rep_fields,
};

static const struct field *layout_of(uint32_t attribute)
{
	uint32_t i = attribute - CM_REQ;

	return i < sizeof(layouts) / sizeof(layouts[0]) ? layouts[i] : NULL;
}

static uint64_t get_bits(const uint8_t *from, uint32_t bit, uint32_t width)
{
	uint64_t value = 0;
	uint32_t i;

	for (i = bit; i < bit + width; i++)
		value = value << 1 | (from[i / 8] >> (7 - i % 8) & 1);
	return value;
}

static void set_bits(uint8_t *to, uint32_t bit, uint32_t width, uint64_t value)
{
	uint32_t i;

	for (i = 0; i < width; i++)
		if (value >> (width - 1 - i) & 1)
			to[(bit + i) / 8] |= 0x80u >> (bit + i) % 8;
}

static bool is_wide(const struct field *f)
{
	return f->width > 32;
}

static void pack_field(const struct field *f, const struct cm_mad *m, uint8_t *to)
{
	const uint8_t *member = (const uint8_t *)m + f->member;
	uint32_t narrow;
	uint64_t wide;

	if (!f->width) {
		memcpy(to + f->byte, member, f->length);
		return;
	}
	if (is_wide(f)) {
		memcpy(&wide, member, sizeof(wide));
	} else {
		memcpy(&narrow, member, sizeof(narrow));
		wide = narrow;
	}
	set_bits(to, f->byte * 8u + f->bit, f->width, wide);
}

static void unpack_field(const struct field *f, struct cm_mad *m, const uint8_t *from)
{
	uint8_t *member = (uint8_t *)m + f->member;
	uint32_t narrow;
	uint64_t wide;

	if (!f->width) {
		memcpy(member, from + f->byte, f->length);
		return;
	}
	wide = get_bits(from, f->byte * 8u + f->bit, f->width);
	narrow = (uint32_t)wide;
	if (is_wide(f))
		memcpy(member, &wide, sizeof(wide));
	else
		memcpy(member, &narrow, sizeof(narrow));
}

static bool is_end(const struct field *f)
{
	return !f->width && !f->length;
}

/* REP has no room for its vendor id in one piece: 8 bits each behind three 24-bit fields. */
static const uint8_t rep_vendor_bytes[] = { 15, 19, 23 };

static void pack_rep_vendor(uint32_t vendor_id, uint8_t *to)
{
	int i;

	for (i = 0; i < 3; i++)
		to[rep_vendor_bytes[i]] = (uint8_t)(vendor_id >> (16 - 8 * i));
}

static uint32_t unpack_rep_vendor(const uint8_t *from)
{
	return (uint32_t)from[rep_vendor_bytes[0]] << 16 |
	       (uint32_t)from[rep_vendor_bytes[1]] << 8 | from[rep_vendor_bytes[2]];
}

void cm_mad_pack(const struct cm_mad *m, uint8_t out[CM_MAD_BYTES])
{
	const struct field *f = layout_of(m->attribute);
	uint8_t *data = out + MAD_HEADER_BYTES;

	memset(out, 0, CM_MAD_BYTES);
	out[0] = MAD_BASE_VERSION;
	out[1] = MAD_CLASS_CM;
	out[2] = MAD_CLASS_VERSION;
	out[3] = MAD_METHOD_SEND;
	set_bits(out, 8 * 8, 64, m->transaction);
	set_bits(out, 16 * 8, 16, m->attribute);
	set_bits(out, 20 * 8, 32, m->modifier);
	for (; f && !is_end(f); f++)
		pack_field(f, m, data);
	if (m->attribute == CM_REP)
		pack_rep_vendor(m->vendor_id, data);
}

bool cm_mad_unpack(struct cm_mad *out, const uint8_t *bytes, uint32_t length)
{
	const uint8_t *data = bytes + MAD_HEADER_BYTES;
	const struct field *f;

	if (length != CM_MAD_BYTES || bytes[0] != MAD_BASE_VERSION || bytes[1] != MAD_CLASS_CM ||
	    bytes[2] != MAD_CLASS_VERSION || bytes[3] != MAD_METHOD_SEND)
		return false;
	memset(out, 0, sizeof(*out));
	out->transaction = get_bits(bytes, 8 * 8, 64);
	out->attribute = (uint32_t)get_bits(bytes, 16 * 8, 16);
	out->modifier = (uint32_t)get_bits(bytes, 20 * 8, 32);
	f = layout_of(out->attribute);
	if (!f)
		return false;
	for (; !is_end(f); f++)
		unpack_field(f, out, data);
	if (out->attribute == CM_REP)
		out->vendor_id = unpack_rep_vendor(data);
	return true;
}

uint32_t cm_mad_private_bytes(uint32_t attribute)
{
	const struct field *f = layout_of(attribute);

	while (f && !is_end(f + 1))
		f++;
	return f ? f->length : 0;
}

void cm_ip_header_pack(const struct cm_ip_header *h, uint8_t out[CM_IP_HEADER_BYTES])
{
	out[0] = 0;			/* version of this header, major and minor */
	out[1] = (uint8_t)(h->version << 4);
	out[2] = (uint8_t)(h->source_port >> 8);
	out[3] = (uint8_t)h->source_port;
	memcpy(out + 4, h->source, 16);
	memcpy(out + 20, h->destination, 16);
}

bool cm_ip_header_unpack(struct cm_ip_header *out, const uint8_t bytes[CM_IP_HEADER_BYTES])
{
	out->version = bytes[1] >> 4;
	out->source_port = (uint16_t)(bytes[2] << 8 | bytes[3]);
	memcpy(out->source, bytes + 4, 16);
	memcpy(out->destination, bytes + 20, 16);
	return !bytes[0] && (out->version == 4 || out->version == 6);
}
