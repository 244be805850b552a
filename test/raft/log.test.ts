import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RaftLog } from '../../src/raft/log.ts';
import { Random } from '../../src/raft/random.ts';
import { ENTRY_DATA, ENTRY_OVERHEAD_BYTES } from '../../src/raft/types.ts';
import type { Entry } from '../../src/raft/types.ts';
import { MemoryLog } from './support/memory-log.ts';

/** The dumb model: all entries ever, in one array; what RaftLog keeps where is its own business. */
test('the log equals a plain array under 200 random lives', () => {
  for (let seed = 1; seed <= 200; seed += 1) live(new Random(seed));
});

function live(random: Random): void {
  const disk = new MemoryLog();
  const log = new RaftLog(disk, 0, 0, 0, 0);
  const model: Entry[] = [];
  let term = 1;
  let writing: { entries: readonly Entry[]; index: number } | undefined;
  let delivered = 0;
  for (let step = 0; step < 400; step += 1) {
    const dice = random.below(12);
    if (dice < 4) {
      if (random.below(10) === 0) term += 1 + random.below(2);
      const entry: Entry = { term, index: log.last + 1, kind: ENTRY_DATA, data: new Uint8Array(random.below(100)) };
      log.append(entry);
      model.push(entry);
    } else if (dice === 4 && writing === undefined && log.handed < log.last) {
      writing = { entries: log.takeUnhanded(), index: log.handed };
    } else if (dice < 7 && writing !== undefined) {
      disk.write(writing.entries);
      log.stableTo(Math.min(writing.index, log.handed));
      writing = undefined;
    } else if (dice === 7 && log.last > log.commit) {
      log.commitTo(log.commit + 1 + random.below(log.last - log.commit));
    } else if (dice === 8 && log.hasDeliverable()) {
      const entries = log.takeDeliverable(300);
      assert.deepEqual(entries, model.slice(delivered, delivered + entries.length));
      delivered += entries.length;
    } else if (dice === 9 && writing === undefined && random.below(3) === 0 && log.last > log.commit) {
      const index = log.commit + 1 + random.below(log.last - log.commit);
      log.truncate(index);
      model.length = index - 1;
      term += 1;
    } else if (dice === 10 && delivered > log.snapshotIndex && random.below(4) === 0) {
      const index = log.snapshotIndex + 1 + random.below(delivered - log.snapshotIndex);
      disk.compact(index);
      log.compactTo(index);
    } else checkReads(log, model, random);
  }
}

function checkReads(log: RaftLog, model: readonly Entry[], random: Random): void {
  assert.equal(log.last, model.length);
  assert.equal(log.lastTerm, model[model.length - 1]?.term ?? 0);
  const index = random.below(model.length + 2);
  const known = index >= log.snapshotIndex && index <= model.length;
  assert.equal(log.term(index), known ? (model[index - 1]?.term ?? 0) : -1, `term of ${index}`);
  if (index <= log.snapshotIndex || index > model.length) return;
  const limit = random.below(500);
  const entries = log.entriesFrom(index, limit);
  assert.ok(entries.length > 0);
  assert.deepEqual(entries, model.slice(index - 1, index - 1 + entries.length));
  const bytes = entries.reduce((sum, entry) => sum + entry.data.length + ENTRY_OVERHEAD_BYTES, 0);
  assert.ok(entries.length === 1 || bytes <= limit, `${bytes} bytes, ${limit} allowed`);
}
