/**
 * Both sides of the handshake as machines over bytes; src/peer/codec/handshake.ts describes the frames and their order.
 * The HMAC covers every byte so far and the role, so a proof is valid only for this conversation and direction. The
 * secret controls who may connect; later data is neither encrypted nor signed, but for TLS (tls.ts).
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  decodeHello,
  decodeRefusal,
  decodeWelcome,
  encodeChallenge,
  encodeHello,
  encodeIdentity,
  encodeProof,
  encodeRefusal,
  encodeWelcome,
  type Hello,
  isSpoken,
  type LinkRefusal,
  NONCE_BYTES,
  type PeerIdentity,
  PROOF_BYTES,
  PROTOCOL_VERSION,
  readWord,
  type RefusalCode,
  type Word,
  WORD_BYTES_MAX,
  WORD_KIND,
} from './codec/handshake.ts';

/** The step that follows received bytes. */
export type HandshakeStep =
  | { readonly kind: 'more' }
  | { readonly kind: 'say'; readonly bytes: Uint8Array }
  /** The other side has proved itself and matches. `say`: the last frame; `rest`: bytes after the handshake. */
  | { readonly kind: 'done'; readonly peer: PeerIdentity; readonly say: Uint8Array; readonly rest: Uint8Array }
  /** The connection is over. `say` is empty when the other side would not understand, or ended it itself. */
  | {
      readonly kind: 'over';
      readonly refusal: LinkRefusal;
      readonly say: Uint8Array;
      /** The newest version that the refuser speaks, if that is the reason. */
      readonly newest?: number;
    };

const NOTHING = new Uint8Array(0);
const MORE: HandshakeStep = { kind: 'more' };
/** Enough for two cluster identities and a hint. */
const TEXT_CHARS_MAX = 320;
const TWO_CLUSTERS = 'give each cluster its own cluster.name, or correct the address in cluster.peers';

/** Holds the bytes of at most one frame. */
class HandshakeFrames {
  #bytes: Uint8Array = NOTHING;

