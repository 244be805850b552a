// Every kind of command as it stands in the log, what it answers, and every kind of row that it leaves in the store.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { snapshotDigest } from '../../src/digest/blake3.ts';
import { configurationOf } from './layout-inputs.ts';
import { encodeConfiguration, decodeConfiguration } from '../../src/raft/configuration.ts';
import { releaseChunks } from '../../src/stream/cold/release.ts';
import { garbageBelow } from '../../src/stream/core/garbage.ts';
import { eachChunk } from '../../src/stream/cold/chunks.ts';
import { type CompactSlice, sliceOf } from '../../src/stream/cold/compaction-plan.ts';
import type { State } from '../../src/stream/core/state.ts';
import { encodePurge, encodeQuota } from '../../src/protocol/bucket-command.ts';
import { type StoredChunk, encodeOrphanList } from '../../src/protocol/cold.ts';
import { encodeForkBegin, encodeForkData, encodeForkPin } from '../../src/protocol/fork-command.ts';
import { joinFrames } from '../../src/protocol/append-batch.ts';
import {
  PUBLISH_HEAD_BYTES,
  type Position,
  encodeRetention,
  writePublishHead,
} from '../../src/protocol/position-command.ts';
import { createRandom } from '../support/random.ts';
import { ColdRun } from '../stream/cold/run.ts';
import { Layouts, utf8 } from './layouts.ts';
import { NOW, Teller } from './state-teller.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { commandBytesMax, newCommandFields, writeCommand } from '../../src/protocol/command.ts';
import { EntryBuilder } from '../../src/group/entry.ts';
import { viewOf } from '../../src/base/bytes.ts';

/** Both bytes of the prefix of keys count. */
const GROUP = 0x0102;
const TEXT = 'text/plain';
const JSON_TYPE = 'application/json';
/** More than a row. */
const LONG = utf8('long '.repeat(1000));

const key = (stream: string): string => `orders\0${stream}`;
const at = (offset: number): Position => ({
  ...{ byRecord: false, value: offset, checkedIncarnation: 0, checkedOffset: 0, checkedRecord: 0 },
});

function publish(offset: number, bytes: Uint8Array, match?: Uint8Array): Uint8Array {
  const payload = new Uint8Array(PUBLISH_HEAD_BYTES + bytes.length);
  payload.set(bytes, PUBLISH_HEAD_BYTES);
  writePublishHead(payload, { position: at(offset), digest: snapshotDigest('text/x-state', bytes), match });
  return payload;
}

