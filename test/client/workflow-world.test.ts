// A whole Workflow World on a real node, as its interface has it: two clients are two processes. The DevKit's own suite runs with
// `npm run workflow-suite`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecordWriter } from '../../src/client/workflow-log.ts';
import { WorkflowRuns } from '../../src/client/workflow-runs.ts';
import type { WorkflowRequest } from '../../src/client/workflow-storage.ts';
import type { WorkflowWorldOptions } from '../../src/client/workflow-world.ts';
import { codeOf } from './answers.ts';
import { startNode } from './node.ts';
import { BYTES, type Program, hook, nameOf, seed, startProgram } from './workflow-program.ts';

const { server, client } = await startNode();
const program = (options: Partial<WorkflowWorldOptions> = {}): Program => startProgram(server.url, options);
const one = program().world;
const two = program().world;

/** A run that has started, by its ID. */
async function started(workflowName = 'flow'): Promise<string> {
  const { run } = await one.events.create(null, seed(workflowName));
  assert(run !== undefined);
  await one.events.create(run.runId, { eventType: 'run_started' });
  return run.runId;
}

const ofStep = (
  eventType: 'step_created' | 'step_started' | 'step_completed' | 'step_failed',
  id = 'step_1',
): WorkflowRequest =>
  ({
    step_created: { eventType: 'step_created', correlationId: id, eventData: { stepName: 's', input: BYTES } } as const,
    step_started: { eventType: 'step_started', correlationId: id } as const,
    step_completed: { eventType: 'step_completed', correlationId: id, eventData: { result: 1 } } as const,
    step_failed: { eventType: 'step_failed', correlationId: id, eventData: { error: 2 } } as const,
  })[eventType];

test('a run goes through its states, and any process sees them', async () => {
  const created = await one.events.create('wrun_a', seed('whole'));
  assert.equal(created.run?.status, 'pending');
  const start = await two.events.create('wrun_a', { eventType: 'run_started' });
  assert.deepEqual([start.run?.status, start.events?.length, start.hasMore], ['running', 2, false]);
  assert.deepEqual(Object.keys(await one.events.create('wrun_a', { eventType: 'run_started' })), ['run']);
  await one.events.create('wrun_a', ofStep('step_created'));
  assert.equal((await two.events.create('wrun_a', ofStep('step_started'))).step?.attempt, 1);
  const retryAfter = new Date(Date.now() + 60_000);
  const retrying = { error: 'e', retryAfter };
  await one.events.create('wrun_a', { eventType: 'step_retrying', correlationId: 'step_1', eventData: retrying });
  const waiting = await two.steps.get('wrun_a', 'step_1');
  assert.deepEqual([waiting.status, waiting.retryAfter, waiting.input], ['pending', retryAfter, BYTES]);
  assert.equal(await nameOf(two.events.create('wrun_a', ofStep('step_started'))), 'TooEarlyError');
  const delta = await one.events.create('wrun_a', ofStep('step_failed'), { sinceCursor: '4' });
  assert.deepEqual(
    [delta.events?.map(({ eventType }) => eventType), delta.cursor],
    [['step_retrying', 'step_failed'], '6'],
  );
  const lazy = { stepName: 'lazy', input: BYTES };
  const made = await one.events.create('wrun_a', {
    eventType: 'step_started',
    correlationId: 'step_2',
    eventData: lazy,
  });
  assert.deepEqual([made.stepCreated, made.step?.status, made.step?.input], [true, 'running', BYTES]);
  await two.events.create('wrun_a', ofStep('step_completed', 'step_2'));
  const resumeAt = new Date(5);
  await one.events.create('wrun_a', { eventType: 'wait_created', correlationId: 'wait_1', eventData: { resumeAt } });
  const { wait } = await two.events.create('wrun_a', { eventType: 'wait_completed', correlationId: 'wait_1' });
  assert.deepEqual([wait?.status, wait?.resumeAt], ['completed', resumeAt]);
  const changes = [{ key: 'a', value: '1' }];
  await one.events.create('wrun_a', { eventType: 'attr_set', eventData: { changes, writer: { type: 'workflow' } } });
  await one.events.create('wrun_a', { eventType: 'run_completed', eventData: { output: BYTES } });
  const run = await two.runs.get('wrun_a');
  assert.deepEqual([run.status, run.output, run.input, run.attributes], ['completed', BYTES, BYTES, { a: '1' }]);
  assert.deepEqual(run.executionContext, { $bytes: 'no bytes' }, 'what looks like a tag stays as it is');
  const { input, output } = await two.runs.get('wrun_a', { resolveData: 'none' });
  assert.deepEqual([input, output], [undefined, undefined]);
  const { data } = await two.events.list({ runId: 'wrun_a', resolveData: 'none' });
  assert.deepEqual(
    data.map(({ eventId }) => eventId),
    data.map(({ eventId }) => eventId).toSorted(),
    'IDs have the order of the stream',
  );
  assert(data.every((event) => !('eventData' in event) || !JSON.stringify(event.eventData).includes('input')));
  assert.deepEqual(await one.events.get('wrun_a', data[0]?.eventId ?? '', { resolveData: 'none' }), data[0]);
});

