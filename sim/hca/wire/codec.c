/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hca/wire/codec.h"

#include <errno.h>
#include <string.h>

/* Extension headers, in the order in which they lie behind the BTH. */
enum {
	DETH = 1 << 0,
	RETH = 1 << 1,
	ATOMIC_ETH = 1 << 2,
	AETH = 1 << 3,
	ATOMIC_ACK = 1 << 4,
	IMMEDIATE = 1 << 5,
	IETH = 1 << 6,
	PAYLOAD = 1 << 7,
	KNOWN = 1 << 8,
};

/* Figure 6 and table 38 of the specification. */
static const uint16_t shapes[256] = {
	[HCA_RC | HCA_SEND_FIRST] = KNOWN | PAYLOAD,
	[HCA_RC | HCA_SEND_MIDDLE] = KNOWN | PAYLOAD,
	[HCA_RC | HCA_SEND_LAST] = KNOWN | PAYLOAD,
	[HCA_RC | HCA_SEND_LAST_IMM] = KNOWN | IMMEDIATE | PAYLOAD,
	[HCA_RC | HCA_SEND_ONLY] = KNOWN | PAYLOAD,
	[HCA_RC | HCA_SEND_ONLY_IMM] = KNOWN | IMMEDIATE | PAYLOAD,
	[HCA_RC | HCA_WRITE_FIRST] = KNOWN | RETH | PAYLOAD,
	[HCA_RC | HCA_WRITE_MIDDLE] = KNOWN | PAYLOAD,
	[HCA_RC | HCA_WRITE_LAST] = KNOWN | PAYLOAD,
	[HCA_RC | HCA_WRITE_LAST_IMM] = KNOWN | IMMEDIATE | PAYLOAD,
	[HCA_RC | HCA_WRITE_ONLY] = KNOWN | RETH | PAYLOAD,
	[HCA_RC | HCA_WRITE_ONLY_IMM] = KNOWN | RETH | IMMEDIATE | PAYLOAD,
	[HCA_RC | HCA_READ_REQUEST] = KNOWN | RETH,
	[HCA_RC | HCA_READ_RESPONSE_FIRST] = KNOWN | AETH | PAYLOAD,
	[HCA_RC | HCA_READ_RESPONSE_MIDDLE] = KNOWN | PAYLOAD,
	[HCA_RC | HCA_READ_RESPONSE_LAST] = KNOWN | AETH | PAYLOAD,
	[HCA_RC | HCA_READ_RESPONSE_ONLY] = KNOWN | AETH | PAYLOAD,
	[HCA_RC | HCA_ACKNOWLEDGE] = KNOWN | AETH,
	[HCA_RC | HCA_ATOMIC_ACKNOWLEDGE] = KNOWN | AETH | ATOMIC_ACK,
	[HCA_RC | HCA_COMPARE_SWAP] = KNOWN | ATOMIC_ETH,
	[HCA_RC | HCA_FETCH_ADD] = KNOWN | ATOMIC_ETH,
	[HCA_RC | HCA_SEND_LAST_INVALIDATE] = KNOWN | IETH | PAYLOAD,
	[HCA_RC | HCA_SEND_ONLY_INVALIDATE] = KNOWN | IETH | PAYLOAD,
	[HCA_UD | HCA_SEND_ONLY] = KNOWN | DETH | PAYLOAD,
	[HCA_UD | HCA_SEND_ONLY_IMM] = KNOWN | DETH | IMMEDIATE | PAYLOAD,
};

/* ---- fields: big endian, walked from the front ------------------------------- */

static uint8_t *put(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--, v >>= 8)
		p[i] = (uint8_t)v;
	return p + bytes;
}

static uint64_t take(const uint8_t **p, int bytes)
{
	uint64_t v = 0;

	for (int i = 0; i < bytes; i++)
		v = v << 8 | *(*p)++;
	return v;
}

static uint8_t link_bits(const struct hca_route *r, bool is_ib)
{
	if (!is_ib)
		return 0;
	return (uint8_t)(CODEC_IB_LINK | (r->has_grh ? CODEC_IB_GRH : 0) |
			 (r->sl & 0xf) << CODEC_IB_SL_SHIFT);
}

static uint8_t *put_bth(uint8_t *to, const struct hca_packet *p, bool is_ib)
{
	uint32_t pad = -p->length & 3;

	*to++ = p->opcode;
	/* 0x40: the path is not being migrated */
	*to++ = (uint8_t)((p->solicited ? 0x80 : 0) | 0x40 | pad << 4);
	to = put(to, p->pkey, 2);
	*to++ = link_bits(&p->route, is_ib);
	to = put(to, p->dest_qpn & HCA_QPN_MASK, 3);
	*to++ = p->ack_request ? 0x80 : 0;
	return put(to, p->psn & HCA_PSN_MASK, 3);
}

