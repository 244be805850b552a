// Producers that outlive a process: a program is killed while it appends, starts again and repeats its input.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MillraceStream, StreamError, connect } from '../../src/client/client.ts';
import { NodePool } from '../../src/client/pool.ts';
import { Room } from '../../src/client/waiting.ts';
import { codeOf, textIn } from './answers.ts';
import { NoSocket } from './no-socket.ts';
import { startNode } from './node.ts';
import { flagsOfNode } from './programs.ts';

const TEXT = { contentType: 'text/plain' };
const COUNT = 400;
const LETTERS = 'abcdefghijkl';
const WRITER = fileURLToPath(new URL('./repeating-writer.process.js', import.meta.url));
const { server, client } = await startNode();
const far = connect(server.url, { WebSocket: NoSocket });
after(() => far.close());

/** Runs the writer until it has said so many lines, then kills it; to its end when it says fewer. */
async function write(name: string, linesMax: number): Promise<readonly string[]> {
  const child = spawn(process.execPath, [...flagsOfNode(), WRITER, server.url, name, String(COUNT)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (lines.length === linesMax) child.kill('SIGKILL');
  }
  await exited;
  return lines;
}

test('a program that is killed and repeats its input with its own producer appends it once', async () => {
  await client.stream('b', 'killed').create(TEXT);
  for (const lines of [3, 150, 250]) assert((await write('killed', lines)).length >= lines, 'it was killed on its way');
  const whole = Array.from({ length: COUNT }, (_, i) => `${i};`).join('');
  assert(whole.startsWith(await textIn(client.stream('b', 'killed'))));
  const last = await write('killed', Number.POSITIVE_INFINITY);
  assert.equal(last.length, COUNT);
  assert.equal(last.at(-1), `${COUNT - 1} ${whole.length}`);
  assert.equal(await textIn(client.stream('b', 'killed')), whole);
});

for (const [way, writer] of [
  ['a session', client],
  ['HTTP', far],
] as const) {
  test(`over ${way} a higher epoch fences the process before, which is told of it and takes nothing more`, async () => {
    const name = `fenced ${way}`;
    await writer.stream('b', name).create(TEXT);
    const older = writer.stream('b', name, { producer: { id: 'p' } });
    await Promise.all([older.append('a'), older.append('b')]);
    const newer = writer.stream('b', name, { producer: { id: 'p', epoch: 3 } });
    assert.equal(await newer.append('c'), 3);
    const refusals = await Promise.all(
      ['d', 'e'].map(async (text) => await older.append(text).catch((e: unknown) => e)),
    );
    for (const error of refusals) {
      assert(error instanceof StreamError);
      assert.deepEqual([error.status, error.code, error.producerEpoch], [409, 'PRODUCER_EPOCH_STALE', 3]);
    }
    assert.equal(await codeOf(older.append('f')), '409 PRODUCER_EPOCH_STALE');
    assert.equal(await textIn(client.stream('b', name)), 'abc');
    // One of the same epoch goes on where the other one was, and a fork has a writer of its own.
    const resumed = writer.stream('b', name, { producer: { id: 'p', epoch: 3, seq: 1 } });
    assert.equal(await resumed.append('d'), 4);
    const fork = await resumed.fork({ name: `fork of ${name}` });
    assert.equal(await fork.append('!'), 5);
    assert.equal(await resumed.close(), 4);
    const repeated = writer.stream('b', name, { producer: { id: 'p', epoch: 3 } });
    assert.deepEqual(await Promise.all([repeated.append('c'), repeated.append('d'), repeated.close()]), [3, 4, 4]);
  });

  test(`over ${way} a sequence that leaves a gap names the one that is missing, and any refusal ends the writer`, async () => {
    const name = `gap ${way}`;
    await writer.stream('b', name).create({ contentType: 'application/json' });
    const first = writer.stream('b', name, { producer: { id: 'p' } });
    await first.append('1');
    const ahead = writer.stream('b', name, { producer: { id: 'p', seq: 5 } });
    const refusal: unknown = await ahead.append('6').catch((error: unknown) => error);
    assert(refusal instanceof StreamError);
    assert.deepEqual([refusal.code, refusal.producerSeq], ['PRODUCER_SEQ_CONFLICT', 1]);
    const codes = await Promise.all(['{', '2', '3'].map(async (json) => await codeOf(first.append(json))));
    assert.deepEqual(
      codes,
      Array.from({ length: 3 }, () => '400 INVALID_JSON'),
    );
    assert.equal(await codeOf(first.append('4')), '400 INVALID_JSON');
    const again = writer.stream('b', name, { producer: { id: 'p', seq: 1 } });
    await Promise.all([again.append('2'), again.append('3')]);
    assert.equal(await textIn(client.stream('b', name)), '[1,2,3]');
  });
}

/** Two appends of a byte have room in it. */
const narrow = connect(server.url, { inFlightBytes: 600 });
after(() => narrow.close());

/** Where more than may be wait for room, and do not. */
class CrowdedRoom extends Room {
  isCrowded = false;

  override get waiting(): number {
    return this.isCrowded ? Number.POSITIVE_INFINITY : super.waiting;
  }
}

/** Appends the rest of the input behind one that was not sent, and then, with another writer, the input again. */
async function repeatBehindGap(name: string, older: MillraceStream, rest: readonly string[]): Promise<void> {
  const before = await textIn(client.stream('b', name));
  const refusals = await Promise.all(rest.map(async (text) => await older.append(text).catch((e: unknown) => e)));
  for (const error of refusals) {
    assert(error instanceof StreamError);
    assert.deepEqual([error.code, error.producerSeq], ['PRODUCER_SEQ_CONFLICT', before.length]);
  }
  assert.equal(await textIn(client.stream('b', name)), before);
  const again = client.stream('b', name, { producer: { id: 'p' } });
  await Promise.all(Array.from(LETTERS, async (letter) => await again.append(letter)));
  assert.equal(await textIn(client.stream('b', name)), LETTERS);
}

for (const [place, writer] of [
  ['is queued', client],
  ['waits for room', narrow],
] as const) {
  test(`an append that is aborted while it ${place} keeps its sequence, so those behind it take no other one`, async () => {
    const name = `aborted ${place}`;
    await client.stream('b', name).create(TEXT);
    const stream = writer.stream('b', name, { producer: { id: 'p' } });
    const aborted = new AbortController();
    const outcomes = Array.from(LETTERS, async (letter, i) => {
      const options = i === 8 ? { signal: aborted.signal } : {};
      return await codeOf(stream.append(letter, options));
    });
    aborted.abort(new Error('not this one'));
    assert.deepEqual(await Promise.all(outcomes), [
      ...Array.from({ length: 8 }, () => 'no error'),
      'Error: not this one',
      ...Array.from({ length: 3 }, () => '409 PRODUCER_SEQ_CONFLICT'),
    ]);
    await repeatBehindGap(name, stream, ['m', 'n']);
  });
}

test('an append that is refused because too many wait keeps its sequence too', async () => {
  await client.stream('b', 'full').create(TEXT);
  const room = new CrowdedRoom(1024 * 1024);
  const pool = new NodePool({ urls: [server.url], token: undefined, socket: undefined });
  after(() => pool.close());
  const path = { bucket: 'b', stream: 'full' };
  const stream = new MillraceStream({ pool, room, path, contentType: undefined, producer: { id: 'p' } });
  const first = stream.append('a');
  room.isCrowded = true;
  assert.equal(await codeOf(stream.append('b')), '0 QUEUE_FULL');
  room.isCrowded = false;
  await first;
  await repeatBehindGap('full', stream, ['c', 'd']);
});

test('an append that finds room does not overtake one that waited for it', async () => {
  await client.stream('b', 'turns').create(TEXT);
  const stream = narrow.stream('b', 'turns', { producer: { id: 'p' } });
  const first = stream.append('a'.repeat(500));
  const second = stream.append('b');
  await first;
  await Promise.all([second, stream.append('c')]);
  assert.match(await textIn(client.stream('b', 'turns')), /^a+bc$/);
});

test('what is no producer is refused at once', () => {
  for (const producer of [{ id: '' }, { id: 'é' }, { id: 'p', epoch: -1 }, { id: 'p', seq: 0.5 }])
    assert.throws(() => client.stream('b', 's', { producer }), { code: 'INVALID_ARGUMENT' });
});
