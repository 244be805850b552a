// A purge in slices: nothing of the bucket is left, even with concurrent creates, and nothing else is touched.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCode } from '../../../src/base/errors.ts';
import { apply } from '../../../src/stream/apply.ts';
import { PURGE_STREAMS_MAX } from '../../../src/stream/operations/purge.ts';
import { encodePurge } from '../../../src/protocol/bucket-command.ts';
import { Command, commandBytesMax, newCommandFields, writeCommand } from '../../../src/protocol/command.ts';
import { Reply } from '../../../src/protocol/reply.ts';
import { Replica } from '../replica.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

class Tenants {
  readonly replica = new Replica();
  readonly #command = new Command();

  run(kind: number, bucket: string, stream: string, payload?: Uint8Array): Reply {
    const fields = newCommandFields();
    fields.kind = kind;
    fields.bucket = bucket;
    fields.stream = stream;
    fields.nowMs = 1000;
    fields.payload = payload;
    const bytes = new Uint8Array(commandBytesMax(fields));
    const view = new DataView(bytes.buffer);
    writeCommand(fields, bytes, view, 0);
    this.#command.read(bytes, view, 0);
    const reply = new Reply();
    apply(this.replica.state, this.#command, reply);
    return reply;
  }

  /** Purges as the HTTP side does; `between` runs after each command. */
  purge(bucket: string, between: (round: number) => void = () => {}): number[] {
    const removed: number[] = [];
    for (let after = ''; ;) {
      const reply = this.run(COMMANDS.purge.number, bucket, '', encodePurge(after));
      assert.equal(errorCode(reply.code), 'OK');
      const { streamsRemoved, hasMore, continueAfter } = COMMANDS.purge.result.read(reply);
      removed.push(streamsRemoved);
      if (!hasMore) return removed;
      after = continueAfter;
      between(removed.length);
    }
  }

  usage(bucket: string): string | undefined {
    return this.replica.usage().find((line) => line.startsWith(`${bucket} `));
  }
}

const name = (i: number): string => `s${String(i).padStart(6, '0')}`;

for (const flushed of [false, true]) {
  test(`thousands of streams, ${flushed ? 'in the store' : 'in memory'}: bounded commands, all gone, others untouched`, () => {
    const tenants = new Tenants();
    const count = 2 * PURGE_STREAMS_MAX + 100;
    for (let i = 0; i < count; i++) tenants.run(COMMANDS.create.number, 'doomed', name(i), new Uint8Array([1]));
    tenants.run(COMMANDS.create.number, 'doome', 's', new Uint8Array([1]));
    tenants.run(COMMANDS.create.number, 'doomed2', 's', new Uint8Array([1]));
    if (flushed) tenants.replica.flush();
    assert.deepEqual(tenants.purge('doomed'), [PURGE_STREAMS_MAX, PURGE_STREAMS_MAX, 100]);
    assert.equal(tenants.usage('doomed'), `doomed false ${count} ${count} ${count} 0 0 -1 -1`);
    for (const other of ['doome', 'doomed2']) assert.equal(tenants.usage(other), `${other} true 1 1 1 1 1 -1 -1`);
    assert.deepEqual(tenants.purge('doomed'), [0]);
    tenants.replica.settle();
    const heads = [...tenants.replica.tx.entries()].filter(([key]) => key[2] === 'h');
    assert.equal(heads.length, 2);
    // The counters go on where they were.
    tenants.run(COMMANDS.create.number, 'doomed', 'new');
    assert.equal(tenants.usage('doomed'), `doomed true ${count} ${count} ${count + 1} 0 1 -1 -1`);
  });
}

test('streams created during the purge are found, before and behind where it is', () => {
  const tenants = new Tenants();
  for (let i = 0; i < PURGE_STREAMS_MAX + 10; i++) tenants.run(COMMANDS.create.number, 'b', name(i));
  const removed = tenants.purge('b', (round) => {
    if (round > 2) return;
    tenants.run(COMMANDS.create.number, 'b', `a${round}`);
    tenants.run(COMMANDS.create.number, 'b', `z${round}`);
  });
  assert.deepEqual(removed, [PURGE_STREAMS_MAX, 11, 3]);
  assert.match(tenants.usage('b') ?? '', /^b false 0 0 \d+ 0 0/);
});

test('a purge of an absent bucket leaves no trace, and invalid parameters change nothing', () => {
  const tenants = new Tenants();
  assert.deepEqual(tenants.purge('nothing'), [0]);
  assert(!tenants.replica.state.dirty);
  tenants.run(COMMANDS.create.number, 'b', 's');
  for (const kind of [COMMANDS.purge.number, COMMANDS.quota.number]) {
    for (const payload of [undefined, new Uint8Array([9]), new Uint8Array(17)]) {
      assert.equal(errorCode(tenants.run(kind, 'b', '', payload).code), 'INTERNAL');
    }
  }
  assert.equal(errorCode(tenants.run(COMMANDS.append.number, 'b', 's').code), 'OK');
});
