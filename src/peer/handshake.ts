/**
 * Both sides of the handshake as machines over bytes; words and their order are described in src/wire/peer/handshake.ts.
 * The HMAC covers every byte said so far and the role, so a proof fits this conversation and this direction only. The
 * secret guards who may talk; what is said afterwards is neither hidden nor signed.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  PROTOCOL_VERSION,
  WORD_BYTES_MAX,
  WORD_CHALLENGE,
  WORD_HELLO,
  WORD_PROOF,
  WORD_REFUSAL,
  WORD_WELCOME,
  decodeHello,
  decodeRefusal,
  decodeWelcome,
  encodeChallenge,
  encodeHello,
  encodeIntroduction,
  encodeProof,
  encodeRefusal,
  encodeWelcome,
  isChallenge,
  isProof,
  readWord,
} from '../wire/peer/handshake.ts';
import type { Hello, Introduction, Refusal, RefusalCode, Word } from '../wire/peer/handshake.ts';

/** What to do after some bytes came in. */
export type Step =
  | { readonly kind: 'more' }
  | { readonly kind: 'say'; readonly bytes: Uint8Array }
  /** The other side has proved itself and fits. `say`: the last word; `rest`: what came behind the handshake. */
  | { readonly kind: 'done'; readonly peer: Introduction; readonly say: Uint8Array; readonly rest: Uint8Array }
  /** The connection is over. `say` is empty when the other side would not understand, or said it itself. */
  | { readonly kind: 'over'; readonly refusal: Refusal; readonly say: Uint8Array };

const NOTHING = new Uint8Array(0);
const MORE: Step = { kind: 'more' };
const TEXT_CHARS_MAX = 200;

/** Takes at most one word's worth of bytes. */
class Words {
  #bytes: Uint8Array = NOTHING;