test('streams: appends, producers, attributes, lifetimes, snapshots, floors, quotas', () => {
  const layouts = new Layouts('state: streams');
  const teller = new Teller(GROUP, layouts);
  const create = { kind: COMMANDS.create.number };
  const append = { kind: COMMANDS.append.number };
  const text = { stream: 'text', contentType: TEXT };
  const json = { stream: 'jsön', contentType: JSON_TYPE };
  const attributes = utf8('{"title":"T","metadata":{"n":1.00}}');
  teller.say('create with everything', {
    ...{ ...create, ...text, attributes, ttlSeconds: 3600, payload: utf8('first,'), streamSeq: 'a1' },
    ...{ producerId: 'Ünï', producerEpoch: 2, producerSeq: 0 },
  });
  const produced = { ...append, ...text, producerId: 'Ünï', producerEpoch: 2 };
  teller.say('append of a producer', { ...produced, producerSeq: 1, payload: utf8('second,'), streamSeq: 'a2' });
  teller.say('append of a producer again', { ...produced, producerSeq: 1, payload: utf8('second,') });
  teller.say('append with a gap', { ...produced, producerSeq: 9, payload: utf8('never,') });
  teller.say('append of more than a row', { ...append, ...text, payload: LONG });
  teller.say('create of JSON', { ...create, ...json, expiresAtMs: NOW + 86_400_000 });
  teller.say('append of JSON', { ...append, ...json, recordMatch: 0, payload: utf8('[{"n": 1}, [2.50], 1e400]') });
  teller.say('append at another record', { ...append, ...json, recordMatch: 1, payload: utf8('7') });
  const frames = (...texts: string[]): Uint8Array => joinFrames(texts.map(utf8));
  const batch = { kind: COMMANDS.appendBatch.number };
  teller.say('batch', { ...batch, ...text, payload: frames('x', 'yy') });
  teller.say('batch of JSON', { ...batch, ...json, payload: frames('{"a":1}', '[2,3]') });
  teller.say('conditional append', { ...append, ...text, condition: '* -', payload: utf8('cond,') });
  teller.say('conditional append in vain', {
    ...append,
    ...text,
    condition: '0123456789abcdef -',
    payload: utf8('no'),
  });
  teller.say('create without a type', { ...create, stream: 'untyped' });
  teller.say('append gives the type', { ...append, stream: 'untyped', contentType: TEXT, payload: utf8('typed') });
  teller.say('close', { ...append, stream: 'untyped', close: true });
  teller.say('append to what is closed', { ...append, stream: 'untyped', contentType: TEXT, payload: utf8('late') });
  teller.say('attributes', { kind: COMMANDS.setAttributes.number, stream: 'jsön', attributes: utf8('{"title":"J"}') });
  const publishing = { kind: COMMANDS.publishSnapshot.number, stream: 'text', contentType: 'text/x-state' };
  teller.say('snapshot', { ...publishing, payload: publish(6, LONG) });
  const digest = snapshotDigest('text/x-state', LONG);
  teller.say('snapshot in place of one', { ...publishing, payload: publish(13, LONG.subarray(5), digest) });
  teller.say('snapshot in place of another', { ...publishing, payload: publish(13, utf8('s'), digest) });
  teller.say('retention', { kind: COMMANDS.retention.number, stream: 'text', payload: encodeRetention(at(6)) });
  const byRecord = { ...at(1), byRecord: true };
  teller.say('retention by record', {
    kind: COMMANDS.retention.number,
    stream: 'jsön',
    payload: encodeRetention(byRecord),
  });
  teller.say('touch', { kind: COMMANDS.touch.number, stream: 'text' });
  const quota = { streamsMax: 9, retainedBytesMax: 1e9 };
  teller.say('quota', { kind: COMMANDS.quota.number, payload: encodeQuota(quota) });
  teller.say('quota of one kind', {
    ...{ kind: COMMANDS.quota.number, bucket: 'reserved' },
    payload: encodeQuota({ streamsMax: -1, retainedBytesMax: 4096 }),
  });
  teller.state.configuration = layouts.same('configuration', encodeConfiguration(configurationOf('joint')));
  assert.deepEqual(decodeConfiguration(teller.state.configuration), configurationOf('joint'));
  const plain = layouts.same('configuration, plain', encodeConfiguration(configurationOf('plain')));
  assert.deepEqual(decodeConfiguration(plain), configurationOf('plain'));
  teller.rows('before removals');
  teller.say('create what expires', { ...create, stream: 'short', contentType: TEXT, expiresAtMs: NOW + 60_000 });
  teller.nowMs = NOW + 120_000;
  teller.say('sweep', { kind: COMMANDS.expire.number, bucket: '' });
  teller.say('delete', { kind: COMMANDS.deleteStream.number, stream: 'untyped' });
  teller.say('delete what is not there', { kind: COMMANDS.deleteStream.number, stream: 'nobody' });
  teller.say('purge', { kind: COMMANDS.purge.number, payload: encodePurge('') });
  teller.say('purge from a stream on', { kind: COMMANDS.purge.number, bucket: 'reserved', payload: encodePurge('ü') });
  teller.say('create in a bucket', { ...create, bucket: 'other', stream: 's', contentType: TEXT });
  teller.say('delete the stream', { kind: COMMANDS.deleteStream.number, bucket: 'other', stream: 's' });
  teller.say('delete the bucket', { kind: COMMANDS.deleteBucket.number, bucket: 'other' });
  teller.rows('after removals');
  layouts.same('garbage below a position', garbageBelow(2 ** 40 + 1, 77));
  layouts.end();
});

test('a large command in pieces, and what a checkpoint between two of them keeps', () => {
  const layouts = new Layouts('state: pieces');
  const teller = new Teller(GROUP, layouts);
  teller.say('create', { kind: COMMANDS.create.number, stream: 'text', contentType: TEXT });
  const fields = { kind: COMMANDS.append.number, bucket: 'orders', stream: 'text', contentType: TEXT, payload: LONG };
  const whole = new Uint8Array(commandBytesMax({ ...newCommandFields(), ...fields }));
  const totalBytes = writeCommand({ ...newCommandFields(), ...fields }, whole, viewOf(whole), 0);
  const entry = new EntryBuilder();
  const piece = (name: string, offset: number, sizeBytes: number): void => {
    entry.addPiece({ parts: [whole.subarray(0, totalBytes)], totalBytes, offset }, sizeBytes, teller.nowMs);
    teller.hear(name, entry.finish());
  };
  piece('first piece', 0, 100);
  piece('second piece', 100, 4500);
  teller.rows('between pieces');
  piece('last piece', 4600, totalBytes - 4600);
  teller.rows('behind the last piece');
  layouts.end();
});

