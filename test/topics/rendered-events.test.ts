// Events of ranges that are kept in memory: the same bytes as if they were rendered each time, shared, bounded.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RENDERED_EVENTS_BYTES_MAX } from '../../src/base/limits.ts';
import { VIEW_BASE64, VIEW_TEXT } from '../../src/topics/events.ts';
import { type EventFields, RenderedEvents, render } from '../../src/topics/rendered-events.ts';

const FIELDS: EventFields = {
  ...{ view: VIEW_TEXT, cursor: 5, nextOffset: 12, upToDate: false, closed: false },
  ...{ firstRecord: undefined, nextRecord: undefined },
};
const RANGE = Buffer.from('one\n two\r\nthree\n');

test('equal readers share one event; whatever differs is in their own', () => {
  const rendered = new RenderedEvents();
  const event = rendered.of(RANGE, 12, FIELDS);
  assert.equal(rendered.of(RANGE, 12, { ...FIELDS }), event);
  const others: [number, Partial<EventFields>][] = [
    [16, {}],
    [12, { view: VIEW_BASE64 }],
    [12, { cursor: 6 }],
    [12, { nextOffset: 13 }],
    [12, { upToDate: true }],
    [12, { closed: true }],
    [12, { firstRecord: 0 }],
    [12, { firstRecord: 0, nextRecord: 3 }],
  ];
  for (const [length, other] of others) {
    const fields = { ...FIELDS, ...other };
    for (let i = 0; i < 2; i++) {
      assert.deepEqual(rendered.of(RANGE, length, fields), render(RANGE.subarray(0, length), fields));
      assert.deepEqual(rendered.of(RANGE, 12, FIELDS), event);
    }
  }
});

test('equal bytes in other memory are another range', () => {
  const rendered = new RenderedEvents();
  const event = rendered.of(RANGE, 12, FIELDS);
  const copy = rendered.of(Buffer.from(RANGE), 12, FIELDS);
  assert.notEqual(copy, event);
  assert.deepEqual(copy, event);
});

test('the bound in bytes holds', () => {
  const rendered = new RenderedEvents();
  for (let i = 0; i < 100; i++) {
    const range = new Uint8Array(400_000).fill(0x61);
    assert.equal(rendered.of(range, range.length, FIELDS), rendered.of(range, range.length, FIELDS));
    assert(rendered.bytes <= RENDERED_EVENTS_BYTES_MAX);
  }
  assert(rendered.bytes > RENDERED_EVENTS_BYTES_MAX / 2);
});
