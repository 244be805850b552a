import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Reader } from '../../../src/base/cursor.ts';
import {
  NONCE_BYTES,
  PROTOCOL_VERSION,
  WORD_BYTES_MAX,
  WORD_KIND,
  decodeHello,
  decodeRefusal,
  decodeWelcome,
  encodeChallenge,
  encodeHello,
  encodeProof,
  encodeRefusal,
  encodeWelcome,
  readWord,
} from '../../../src/peer/codec/handshake.ts';
import { type DirectoryStart, SETTLED_SAID_MAX, readStarts } from '../../../src/peer/codec/standing.ts';
import type { Hello, Word } from '../../../src/peer/codec/handshake.ts';
import { createRandom, seedFromEnvironment } from '../../support/random.ts';

const random = createRandom(seedFromEnvironment());
const seed = `SEED=${random.seed}`;

const self = { clusterId: 'orders-é', groupCount: 16, node: 2 ** 32 - 1, shard: 3, shardCount: 4, boot: 2 ** 40 + 1 };
const hello: Hello = { self, toNode: 2, toShard: 1, nonce: new Uint8Array(random.bytes(NONCE_BYTES)) };
/** The standing of a host that says nothing about it. */
const NOTHING = { identity: '', directory: '', incarnation: 0, settled: [], remembers: undefined };

function word(bytes: Uint8Array): Word {
  const found = readWord(bytes);
  assert.ok(typeof found === 'object');
  assert.equal(found.sizeBytes, bytes.length);
  return found;
}

test('handshake frames survive a round trip', () => {
  const said = word(encodeHello(hello));
  assert.deepEqual([said.version, said.kind], [PROTOCOL_VERSION, WORD_KIND.hello]);
  assert.deepEqual(decodeHello(said.body), { ...hello, self: { ...self, standing: NOTHING, publicUrl: '' } });
  const proof = new Uint8Array(random.bytes(32));
  assert.deepEqual(decodeWelcome(word(encodeWelcome({ self, proof })).body), {
    self: { ...self, standing: NOTHING, publicUrl: '' },
    proof,
  });
  assert.deepEqual(new Uint8Array(word(encodeProof(proof)).body), proof);
  assert.deepEqual(new Uint8Array(word(encodeChallenge(proof)).body), proof);
  const refusal = { code: 'other-cluster', text: 'not mine – really' } as const;
  const refused = word(encodeRefusal(refusal));
  assert.equal(refused.kind, WORD_KIND.refusal);
  assert.deepEqual(decodeRefusal(refused.body), refusal);
});

/** Runs of directories; the first is of a version without ids. */
function startsUpTo(count: number): DirectoryStart[] {
  return Array.from({ length: count }, (_, i) => ({ directory: i === 0 ? '' : `${i}`.repeat(16), incarnation: i * i }));
}

test('what is said of data directories comes back, and older versions do not say it', () => {
  const settled = startsUpTo(SETTLED_SAID_MAX);
  const remembers = { directory: '0123456789abcdef', incarnation: 7, boot: 2 ** 31, settled };
  for (const standing of [
    { identity: 'f'.repeat(32), directory: 'fedcba9876543210', incarnation: 8, settled, remembers },
    { identity: '', directory: '', incarnation: 0, settled: startsUpTo(2), remembers: undefined },
    {
      identity: '',
      directory: '',
      incarnation: 1,
      settled: [],
      remembers: { ...remembers, directory: '', settled: [] },
    },
  ]) {
    const introduced = { ...self, standing, publicUrl: 'http://n1:80' };
    assert.deepEqual(decodeHello(word(encodeHello({ ...hello, self: introduced })).body)?.self, introduced);
    const proof = new Uint8Array(32);
    assert.deepEqual(decodeWelcome(word(encodeWelcome({ self: introduced, proof })).body)?.self, introduced);
    const old = word(encodeHello({ ...hello, self: introduced }, 2));
    assert.deepEqual([old.version, decodeHello(old.body, 2)], [2, { ...hello, self }]);
    const before = decodeHello(word(encodeHello({ ...hello, self: introduced }, 8)).body, 8)?.self.standing;
    const remembered = standing.remembers && { ...standing.remembers, settled: [] };
    assert.deepEqual(before, { ...standing, settled: [], remembers: remembered });
  }
  const foreign = [{ directory: 'x', incarnation: 1 }];
  const known = { directory: '', incarnation: 1, boot: 1, settled: foreign };
  for (const wrong of [{ identity: 'x' }, { directory: 'x' }, { settled: foreign }, { remembers: known }]) {
    const standing = { ...NOTHING, ...wrong };
    assert.equal(decodeHello(word(encodeHello({ ...hello, self: { ...self, standing } })).body), undefined);
  }
});