const ILLEGAL: readonly [string, readonly WorkflowRequest[], WorkflowRequest, string][] = [
  ['a second creation', [], seed('x'), 'EntityConflictError'],
  ['a step that is not there', [], ofStep('step_started'), 'WorkflowWorldError'],
  ['a second step of the ID', [ofStep('step_created')], ofStep('step_created'), 'EntityConflictError'],
  ['an ended step', [ofStep('step_created'), ofStep('step_completed')], ofStep('step_failed'), 'EntityConflictError'],
  ['a hook that is not there', [], { eventType: 'hook_disposed', correlationId: 'hook_1' }, 'HookNotFoundError'],
  ['a wait that is not there', [], { eventType: 'wait_completed', correlationId: 'w' }, 'WorkflowWorldError'],
  ['a start behind the end', [{ eventType: 'run_cancelled' }], { eventType: 'run_started' }, 'RunExpiredError'],
  ['a step behind the end', [{ eventType: 'run_cancelled' }], ofStep('step_created'), 'EntityConflictError'],
  [
    'a step that waits behind the end',
    [ofStep('step_created'), { eventType: 'run_cancelled' }],
    ofStep('step_started'),
    'RunExpiredError',
  ],
  [
    'another end',
    [{ eventType: 'run_cancelled' }],
    { eventType: 'run_completed', eventData: {} },
    'EntityConflictError',
  ],
  ['the same end', [{ eventType: 'run_cancelled' }], { eventType: 'run_cancelled' }, 'done'],
  [
    'a reserved attribute',
    [],
    { eventType: 'attr_set', eventData: { changes: [{ key: '$a', value: '' }], writer: { type: 'workflow' } } },
    'AttributeValidationError',
  ],
  ['a run of a newer DevKit', [], { ...seed('x'), specVersion: 6 }, 'RunNotSupportedError'],
];

for (const [what, before, request, name] of ILLEGAL) {
  test(`${what} ends with ${name}, and adds no event`, async () => {
    const runId = name === 'RunNotSupportedError' ? 'wrun_newer' : await started();
    for (const event of before) await one.events.create(runId, event);
    assert.equal(await nameOf(two.events.create(runId, request)), name);
    const expected = name === 'RunNotSupportedError' ? 0 : 2 + before.length;
    assert.equal((await one.events.list({ runId })).data.length, expected);
  });
}

