// The words by which nodes get to know each other, in each version of the peer protocol that is spoken, with the proofs
// in them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AcceptorHandshake, ConnectorHandshake } from '../../src/peer/handshake.ts';
import {
  type PeerIdentity,
  type RefusalCode,
  decodeHello,
  decodeRefusal,
  decodeWelcome,
  encodeChallenge,
  encodeHello,
  encodeIdentity,
  encodeProof,
  encodeRefusal,
  encodeWelcome,
  readWord,
} from '../../src/peer/codec/handshake.ts';
import type { Standing } from '../../src/peer/codec/standing.ts';
import { Layouts, bytesFrom } from './layouts.ts';

const VERSIONS = [2, 3, 8, 9];
const SECRET = '8f14e45fceea167a5a36dedd4bea2543';
const IDENTITY = '0123456789abcdef0011223344556677';

const standing = {
  identity: IDENTITY,
  directory: 'fedcba9876543210',
  incarnation: 2 ** 33 + 7,
  settled: [{ directory: '', incarnation: 0 }],
  remembers: {
    ...{ directory: '00ff00ff00ff00ff', incarnation: 41, boot: 1_234_567_890_124 },
    settled: [
      { directory: 'aaaabbbbccccdddd', incarnation: 3 },
      { directory: '0000111122223333', incarnation: 2 ** 40 },
    ],
  },
};
const connector: PeerIdentity = {
  ...{ clusterId: 'Ünï', groupCount: 0x0102, node: 0x0304_0506, shard: 3, shardCount: 4, boot: 1_234_567_890_123 },
  standing,
  publicUrl: 'https://[::1]:4437',
};
const acceptor: PeerIdentity = {
  ...connector,
  ...{ node: 7, shard: 1, shardCount: 2, boot: 1_234_567_890_999 },
  standing: { ...standing, directory: '1111222233334444', incarnation: 1, remembers: undefined },
  publicUrl: '',
};
/** As a node that does not know its cluster yet says it. */
const NO_STANDING: Standing = { identity: '', directory: '', incarnation: 0, settled: [], remembers: undefined };
const hello = { self: connector, toNode: acceptor.node, toShard: acceptor.shard, nonce: bytesFrom(1, 32) };
const PROOF = bytesFrom(100, 32);

function bodyOf(bytes: Uint8Array, version: number): Uint8Array {
  const word = readWord(bytes);
  assert(word !== undefined && word !== 'malformed');
  assert.deepEqual([word.version, word.sizeBytes], [version, bytes.length]);
  return word.body;
}

/** Version 2 does not tell of data directories, nor version 7 of clients, nor version 8 of losses. */
function asSaid(self: PeerIdentity, version: number): PeerIdentity {
  const { standing: said = NO_STANDING, publicUrl = '', ...rest } = self;
  if (version < 3) return rest;
  const remembers = said.remembers && { ...said.remembers, settled: [] };
  const standing = version < 9 ? { ...said, settled: [], remembers } : said;
  return { ...rest, standing, ...(version < 8 ? {} : { publicUrl }) };
}

test('each word of a handshake', () => {
  for (const version of VERSIONS) {
    const layouts = new Layouts(`peer: handshake, version ${version}`);
    const { standing: _, publicUrl: __, ...young } = connector;
    for (const [name, self] of [
      ['hello', connector],
      ['hello of a node without a past', young],
    ] as const) {
      const bytes = layouts.same(name, encodeHello({ ...hello, self }, version));
      assert.deepEqual(decodeHello(bodyOf(bytes, version), version), { ...hello, self: asSaid(self, version) });
    }
    const challenge = layouts.same('challenge', encodeChallenge(bytesFrom(50, 32), version));
    assert.deepEqual(bodyOf(challenge, version), bytesFrom(50, 32));
    assert.deepEqual(bodyOf(layouts.same('proof', encodeProof(PROOF, version)), version), PROOF);
    const welcome = layouts.same('welcome', encodeWelcome({ self: acceptor, proof: PROOF }, version));
    const read = decodeWelcome(bodyOf(welcome, version), version);
    assert.deepEqual(read, { self: asSaid(acceptor, version), proof: PROOF });
    layouts.same('introduction, as it is signed', encodeIdentity(connector, version));
    layouts.end();
  }
});

test('each refusal', () => {
  const layouts = new Layouts('peer: refusals');
  const codes = [
    ...[
      'malformed',
      'other-version',
      'wrong-secret',
      'other-cluster',
      'other-group-count',
      'wrong-node',
      'wrong-shard',
    ],
    'too-many-connections',
  ] as RefusalCode[];
  for (const code of codes) {
    const refusal = { code, text: `why: ${code}` };
    const bytes = layouts.same(code, encodeRefusal(refusal, 3));
    assert.deepEqual(decodeRefusal(bodyOf(bytes, 3)), refusal);
  }
  layouts.end();
});

test('a whole conversation, with its proofs', () => {
  for (const version of VERSIONS) {
    const layouts = new Layouts(`peer: conversation, version ${version}`);
    const one = new ConnectorHandshake(hello, SECRET, version);
    const nonce = bytesFrom(150, 32);
    const other = new AcceptorHandshake({ introduce: () => acceptor, secret: SECRET, nonce });
    const challenge = other.receive(layouts.same('1 hello', one.start()));
    assert(challenge.kind === 'say');
    const proof = one.receive(layouts.same('2 challenge', challenge.bytes));
    assert(proof.kind === 'say');
    const welcome = other.receive(layouts.same('3 proof', proof.bytes));
    assert(welcome.kind === 'done');
    assert.deepEqual(welcome.peer, asSaid(connector, version));
    const end = one.receive(layouts.same('4 welcome', welcome.say));
    assert(end.kind === 'done');
    assert.deepEqual(end.peer, asSaid(acceptor, version));
    layouts.end();
  }
});
