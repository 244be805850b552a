// The spool of an import keeps pieces in order, and never more than there is room for.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { ERRORS, type ErrorCode, errorNumber } from '../../../src/base/errors.ts';
import type { ImportSink } from '../../../src/backup/ports.ts';
import type { ReplyHandler, ShardGateway } from '../../../src/ports.ts';
import { Import, importHost } from '../../../src/backup/import/importer.ts';
import { Spool, SpoolError, SpoolMemory } from '../../../src/backup/import/spool.ts';
import { decodeImportToken } from '../../../src/protocol/import-command.ts';
import { Reply } from '../../../src/protocol/reply.ts';
import { mountSmallDisk } from '../../crash/small-disk.ts';
import { FailingCalls } from '../../support/failing-calls.ts';
import { removeFolder, temporaryFolder } from '../../support/server.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';
import { PROCESS_RUNTIME } from '../../../src/server/runtime.ts';
import { sameBytes } from '../../support/same-bytes.ts';

/** 13 are held in memory. */
const PIECE_BYTES = 1_250_000;
const pieceOf = (value: number): Uint8Array => new Uint8Array(PIECE_BYTES).fill(value);
const MIB = 1024 * 1024;
const DISK_BYTES = 8 * MIB;
const sentenceOf = (folder: string): string =>
  `what waits of the upload in ${folder} cannot be kept (ENOSPC: no space left on device, write)`;

test('a spool returns what it took, and refuses what its volume cannot hold', () => {
  const folder = temporaryFolder('spool');
  const spool = new Spool(folder, new SpoolMemory(), () => 10 * PIECE_BYTES);
  let taken = 0;
  assert.throws(() => {
    for (;;) spool.push(pieceOf(taken++ % 251));
  }, /no room for more/);
  const pieces: Uint8Array[] = [];
  for (let piece = spool.shift(); piece !== undefined; piece = spool.shift()) pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  // The last one was refused: 13 in memory and 10 in the file.
  assert.equal(bytes.length, (taken - 1) * PIECE_BYTES);
  assert.equal(taken - 1, 13 + 10);
  for (let i = 0; i < taken - 1; i++) assert.equal(bytes[(i + 0.5) * PIECE_BYTES], i % 251);
  // Empty again, it starts over.
  spool.push(pieceOf(7));
  assert.equal(spool.shift()?.[0], 7);
  spool.close();
  removeFolder(folder);
});

test('uploads of one node share the memory in which they wait, and have it back when they end', (t) => {
  const folder = temporaryFolder('spool');
  t.after(() => removeFolder(folder));
  const memory = new SpoolMemory();
  const inMemory = (): [Spool, number] => {
    const spool = new Spool(folder, memory, () => 0);
    let taken = 0;
    assert.throws(() => {
      for (; ; taken++) spool.push(pieceOf(1));
    }, /no room for more/);
    return [spool, taken];
  };
  const spools = Array.from({ length: 6 }, inMemory);
  // 64 MiB of all, 16 of one.
  assert.deepEqual(
    spools.map(([, taken]) => taken),
    [13, 13, 13, 13, 1, 0],
  );
  for (const [spool] of spools) spool.close();
  const [again, taken] = inMemory();
  assert.equal(taken, 13);
  while (again.shift() !== undefined);
  assert(memory.take(64 * MIB), 'all is given back');
});

test('pieces of a byte take hardly more memory than their bytes, and come back joined', () => {
  const spool = new Spool('/nowhere', new SpoolMemory());
  const sent = Uint8Array.from({ length: 200_000 }, (_, i) => i % 251);
  for (const byte of sent) spool.push(Uint8Array.of(byte));
  const pieces: Uint8Array[] = [];
  for (let piece = spool.shift(); piece !== undefined; piece = spool.shift()) pieces.push(piece);
  assert.equal(pieces.length, 4);
  sameBytes(Buffer.concat(pieces), sent);
});

test('a volume that others fill meanwhile refuses by itself, and has its room back afterwards', async (t) => {
  const { disk, reason } = await mountSmallDisk(DISK_BYTES);
  if (disk === undefined) return t.skip(reason);
  try {
    const freeBytes = disk.freeBytes();
    const spool = new Spool(disk.outside, new SpoolMemory(), () => Infinity);
    const fill = (): void => {
      for (;;) spool.push(pieceOf(1));
    };
    assert.throws(fill, (error: SpoolError) => {
      assert(error instanceof SpoolError);
      assert.equal(error.code, 'DISK_FULL');
      assert.equal(error.message, sentenceOf(disk.outside));
      return true;
    });
    assert(disk.freeBytes() < MIB);
    spool.close();
    assert.equal(disk.freeBytes(), freeBytes);
    assert.deepEqual(readdirSync(disk.outside), ['data']);
  } finally {
    await disk.dispose();
  }
});

