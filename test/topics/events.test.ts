import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Control,
  VIEW_BASE64,
  VIEW_TEXT,
  type View,
  joinFrames,
  renderEvent,
  sendableBytes,
} from '../../src/topics/events.ts';
import { createRandom } from '../support/random.ts';

const OPEN: Control = { nextOffset: 42, upToDate: true, closed: false, firstRecord: undefined, nextRecord: undefined };
const ID = 'id: 00000000000000000042\n\n';
const CONTROL = `event: control\ndata:{"streamNextOffset":"00000000000000000042","streamCursor":"7","upToDate":true}\n${ID}`;

function rendered(view: View, body: string | Buffer, control: Partial<Control> = {}): string {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  return Buffer.from(joinFrames([renderEvent(view, bytes, { ...OPEN, ...control })], 7)).toString('latin1');
}

const TEXT_ROWS: readonly (readonly [body: string, lines: string])[] = [
  ['a', 'data:a\n'],
  ['a\nb', 'data:a\ndata:b\n'],
  ['a\n', 'data:a\ndata:\n'],
  ['\n', 'data:\ndata:\n'],
  ['\n\n', 'data:\ndata:\ndata:\n'],
  [' a', 'data:  a\n'],
  ['a\n b', 'data:a\ndata:  b\n'],
  ['a \n', 'data:a \ndata:\n'],
  ['a\r\nb', 'data:a\ndata:b\n'],
  ['a\rb', 'data:a\ndata:b\n'],
  ['a\r\rb', 'data:a\ndata:\ndata:b\n'],
  ['\r\n\r\nevent: control\r\ndata: {}\r\n\r\n', 'data:\ndata:\ndata:event: control\ndata:data: {}\ndata:\ndata:\n'],
  [':x', 'data::x\n'],
  ['[{"a":1},2]', 'data:[{"a":1},2]\n'],
];

test('text payloads become one data line for each line', () => {
  for (const [body, lines] of TEXT_ROWS) {
    assert.equal(rendered(VIEW_TEXT, body), `event: data\n${lines}${ID}${CONTROL}`, JSON.stringify(body));
  }
});

test('binary payloads travel as one line of base64', () => {
  const body = Buffer.from([0, 10, 13, 255, 254]);
  assert.equal(rendered(VIEW_BASE64, body), `event: data\ndata:AAoN//4=\n${ID}${CONTROL}`);
});

test('shared memory is rendered like any other', () => {
  const shared = new Uint8Array(new SharedArrayBuffer(8), 2, 3);
  shared.set([104, 10, 105]);
  const frame = (view: View): string =>
    Buffer.from(joinFrames([renderEvent(view, shared, OPEN)], 7)).toString('latin1');
  assert.equal(frame(VIEW_TEXT), `event: data\ndata:h\ndata:i\n${ID}${CONTROL}`);
  assert.equal(frame(VIEW_BASE64), `event: data\ndata:aApp\n${ID}${CONTROL}`);
});

test('control events say position, records, cursor, freshness and closure, in this order', () => {
  assert.equal(rendered(VIEW_TEXT, ''), CONTROL);
  assert.equal(
    rendered(VIEW_TEXT, '', { upToDate: false }),
    `event: control\ndata:{"streamNextOffset":"00000000000000000042","streamCursor":"7"}\n${ID}`,
  );
  assert.equal(
    rendered(VIEW_TEXT, '', { firstRecord: 1, nextRecord: 3 }),
    'event: control\ndata:{"streamNextOffset":"00000000000000000042","streamFirstRecord":1,"streamNextRecord":3,' +
      '"streamCursor":"7","upToDate":true}\nid: record=3\n\n',
  );
  assert.equal(
    rendered(VIEW_TEXT, '', { closed: true }),
    'event: control\ndata:{"streamNextOffset":"00000000000000000042","upToDate":true,"streamClosed":true}\n' +
      'id: 00000000000000000042;closed\n\n',
  );
  // A reader that loses the connection between the two has not seen the end.
  assert.match(
    rendered(VIEW_TEXT, 'a', { closed: true }),
    /^event: data\ndata:a\nid: 00000000000000000042\n\nevent: control/,
  );
});

test('several events share one cursor', () => {
  const frame = renderEvent(VIEW_TEXT, Buffer.from('a'), OPEN);
  const last = renderEvent(VIEW_TEXT, undefined, { ...OPEN, closed: true });
  const text = Buffer.from(joinFrames([frame, frame, last], 123)).toString();
  assert.equal(text.match(/"streamCursor":"123"/g)?.length, 2);
  assert.equal(text.match(/event: control/g)?.length, 3);
});

test('a text is not cut inside a character', () => {
  const euro = Buffer.from('a€');
  assert.equal(sendableBytes(VIEW_TEXT, euro), 4);
  assert.equal(sendableBytes(VIEW_TEXT, euro.subarray(0, 3)), 1);
  assert.equal(sendableBytes(VIEW_TEXT, euro.subarray(0, 2)), 1);
  assert.equal(sendableBytes(VIEW_BASE64, euro.subarray(0, 3)), 3);
});

/** A parser by the letter of the specification: the reference that any payload must survive. */
function parse(text: string): { type: string; data: string; id: string }[] {
  const events: { type: string; data: string; id: string }[] = [];
  let id = '';
  let type = '';
  let data: string[] = [];
  for (const line of text.split(/\r\n|\r|\n/)) {
    if (line === '') {
      if (data.length > 0) events.push({ type, data: data.join('\n'), id });
      type = '';
      data = [];
      continue;
    }
    const colon = line.indexOf(':');
    const value = line.slice(colon + 1).replace(/^ /, '');
    if (line.startsWith('event:')) type = value;
    if (line.startsWith('data:')) data.push(value);
    if (line.startsWith('id:')) id = value;
  }
  return events;
}

test('any text comes back as it was but for carriage returns, and cannot smuggle in an event', () => {
  const random = createRandom(0x5eed);
  const alphabet = [
    '\n',
    '\r',
    '\r\n',
    ' ',
    ':',
    'data:',
    'event: control',
    'id: 7',
    'é',
    '€',
    '😀',
    '\0',
    '\ufeff',
    'x',
  ];
  for (let round = 0; round < 2000; round++) {
    let body = '';
    for (let i = random.int(0, 11); i >= 0; i--) body += random.pick(alphabet);
    const bytes = joinFrames([renderEvent(VIEW_TEXT, Buffer.from(body), OPEN)], 7);
    const events = parse(Buffer.from(bytes).toString());
    assert.deepEqual(
      events.map((event) => event.type),
      ['data', 'control'],
      JSON.stringify(body),
    );
    assert.equal(events[0]?.data, body.replace(/\r\n?/g, '\n'));
    for (const { id } of events) assert.equal(id, '00000000000000000042');
  }
});
