// A fixed set of trials: whatever a disk changes, a node serves what was acknowledged, or refuses in words, or gets it
// back from the others.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { type Result, runCampaign } from './campaign.ts';
import { FIXED } from './fixed.ts';
import { commandOf, trialOf } from './trial.ts';
import type { Order } from './trials.process.ts';

/** With directories that the tests prepare once. */
const folder = temporaryFolder('campaign');
after(() => removeFolder(folder));

const sets: readonly (readonly [name: string, orders: readonly Order[]])[] = Object.entries(FIXED).map(
  ([name, { seeds, only }]) => [name, seeds.map((seed) => ({ seed, only }))],
);
const results = new Map<Order, Result>();
let campaign: Promise<void> | undefined;

/** Every set by one process, because it takes a second before its first trial; the first test awaits them all. */
async function runAll(): Promise<void> {
  const orders = sets.flatMap(([, some]) => some);
  campaign ??= runCampaign({
    orders,
    folder,
    processes: 1,
    onResult: (order, result) => void results.set(order, result),
  });
  await campaign;
}

function badEnd(order: Order): string | undefined {
  const { ending, did, why } = results.get(order) ?? { ending: 'BAD', did: '?', why: 'it has no result' };
  return ending === 'BAD' ? `${commandOf(trialOf(order.seed, order.only), order.only)}: ${did}: ${why}` : undefined;
}

for (const [name, orders] of sets) {
  test(`no trial of the fixed set ends badly: ${name}`, async () => {
    await runAll();
    assert.deepEqual(
      orders.map(badEnd).filter((bad) => bad !== undefined),
      [],
    );
  });
}
