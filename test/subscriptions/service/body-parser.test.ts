// Bodies of subscription requests: small ones are parsed immediately, large ones in another thread, whatever they
// contain.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { PROCESS_RUNTIME } from '../../../src/server/runtime.ts';
import { Bodies } from '../../../src/subscriptions/service/body-parser.ts';
import { SUBSCRIPTION_BODY_BYTES_MAX } from '../../../src/base/limits.ts';

function open(t: TestContext): Bodies {
  const bodies = new Bodies({ runtime: PROCESS_RUNTIME, log: pino({ level: 'silent' }) });
  t.after(() => bodies.close());
  return bodies;
}

/** In separate memory, as it is handed over. */
const bytes = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(new TextEncoder().encode(text));

test('a small body stays in this thread, a large one goes to another', async (t) => {
  const bodies = open(t);
  const small = bytes('{"worker":"w"}');
  assert.deepEqual(await bodies.parse('worker', small), { ok: true, value: 'w' });
  assert.notEqual(small.length, 0);
  const streams = Array.from({ length: 10_000 }, (_, i) => `bucket/stream-${String(i).padStart(6, '0')}`);
  const large = bytes(JSON.stringify({ streams }));
  assert.deepEqual(await bodies.parse('streams', large), { ok: true, value: streams });
  assert.equal(large.buffer.byteLength, 0, 'its memory went along');
});

test('hostile bodies are refused as small ones are', async (t) => {
  const bodies = open(t);
  const most = SUBSCRIPTION_BODY_BYTES_MAX;
  const shapes = [
    '['.repeat(most),
    `[${'{},'.repeat(most / 3 - 1)}{}]`,
    '{"a":'.repeat(most / 5),
    ' '.repeat(most),
    '\0'.repeat(most),
  ];
  for (const shape of shapes) {
    const answer = await bodies.parse('wake', bytes(shape));
    assert.equal(answer.ok, false, shape.slice(0, 10));
  }
  const cut = new Uint8Array(most).fill(0xff);
  assert.deepEqual(await bodies.parse('config', cut), { ok: false, reason: 'the body must be JSON in UTF-8' });
});

test('what is under way when the node stops is told', async () => {
  const bodies = new Bodies({ runtime: PROCESS_RUNTIME, log: pino({ level: 'silent' }) });
  const parsing = bodies.parse('wake', bytes(`[${'1,'.repeat(100_000)}1]`));
  bodies.close();
  await Promise.allSettled([parsing]);
  await assert.rejects(bodies.parse('wake', bytes(' '.repeat(100_000))), /STOPPING|stopping/);
});