test('what is asked of a run that is not there', async () => {
  assert.equal(await nameOf(one.events.create('wrun_none', ofStep('step_created'))), 'WorkflowRunNotFoundError');
  assert.equal(await nameOf(one.runs.get('wrun_none')), 'WorkflowRunNotFoundError');
  assert.deepEqual(await one.events.list({ runId: 'wrun_none' }), { data: [], cursor: null, hasMore: false });
  // The queue carries what a start needs to make its run.
  const { eventData } = seed('late');
  const late = await one.events.create('wrun_late', { eventType: 'run_started', eventData });
  assert.deepEqual(
    late.events?.map(({ eventType }) => eventType),
    ['run_created', 'run_started'],
  );
  assert.equal(await nameOf(two.events.create('wrun_late', seed('late'))), 'EntityConflictError');
});

test('of processes that try the same transition one wins', async () => {
  const runId = await started();
  await one.events.create(runId, ofStep('step_created'));
  const race = async (...requests: WorkflowRequest[]): Promise<string[]> =>
    (
      await Promise.all(
        requests.flatMap((request) => [one, two].map(async (world) => nameOf(world.events.create(runId, request)))),
      )
    ).toSorted();
  assert.deepEqual(await race(ofStep('step_completed'), ofStep('step_failed')), [
    ...Array<string>(3).fill('EntityConflictError'),
    'done',
  ]);
  const eventData = { stepName: 'lazy', input: BYTES };
  assert.deepEqual(await race({ eventType: 'step_started', correlationId: 'step_2', eventData }), [
    'EntityConflictError',
    'done',
  ]);
  const all = Array.from({ length: 10 }, (_, i) => ofStep('step_created', `step_of_all_${i}`));
  assert.deepEqual(await race(...all), [
    ...Array<string>(10).fill('EntityConflictError'),
    ...Array<string>(10).fill('done'),
  ]);
  const { steps, events } = { steps: await one.steps.list({ runId }), events: await two.events.list({ runId }) };
  assert.deepEqual([steps.data.length, events.data.length], [12, 2 + 2 + 2 + 10]);
});

test('lists have pages in either order, by name and by state, in any process', async () => {
  const world = program({ bucket: 'lists' }).world;
  const other = program({ bucket: 'lists' }).world;
  for (let i = 0; i < 7; i++) {
    const runId = `wrun_${i}`;
    await world.events.create(runId, seed(i % 2 === 0 ? 'even' : 'odd'));
    await world.events.create(runId, hook(`hook_${i}`, `token ${i}`));
    if (i < 3) await other.events.create(runId, { eventType: 'run_cancelled' });
  }
  const idsOf = async (filter: Parameters<typeof world.runs.list>[0] = {}): Promise<string[][]> => {
    const pages: string[][] = [];
    for (let cursor: string | undefined; ;) {
      const page = await other.runs.list({ ...filter, pagination: { limit: 2, ...filter.pagination, cursor } });
      pages.push(page.data.map(({ runId }) => runId.slice('wrun_'.length)));
      if (!page.hasMore) return pages;
      cursor = page.cursor ?? assert.fail('more without a cursor');
    }
  };
  assert.deepEqual(await idsOf(), [['6', '5'], ['4', '3'], ['2', '1'], ['0']]);
  assert.deepEqual(await idsOf({ pagination: { sortOrder: 'asc', limit: 3 } }), [
    ['0', '1', '2'],
    ['3', '4', '5'],
    ['6'],
  ]);
  assert.deepEqual(await idsOf({ workflowName: 'even' }), [
    ['6', '4'],
    ['2', '0'],
  ]);
  assert.deepEqual(await idsOf({ status: 'cancelled' }), [['2', '1'], ['0']]);
  assert.deepEqual(await idsOf({ status: 'pending', workflowName: 'odd' }), [['5', '3']]);
  assert.deepEqual(await idsOf({ status: 'failed' }), [[]]);
  // Those of runs that have ended have no hooks.
  const hooks = await other.hooks.list({ pagination: { limit: 3 } });
  assert.deepEqual([hooks.data.map(({ hookId }) => hookId), hooks.hasMore], [['hook_3', 'hook_4', 'hook_5'], true]);
  const rest = await other.hooks.list({ pagination: { limit: 3, cursor: hooks.cursor ?? '' } });
  assert.deepEqual([rest.data.map(({ hookId }) => hookId), rest.hasMore], [['hook_6'], false]);
  assert.deepEqual(
    (await other.hooks.list({ runId: 'wrun_4' })).data.map(({ hookId }) => hookId),
    ['hook_4'],
  );
  const found = await other.events.listByCorrelationId({ correlationId: 'hook_5' });
  assert.deepEqual(
    found.data.map(({ runId, eventType }) => [runId, eventType]),
    [['wrun_5', 'hook_created']],
  );
  const first = await other.events.list({ runId: 'wrun_1', pagination: { limit: 2 } });
  assert.deepEqual([first.data.length, first.hasMore, first.cursor], [2, true, '2']);
  const second = await other.events.list({ runId: 'wrun_1', pagination: { cursor: first.cursor ?? '' } });
  assert.deepEqual([second.data.map(({ eventType }) => eventType), second.cursor], [['run_cancelled'], '3']);
  const none = await other.events.list({ runId: 'wrun_1', pagination: { cursor: '3' } });
  assert.deepEqual(none, { data: [], cursor: '3', hasMore: false });
  assert.match(await nameOf(other.runs.list({ pagination: { cursor: 'x' } })), /StreamError/);
  for (const limit of [0, -1, 0.5]) {
    const page = await other.hooks.list({ pagination: { limit } });
    assert.deepEqual([page.data.length, page.cursor], [1, '3.1'], `${limit} is one at least`);
  }
});

