// Hooks of a World and their tokens: claims, conflicts, and what strangers and later versions leave there.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { WorkflowRuns } from '../../src/client/workflow-runs.ts';
import { startNode } from './node.ts';
import { BYTES, hook, nameOf, seed, startProgram } from './workflow-program.ts';

const { server, client } = await startNode();
const one = startProgram(server.url).world;
const two = startProgram(server.url).world;

/** A run that has started, by its ID. */
async function started(): Promise<string> {
  const { run } = await one.events.create(null, seed('flow'));
  assert(run !== undefined);
  await one.events.create(run.runId, { eventType: 'run_started' });
  return run.runId;
}

test('a token has one hook at a time, of all runs', async () => {
  const runIds = await Promise.all(Array.from({ length: 4 }, async () => await started()));
  const token = 'a token / of any text \u{1f6a6}';
  const outcomes = await Promise.all(
    runIds.map(async (runId, i) => {
      const world = i % 2 === 0 ? one : two;
      const { event, hook: made } = await world.events.create(runId, hook(`hook_${runId}`, token));
      assert.equal(made !== undefined, event?.eventType === 'hook_created');
      return { runId, event };
    }),
  );
  const winner = outcomes.find(({ event }) => event?.eventType === 'hook_created')?.runId ?? '';
  const losers = outcomes.filter(({ runId }) => runId !== winner);
  for (const { event } of losers)
    assert(event?.eventType === 'hook_conflict' && event.eventData.conflictingRunId === winner);
  const found = await two.hooks.getByToken(token);
  assert.deepEqual([found.runId, found.metadata], [winner, BYTES]);
  // The DevKit writes into what it gets.
  Object.assign(found, { metadata: undefined });
  assert.deepEqual((await two.hooks.get(`hook_${winner}`)).metadata, BYTES);
  assert.equal(await nameOf(two.events.create(winner, hook(`hook_${winner}`, token))), 'EntityConflictError');
  const payload = {
    eventType: 'hook_received',
    correlationId: `hook_${winner}`,
    eventData: { payload: BYTES },
  } as const;
  await two.events.create(winner, payload);
  // Disposal and the end of the run give it back.
  await one.events.create(winner, { eventType: 'hook_disposed', correlationId: `hook_${winner}` });
  assert.equal(await nameOf(two.events.create(winner, payload)), 'HookNotFoundError');
  assert.equal(await nameOf(two.hooks.getByToken(token)), 'HookNotFoundError');
  const next = losers[0]?.runId ?? '';
  assert.equal((await two.events.create(next, hook('hook_next', token))).hook?.runId, next);
  await two.events.create(next, { eventType: 'run_completed', eventData: {} });
  assert.equal(await nameOf(one.hooks.getByToken(token)), 'HookNotFoundError');
  const last = losers[1]?.runId ?? '';
  assert.equal((await one.events.create(last, hook('hook_last', token))).hook?.runId, last);
});

test('a claim whose process died before its hook was there is the same hook’s to take up again', async () => {
  const [dead, other] = [await started(), await started()];
  await new WorkflowRuns(client, 'workflow').claim('half', { runId: dead, hookId: 'hook_half' });
  const { event } = await two.events.create(other, hook('hook_other', 'half'));
  assert.equal(event?.eventType, 'hook_conflict');
  assert.equal((await two.events.create(dead, hook('hook_half', 'half'))).hook?.runId, dead);
});

test('claims of strangers count as none, and one of a run that a later version wrote counts', async () => {
  const [runId, later] = [await started(), await started()];
  await client.stream('workflow', `run ${later}`).append(JSON.stringify({ eventType: 'run_paused', specVersion: 6 }));
  const claims = [null, 7, [], {}, { runId }, { runId: 7, hookId: [] }, { runId: 'x'.repeat(2000), hookId: 'hook' }];
  for (const [i, claim] of [...claims, { runId: later, hookId: 'hook' }].entries()) {
    const token = `strange ${i}`;
    const stream = `token ${createHash('sha256').update(token).digest('hex')}`;
    await client.stream('workflow', stream).create({ contentType: 'application/json' });
    await client.stream('workflow', stream).append(JSON.stringify([claim]));
    const { event } = await one.events.create(runId, hook(`hook_${i}`, token));
    assert.equal(event?.eventType, i < claims.length ? 'hook_created' : 'hook_conflict', token);
  }
});

test('a hook that got no token does not hold it, although it claimed it meanwhile', async () => {
  const [holder, loser, next] = [await started(), await started(), await started()];
  await one.events.create(holder, hook('hook_holder', 'raced'));
  const { event } = await one.events.create(loser, hook('hook_loser', 'raced'));
  assert.equal(event?.eventType, 'hook_conflict');
  await one.events.create(holder, { eventType: 'hook_disposed', correlationId: 'hook_holder' });
  // Another process that creates the same hook sees the token free, but comes second to the run's stream.
  await new WorkflowRuns(client, 'workflow').claim('raced', { runId: loser, hookId: 'hook_loser' });
  assert.equal((await two.events.create(next, hook('hook_next', 'raced'))).event?.eventType, 'hook_created');
});