static uint8_t *put_extensions(uint8_t *to, const struct hca_packet *p, uint16_t shape)
{
	if (shape & DETH) {
		to = put(to, p->qkey, 4);
		to = put(to, p->source_qpn & HCA_QPN_MASK, 4);
	}
	if (shape & (RETH | ATOMIC_ETH)) {
		to = put(to, p->remote_address, 8);
		to = put(to, p->rkey, 4);
	}
	if (shape & RETH)
		to = put(to, p->dma_length, 4);
	if (shape & ATOMIC_ETH) {
		to = put(to, p->swap_or_add, 8);
		to = put(to, p->compare, 8);
	}
	if (shape & AETH)
		to = put(to, (uint32_t)p->syndrome << 24 | (p->msn & 0xffffff), 4);
	if (shape & ATOMIC_ACK)
		to = put(to, p->original, 8);
	if (shape & IMMEDIATE) {
		memcpy(to, &p->immediate, 4);
		to += 4;
	}
	if (shape & IETH)
		to = put(to, p->rkey, 4);
	return to;
}

static size_t extension_bytes(uint16_t shape)
{
	return (shape & DETH ? 8 : 0) + (shape & RETH ? 16 : 0) + (shape & ATOMIC_ETH ? 28 : 0) +
	       (shape & AETH ? 4 : 0) + (shape & ATOMIC_ACK ? 8 : 0) +
	       (shape & IMMEDIATE ? 4 : 0) + (shape & IETH ? 4 : 0);
}

size_t codec_bytes(const struct hca_packet *p)
{
	uint16_t shape = shapes[p->opcode];

	if (!shape || p->length > CODEC_MAX_PAYLOAD_BYTES || (p->length && !(shape & PAYLOAD)))
		return 0;
	return CODEC_BTH_BYTES + extension_bytes(shape) + ((p->length + 3) & ~3u);
}

void codec_encode(const struct hca_packet *p, bool is_ib, uint8_t *to)
{
	uint8_t *at = put_extensions(put_bth(to, p, is_ib), p, shapes[p->opcode]);

	if (p->length)
		memcpy(at, p->payload, p->length);
	memset(at + p->length, 0, -p->length & 3);
}

static void take_extensions(struct hca_packet *p, const uint8_t **at, uint16_t shape)
{
	if (shape & DETH) {
		p->qkey = (uint32_t)take(at, 4);
		p->source_qpn = (uint32_t)take(at, 4) & HCA_QPN_MASK;
	}
	if (shape & (RETH | ATOMIC_ETH)) {
		p->remote_address = take(at, 8);
		p->rkey = (uint32_t)take(at, 4);
	}
	if (shape & RETH)
		p->dma_length = (uint32_t)take(at, 4);
	if (shape & ATOMIC_ETH) {
		p->swap_or_add = take(at, 8);
		p->compare = take(at, 8);
	}
	if (shape & AETH) {
		p->syndrome = (uint8_t)take(at, 1);
		p->msn = (uint32_t)take(at, 3);
	}
	if (shape & ATOMIC_ACK)
		p->original = take(at, 8);
	if (shape & IMMEDIATE) {
		memcpy(&p->immediate, *at, 4);
		*at += 4;
	}
	if (shape & IETH)
		p->rkey = (uint32_t)take(at, 4);
}

/* Returns the pad, or -EBADMSG: a transport version that is not 0. */
static int take_bth(struct hca_packet *p, const uint8_t **at)
{
	uint8_t flags, link;

	p->opcode = (uint8_t)take(at, 1);
	flags = (uint8_t)take(at, 1);
	p->solicited = flags & 0x80;
	p->pkey = (uint16_t)take(at, 2);
	link = (uint8_t)take(at, 1);
	p->route.has_grh = !(link & CODEC_IB_LINK) || link & CODEC_IB_GRH;
	p->route.sl = link & CODEC_IB_LINK ? link >> CODEC_IB_SL_SHIFT & 0xf : 0;
	p->dest_qpn = (uint32_t)take(at, 3);
	p->ack_request = take(at, 1) & 0x80;
	p->psn = (uint32_t)take(at, 3);
	return flags & 0xf ? -EBADMSG : flags >> 4 & 3;
}

int codec_decode(struct hca_packet *p, const uint8_t *from, size_t n)
{
	const uint8_t *at = from;
	uint16_t shape;
	size_t rest;
	int pad;

	if (n < CODEC_BTH_BYTES || n > CODEC_MAX_BYTES || n % 4)
		return -EBADMSG;
	pad = take_bth(p, &at);
	shape = shapes[p->opcode];
	if (pad < 0 || !shape || n < CODEC_BTH_BYTES + extension_bytes(shape))
		return -EBADMSG;
	take_extensions(p, &at, shape);
	rest = n - (size_t)(at - from);
	if (rest < (size_t)pad || (rest && !(shape & PAYLOAD)) ||
	    rest - (size_t)pad > CODEC_MAX_PAYLOAD_BYTES)
		return -EBADMSG;
	p->payload = at;
	p->length = (uint32_t)(rest - (size_t)pad);
	return 0;
}

bool codec_is_response(uint8_t opcode)
{
	return opcode >= (HCA_RC | HCA_READ_RESPONSE_FIRST) &&
	       opcode <= (HCA_RC | HCA_ATOMIC_ACKNOWLEDGE);
}

bool codec_is_ipv4(const uint8_t address[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(address, prefix, sizeof(prefix));
}
