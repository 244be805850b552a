/**
 * Addresses of members that joined while the cluster ran. They are part of the configuration, so the next leader can
 * reach these members. Hosts find other members on their own. Consensus only carries addresses along.
 */
import { encodeUtf8, decodeUtf8Strict } from '../base/utf8.ts';
import type { Addresses, Configuration } from './types.ts';

/** Key of the cluster's identity among addresses. No member has this number; versions without identities drop it. */
const IDENTITY_AT = 0;

/** `configuration` with the addresses whose nodes are its members, and with the identity stored among them. */
export function withAddresses(configuration: Configuration, addresses: Addresses | undefined): Configuration {
  const { voters, votersOutgoing, learners } = configuration;
  const identity = addresses?.get(IDENTITY_AT) ?? configuration.identity;
  const all = new Set([...voters, ...votersOutgoing, ...learners]);
  const kept = new Map([...(addresses ?? [])].filter(([node]) => all.has(node)).sort(([a], [b]) => a - b));
  return {
    voters,
    votersOutgoing,
    learners,
    ...(kept.size === 0 ? {} : { addresses: kept }),
    ...(identity === undefined ? {} : { identity }),
  };
}

/** Layout: count (u16 LE), then for each, ascending: node (f64 LE), bytes (u16 LE), text in UTF-8. Empty: none. */
export function encodeAddresses({ addresses, identity }: Configuration): Uint8Array {
  const all: (readonly [number, string])[] = identity === undefined ? [] : [[IDENTITY_AT, identity]];
  const texts = [...all, ...(addresses ?? [])].map(([node, text]) => ({ node, text: encodeUtf8(text) }));
  if (texts.length === 0) return new Uint8Array(0);
  const bytes = new Uint8Array(texts.reduce((sum, { text }) => sum + 10 + text.length, 2));
  const view = new DataView(bytes.buffer);
  view.setUint16(0, texts.length, true);
  let at = 2;
  for (const { node, text } of texts) {
    view.setFloat64(at, node, true);
    view.setUint16(at + 8, text.length, true);
    bytes.set(text, at + 10);
    at += 10 + text.length;
  }
  return bytes;
}

/** Inverse of `encodeAddresses`; undefined for anything else. */
export function decodeAddresses(bytes: Uint8Array): Addresses | undefined {
  const addresses = new Map<number, string>();
  if (bytes.length === 0) return addresses;
  if (bytes.length < 2) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 2;
  for (let left = view.getUint16(0, true); left > 0; left -= 1) {
    if (at + 10 > bytes.length) return undefined;
    const node = view.getFloat64(at, true);
    const end = at + 10 + view.getUint16(at + 8, true);
    const text = end > bytes.length ? undefined : decodeUtf8Strict(bytes.subarray(at + 10, end));
    if (text === undefined || !Number.isSafeInteger(node)) return undefined;
    addresses.set(node, text);
    at = end;
  }
  return at === bytes.length ? addresses : undefined;
}