test('forks: each step, what is left of sources, who is to be told', () => {
  const layouts = new Layouts('state: forks');
  const teller = new Teller(GROUP, layouts);
  const source = { stream: 'source', contentType: TEXT };
  teller.say('source', { kind: COMMANDS.create.number, ...source, ttlSeconds: 900, payload: utf8('one,') });
  teller.say('source goes on', { kind: COMMANDS.append.number, ...source, payload: utf8('two,') });
  const token = 2 ** 50 + 3;
  const fork = { stream: 'fork', forkToken: token };
  const begin = { kind: COMMANDS.forkBegin.number, ...fork, payload: encodeForkBegin(key('source'), 4, 2) };
  teller.say('begin', { ...begin, ttlSeconds: 60 });
  const pin = { kind: COMMANDS.forkPin.number, stream: 'source', forkToken: token };
  teller.say('pin', { ...pin, payload: encodeForkPin(key('fork'), 4) });
  const piece = { anchor: 4, at: 0, record: 0, ends: [4, 6], bytes: utf8('one,tw') };
  teller.say('data', { kind: COMMANDS.forkData.number, ...fork, contentType: TEXT, payload: encodeForkData(piece) });
  teller.rows('while the fork is made');
  teller.say('check', { kind: COMMANDS.forkCheck.number, ...fork });
  const end = { kind: COMMANDS.forkEnd.number, ...fork, contentType: TEXT, ttlSeconds: 60, payload: utf8('own') };
  teller.say('end', { ...end, producerId: 'p', producerEpoch: 1, producerSeq: 0 });
  const second = { stream: 'second', forkToken: 8 };
  teller.say('begin at the tail', {
    ...{ kind: COMMANDS.forkBegin.number, ...second },
    payload: encodeForkBegin(key('source'), -1, 0),
  });
  teller.say('pin at the tail', { ...pin, forkToken: 8, payload: encodeForkPin(key('second'), -1) });
  teller.say('abort', { kind: COMMANDS.forkAbort.number, ...second });
  teller.rows('with somebody to be told');
  teller.say('unpin', { kind: COMMANDS.forkUnpin.number, stream: 'source', forkToken: 8 });
  teller.say('unpinned', { kind: COMMANDS.forkUnpinned.number, stream: 'second', forkToken: 8 });
  teller.say('the source is removed', { kind: COMMANDS.deleteStream.number, stream: 'source' });
  teller.rows('with a tombstone');
  teller.say('the fork is removed', { kind: COMMANDS.deleteStream.number, stream: 'fork' });
  teller.rows('with both gone');
  layouts.end();
});

/** Those of the JSON stream, as they are to be merged. */
function twoChunks(state: State): CompactSlice {
  const stream = utf8(key('jsön'));
  const head = state.find(stream, 0, stream.length);
  assert(head !== undefined);
  const chunks: StoredChunk[] = [];
  eachChunk(state, head.incarnation, 0, (chunk) => chunks.push(chunk) > 0);
  assert.equal(chunks.length, 2);
  return sliceOf(state, head, stream, chunks);
}

test('the cold tier: objects, chunks, merged chunks, the queue of objects, releases', () => {
  const layouts = new Layouts('state: cold');
  const teller = new Teller(GROUP, layouts);
  const cold = new ColdRun(createRandom(1));
  const flush = (name: string): void => {
    const uploaded = cold.upload(teller.state, { hotBeforeMs: Infinity, maxBytes: Infinity });
    assert(uploaded !== undefined, `${name} has something to upload`);
    const object = cold.objects.get(uploaded.list.key) as Uint8Array;
    layouts.sameText(`${name}: key`, uploaded.list.key);
    cold.objects.set(uploaded.list.key, layouts.same(`${name}: object`, object));
    teller.hear(name, cold.entry(uploaded, teller.nowMs));
  };
  const json = { stream: 'jsön', contentType: JSON_TYPE };
  const text = { stream: 'text', contentType: TEXT };
  teller.say('JSON', { kind: COMMANDS.create.number, ...json, payload: utf8('[{"n":1},2]') });
  flush('flush of a stream');
  teller.say('text', { kind: COMMANDS.create.number, ...text, payload: LONG });
  teller.say('more JSON', { kind: COMMANDS.append.number, ...json, payload: utf8('[3,4]') });
  flush('flush of two streams');
  teller.rows('after two flushes');
  const merged = cold.merge(teller.state, { bucket: 'orders', incarnation: 1, slices: [twoChunks(teller.state)] });
  layouts.same('compact: object', cold.objects.get(merged.list.key) as Uint8Array);
  teller.hear('compact', cold.entry(merged, teller.nowMs));
  const orphan = { object: { run: 'ff10a0b0c0d0e0f0', seq: 2 ** 40 + 1 }, key: 'g0102-ff10a0b0c0d0e0f0/orders/pack/x' };
  teller.hear('doom', cold.propose(COMMANDS.markOrphan.number, 'orders', encodeOrphanList([orphan]), teller.nowMs));
  teller.say('text is removed', { kind: COMMANDS.deleteStream.number, stream: 'text' });
  teller.rows('with objects to delete');
  teller.state.releaseLeft = 0;
  releaseChunks(teller.state, 1, 2 ** 40 + 1, NOW, false);
  teller.rows('with chunks to release');
  releaseChunks(teller.state, 1, Infinity, NOW, true);
  teller.rows('with all chunks to release');
  const collected = cold.collect(teller.state, teller.nowMs, 100, true);
  assert(collected !== undefined);
  teller.hear('GC done', collected);
  teller.rows('after the collection');
  layouts.end();
});