test('pages of all runs have a limit, and of events 1,000 when it is left out', async () => {
  const { world } = program({ bucket: 'pages' });
  await world.events.create('wrun_many', seed('many'));
  const about = { correlationId: 'hook_1', runId: 'wrun_many', createdAt: { $date: new Date(0).toISOString() } };
  const event = { eventType: 'hook_received', ...about, eventData: { payload: 1 } };
  const records = Array.from({ length: 1001 }, (_, i) => ({ ...event, eventId: `evnt_${i}` }));
  await client.stream('pages', 'run wrun_many', { contentType: 'application/json' }).append(JSON.stringify(records));
  for (const limit of [undefined, 1001]) {
    const pagination = { limit };
    const { data, hasMore } = await world.events.listByCorrelationId({ correlationId: 'hook_1', pagination });
    assert.deepEqual([data.length, hasMore], [1000, true]);
    assert.equal((await world.events.list({ runId: 'wrun_many', pagination })).data.length, 1000);
  }
});

test('a run that was deleted is not found, also by a process that knew it, and may be made again', async () => {
  const { world } = program({ bucket: 'deleted' });
  const stream = client.stream('deleted', 'run wrun_1');
  await world.events.create('wrun_1', seed('first'));
  await stream.delete();
  assert.equal(await nameOf(world.events.create('wrun_1', ofStep('step_created'))), 'WorkflowRunNotFoundError');
  await world.events.create('wrun_1', seed('second'));
  await stream.delete();
  await program({ bucket: 'deleted' }).world.events.create('wrun_1', seed('third'));
  assert.equal((await world.runs.get('wrun_1')).workflowName, 'third');
});

test('what looks like a tag stays as it is beside what is undefined', async () => {
  const { run } = await one.events.create(null, {
    eventType: 'run_created',
    eventData: { deploymentId: 'd', workflowName: 'w', input: { $bytes: 'AAAA', other: undefined } },
  });
  assert.deepEqual((await two.runs.get(run?.runId ?? '')).input, { $bytes: 'AAAA' });
});

