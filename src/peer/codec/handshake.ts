/**
 * The handshake of two shards before the first frame:
 *
 *   connector                         acceptor
 *   HELLO  who I am, whom I want  ->
 *                                 <-  CHALLENGE  nonce               (or REFUSAL)
 *   PROOF  HMAC over both         ->
 *                                 <-  WELCOME  who I am, HMAC        (or REFUSAL)
 *
 * Each frame: magic u32 | version u16 | kind u8 | zero u8 | bodyBytes u32 | body. This header and the body of a REFUSAL
 * stay the same in every version, so that nodes of different versions can explain to each other why they cannot
 * connect. The connector proves itself first, so a stranger gets no HMAC for guessing the secret. Only nodes that know
 * the secret learn what does not match.
 */
import { Reader, Writer, textFieldBytes } from '../../base/cursor.ts';
import { type Standing, readStanding, standingBytes, writeStanding } from './standing.ts';

/**
 * Changes when frames change in a way that the other side would misread. 1: first. 3: identities include data
 * directories (standing.ts). A connector that is refused for its version reconnects with the acceptor's, down to the
 * minimum.
 */
export const PROTOCOL_VERSION = 3;
export const PROTOCOL_VERSION_LEAST = 2;
const VERSION_WITH_STANDING = 3;
/** From this version on large frames travel in pieces. */
export const VERSION_WITH_PIECES = 3;
/** "MRPL". */
const MAGIC = 0x4c50524d;
const HEAD_BYTES = 12;
/**
 * One frame, including its header. The longest, a HELLO, stays below 600 bytes; a stranger can make us hold this much.
 */
export const WORD_BYTES_MAX = 4096;
export const NONCE_BYTES = 32;
export const PROOF_BYTES = 32;
export const CLUSTER_ID_BYTES_MAX = 255;

export const WORD_HELLO = 1;
export const WORD_CHALLENGE = 2;
export const WORD_PROOF = 3;
export const WORD_WELCOME = 4;
export const WORD_REFUSAL = 5;

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
] as const;
export type RefusalCode = (typeof REFUSALS)[number];

/** What both sides report about themselves. */
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

export interface Refusal {
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
  if (bytes.length < HEAD_BYTES) return startsLikeMagic(bytes) ? undefined : 'malformed';
  const magic = reader.u32();
  const version = reader.u16();
  const kind = reader.u8();
  const zero = reader.u8();
  const bodyBytes = reader.u32();
  if (magic !== MAGIC || zero !== 0 || bodyBytes > WORD_BYTES_MAX - HEAD_BYTES) return 'malformed';
  if (reader.leftBytes < bodyBytes) return undefined;
  return { version, kind, body: reader.bytes(bodyBytes), sizeBytes: HEAD_BYTES + bodyBytes };
}

function startsLikeMagic(bytes: Uint8Array): boolean {
  for (let i = 0; i < Math.min(4, bytes.length); i++) {
    if (bytes[i] !== ((MAGIC >>> (8 * i)) & 0xff)) return false;
  }
  return true;
}

export function isSpoken(version: number, newest: number): boolean {
  return version >= PROTOCOL_VERSION_LEAST && version <= newest;
}

/** HELLO: identity | toNode u32 | toShard u16 | nonce. */
export function encodeHello(hello: Hello, version: number = PROTOCOL_VERSION): Uint8Array {
  const writer = wordWriter(WORD_HELLO, introductionBytes(hello.self, version) + 6 + NONCE_BYTES, version);
  writeIdentity(writer, hello.self, version);
  writer.u32(hello.toNode);
  writer.u16(hello.toShard);
  writer.raw(hello.nonce);
  return writer.finish();
}

export function decodeHello(body: Uint8Array, version: number = PROTOCOL_VERSION): Hello | undefined {
  const reader = new Reader(body);
  const self = readIdentity(reader, version);
  const hello = { self, toNode: reader.u32(), toShard: reader.u16(), nonce: reader.ownBytes(NONCE_BYTES) };
  return reader.finished ? hello : undefined;
}

/** CHALLENGE: nonce. */
export function encodeChallenge(nonce: Uint8Array, version: number = PROTOCOL_VERSION): Uint8Array {
  const writer = wordWriter(WORD_CHALLENGE, NONCE_BYTES, version);
  writer.raw(nonce);
  return writer.finish();
}

export function isChallenge(body: Uint8Array): boolean {
  return body.length === NONCE_BYTES;
}

/** PROOF: HMAC. */
export function encodeProof(proof: Uint8Array, version: number = PROTOCOL_VERSION): Uint8Array {
  const writer = wordWriter(WORD_PROOF, PROOF_BYTES, version);
  writer.raw(proof);
  return writer.finish();
}

export function isProof(body: Uint8Array): boolean {
  return body.length === PROOF_BYTES;
}

/** WELCOME: identity | HMAC. */
export function encodeWelcome({ self, proof }: Welcome, version: number = PROTOCOL_VERSION): Uint8Array {
  const writer = wordWriter(WORD_WELCOME, introductionBytes(self, version) + PROOF_BYTES, version);
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

/** REFUSAL: code u8 | sentence. Its version is the newest that the refuser speaks. */
export function encodeRefusal({ code, text }: Refusal, newest: number = PROTOCOL_VERSION): Uint8Array {
  const writer = wordWriter(WORD_REFUSAL, 1 + textFieldBytes(text), newest);
  writer.u8(REFUSALS.indexOf(code));
  writer.text(text);
  return writer.finish();
}

export function decodeRefusal(body: Uint8Array): Refusal | undefined {
  const reader = new Reader(body);
  const code = REFUSALS[reader.u8()] ?? 'malformed';
  const text = reader.text();
  return reader.finished ? { code, text } : undefined;
}

function wordWriter(kind: number, bodyBytes: number, version: number): Writer {
  const writer = new Writer(new Uint8Array(HEAD_BYTES + bodyBytes));
  writer.u32(MAGIC);
  writer.u16(version);
  writer.u8(kind);
  writer.u8(0);
  writer.u32(bodyBytes);
  return writer;
}

/**
 * PeerIdentity: groupCount u16 | node u32 | shard u16 | shardCount u16 | boot f64 | cluster id, and from version 3 on
 * the standing.
 */
function introductionBytes(self: PeerIdentity, version: number): number {
  const standing = version < VERSION_WITH_STANDING ? 0 : standingBytes(self.standing);
  return 18 + textFieldBytes(self.clusterId) + standing;
}

function writeIdentity(writer: Writer, self: PeerIdentity, version: number): void {
  writer.u16(self.groupCount);
  writer.u32(self.node);
  writer.u16(self.shard);
  writer.u16(self.shardCount);
  writer.int53(self.boot);
  writer.text(self.clusterId);
  if (version >= VERSION_WITH_STANDING) writeStanding(writer, self.standing);
}

function readIdentity(reader: Reader, version: number): PeerIdentity {
  const groupCount = reader.u16();
  const node = reader.u32();
  const shard = reader.u16();
  const shardCount = reader.u16();
  const boot = reader.int53(1);
  const clusterId = reader.text();
  if (node === 0 || groupCount === 0 || shard >= shardCount || clusterId.length > CLUSTER_ID_BYTES_MAX) reader.fail();
  const self = { clusterId, groupCount, node, shard, shardCount, boot };
  return version < VERSION_WITH_STANDING ? self : { ...self, standing: readStanding(reader) };
}