  push(chunk: Uint8Array): boolean {
    if (this.#bytes.length + chunk.length > WORD_BYTES_MAX) return false;
    const joined = new Uint8Array(this.#bytes.length + chunk.length);
    joined.set(this.#bytes);
    joined.set(chunk, this.#bytes.length);
    this.#bytes = joined;
    return true;
  }

  /** The next word and its bytes. */
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
  readonly #words = new Words();
  #helloRaw: Uint8Array = NOTHING;
  #challengeRaw: Uint8Array = NOTHING;

  constructor(hello: Hello, secret: string) {
    this.#hello = hello;
    this.#secret = secret;
  }

  /** `version` differs from ours only in tests. */
  start(version: number = PROTOCOL_VERSION): Uint8Array {
    this.#helloRaw = encodeHello(this.#hello, version);
    return this.#helloRaw;
  }

  receive(chunk: Uint8Array): Step {
    if (!this.#words.push(chunk)) return over('malformed', 'more bytes than a handshake has');
    const next = this.#words.next();
    if (next === undefined) return MORE;
    if (next === 'malformed') return over('malformed', 'the answer is not of the peer protocol');
    const { word, raw } = next;
    if (word.kind === WORD_REFUSAL) return { kind: 'over', refusal: refusalOf(word), say: NOTHING };
    if (word.version !== PROTOCOL_VERSION) return over('other-version', versionText(word.version));
    if (this.#challengeRaw.length === 0) {
      if (word.kind !== WORD_CHALLENGE || !isChallenge(word.body)) return over('malformed', 'a challenge was due');
      this.#challengeRaw = raw.slice();
      return { kind: 'say', bytes: encodeProof(hmac(this.#secret, 'connector', this.#helloRaw, this.#challengeRaw)) };
    }
    return this.#onWelcome(word);
  }

  #onWelcome(word: Word): Step {
    const welcome = word.kind === WORD_WELCOME ? decodeWelcome(word.body) : undefined;
    if (welcome === undefined) return over('malformed', 'a welcome was due');
    const { self: peer, proof } = welcome;
    const due = hmac(this.#secret, 'acceptor', this.#helloRaw, this.#challengeRaw, encodeIntroduction(peer));
    if (!timingSafeEqual(due, proof)) return over('wrong-secret', `node ${peer.node} does not know the cluster secret`);
    const { self, toNode, toShard } = this.#hello;
    const fault = misfit(self, peer) ?? wrongAddress(toNode, toShard, peer);
    if (fault !== undefined) return { kind: 'over', refusal: fault, say: NOTHING };
    return { kind: 'done', peer, say: NOTHING, rest: this.#words.rest };
  }
}

export class AcceptorHandshake {
  readonly #self: Introduction;
  readonly #secret: string;
  readonly #challenge: Uint8Array;
  readonly #words = new Words();
  #hello: Hello | undefined;
  #helloRaw: Uint8Array = NOTHING;

  constructor(self: Introduction, secret: string, nonce: Uint8Array) {
    this.#self = self;
    this.#secret = secret;
    this.#challenge = encodeChallenge(nonce);
  }

  receive(chunk: Uint8Array): Step {
    if (!this.#words.push(chunk)) return over('malformed', 'more bytes than a handshake has');
    const next = this.#words.next();
    if (next === undefined) return MORE;
    // Whoever does not speak our protocol gets no answer in it.
    if (next === 'malformed') return over('malformed', 'the bytes are not of the peer protocol');
    const { word, raw } = next;
    if (word.version !== PROTOCOL_VERSION) return refuse('other-version', versionText(word.version));
    // Nobody speaks ahead of the answer.
    if (this.#words.rest.length > 0) return refuse('malformed', 'bytes behind the word');
    return this.#hello === undefined ? this.#onHello(word, raw) : this.#onProof(this.#hello, word);
  }

  #onHello(word: Word, raw: Uint8Array): Step {
    const hello = word.kind === WORD_HELLO ? decodeHello(word.body) : undefined;
    if (hello === undefined) return refuse('malformed', 'a hello was due');
    this.#hello = hello;
    this.#helloRaw = raw.slice();
    return { kind: 'say', bytes: this.#challenge };
  }

  #onProof(hello: Hello, word: Word): Step {
    const self = this.#self;
    if (word.kind !== WORD_PROOF || !isProof(word.body)) return refuse('malformed', 'a proof was due');
    const due = hmac(this.#secret, 'connector', this.#helloRaw, this.#challenge);
    if (!timingSafeEqual(due, word.body)) {
      return refuse('wrong-secret', `the cluster secret differs from that of node ${self.node}`);
    }
    const fault = misfit(self, hello.self) ?? wrongAddress(hello.toNode, hello.toShard, self);
    if (fault !== undefined) return refuse(fault.code, fault.text);
    const proof = hmac(this.#secret, 'acceptor', this.#helloRaw, this.#challenge, encodeIntroduction(self));
    return { kind: 'done', peer: hello.self, say: encodeWelcome({ self, proof }), rest: NOTHING };
  }
}

function hmac(secret: string, role: 'connector' | 'acceptor', ...said: readonly Uint8Array[]): Uint8Array {
  const code = createHmac('sha256', secret).update(`millrace peer link, ${role}\0`);
  // Every part says its own length, so no two conversations read the same.
  for (const part of said) code.update(part);
  return code.digest();
}

/** Nodes that cannot be in one cluster. */
function misfit(self: Introduction, peer: Introduction): Refusal | undefined {
  if (peer.clusterId !== self.clusterId) {
    return refusal(
      'other-cluster',
      `node ${peer.node} is of cluster "${peer.clusterId}", node ${self.node} of "${self.clusterId}"`,
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
function wrongAddress(toNode: number, toShard: number, reached: Introduction): Refusal | undefined {
  if (toNode !== reached.node) return refusal('wrong-node', `this is node ${reached.node}, not node ${toNode}`);
  if (toShard !== reached.shard) return refusal('wrong-shard', `this is shard ${reached.shard}, not shard ${toShard}`);
  return undefined;
}

function versionText(theirs: number): string {
  return `one side speaks peer protocol ${PROTOCOL_VERSION}, the other ${theirs}`;
}

function refusalOf(word: Word): Refusal {
  const { code, text } = decodeRefusal(word.body) ?? refusal('malformed', 'a refusal that cannot be read');
  return { code, text: text.slice(0, TEXT_CHARS_MAX) };
}

function refusal(code: RefusalCode, text: string): Refusal {
  return { code, text };
}

function refuse(code: RefusalCode, text: string): Step {
  const told = refusal(code, text);
  return { kind: 'over', refusal: told, say: encodeRefusal(told) };
}

function over(code: RefusalCode, text: string): Step {
  return { kind: 'over', refusal: refusal(code, text), say: NOTHING };
}