test('whatever call of a spool fails, what comes out is what went in, or a sentence that names its directory', async (t) => {
  const folder = temporaryFolder('spool');
  t.after(() => removeFolder(folder));
  const calls = await FailingCalls.in(t);
  const pieces = Array.from({ length: 16 }, (_, i) => pieceOf(i + 1));
  const whole = Buffer.concat(pieces);
  /** The bytes that came out are those that went in. */
  const goesThrough = (spool: Spool): boolean => {
    for (const piece of pieces) spool.push(piece);
    let bytes = 0;
    let isEqual = true;
    for (let piece = spool.shift(); piece !== undefined; piece = spool.shift()) {
      isEqual &&= whole.subarray(bytes, (bytes += piece.length)).equals(piece);
    }
    return isEqual && bytes === whole.length;
  };
  let refused = 0;
  const made = ['openSync', 'unlinkSync', 'writeSync', 'readSync', 'closeSync'];
  const trials = await calls.sweep(
    { EIO: made, ENOSPC: made, EINTR: made, short: made, slow: made },
    async (_, __, failure) => {
      const spool = new Spool(folder, new SpoolMemory(), () => Infinity);
      try {
        assert(goesThrough(spool));
      } catch (error) {
        refused++;
        assert(failure !== 'slow' && error instanceof SpoolError && error.message.includes(folder), String(error));
        spool.close();
      }
      calls.end();
      assert(spool.isEmpty);
      // An upload that comes again finds nothing of it.
      assert(goesThrough(spool));
    },
  );
  assert(trials > 12 && refused > 8, `${trials} trials, ${refused} refused`);
});

test('a spool that cannot be made is no full disk', () => {
  const spool = new Spool('/nowhere', new SpoolMemory(), () => Infinity);
  const fill = (): void => {
    for (;;) spool.push(pieceOf(1));
  };
  assert.throws(
    fill,
    (error: SpoolError) => error.code === 'INTERNAL' && /cannot be kept \(ENOENT/.test(error.message),
  );
  spool.close();
});

interface Sent {
  readonly kind: number;
  readonly token: string | undefined;
  answer(code?: ErrorCode): void;
}

const unused = (): never => assert.fail('imports do not use this');

/** A shard that answers when the test says so. */
function gatewayOf(sent: Sent[]): ShardGateway {
  const send = ({ op, command }: Parameters<ShardGateway['send']>[0], handler: ReplyHandler): boolean => {
    const answer = (code: ErrorCode = 'OK'): void =>
      handler.onReply(Object.assign(new Reply(), { code: errorNumber(code) }));
    sent.push({ kind: op, token: decodeImportToken(command.payload ?? new Uint8Array()), answer });
    return true;
  };
  return { groupCount: 1, shardCount: 1, groupOf: unused, send, openTopic: unused, closeTopic: unused };
}

test('an upload for which the volume has no room any more is undone, and then refused with 507', async (t) => {
  const { disk, reason } = await mountSmallDisk(2 * DISK_BYTES);
  if (disk === undefined) return t.skip(reason);
  try {
    const freeBytes = disk.freeBytes();
    const sent: Sent[] = [];
    const answers: [ErrorCode, string | undefined][] = [];
    const sink: ImportSink = {
      pause: () => undefined,
      resume: () => undefined,
      json: unused,
      text: unused,
      fail: (code, detail) => answers.push([code, detail]),
    };
    const wish = { digest: undefined, adopts: false, directory: disk.outside, readCold: undefined };
    const upload = new Import(gatewayOf(sent), 0, wish, sink, importHost(PROCESS_RUNTIME));
    upload.start();
    // The group has not reported yet whether it is empty, and the client sends anyway.
    let pushed = 0;
    for (; disk.freeBytes() === freeBytes; pushed += PIECE_BYTES) upload.push(pieceOf(1));
    disk.fill('filler', disk.freeBytes() - MIB);
    // Pieces behind the one that does not fit are thrown away.
    for (let i = 0; i < 8; i++) upload.push(pieceOf(1));
    upload.end();
    disk.remove('filler');
    assert.equal(disk.freeBytes(), freeBytes, `nothing is kept of ${pushed} bytes`);
    // The BEGIN is in flight and may still be applied, so it is undone before the client gets its answer.
    assert.deepEqual([sent.map(({ kind }) => kind), answers], [[COMMANDS.importBegin.number], []]);
    sent[0]?.answer();
    assert.deepEqual(
      [sent.map(({ kind }) => kind), answers],
      [[COMMANDS.importBegin.number, COMMANDS.importAbort.number], []],
    );
    assert.equal(sent[1]?.token, sent[0]?.token);
    sent[1]?.answer();
    const sentence = sentenceOf(disk.outside);
    assert.deepEqual(answers, [['DISK_FULL', sentence]]);
    assert.equal(ERRORS.DISK_FULL.bucketed, 507);
  } finally {
    await disk.dispose();
  }
});
