// The protocol byte by byte: the frames of the README are what a node reads and writes, and the reader builds nothing
// that a message tells it to.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Packr, Unpackr } from 'msgpackr';
import { Frame } from '../../src/session/frame.ts';
import { MalformedMessage, MessageReader, MessageWriter } from '../../src/session/messagepack.ts';
import {
  FieldWriter,
  beginDone,
  beginEvent,
  endWith,
  writeGoAway,
  writeHello,
  writeLeaders,
  writeRefused,
} from '../../src/session/messages.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { createRandom } from '../support/random.ts';
import { pack } from './client.ts';

interface Golden {
  readonly shown: string;
  readonly hex: string;
}

function goldenFrames(): Golden[] {
  const text = readFileSync(join(REPO_ROOT, 'src/session/README.md'), 'utf8');
  return [...text.matchAll(/^\| `(\[\d+,.*\])` \| `([0-9a-f ]+)` \|$/gm)].map(([, shown = '', hex = '']) => ({
    shown,
    hex,
  }));
}

const bytesOf = ({ hex }: Golden): Uint8Array => new Uint8Array(Buffer.from(hex.replaceAll(' ', ''), 'hex'));
const unpackr = new Unpackr({ useRecords: false, int64AsType: 'number' });

/** As the README writes it: bodies as texts. */
function shownOf(value: unknown): string {
  if (value === null) return 'nil';
  if (value instanceof Uint8Array) return JSON.stringify(Buffer.from(value).toString());
  if (Array.isArray(value)) return `[${value.map(shownOf).join(',')}]`;
  return JSON.stringify(value);
}

test('the frames of the README say what stands beside them, for another library too', () => {
  const frames = goldenFrames();
  assert.deepEqual(
    frames.map(({ shown }) => Number(/\d+/.exec(shown)?.[0])),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 65, 66, 67, 68, 69],
  );
  for (const golden of frames) {
    const value: unknown = unpackr.unpack(bytesOf(golden));
    const shown = Array.isArray(value) && value[0] === 64 ? '[64,{...}]' : shownOf(value);
    assert.equal(shown, golden.shown);
  }
});

test('a node reads the frames of clients', () => {
  const read = goldenFrames()
    .slice(0, 9)
    .map((golden) => {
      const frame = new Frame();
      const reader = new MessageReader(bytesOf(golden));
      frame.read(reader);
      assert(reader.isAtEnd, golden.shown);
      const { kind, id, bucket, stream, credit, query, fault } = frame;
      const body = frame.body === undefined ? undefined : Buffer.from(frame.body).toString();
      return [kind, id, bucket, stream, credit, query, frame.headers.contentType, body, fault];
    });
  const text = 'text/plain';
  assert.deepEqual(read, [
    [1, 1, 'b', 's', 0, '', text, undefined, ''],
    [2, 2, 'b', 's', 0, '', text, 'hi', ''],
    [3, 3, 'b', 's', 0, '', undefined, undefined, ''],
    [4, 4, 'b', 's', 0, 'offset=0', undefined, undefined, ''],
    [5, 5, 'b', 's', 65_536, 'offset=now', undefined, undefined, ''],
    [6, 5, '', '', 300, '', undefined, undefined, ''],
    [7, 5, '', '', 0, '', undefined, undefined, ''],
    [8, 6, 'b', 's', 0, '', undefined, undefined, ''],
    [9, 7, 'b', 's', 0, '', undefined, undefined, ''],
  ]);
});

test('what a frame says does not depend on those before it', () => {
  const packed = (...values: readonly unknown[]): Buffer =>
    new Packr({ useRecords: false, variableMapSize: true }).pack(values);
  // The same name, its length in a byte of its own.
  const longHead = Buffer.from([0xd9, 1, 0x62, 0xd9, 1, 0x73]);
  const append = packed(2, 1, 'b', 's', 'hi', { 'content-type': 'text/plain' });
  const frames = [
    append,
    append,
    Buffer.concat([append.subarray(0, 3), longHead, append.subarray(7)]),
    packed(2, 2, 'b', 't', 'hi', { 'content-type': 'text/plain' }),
    packed(2, 2, 'b', 's', ['hi', 'ho'], { 'content-type': 'text/plain' }),
    packed(1, 2, 'b', 's', null, { 'content-type': 'text/plain' }),
    packed(8, 2, 'b', 's', { 'content-type': 'text/plain' }),
    packed(2, 2, 'b', 's', 'hi', { 'content-type': 'text/plain', 'stream-seq': '1' }),
    packed(2, 2, 'b', 's', 'hi', { 'content-type': 'text/plain', 'stream-seq': '2' }),
    packed(1, 2, 'b', 's', 'hi', { 'stream-ttl': 5 }),
    packed(2, 2, 'b', 's', 'hi', { 'stream-ttl': 5 }),
    packed(4, 2, 'b', 's', { offset: 7 }),
    packed(2, 2, 'b', 's', 'hi', {}),
    packed(2, 2, '', 'x'.repeat(100), 'hi', { 'content-type': `text/plain; ${'x'.repeat(300)}` }),
    packed(3, 2, '__b', 's'),
  ];
  const said = (frame: Frame, bytes: Buffer): unknown => {
    frame.read(new MessageReader(bytes));
    const { kind, id, bucket, stream, size, body, isBatch, query, fault, headers, target } = frame;
    const sent = kind === 3 ? undefined : kind === 4 ? query : { ...headers, lastType: undefined };
    return [kind, id, bucket, stream, size, body, isBatch, fault, sent, target.key, target.fault, target.hash];
  };
  const frame = new Frame();
  const random = createRandom(7);
  for (let i = 0; i < 2000; i++) {
    const bytes = frames[random.int(0, frames.length - 1)] as Buffer;
    assert.deepEqual(said(frame, bytes), said(new Frame(), bytes), bytes.toString('hex'));
    assert.deepEqual(Buffer.from(frame.bytes), bytes);
  }
});