test('a run with events of a later version is refused, or of strangers, and lists pass over it', async () => {
  const { world } = program({ bucket: 'later' });
  for (const runId of ['wrun_1', 'wrun_2', 'wrun_3']) await world.events.create(runId, seed('flow'));
  await world.events.create('wrun_3', hook('hook_3', 'token 3'));
  const later = { eventType: 'run_paused', runId: 'wrun_2', eventId: 'evnt_2', specVersion: 6 };
  await client.stream('later', 'run wrun_2').append(JSON.stringify([later, 7]));
  // No stream can have such names, but for the last one.
  const ids = ['x'.repeat(2000), '\u00e9'.repeat(1000), 'a/../b', '\0', '\ud800', 'wrun_7'];
  const strange = [7, null, { $bytes: '%' }, { $entries: [1] }, ...ids.map((runId) => ({ runId, workflowName: 's' }))];
  await client.stream('later', 'runs').append(JSON.stringify(strange));
  for (const runId of ['wrun_4', 'wrun_5', 'wrun_6']) await world.events.create(runId, seed('strange'));
  const createdAt = { $date: '2026-01-01T00:00:00.000Z' };
  const step = { eventType: 'step_created', correlationId: 's', createdAt, eventData: { input: { $bytes: '%' } } };
  await client.stream('later', 'run wrun_4').append(JSON.stringify(step));
  await client.stream('later', 'run wrun_5').append(JSON.stringify({ eventType: 'run_failed', createdAt }));
  await client.stream('later', 'run wrun_6').append(JSON.stringify({ ...step, createdAt: { $date: 'never' } }));
  await client.stream('later', 'run wrun_7').create({ contentType: 'text/plain' });
  await client.stream('later', 'run wrun_7').append('no JSON');
  for (const runId of ['wrun_2', 'wrun_5', 'wrun_6', 'wrun_7'])
    for (const _again of [1, 2]) assert.equal(await nameOf(world.runs.get(runId)), 'RunNotSupportedError', runId);
  assert.equal(await nameOf(world.events.create('wrun_2', ofStep('step_created'))), 'RunNotSupportedError');
  const { data } = await world.runs.list();
  assert.deepEqual(
    data.map(({ runId }) => runId),
    ['wrun_4', 'wrun_3', 'wrun_1'],
  );
  assert.deepEqual((await world.steps.get('wrun_4', 's')).input, { $bytes: '%' });
  const found = await program({ bucket: 'later' }).world.hooks.list({ pagination: { limit: 1 } });
  assert.deepEqual([found.data[0]?.hookId, found.cursor], ['hook_3', '2.1']);
});

test('a process keeps so many bytes of runs, and what it lists of their ends', async () => {
  const { world } = program({ bucket: 'kept' });
  const runs = new WorkflowRuns(client, 'kept');
  const ids = ['wrun_1', 'wrun_2', 'wrun_3'];
  for (const runId of ids) {
    const { eventData } = seed('large');
    await world.events.create(runId, {
      eventType: 'run_created',
      eventData: { ...eventData, input: 'x'.repeat(22 * 1024 * 1024) },
    });
  }
  const logs = ids.map((runId) => runs.of(runId));
  for (const log of logs) await log.read();
  assert.equal(runs.of('wrun_3'), logs[2]);
  assert.equal(runs.of('wrun_2'), logs[1]);
  assert.notEqual(runs.of('wrun_1'), logs[0]);
  const { run } = await world.events.create('wrun_1', { eventType: 'run_cancelled' });
  assert(run !== undefined);
  runs.noteEnd(run);
  assert.equal(runs.endOf('wrun_1'), undefined);
  await runs.listed();
  assert.equal(runs.endOf('wrun_1'), 'cancelled');
});

test('an append to a stream that is deleted whenever it was made is given up', async () => {
  const stream = client.stream('deleted', 'queue');
  let made = 0;
  stream.create = async () => {
    // A real deletion would take longer, and do the same.
    assert(++made <= 10, 'it is made without end');
    return await Promise.resolve({ isNew: true, offset: 0 });
  };
  assert.equal(await codeOf(new RecordWriter(stream).append(1)), '404 STREAM_NOT_FOUND');
  assert.equal(made, 10);
});
