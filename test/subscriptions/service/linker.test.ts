// The linker with a log in memory: what finds no room is counted, and does not fill the log.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { SUBSCRIPTION_STATE_BYTES_MAX } from '../../../src/base/limits.ts';
import type { ShardGateway } from '../../../src/ports.ts';
import { Directory } from '../../../src/subscriptions/service/stream-directory.ts';
import { Linker } from '../../../src/subscriptions/service/linker.ts';
import { Tails } from '../../../src/subscriptions/service/tails.ts';
import { Machine } from '../../../src/subscriptions/state/machine.ts';
import type { Command } from '../../../src/subscriptions/state/record.ts';
import type { Position } from '../../../src/subscriptions/state/subscription.ts';
import { WEBHOOK } from '../state/scene.ts';
import { FakeRuntime } from '../../support/fake-runtime.ts';

/** No shard answers. */
const GATEWAY = {
  shardCount: 1,
  groupCount: 1,
  groupOf: () => 0,
  openTopic: () => 1,
  send: () => true,
} as unknown as ShardGateway;

test('when all subscriptions together are full, an event of a stream that is not linked is no record', async () => {
  const ops: Command[] = [];
  const runtime = new FakeRuntime();
  const tails = new Tails(GATEWAY, runtime, {
    moved: () => undefined,
    found: () => undefined,
    missed: () => undefined,
  });
  const directory = new Directory(tails);
  const machine = new Machine(directory);
  const linker = new Linker({
    gateway: GATEWAY,
    machine,
    directory,
    tails,
    append: (commands) => {
      ops.push(...commands);
      for (const command of commands) machine.apply(command);
      return Promise.resolve();
    },
    isDriving: () => true,
    runtime,
    log: pino({ level: 'silent' }),
  });
  const rest = (): Promise<void> =>
    new Promise((resolve) => {
      setImmediate(() => setImmediate(resolve));
    });
  machine.apply({ op: 'create', id: 's', at: 0, config: WEBHOOK, hash: '', base: '', links: [] });
  linker.moved('events/first', { incarnation: 1, offset: 1 }, false);
  await rest();
  assert.deepEqual([ops.length, linker.refused], [1, 0]);
  const long = 'x'.repeat(2000);
  const links = Array.from({ length: 9000 }, (_, i): Position => [`events/${i}${long}`, 1, 0]);
  assert.equal(machine.apply({ op: 'link', id: 's', at: 0, links }).code, 'LIMIT_EXCEEDED');
  assert(machine.bytes > SUBSCRIPTION_STATE_BYTES_MAX - 5000);
  for (let i = 0; i < 5; i++) {
    linker.moved(`events/${long}more`, { incarnation: 1, offset: i }, false);
    await rest();
  }
  assert.deepEqual([ops.length, linker.refused], [1, 5]);
  tails.close();
});