test('a node writes the frames of nodes', () => {
  const out = new MessageWriter();
  const fields = new FieldWriter(out);
  const written: string[] = [];
  const take = (): void => {
    written.push(
      Buffer.from(out.written)
        .toString('hex')
        .replaceAll(/(..)(?=.)/g, '$1 '),
    );
    out.clear();
  };
  writeHello(out, '1-c0ffee00-1');
  take();
  beginDone(fields, 2, 2);
  endWith(fields, undefined);
  take();
  writeRefused(fields, { id: 3, code: 'STREAM_NOT_FOUND', detail: '' });
  take();
  beginEvent(fields, 5, 2 ** 32 + 2);
  fields.writeHeader('stream-up-to-date', 'true');
  endWith(fields, new TextEncoder().encode('hi'));
  take();
  writeGoAway(out);
  take();
  writeLeaders(out, 'http://a:4437', ['http://a:4437', 'http://b:4437', '', 'http://a:4437']);
  take();
  const wanted = goldenFrames().slice(9);
  assert.deepEqual(
    written,
    wanted.map(({ hex }) => hex),
  );
});

test('numbers, texts and bytes of every size are those of another library', () => {
  const numbers = [0, 127, 128, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1];
  const texts = ['', 'é', 'x'.repeat(31), 'x'.repeat(32), 'é'.repeat(200), '𝄞'.repeat(20_000)];
  const out = new MessageWriter();
  for (const number of numbers) out.uint(number);
  for (const text of texts) {
    out.text(text);
    out.bytes(Buffer.from(text));
  }
  out.nil();
  const wanted = [...numbers, ...texts.flatMap((text) => [text, Buffer.from(text)]), null];
  const values = unpackr.unpackMultiple(Buffer.from(out.written)) as unknown[];
  const plain = values.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value));
  assert.deepEqual(plain, wanted);

  const packr = new Packr({ useRecords: false });
  const reader = new MessageReader(Buffer.concat([...wanted, true, false].map((value) => packr.pack(value))));
  for (const number of numbers) assert.equal(reader.uint(), number);
  for (const text of texts) {
    assert.equal(reader.text(), text);
    assert.deepEqual(Buffer.from(reader.bytes()), Buffer.from(text));
  }
  assert.deepEqual([reader.nil(), reader.scalar(), reader.scalar(), reader.isAtEnd], [true, 'true', 'false', true]);
  const values2 = [
    7,
    'x',
    Buffer.alloc(300),
    [1, [2, { a: [3] }]],
    { b: 1.5 },
    -1,
    -200,
    2 ** 40,
    null,
    'y'.repeat(70_000),
  ];
  const skipped = new MessageReader(pack(...values2));
  for (const value of values2) {
    assert(!skipped.isAtEnd, JSON.stringify(value).slice(0, 100));
    skipped.skip();
  }
  assert(skipped.isAtEnd);
});

/** Messages, and the method that reads them first. */
const HOSTILE: readonly (readonly [
  hex: string,
  read: keyof MessageReader & ('array' | 'map' | 'uint' | 'text' | 'bytes' | 'scalar' | 'skip'),
])[] = [
  ['', 'uint'],
  ['dd ff ff ff ff', 'array'],
  ['dc ff ff 01', 'array'],
  ['df 7f ff ff ff', 'map'],
  ['de 00 02 a1 61 01', 'map'],
  ['db ff ff ff ff 61', 'text'],
  ['a2 61', 'text'],
  ['a1 ff', 'text'],
  ['a3 ed a0 80', 'text'],
  ['a2 c0 80', 'scalar'],
  ['c6 00 00 00 05 01', 'bytes'],
  ['cf 00 20 00 00 00 00 00 00', 'uint'],
  ['cb 7f f8 00 00 00 00 00 00', 'uint'],
  ['cb 3f f8 00 00 00 00 00 00', 'uint'],
  ['ff', 'uint'],
  ['d1 ff 00', 'uint'],
  ['ce 00 01', 'uint'],
  ['c1', 'skip'],
  ['c7 02 72 01 02', 'skip'],
  ['d4 72 40', 'skip'],
  ['d6 ff 00 00 00 00', 'skip'],
  ['dd ff ff ff ff c0', 'skip'],
  ['df ff ff ff ff c0', 'skip'],
  ['91 91 91 91', 'skip'],
  ['94 01', 'array'],
];

test('what is cut short, too long, or of another kind is malformed, and builds nothing', () => {
  for (const [hex, read] of HOSTILE) {
    const reader = new MessageReader(Buffer.from(hex.replaceAll(' ', ''), 'hex'));
    const act = (): unknown => {
      const value = reader[read]();
      // A small count is believed, as its values are then read one by one.
      return read === 'array' && value === 4 ? [reader.uint(), reader.uint()] : value;
    };
    assert.throws(act, MalformedMessage, `${read} ${hex}`);
  }
  // As deep as a message is long.
  const deep = new MessageReader(Buffer.alloc(200_000, 0x91));
  assert.throws(() => deep.skip(), MalformedMessage);
});
