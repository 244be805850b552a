// Frames of the client are those of the protocol's page, and what a node sends is checked before it is believed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Packr } from 'msgpackr';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { StreamError } from '../../src/client/error.ts';
import { placeOf } from '../../src/client/leaders.ts';
import { KIND, NodeFrameReader, FrameWriter, type NodeFrame, optionsBehind } from '../../src/client/wire.ts';
import { REPO_ROOT } from '../support/paths.ts';

/** By kind: bytes of the frames in the protocol's page. */
function goldenFrames(): ReadonlyMap<number, string> {
  const text = readFileSync(join(REPO_ROOT, 'src/session/README.md'), 'utf8');
  const rows = text.matchAll(/^\| `\[(\d+),.*\]` \| `([0-9a-f ]+)` \|$/gm);
  return new Map([...rows].map(([, kind, hex = '']) => [Number(kind), hex]));
}

const hexOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes)
    .toString('hex')
    .replaceAll(/(..)(?=.)/g, '$1 ');

test('the client writes the frames of the protocol byte by byte', () => {
  const writer = new FrameWriter();
  const path = { bucket: 'b', stream: 's' };
  const options = { 'content-type': 'text/plain' };
  const written = new Map([
    [1, writer.request(1, { ...path, kind: KIND.create, options })],
    [2, writer.request(2, { ...path, kind: KIND.append, body: new TextEncoder().encode('hi'), options })],
    [3, writer.request(3, { ...path, kind: KIND.head })],
    [5, writer.subscribe(5, path, { offset: 'now' }, 65_536)],
    [6, writer.credit(5, 300)],
    [7, writer.unsubscribe(5)],
    [8, writer.request(6, { ...path, kind: KIND.delete })],
    [9, writer.request(7, { ...path, kind: KIND.attributes })],
  ]);
  const golden = goldenFrames();
  for (const [kind, frame] of written) assert.equal(hexOf(frame), golden.get(kind), `kind ${kind}`);
  const batch = writer.request(8, { ...path, kind: KIND.append, body: [new Uint8Array([1]), new Uint8Array([2])] });
  assert.equal(hexOf(batch), '96 02 08 a1 62 a1 73 92 c4 01 01 c4 01 02 80');
});

function framesOf(message: Uint8Array): NodeFrame[] {
  const frames: NodeFrame[] = [];
  new NodeFrameReader().read(message, (frame) => frames.push(frame));
  return frames;
}

test('the client reads the frames of nodes, several in a message, and passes over kinds to come', () => {
  const golden = [...goldenFrames()].filter(([kind]) => kind >= 64).map(([, hex]) => hex);
  const later = new Packr({ useRecords: false }).pack([99, { leader: 'b' }, 'more']);
  const message = Buffer.concat([...golden.map((hex) => Buffer.from(hex.replaceAll(' ', ''), 'hex')), later]);
  const [hello, done, refused, event, away, leaders, ...rest] = framesOf(message);
  const limits = { messageBytes: 262_144, inFlightBytes: 1_048_576, requests: 1024 };
  assert.deepEqual(hello, { kind: 'hello', limits });
  const nothing = new Uint8Array(0);
  assert.deepEqual(done, { kind: 'done', id: 2, answer: { next: 2, fields: new Map(), body: nothing } });
  assert(refused?.kind === 'refused' && refused.error instanceof StreamError);
  assert.deepEqual(
    [refused.error.status, refused.error.code, refused.error.message, refused.error.retryAfterMs],
    [...[404, 'STREAM_NOT_FOUND', 'stream not found', undefined]],
  );
  assert(event?.kind === 'event');
  assert.deepEqual(
    [event.id, event.answer.next, event.answer.fields.get('stream-up-to-date')],
    [5, 2 ** 32 + 2, 'true'],
  );
  assert.equal(Buffer.from(event.answer.body).toString(), 'hi');
  const [a, b] = ['http://a:4437', 'http://b:4437'];
  assert.deepEqual([away, leaders, rest], [{ kind: 'away' }, { kind: 'leaders', leaders: [a, b, undefined, a] }, []]);
});

const pack = (value: unknown): Buffer => new Packr({ useRecords: false }).pack(value);

test('what is no frame of a node is refused, and builds nothing large', () => {
  const fields = { a: 'b' };
  const hostile: readonly Uint8Array[] = [
    pack(7),
    pack('text'),
    pack({ 0: 64 }),
    pack([]),
    pack(['65', 1, 1, {}, null]),
    pack([64, {}]),
    pack([64, { message_bytes: 1, in_flight_bytes: -1, requests: 1 }]),
    pack([64, 'limits']),
    pack([65, 1, 1.5, fields, null]),
    pack([65, 1, 2 ** 60, fields, null]),
    pack([65, -1, 1, fields, null]),
    pack([65, 1, 1, [], null]),
    pack([65, 1, 1, { a: 1 }, null]),
    pack([65, 1, 1, Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`f${i}`, ''])), null]),
    pack([65, 1, 1, fields, 5]),
    pack([65, 1, 1, fields]),
    pack([66, 1, '404', 'CODE', 'sentence', {}]),
    pack([66, 1, 404, null, 'sentence', {}]),
    pack([67]),
    pack([69, null, ['http://a'], [1.5]]),
    pack([69, null, [7], [0]]),
    pack([69, null, 'http://a', [0]]),
    pack([69, null, ['http://a'], Array.from({ length: 4097 }, () => 0)]),
    ...[
      ...['dd ff ff ff ff', '95 41 02 02 df ff ff ff ff', '95 41 02 02 80 c6 7f ff ff ff 01', '95 41', 'c1', 'ff'],
      // A record of msgpackr, which would define a shape, and references to what is not there.
      ...['d4 72 40 91 a1 61 01', 'd6 70 00 00 00 09', `${'91 '.repeat(5000)}`],
    ].map((hex) => Buffer.from(hex.replaceAll(' ', ''), 'hex')),
  ];
  for (const message of hostile) assert.throws(() => framesOf(message), Error, hexOf(message.subarray(0, 40)));
  const polluted = framesOf(Buffer.from('95410101 81a95f5f70726f746f5f5fa178c0'.replaceAll(' ', ''), 'hex'));
  assert.equal(polluted.length, 1);
  assert.equal(Reflect.get({}, 'x'), undefined);
});

test('a follower goes on behind what it has, by offsets or by records', () => {
  const answer = (fields: readonly (readonly [string, string])[]) => ({
    ...{ next: 9, fields: new Map(fields), body: new Uint8Array(0) },
  });
  assert.deepEqual(optionsBehind({ offset: 'now', wait: 'create' }, answer([])), { offset: 9 });
  const records = answer([['stream-record-next', '4']]);
  assert.deepEqual(optionsBehind({ tail_records: 2, record_view: 'envelope' }, records), {
    ...{ record: 4, record_view: 'envelope' },
  });
  assert.deepEqual(optionsBehind({ record: 3 }, answer([])), { record: 3 });
});

test('the client finds the group of a stream as nodes do', () => {
  assert.equal(placeOf({ bucket: 'demo', stream: 'hello' }), 0x4d55_fae8_2f86_fb29n);
  for (const bucket of ['b', 'demo', 'é'])
    for (const stream of ['', 's', 'a/b', '日本', '\u{1F680}', 'x'.repeat(1_000)])
      for (const groups of [1, 4, 7, 1_024])
        assert.equal(Number(placeOf({ bucket, stream }) % BigInt(groups)), fnv1a64mod(bucket, stream, groups));
});
