/**
 * The handshake of two shards before the first frame:
 *
 *   connector                         acceptor
 *   HELLO  who I am, whom I want  ->
 *                                 <-  CHALLENGE  nonce               (or REFUSAL)
 *   PROOF  HMAC over both         ->
 *                                 <-  WELCOME  who I am, HMAC        (or REFUSAL)
 *
 * Each frame has a WORD in front of its body. This header and the body of a REFUSAL
 * stay the same in every version, so that nodes of different versions can explain to each other why they cannot
 * connect. The connector proves itself first, so a stranger gets no HMAC for guessing the secret. Only nodes that know
 * the secret learn what does not match.
 */
import { isPublicUrl } from '../../base/address.ts';
import { Reader, Writer, textFieldBytes } from '../../base/cursor.ts';
import { f64, struct, u16, u32, u8 } from '../../base/struct.ts';
import { type Standing, readStanding, standingBytes, writeStanding } from './standing.ts';

/**
 * Changes when frames change in a way that the other side would misread. 1: first. 3: identities include data
 * directories (standing.ts). 4: large requests travel in pieces of their own, and logs have large commands in pieces. 5:
 * answers may ask for the leader's state. 6: commands may expect a tail. 7: leaders compare the rows of replicas. 8:
 * identities include where clients reach the node. 9: and the runs whose loss a directory had noticed. A connector that
 * is refused for its version reconnects with the acceptor's, down to the minimum.
 */
export const PROTOCOL_VERSION = 9;
export const PROTOCOL_VERSION_LEAST = 2;
const VERSION_WITH_STANDING = 3;
/** From this version on large frames travel in pieces. */
export const VERSION_WITH_PIECES = 3;
export const VERSION_WITH_FORWARD_PIECES = 4;
/** Nodes from this version on apply large commands in pieces. */
export const VERSION_WITH_COMMAND_PIECES = 4;
/** Leaders from this version on repair a peer's applied state. */
export const VERSION_WITH_REPAIR = 5;
/** Nodes from this version on know KIND_EXPECTING (protocol/command-layout.ts); others stop when they apply it. */
export const VERSION_WITH_EXPECTATIONS = 6;
/** Nodes from this version on compare their rows with those of others (comparison.ts). */
export const VERSION_WITH_COMPARISON = 7;
const VERSION_WITH_PUBLIC_URL = 8;
const VERSION_WITH_SETTLED = 9;
/** "MRPL". */
const MAGIC = 0x4c50524d;
export const WORD = struct({ magic: u32, version: u16, kind: u8, zero: u8, bodyBytes: u32 }, 'body');
export const IDENTITY = struct(
  { groupCount: u16, node: u32, shard: u16, shardCount: u16, boot: f64 },
  'cluster id (size u16, UTF-8); from version 3 on the standing; from version 8 on the public URL (size u16, UTF-8)',
);
export const HELLO = struct({ toNode: u32, toShard: u16 }, 'nonce, 32 bytes');
export const REFUSAL = struct({ code: u8 }, 'sentence (size u16, UTF-8)');
/** One frame, including its header. The longest, a HELLO, stays below 1,200 bytes; a stranger can make us hold it. */
export const WORD_BYTES_MAX = 4096;
export const NONCE_BYTES = 32;
export const PROOF_BYTES = 32;
export const CLUSTER_ID_BYTES_MAX = 255;

export const WORD_KIND = { hello: 1, challenge: 2, proof: 3, welcome: 4, refusal: 5 } as const;

/** Why two nodes do not connect. The position is the number on the wire: new ones go to the end. */
const REFUSALS = [
  'malformed',
  'other-version',
  'wrong-secret',
  'other-cluster',
  'other-group-count',
  'wrong-node',
  'wrong-shard',
  'too-many-connections',
  'tls-required',
  'wrong-certificate',
] as const;
export type RefusalCode = (typeof REFUSALS)[number];

/** Facts that both sides report about themselves. */
export interface PeerIdentity {
  readonly clusterId: string;
  readonly groupCount: number;
  readonly node: number;
  readonly shard: number;
  readonly shardCount: number;
  /** This run of the process. */
  readonly boot: number;
  /** Missing in version 2. */
  readonly standing?: Standing;
  /** Where clients reach the node; empty: it does not say. Missing before version 8. */
  readonly publicUrl?: string;
}

export interface Hello {
  readonly self: PeerIdentity;
  /** The node that the connector expects. */
  readonly toNode: number;
  readonly toShard: number;
  readonly nonce: Uint8Array;
}

export interface Welcome {
  readonly self: PeerIdentity;
  readonly proof: Uint8Array;
}

export interface LinkRefusal {
  readonly code: RefusalCode;
  readonly text: string;
}

/** A complete frame at the start of the bytes. `body` is a view. */
export interface Word {
  readonly version: number;
  readonly kind: number;
  readonly body: Uint8Array;
  readonly sizeBytes: number;
}

/** Undefined: more bytes are needed. 'malformed': these bytes are not our protocol. */
export function readWord(bytes: Uint8Array): Word | 'malformed' | undefined {
  const reader = new Reader(bytes);
  if (bytes.length < WORD.size) return startsLikeMagic(bytes) ? undefined : 'malformed';
  const { magic, version, kind, zero, bodyBytes } = reader.record(WORD);
  if (magic !== MAGIC || zero !== 0 || bodyBytes > WORD_BYTES_MAX - WORD.size) return 'malformed';
  if (reader.leftBytes < bodyBytes) return undefined;
  return { version, kind, body: reader.bytes(bodyBytes), sizeBytes: WORD.size + bodyBytes };
}

