// The linker with a log in memory: what finds no room is counted, and does not fill the log.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { SUBSCRIPTION_STATE_BYTES_MAX } from '../../../src/base/limits.ts';
import type { ShardGateway } from '../../../src/ports.ts';
import { Directory } from '../../../src/subscriptions/service/stream-directory.ts';
import { Linker } from '../../../src/subscriptions/service/linker.ts';
import { Tails } from '../../../src/subscriptions/service/tails.ts';
import { Machine } from '../../../src/subscriptions/state/machine.ts';
import type { SubscriptionCommand } from '../../../src/subscriptions/state/record.ts';
import type { LinkPosition } from '../../../src/subscriptions/state/subscription.ts';
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

interface Rig {
  readonly machine: Machine;
  readonly linker: Linker;
  readonly ops: SubscriptionCommand[];
  /** Folds the records in flight. */
  fold(): void;
}

function open(t: TestContext): Rig {
  const ops: SubscriptionCommand[] = [];
  let inFlight: (() => void)[] = [];
  const runtime = new FakeRuntime();
  const tails = new Tails(GATEWAY, runtime, {
    moved: () => undefined,
    found: () => undefined,
    missed: () => undefined,
  });
  t.after(() => tails.close());
  const directory = new Directory(tails);
  const machine = new Machine(directory);
  const linker = new Linker({
    gateway: GATEWAY,
    machine,
    directory,
    tails,
    append: (commands) =>
      new Promise((resolve) => {
        inFlight.push(() => {
          for (const command of commands) machine.apply(command);
          resolve(undefined);
        });
        ops.push(...commands);
      }),
    isDriving: () => true,
    runtime,
    log: pino({ level: 'silent' }),
  });
  machine.apply({ op: 'create', id: 's', at: 0, config: WEBHOOK, hash: '', base: '', links: [] });
  return {
    ...{ machine, linker, ops },
    fold: () => {
      const folded = inFlight;
      inFlight = [];
      for (const one of folded) one();
    },
  };
}

const rest = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(() => setImmediate(resolve));
  });

test('when all subscriptions together are full, an event of a stream that is not linked is no record', async (t) => {
  const { machine, linker, ops, fold } = open(t);
  linker.moved('events/first', { incarnation: 1, offset: 1 }, false);
  await rest();
  fold();
  assert.deepEqual([ops.length, linker.refused], [1, 0]);
  const long = 'x'.repeat(2000);
  const links = Array.from({ length: 9000 }, (_, i): LinkPosition => [`events/${i}${long}`, 1, 0]);
  assert.equal(machine.apply({ op: 'link', id: 's', at: 0, links }).code, 'LIMIT_EXCEEDED');
  assert(machine.bytes > SUBSCRIPTION_STATE_BYTES_MAX - 5000);
  for (let i = 0; i < 5; i++) {
    linker.moved(`events/${long}more`, { incarnation: 1, offset: i }, false);
    await rest();
  }
  assert.deepEqual([ops.length, linker.refused], [1, 5]);
});

test('what happens to a stream while its link is recorded is recorded next, and only what changed', async (t) => {
  const { machine, linker, ops, fold } = open(t);
  const step = async (): Promise<string[]> => {
    await rest();
    fold();
    await rest();
    return ops.splice(0).map((one) => (one.op === 'link' ? `link ${one.links.join(' ')}` : one.op));
  };
  for (const name of ['same', 'gone', 'renewed']) linker.moved(`events/${name}`, { incarnation: 1, offset: 0 }, false);
  await rest();
  linker.moved('events/same', { incarnation: 1, offset: 5 }, false);
  linker.moved('events/gone', { incarnation: 1, offset: 0 }, true);
  linker.moved('events/renewed', { incarnation: 2, offset: 0 }, false);
  // The end of the first one is told late.
  linker.moved('events/renewed', { incarnation: 1, offset: 0 }, true);
  assert.deepEqual(ops.splice(0).length, 1, 'one record for all');
  assert.deepEqual(await step(), ['gone', 'gone', 'link events/renewed,2,0']);
  assert.deepEqual(await step(), []);
  const links = machine.subscriptions.get('s')?.links;
  assert.deepEqual(
    [...(links ?? [])].map(([path, { incarnation }]) => [path, incarnation]),
    [
      ['events/same', 1],
      ['events/renewed', 2],
    ],
  );
});