  push(chunk: Uint8Array): boolean {
    if (this.#bytes.length + chunk.length > WORD_BYTES_MAX) return false;
    const joined = new Uint8Array(this.#bytes.length + chunk.length);
    joined.set(this.#bytes);
    joined.set(chunk, this.#bytes.length);
    this.#bytes = joined;
    return true;
  }

  /** The next frame and its bytes. */
  next(): { readonly word: Word; readonly raw: Uint8Array } | 'malformed' | undefined {
    const word = readWord(this.#bytes);
    if (word === undefined || word === 'malformed') return word;
    const raw = this.#bytes.subarray(0, word.sizeBytes);
    this.#bytes = this.#bytes.subarray(word.sizeBytes);
    return { word, raw };
  }

  get rest(): Uint8Array {
    return this.#bytes;
  }
}

export class ConnectorHandshake {
  readonly #hello: Hello;
  readonly #secret: string;
  readonly #frames = new HandshakeFrames();
  readonly #version: number;
  readonly #now: () => PeerIdentity;
  #helloRaw: Uint8Array = NOTHING;
  #challengeRaw: Uint8Array = NOTHING;

  /** `now`: this node's identity at the end, when it may have learned its cluster from another peer. */
  constructor(
    hello: Hello,
    secret: string,
    version: number = PROTOCOL_VERSION,
    now: () => PeerIdentity = () => hello.self,
  ) {
    this.#hello = hello;
    this.#secret = secret;
    this.#version = version;
    this.#now = now;
  }

  start(): Uint8Array {
    this.#helloRaw = encodeHello(this.#hello, this.#version);
    return this.#helloRaw;
  }

  receive(chunk: Uint8Array): HandshakeStep {
    if (!this.#frames.push(chunk)) return over('malformed', 'more bytes than a handshake has');
    const next = this.#frames.next();
    if (next === undefined) return MORE;
    if (next === 'malformed') return over('malformed', 'the answer is not of the peer protocol');
    const { word, raw } = next;
    if (word.kind === WORD_KIND.refusal) return refusedBy(word);
    if (word.version !== this.#version) return over('other-version', versionText(this.#version, word.version));
    if (this.#challengeRaw.length === 0) {
      if (word.kind !== WORD_KIND.challenge || word.body.length !== NONCE_BYTES)
        return over('malformed', 'a challenge was due');
      this.#challengeRaw = raw.slice();
      const proof = hmac(this.#secret, 'connector', this.#helloRaw, this.#challengeRaw);
      return { kind: 'say', bytes: encodeProof(proof, this.#version) };
    }
    return this.#onWelcome(word);
  }

  #onWelcome(word: Word): HandshakeStep {
    const welcome = word.kind === WORD_KIND.welcome ? decodeWelcome(word.body, this.#version) : undefined;
    if (welcome === undefined) return over('malformed', 'a welcome was due');
    const { self: peer, proof } = welcome;
    const introduction = encodeIdentity(peer, this.#version);
    const due = hmac(this.#secret, 'acceptor', this.#helloRaw, this.#challengeRaw, introduction);
    if (!timingSafeEqual(due, proof)) return over('wrong-secret', `node ${peer.node} does not know the cluster secret`);
    const { toNode, toShard } = this.#hello;
    const fault = misfit(this.#now(), peer) ?? wrongAddress(toNode, toShard, peer);
    if (fault !== undefined) return { kind: 'over', refusal: fault, say: NOTHING };
    return { kind: 'done', peer, say: NOTHING, rest: this.#frames.rest };
  }
}

export interface AcceptorOptions {
  /** This node's identity as reported to `node`, at the time of the call. */
  readonly introduce: (node: number) => PeerIdentity;
  readonly secret: string;
  readonly nonce: Uint8Array;
  /** Differs from ours only in tests. */
  readonly newest?: number | undefined;
  /** Why this connection may not be that of `node`, whatever it says. */
  readonly faultOf?: (node: number) => LinkRefusal | undefined;
}

export class AcceptorHandshake {
  readonly #options: AcceptorOptions;
  readonly #newest: number;
  readonly #frames = new HandshakeFrames();
  #hello: Hello | undefined;
  #helloRaw: Uint8Array = NOTHING;
  #challengeRaw: Uint8Array = NOTHING;
  /** The connector's version, if we speak it. */
  #version = 0;

  constructor(options: AcceptorOptions) {
    this.#options = options;
    this.#newest = options.newest ?? PROTOCOL_VERSION;
  }

  receive(chunk: Uint8Array): HandshakeStep {
    if (!this.#frames.push(chunk)) return over('malformed', 'more bytes than a handshake has');
    const next = this.#frames.next();
    if (next === undefined) return MORE;
    // A client of another protocol gets no answer in ours.
    if (next === 'malformed') return over('malformed', 'the bytes are not of the peer protocol');
    const { word, raw } = next;
    if (this.#version === 0 && isSpoken(word.version, this.#newest)) this.#version = word.version;
    if (word.version !== this.#version) return this.#refuse('other-version', versionText(this.#newest, word.version));
    // Neither side sends ahead of the answer.
    if (this.#frames.rest.length > 0) return this.#refuse('malformed', 'bytes behind the word');
    return this.#hello === undefined ? this.#onHello(word, raw) : this.#onProof(this.#hello, word);
  }

  #onHello(word: Word, raw: Uint8Array): HandshakeStep {
    const hello = word.kind === WORD_KIND.hello ? decodeHello(word.body, this.#version) : undefined;
    if (hello === undefined) return this.#refuse('malformed', 'a hello was due');
    const fault = this.#options.faultOf?.(hello.self.node);
    if (fault !== undefined) return this.#refuse(fault.code, fault.text);
    this.#hello = hello;
    this.#helloRaw = raw.slice();
    this.#challengeRaw = encodeChallenge(this.#options.nonce, this.#version);
    return { kind: 'say', bytes: this.#challengeRaw };
  }

  #onProof(hello: Hello, word: Word): HandshakeStep {
    const { introduce, secret } = this.#options;
    const self = introduce(hello.self.node);
    if (word.kind !== WORD_KIND.proof || word.body.length !== PROOF_BYTES)
      return this.#refuse('malformed', 'a proof was due');
    const due = hmac(secret, 'connector', this.#helloRaw, this.#challengeRaw);
    if (!timingSafeEqual(due, word.body)) {
      return this.#refuse('wrong-secret', `the cluster secret differs from that of node ${self.node}`);
    }
    const fault = misfit(self, hello.self) ?? wrongAddress(hello.toNode, hello.toShard, self);
    if (fault !== undefined) return this.#refuse(fault.code, fault.text);
    const introduction = encodeIdentity(self, this.#version);
    const proof = hmac(secret, 'acceptor', this.#helloRaw, this.#challengeRaw, introduction);
    return { kind: 'done', peer: hello.self, say: encodeWelcome({ self, proof }, this.#version), rest: NOTHING };
  }

  #refuse(code: RefusalCode, text: string): HandshakeStep {
    const told = refusal(code, text);
    return { kind: 'over', refusal: told, say: encodeRefusal(told, this.#newest) };
  }
}

function hmac(secret: string, role: 'connector' | 'acceptor', ...said: readonly Uint8Array[]): Uint8Array {
  const code = createHmac('sha256', secret).update(`millrace peer link, ${role}\0`);
  // Every part includes its length, so no two conversations have the same bytes.
  for (const part of said) code.update(part);
  return code.digest();
}

/** Reasons why two nodes cannot be in one cluster. */
export function misfit(self: PeerIdentity, peer: PeerIdentity): LinkRefusal | undefined {
  if (peer.clusterId !== self.clusterId) {
    return refusal(
      'other-cluster',
      `node ${peer.node} is of cluster "${peer.clusterId}", node ${self.node} of "${self.clusterId}"`,
    );
  }
  const [theirs, ours] = [peer.standing?.identity ?? '', self.standing?.identity ?? ''];
  if (theirs !== '' && ours !== '' && theirs !== ours) {
    return refusal(
      'other-cluster',
      `the data directory of node ${peer.node} is of cluster ${theirs}, that of node ${self.node} of ${ours}; ${TWO_CLUSTERS}`,
    );
  }
  if (peer.groupCount !== self.groupCount) {
    return refusal(
      'other-group-count',
      `node ${peer.node} has raft.group_count ${peer.groupCount}, node ${self.node} has ${self.groupCount}`,
    );
  }
  if (peer.node === self.node) return refusal('wrong-node', `both sides are node ${self.node}`);
  return undefined;
}

/** The address leads to another node than the configuration says. */
function wrongAddress(toNode: number, toShard: number, reached: PeerIdentity): LinkRefusal | undefined {
  if (toNode !== reached.node) return refusal('wrong-node', `this is node ${reached.node}, not node ${toNode}`);
  if (toShard !== reached.shard) return refusal('wrong-shard', `this is shard ${reached.shard}, not shard ${toShard}`);
  return undefined;
}

function versionText(ours: number, theirs: number): string {
  return `one side speaks peer protocol ${ours}, the other ${theirs}`;
}

function refusedBy(word: Word): HandshakeStep {
  const { code, text } = decodeRefusal(word.body) ?? refusal('malformed', 'a refusal that cannot be read');
  const told = { kind: 'over', refusal: { code, text: text.slice(0, TEXT_CHARS_MAX) }, say: NOTHING } as const;
  return code === 'other-version' ? { ...told, newest: word.version } : told;
}

function refusal(code: RefusalCode, text: string): LinkRefusal {
  return { code, text };
}

function over(code: RefusalCode, text: string): HandshakeStep {
  return { kind: 'over', refusal: refusal(code, text), say: NOTHING };
}
