// The bounds of the caches, which the differential test cannot see.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelCommand } from '../model-command.ts';
import { Proposer } from '../propose.ts';
import { plainCommand } from '../random-commands.ts';
import { requestFor } from '../../../src/protocol/request.ts';
import { GROUP, Replica } from '../replica.ts';
import { PRODUCERS_CACHED_MAX } from '../../../src/stream/core/head.ts';
import { ROW_PAYLOAD_BYTES_MAX } from '../../../src/stream/core/row.ts';
import { QUERIES } from '../../../src/protocol/operations.ts';

/**
 * State.HEADS_CACHED_MAX, twice: what reads may gather between two flushes. One more: the first pass gives a second
 * chance.
 */
const HEADS_MAX = 2 * 2048 + 1;
const NOW = 1_700_000_000_000;

class Writer {
  readonly replica = new Replica();
  readonly #proposer = new Proposer();
  #index = 0;

  write(...commands: ModelCommand[]): string[] {
    for (const command of commands) assert.equal(this.#proposer.add(command, undefined, false), 'OK');
    return this.replica.applyEntry(++this.#index, this.#proposer.finish()).map((outcome) => outcome.code);
  }
}

function create(stream: string, body = ''): ModelCommand {
  const bytes = new Uint8Array(Buffer.from(body));
  return { ...plainCommand(NOW, 'bucket', stream), kind: 'create', type: 'text/plain', body: bytes };
}

test('heads in memory are bounded when many streams are only read', () => {
  const { replica } = withStreams(10_000);
  replica.restart(false);
  for (let i = 0; i < 10_000; i++) {
    assert.equal(replica.askHead('bucket', `s${i}`, NOW).outcome.code, 'OK');
    assert(replica.state.cachedHeads <= HEADS_MAX, `${replica.state.cachedHeads} heads after ${i} streams`);
  }
});

test('heads in memory are bounded when the same streams are read again and again', () => {
  const { replica } = withStreams(6000);
  for (let round = 0; round < 5; round++) {
    for (let i = 0; i < 6000; i++)
      replica.query(requestFor(QUERIES.read, GROUP, { bucket: 'bucket', stream: `s${i}` }), NOW);
    assert(replica.state.cachedHeads <= HEADS_MAX, `${replica.state.cachedHeads} heads`);
  }
});

test('changed heads stay in memory until they are written, however much is read meanwhile', () => {
  const writer = withStreams(10_000);
  const { replica } = writer;
  replica.restart(false);
  const s0 = { ...plainCommand(NOW, 'bucket', 's0'), type: 'text/plain', body: new Uint8Array(2) };
  writer.write(create('fresh', 'abc'), s0, { ...plainCommand(NOW, 'bucket', 's1'), kind: 'delete' });
  const look = (): unknown[] =>
    ['fresh', 's0', 's1'].map((name) => {
      const { code, next } = replica.askHead('bucket', name, NOW).outcome;
      return [code, next];
    });
  const expected = look();
  // The first round takes away the second chance of what was just used.
  for (let round = 0; round < 3; round++) {
    for (let i = 2; i < 10_000; i++) replica.askHead('bucket', `s${i}`, NOW);
    assert.deepEqual(look(), expected);
  }
  replica.flush();
  replica.restart(false);
  assert.deepEqual(look(), expected);
  assert.deepEqual(expected, [
    ['OK', 3],
    ['OK', 3],
    ['STREAM_NOT_FOUND', 0],
  ]);
});

function withStreams(count: number): Writer {
  const writer = new Writer();
  for (let i = 0; i < count; i++) {
    writer.write(create(`s${i}`, 'x'));
    if (i % 500 === 0) writer.replica.flush();
  }
  writer.replica.flush();
  return writer;
}

test('a state is dirty until the store knows the index it has applied', () => {
  assert(!withStreams(1).replica.state.dirty);
  const writer = new Writer();
  writer.write({ ...plainCommand(NOW, 'bucket', 'absent'), kind: 'delete' });
  assert(writer.replica.state.dirty, 'a refused command is an applied one');
  writer.replica.flushInVain();
  assert(writer.replica.state.dirty);
  writer.replica.flush();
  assert(!writer.replica.state.dirty);
});

test('of producers that only repeat themselves few stay in memory, in a changed stream and in one that is not', () => {
  const writer = new Writer();
  const { replica } = writer;
  const append = (id: string, seq: number): ModelCommand => ({
    ...plainCommand(NOW, 'bucket', 's'),
    ...{ type: 'text/plain', body: new Uint8Array(1), producer: { id, epoch: 0, seq } },
  });
  writer.write(create('s'));
  for (let i = 0; i < 1000; i++) writer.write(append(`p${i}`, 0));
  const size = (): number => replica.head('bucket', 's').producers?.size ?? 0;
  assert.equal(size(), 1000, 'the store has none of them yet');
  replica.flush();
  for (const change of ['none', 'append']) {
    if (change === 'append') writer.write(append('p0', 1));
    for (let i = 0; i < 1000; i++) writer.write(append(`p${i}`, 0));
    assert(size() <= PRODUCERS_CACHED_MAX, `${size()} producers`);
  }
  // Those that are read again and again are accepted as before, once.
  for (let i = 1; i < 1000; i++) writer.write(append(`p${i}`, 1), append(`p${i}`, 1));
  assert.equal(replica.head('bucket', 's').tail, 2000);
});

test('rows of a removed stream go away in portions, and the state stays dirty until the last', () => {
  const writer = new Writer();
  writer.write(create('big'));
  for (let i = 0; i < 2600; i++) {
    writer.write({ ...plainCommand(NOW, 'bucket', 'big'), type: 'text/plain', body: new Uint8Array(8000).fill(i) });
  }
  const { replica } = writer;
  replica.flush();
  const before = replica.tx.size;
  writer.write({ ...plainCommand(NOW, 'bucket', 'big'), kind: 'delete' });
  let flushes = 0;
  let last = before;
  while (replica.state.dirty) {
    replica.flush();
    flushes++;
    assert(last - replica.tx.size <= 2060, 'a bounded number of rows per commit');
    last = replica.tx.size;
  }
  assert(flushes >= 3, `${flushes} commits for ${before} rows`);
  assert.equal(replica.tx.size, 2, 'meta and bucket are left');
});

test('rows of a long message lie in its command until they are written, and are the rows that copies would make', () => {
  const writer = new Writer();
  const { replica } = writer;
  const long = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7) % 251);
  const append = (body: Uint8Array): ModelCommand => ({
    ...plainCommand(NOW, 'bucket', 's'),
    type: 'text/plain',
    body,
  });
  writer.write(create('s', 'short'), append(long), append(new Uint8Array([1, 2, 3])));
  const { rows } = replica.head('bucket', 's');
  const places = new Set(rows.map(({ bytes: { buffer } }) => buffer));
  assert(places.size < rows.length / 2, `${places.size} places of ${rows.length} rows`);
  const [first, ...others] = rows.map(({ length }) => length);
  assert.equal(others.at(-1), 5 + 300_000 + 3 - (first as number) - others.slice(0, -1).reduce((a, b) => a + b));
  assert.deepEqual(new Set(others.slice(0, -1)), new Set([ROW_PAYLOAD_BYTES_MAX]));
  const all = Buffer.concat([Buffer.from('short'), long, Buffer.from([1, 2, 3])]);
  assert.deepEqual(replica.tail('bucket', 's', 0, 400_000), all);
  replica.flush();
  replica.restart(false);
  assert.deepEqual(replica.tail('bucket', 's', 0, 400_000), all);
});