function startsLikeMagic(bytes: Uint8Array): boolean {
  for (let i = 0; i < Math.min(WORD.fields.magic.end, bytes.length); i++) {
    if (bytes[i] !== ((MAGIC >>> (8 * i)) & 0xff)) return false;
  }
  return true;
}

export function isSpoken(version: number, newest: number): boolean {
  return version >= PROTOCOL_VERSION_LEAST && version <= newest;
}

/** The identity, a HELLO, the nonce. */
export function encodeHello(hello: Hello, version: number = PROTOCOL_VERSION): Uint8Array {
  const writer = wordWriter(
    WORD_KIND.hello,
    introductionBytes(hello.self, version) + HELLO.size + NONCE_BYTES,
    version,
  );
  writeIdentity(writer, hello.self, version);
  writer.record(HELLO, hello);
  writer.raw(hello.nonce);
  return writer.finish();
}

export function decodeHello(body: Uint8Array, version: number = PROTOCOL_VERSION): Hello | undefined {
  const reader = new Reader(body);
  const self = readIdentity(reader, version);
  const hello = { self, ...reader.record(HELLO), nonce: reader.ownBytes(NONCE_BYTES) };
  return reader.finished ? hello : undefined;
}

/** CHALLENGE: nonce. */
export function encodeChallenge(nonce: Uint8Array, version: number = PROTOCOL_VERSION): Uint8Array {
  const writer = wordWriter(WORD_KIND.challenge, NONCE_BYTES, version);
  writer.raw(nonce);
  return writer.finish();
}

/** PROOF: HMAC. */
export function encodeProof(proof: Uint8Array, version: number = PROTOCOL_VERSION): Uint8Array {
  const writer = wordWriter(WORD_KIND.proof, PROOF_BYTES, version);
  writer.raw(proof);
  return writer.finish();
}

/** WELCOME: identity | HMAC. */
export function encodeWelcome({ self, proof }: Welcome, version: number = PROTOCOL_VERSION): Uint8Array {
  const writer = wordWriter(WORD_KIND.welcome, introductionBytes(self, version) + PROOF_BYTES, version);
  writeIdentity(writer, self, version);
  writer.raw(proof);
  return writer.finish();
}

export function decodeWelcome(body: Uint8Array, version: number = PROTOCOL_VERSION): Welcome | undefined {
  const reader = new Reader(body);
  const welcome = { self: readIdentity(reader, version), proof: reader.ownBytes(PROOF_BYTES) };
  return reader.finished ? welcome : undefined;
}

/** An identity as bytes, for the HMAC. */
export function encodeIdentity(self: PeerIdentity, version: number): Uint8Array {
  const writer = new Writer(new Uint8Array(introductionBytes(self, version)));
  writeIdentity(writer, self, version);
  return writer.finish();
}

/** Its version is the newest that the refuser speaks. */
export function encodeRefusal({ code, text }: LinkRefusal, newest: number = PROTOCOL_VERSION): Uint8Array {
  const writer = wordWriter(WORD_KIND.refusal, REFUSAL.size + textFieldBytes(text), newest);
  writer.record(REFUSAL, { code: REFUSALS.indexOf(code) });
  writer.text(text);
  return writer.finish();
}

export function decodeRefusal(body: Uint8Array): LinkRefusal | undefined {
  const reader = new Reader(body);
  const code = REFUSALS[reader.record(REFUSAL).code] ?? 'malformed';
  const text = reader.text();
  return reader.finished ? { code, text } : undefined;
}

function wordWriter(kind: number, bodyBytes: number, version: number): Writer {
  const writer = new Writer(new Uint8Array(WORD.size + bodyBytes));
  writer.record(WORD, { magic: MAGIC, version, kind, zero: 0, bodyBytes });
  return writer;
}

function introductionBytes(self: PeerIdentity, version: number): number {
  const standing = version < VERSION_WITH_STANDING ? 0 : standingBytes(self.standing, version >= VERSION_WITH_SETTLED);
  const publicUrl = version < VERSION_WITH_PUBLIC_URL ? 0 : textFieldBytes(self.publicUrl ?? '');
  return IDENTITY.size + textFieldBytes(self.clusterId) + standing + publicUrl;
}

function writeIdentity(writer: Writer, self: PeerIdentity, version: number): void {
  writer.record(IDENTITY, self);
  writer.text(self.clusterId);
  if (version >= VERSION_WITH_STANDING) writeStanding(writer, self.standing, version >= VERSION_WITH_SETTLED);
  if (version >= VERSION_WITH_PUBLIC_URL) writer.text(self.publicUrl ?? '');
}

function readIdentity(reader: Reader, version: number): PeerIdentity {
  const { groupCount, node, shard, shardCount, boot } = reader.record(IDENTITY);
  const clusterId = reader.text();
  const isSomebody = node > 0 && groupCount > 0 && boot > 0 && shard < shardCount;
  if (!isSomebody || clusterId.length > CLUSTER_ID_BYTES_MAX) reader.fail();
  const self = { clusterId, groupCount, node, shard, shardCount, boot };
  if (version < VERSION_WITH_STANDING) return self;
  const standing = readStanding(reader, version >= VERSION_WITH_SETTLED);
  if (version < VERSION_WITH_PUBLIC_URL) return { ...self, standing };
  const publicUrl = reader.text();
  if (publicUrl !== '' && !isPublicUrl(publicUrl)) reader.fail();
  return { ...self, standing, publicUrl };
}
