// A read of cold bytes is answered exactly once, also when the code that answers it breaks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { pino } from 'pino';
import { errorCode } from '../../../src/base/errors.ts';
import { ChunkLoader } from '../../../src/cold/service/chunk-loader.ts';
import { type Assemble, ColdReader } from '../../../src/cold/service/reader.ts';
import { type ColdPlan, encodeColdPlan } from '../../../src/protocol/cold.ts';
import { Reply } from '../../../src/protocol/reply.ts';

const REF = {
  key: 'g0000-x/b/i1/1-1',
  start: 0,
  end: 3,
  lastEnd: 3,
  firstRecord: 0,
  recordNext: 0,
  at: 0,
  length: 3,
  digest: new Uint8Array(32),
};
const PLAN: ColdPlan = {
  group: 0,
  stream: new TextEncoder().encode('b\0s'),
  mode: 0,
  value: 0,
  flags: 0,
  maxBytes: 0,
  maxRecords: 0,
  incarnation: 1,
  json: false,
  closed: false,
  startOffset: 0,
  startRecord: 0,
  onBorder: true,
  tail: 3,
  recordTail: 0,
  needed: 1,
  refs: [REF],
  hot: new Uint8Array(0),
};

function readerOf(assemble: Assemble, cacheBytes: number): { reader: ColdReader; lines: string[] } {
  const lines: string[] = [];
  const reader = new ColdReader({
    loader: new ChunkLoader(() => Promise.resolve({ ok: true, value: [new Uint8Array(3)] }), cacheBytes),
    assemble,
    keep: () => undefined,
    send: () => false,
    aheadChunks: 0,
    log: pino({ level: 'error' }, { write: (line) => void lines.push(line) }),
    runtime: { monotonicMs: () => 0 },
  });
  return { reader, lines };
}

/** The codes that the handler was called with, when nothing is under way any more. */
async function answers(reader: ColdReader, onReply: (reply: Reply) => void = () => undefined): Promise<string[]> {
  const codes: string[] = [];
  const reply = new Reply();
  reply.body = encodeColdPlan(PLAN);
  reader.take(reply, {
    requestId: 'mine',
    onReply: (answer) => {
      codes.push(errorCode(answer.code));
      onReply(answer);
    },
  });
  for (let turns = 0; turns < 100 && (codes.length === 0 || reader.pending > 0); turns++) await setImmediate();
  return codes;
}

test('what breaks while an answer is put together is answered with INTERNAL, and logged', async () => {
  const { reader, lines } = readerOf(() => {
    throw new Error('a row that cannot be');
  }, 1024 * 1024);
  assert.deepEqual(await answers(reader), ['INTERNAL'], 'fetched');
  assert.deepEqual(await answers(reader), ['INTERNAL'], 'from the cache');
  assert.equal(reader.pending, 0);
  assert.equal(reader.pendingBytes, 0);
  assert.equal(lines.filter((line) => /a row that cannot be.*"requestId":"mine"/.test(line)).length, 2);
});

test('what breaks while an answer is taken is refused once, and logged', async () => {
  const { reader, lines } = readerOf(() => undefined, 0);
  const codes = await answers(reader, (reply) => {
    if (reply.code === 0) throw new Error('cannot be written');
  });
  assert.deepEqual(codes, ['OK', 'INTERNAL']);
  const hopeless = await answers(reader, () => {
    throw new Error('never');
  });
  assert.deepEqual(hopeless, ['OK', 'INTERNAL']);
  assert.equal(lines.filter((line) => line.includes('"requestId":"mine"')).length, 3);
});