test('of more losses than a handshake holds the last ones are said, and one that tells of more is not understood', () => {
  const settled = startsUpTo(SETTLED_SAID_MAX + 1);
  const introduced = { ...self, standing: { ...NOTHING, settled } };
  const { body } = word(encodeHello({ ...hello, self: introduced }));
  assert.deepEqual(decodeHello(body)?.self.standing?.settled, settled.slice(1));
  const starts = new Reader(new Uint8Array(1000).fill(SETTLED_SAID_MAX + 1, 0, 1));
  readStarts(starts);
  assert(starts.bad);
});

test('an address that clients cannot have is refused', () => {
  for (const publicUrl of [
    'n1:80',
    'ftp://n1',
    'http://',
    'http://n1/x',
    'http://a@b',
    'http://n 1',
    'http://é',
    `http://${'n'.repeat(263)}`,
  ]) {
    const bytes = encodeHello({ ...hello, self: { ...self, publicUrl } });
    assert.equal(decodeHello(word(bytes).body), undefined, publicUrl);
  }
  // The longest name, with a port.
  const publicUrl = `https://${'n'.repeat(253)}:65535`;
  assert.equal(
    decodeHello(word(encodeHello({ ...hello, self: { ...self, publicUrl } })).body)?.self.publicUrl,
    publicUrl,
  );
  assert.equal(
    decodeHello(word(encodeHello({ ...hello, self: { ...self, publicUrl } }, 7)).body, 7)?.self.publicUrl,
    undefined,
  );
});

test('a frame of another version is still readable', () => {
  assert.equal(word(encodeHello(hello, 77)).version, 77);
});

test('other protocols are distinguished from an incomplete frame', () => {
  const bytes = encodeHello(hello);
  for (let size = 0; size < bytes.length; size++) assert.equal(readWord(bytes.subarray(0, size)), undefined, `${size}`);
  for (const text of ['G', 'GET / HTTP/1.1\r\n', '\x16\x03\x01', 'MRPK', '\0']) {
    assert.equal(readWord(new TextEncoder().encode(text)), 'malformed', text);
  }
  const huge = bytes.slice();
  new DataView(huge.buffer).setUint32(8, WORD_BYTES_MAX, true);
  assert.equal(readWord(huge), 'malformed');
});

test('introductions that cannot be are refused', () => {
  for (const wrong of [{ node: 0 }, { groupCount: 0 }, { shard: 4 }, { shardCount: 0 }, { boot: 0 }, { boot: 0.5 }]) {
    const bytes = encodeHello({ ...hello, self: { ...self, ...wrong } });
    assert.equal(decodeHello(word(bytes).body), undefined, JSON.stringify(wrong));
  }
});

test('mutated and random frames never throw', () => {
  for (let round = 0; round < 10_000; round++) {
    const bytes = random.chance(0.2) ? new Uint8Array(random.bytes(random.int(0, 200))) : encodeHello(hello);
    for (let flips = random.int(0, 4); flips > 0 && bytes.length > 0; flips--) {
      bytes[random.int(0, bytes.length - 1)] = random.int(0, 255);
    }
    const found = readWord(bytes);
    if (typeof found !== 'object') continue;
    assert.ok(found.sizeBytes <= bytes.length, seed);
    for (const decode of [decodeHello, decodeWelcome, decodeRefusal]) decode(found.body);
    decodeHello(found.body, 2);
  }
});
