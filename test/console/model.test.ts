// The console's view of the nodes' answers, without a browser.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import process from 'node:process';
import { test } from 'node:test';
import { includesRole } from '../../src/base/scopes.ts';
import {
  type Action,
  append,
  close,
  create,
  deliverAgain,
  drain,
  flush,
  purge,
  quote,
  remove,
  roleIn,
  transfer,
  undrain,
} from '../../src/console/model/actions.ts';
import {
  LINE_CHARS_MAX,
  elementsOf,
  indented,
  linesOfBytes,
  linesOfRecords,
  looksBinary,
  matching,
} from '../../src/console/model/content.ts';
import { History } from '../../src/console/model/history.ts';
import { LagWatch } from '../../src/console/model/lag.ts';
import { type BucketOrder, bucketsOf, quotaOf, sortedBuckets, streamsOf } from '../../src/console/model/listings.ts';
import { matrixOf } from '../../src/console/model/matrix.ts';
import { PLOTS, valuesOf } from '../../src/console/model/plots.ts';
import { NO_ANSWER_YET, type Round, answered, failed, nodesKnownTo } from '../../src/console/model/samples.ts';
import { formatValue } from '../../src/console/model/units.ts';
import { ADMIN_ROWS } from '../../src/http/routes/table.ts';
import { parseCommandLine } from '../../src/operator/command-line.ts';
import { VERBS } from '../../src/operator/verbs.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

interface GroupOf {
  readonly applied?: number;
  readonly committed?: number;
  readonly leader?: number | null;
  readonly voters?: readonly number[];
  readonly learners?: readonly number[];
}

function metricsOf(
  node: number,
  { applied = 10, committed = 10, leader = 1, voters = [1, 2], learners = [] }: GroupOf,
) {
  const group = { raft_group_id: 0, leader, current_term: 1, committed_index: committed, last_applied: applied };
  return { node_id: node, raft_groups: [{ ...group, voter_ids: voters, learner_ids: learners, caught_up: true }] };
}

function roundOf(atMs: number, ...groups: readonly (GroupOf | undefined)[]): Round {
  return groups.map((group, i) =>
    group === undefined ? failed(i + 1, atMs, 'gone') : answered(i + 1, atMs, metricsOf(i + 1, group)),
  );
}

test('records are shown with the digits that the stream has', () => {
  const json = '[{"record":7,"value":2.50},{"record":8,"value":{"a":"x,]}\\"","b":[1,{"c":1e400}]}},{"record":9,"val';
  assert.deepEqual(linesOfRecords(json), [
    { at: 7, text: '2.50' },
    { at: 8, text: '{"a":"x,]}\\"","b":[1,{"c":1e400}]}' },
  ]);
  assert.deepEqual(elementsOf(' [ 1 , "a" , [2, 3] , {} , null ] '), ['1', '"a"', '[2, 3]', '{}', 'null']);
  assert.deepEqual(elementsOf('[]'), []);
  assert.deepEqual(elementsOf('["never ends'), []);
  assert.equal(indented('{"a":2.50,"b":["x:y",{}]}'), '{\n  "a": 2.50,\n  "b": [\n    "x:y",\n    {}\n  ]\n}');
});

test('text and hex name the offset of each line; long lines are cut', () => {
  assert.deepEqual(linesOfBytes(bytes('ab\nc'), 100, 'text'), [
    { at: 100, text: 'ab' },
    { at: 103, text: 'c' },
  ]);
  const [line, ...more] = linesOfBytes(new Uint8Array(17).fill(0x41), 32, 'hex');
  assert.equal(line?.text, `${'41 '.repeat(16)} ${'A'.repeat(16)}`);
  assert.deepEqual(
    more.map(({ at }) => at),
    [48],
  );
  const [long] = linesOfBytes(bytes('x'.repeat(LINE_CHARS_MAX + 1)), 0, 'text');
  assert(long !== undefined && long.text.length < LINE_CHARS_MAX + 30);
  assert.match(long.text, /cut here/);
  assert.deepEqual(matching(linesOfBytes(bytes('Foo\nbar'), 0, 'text'), 'foO').length, 1);
});

test('binary streams are told from text', () => {
  assert.equal(looksBinary('application/octet-stream', Uint8Array.from([0, 1, 2, 3, 255, 254])), true);
  assert.equal(looksBinary('application/octet-stream', Uint8Array.from(bytes('plain text, äöü'))), false);
  assert.equal(looksBinary('text/plain', Uint8Array.from([0, 1, 2])), false);
});

test('a node is behind by the age of what it has not applied, not by entries', () => {
  const lag = new LagWatch();
  const say = (): string[] => lag.findings().map(({ text }) => text);
  lag.add(roundOf(0, {}, {}), 0);
  // Busy: what was committed a moment ago is not applied everywhere.
  lag.add(roundOf(2000, { applied: 5000, committed: 5000 }, { applied: 4000, committed: 4000 }), 2000);
  assert.deepEqual([lag.behindMs(2), say()], [0, []]);
  lag.add(roundOf(42_000, { applied: 9000, committed: 9000 }, { applied: 4000, committed: 4000 }), 42_000);
  assert.equal(lag.behindMs(2), 40_000);
  assert.deepEqual(say(), ['node 2 has been 40 s behind on group 0']);
  lag.add(roundOf(43_000, { applied: 9000, committed: 9000 }, undefined), 43_000);
  assert.deepEqual(say(), ['node 2 does not answer: gone'], 'not for 0 s');
  lag.add(roundOf(53_000, { applied: 9000, committed: 9000 }, undefined), 53_000);
  assert.deepEqual(say(), ['node 2 has not answered for 10 s: gone']);
  lag.add(roundOf(54_000, { applied: 9000, committed: 9000 }, { applied: 9000, committed: 9000 }), 54_000);
  assert.deepEqual(say(), []);
  const early = new LagWatch();
  for (const ms of [1000, 3000]) early.add([failed(1, ms, NO_ANSWER_YET)], ms);
  assert.deepEqual(early.findings(), [{ severity: 'info', from: 'node', text: 'node 1 has not answered yet' }]);
  early.add([failed(1, 6000, 'no answer within 5 s')], 6000);
  assert.deepEqual(
    early.findings().map(({ text }) => text),
    ['node 1 has not answered for 5 s: no answer within 5 s'],
  );
});

test('buckets are sorted by what was asked for, and a quota may have one bound', () => {
  const bucket = (name: string, streams: number) => ({ name, streams, retainedBytes: 0, appendedBytes: 0, records: 0 });
  const names = (order: BucketOrder): string[] =>
    sortedBuckets([bucket('b', 1), bucket('c', 9), bucket('a', 1)], order).map(({ name }) => name);
  assert.deepEqual(
    [names('name'), names('streams')],
    [
      ['a', 'b', 'c'],
      ['c', 'a', 'b'],
    ],
  );
  const told = { max_streams: 10, max_retained_bytes: null, used_streams: 3, used_retained_bytes: 5 };
  assert.deepEqual(quotaOf(told), { streams: 3, streamsMax: 10, bytes: 5, bytesMax: undefined });
  const byDefault = { ...told, max_streams: null, default_max_streams: 7 };
  assert.deepEqual(quotaOf(byDefault), { streams: 3, streamsMax: 7, bytes: 5, bytesMax: undefined });
  assert.equal(quotaOf([]), undefined);
});

test('the matrix says who leads, votes, learns and is behind', () => {
  const lag = new LagWatch();
  const group = { voters: [1, 2], learners: [3] };
  const round = roundOf(0, group, { ...group, applied: 1 }, group);
  lag.add(round, 0);
  lag.add(round, 20_000);
  const nodes = [1, 2, 3, 4].map((id) => ({ id, host: '', isAsked: id < 4 }));
  const rows = matrixOf(nodes, round, lag).map(({ cells }) => cells.map(({ text }) => text));
  assert.deepEqual(rows, [
    ['node 1 leads group 0'],
    ['node 2 is a voter of group 0, 20 s behind'],
    ['node 3 is a learner of group 0'],
    ['node 4 is no part of group 0'],
  ]);
  const [, second] = matrixOf(nodes, roundOf(21_000, group, undefined, group), lag);
  assert.deepEqual(
    second?.cells.map(({ text, isAway }) => [text, isAway]),
    [['node 2 is a voter of group 0, and does not answer', true]],
  );
});

test("a node's page knows whom its groups name", () => {
  const metrics = {
    node_id: 2,
    raft_groups: [{ raft_group_id: 0, voter_ids: [1, 2], learner_ids: [3], member_addresses: { 3: '10.0.0.3:4440' } }],
  };
  const { report } = answered(2, 0, metrics);
  assert(report !== undefined);
  assert.deepEqual(nodesKnownTo(report, metrics), [
    { id: 1, host: '', isAsked: false },
    { id: 2, host: '', isAsked: true },
    { id: 3, host: '10.0.0.3:4440', isAsked: false },
  ]);
  assert.match(answered(1, 0, [1]).error, /not a node of this service/);
});

test('rates come from two rounds; a restart is a gap, and statuses of nodes add up', () => {
  const at = (atMs: number, appends: number, refused: number): Round =>
    [1, 2].map((node) =>
      answered(node, atMs, {
        ...metricsOf(node, {}),
        latency_buckets_us: [1000, 2000, 10_000],
        latency_us: { append: { count: appends, buckets: [100, appends - 100, 0, 0] } },
        responses_by_status: { 204: appends, 503: refused, 507: refused },
        mailbox_depths: [1, 2],
        wal_batches: appends,
        wal_sync_ns: appends * 2_000_000,
      }),
    );
  const values = valuesOf(at(2000, 300, 4), at(0, 100, 0));
  assert.deepEqual(
    [
      'appends/node 1',
      'statuses/2xx',
      'statuses/5xx',
      'latency/node 2 p50',
      'latency/node 2 p99',
      'mailbox/node 1 core 1',
      'commit/node 1',
    ].map((name) => values.get(name)),
    [100, 200, 8, 1.5, 1.99, 2, 2],
  );
  assert.equal(valuesOf(at(4000, 5, 0), at(2000, 300, 4)).get('appends/node 1'), undefined);
  assert.equal(valuesOf(at(0, 1, 0), undefined).get('appends/node 1'), undefined);
  assert.equal(new Set(PLOTS.map(({ id }) => id)).size, PLOTS.length);
});

test('refusals by limits are a line of each token and bucket that has some, and other answers are none', () => {
  const at = (atMs: number, limited: unknown): Round => [answered(1, atMs, { ...metricsOf(1, {}), limited })];
  const use = (refused: number, name = 'shop'): object => ({ kind: 'bucket', name, refused });
  const before = at(0, [use(1), use(0, 'quiet')]);
  const values = valuesOf(at(2000, [use(5), use(0, 'quiet'), 7, null]), before);
  assert.deepEqual(
    [...values].filter(([name]) => name.startsWith('limits/')),
    [['limits/bucket shop', 2]],
  );
  for (const odd of [undefined, 'x', [{}], { bucket: 1 }])
    assert(!valuesOf(at(2000, odd), before).has('limits/bucket shop'));
});

test('the history has a gap where a line did not exist, and is bounded', () => {
  const history = new History();
  history.add(1000, new Map([['a/x', 1]]));
  history.add(2000, new Map([['a/y', 2]]));
  assert.deepEqual(history.window(['a/x', 'a/y'], 60), [
    [1, 2],
    [1, null],
    [null, 2],
  ]);
  assert.deepEqual(history.window(['a/x'], 0.5), [[2], [null]]);
  assert.deepEqual([history.names('a/'), history.latest('a/y')], [['a/x', 'a/y'], 2]);
  for (let i = 0; i < 12_000; i++) history.add(3000 + i, new Map());
  assert(history.length <= 10_800);
  assert.equal(formatValue(null, 'bytes'), '–');
  assert.equal(formatValue(1234.5, 'per second'), '1,235/s');
});

test('listings are read as far as they came', () => {
  const usage =
    '{"version":1,"write_unit_bytes":10240,"buckets":{"a\\"b":{"committed_append_bytes":5,"committed_records":1,' +
    '"retained_bytes":3,"stream_count":2},"cut":{"committed_app';
  assert.deepEqual(bucketsOf(usage), [{ name: 'a"b', streams: 2, retainedBytes: 3, appendedBytes: 5, records: 1 }]);
  assert.deepEqual(bucketsOf('nonsense'), []);
  const stream = { stream_id: 's', status: 'Closed', content_type: 'text/plain', tail_offset: 9 };
  const listed = streamsOf({ streams: [stream], next_cursor: 's' });
  assert.deepEqual([listed?.next, listed?.rows[0]?.isClosed, listed?.rows[0]?.tail], ['s', true, 9]);
  assert.equal(streamsOf(undefined), undefined);
});

/** As a shell splits it: single quotes only, as quote() writes them. */
function words(command: string): string[] {
  return (command.match(/(?:'[^']*'|\\'|[^\s'])+/g) ?? []).map((word) =>
    word.replaceAll("'\\''", '\0').replaceAll("'", '').replaceAll('\0', "'"),
  );
}

test('each action names a line that the tool takes', () => {
  const nasty = `it's a "b"; rm -rf / #`;
  const all: Action[] = [drain(2), drain(2, [1, 3]), undrain(2), transfer(3, 1, 2), purge(nasty), flush(nasty, 'a/b')];
  all.push(
    create(nasty, 's', 'text/plain'),
    append('b', 'a/b', 'text/plain', nasty),
    close('b', 's'),
    remove('b', 's'),
  );
  for (const { command, title } of all) {
    const [tool, ...args] = words(command.replace(' < /dev/null', ''));
    assert.equal(tool, 'millracectl', title);
    const { verb, given } = parseCommandLine(args, VERBS);
    assert(verb !== undefined, title);
    for (const [name, flag] of Object.entries(verb.flags)) {
      if (flag.required === true && name !== 'config') assert(given.has(name), `${title}: --${name}`);
    }
  }
  assert.deepEqual(words(purge(nasty).command).slice(4, 5), [nasty]);
  assert.equal(quote("it's"), `'it'\\''s'`);
});

test('the line that delivers again is one that a shell takes, with the token that nodes ask for', () => {
  const { command } = deliverAgain("it's (a)!", 1);
  const shown = execFileSync('sh', ['-c', `curl() { printf '%s\\n' "$@"; }; ${command}`], {
    encoding: 'utf8',
    env: { ...process.env, MILLRACE_ADMIN_URL: 'http://n', MILLRACE_ADMIN_TOKEN: 't' },
  });
  const path = "/__svc/subscriptions/it's%20(a)!/deliver";
  assert.deepEqual(shown.split('\n'), ['-X', 'POST', '-H', 'Authorization: Bearer t', `http://n${path}`, '']);
});

/** Finds the row of an action among those of the admin plane. */
function roleOf({ method, path }: Action): string | undefined {
  const fits = (pattern: string): boolean =>
    new RegExp(`^${pattern.replace(/\{\w+\}/g, '[^/]+')}$`).test(path.split('?')[0] ?? '');
  return ADMIN_ROWS.find(({ methods, pattern }) => methods.includes(method) && fits(pattern))?.role;
}

test('each action takes the role that its route takes', () => {
  const actions = [
    ...[drain(2), undrain(2), transfer(3, 1, 2), purge('b'), flush('b', 'a/b'), deliverAgain('x', 1)],
    ...[create('b', 's', 'text/plain'), append('b', 's', 'text/plain', 'x'), close('b', 's'), remove('b', 's')],
  ];
  for (const action of actions) assert.equal(action.needs, roleOf(action), action.title);
  assert.deepEqual(
    [includesRole(undefined, 'observe'), includesRole('operate', 'observe'), includesRole('operate', 'destroy')],
    [...[false, true, false]],
  );
  const told = [{ role: 'operate' }, { role: 'admin' }, null, 'operate'].map((json) => roleIn(json));
  assert.deepEqual(told, ['operate', undefined, undefined, undefined]);
});

test('a drain beside another one is warned of, and takes the force that the tool asks for', () => {
  assert.deepEqual([drain(3).warning, words(drain(3).command).slice(1)], [undefined, ['drain', '--node', '3']]);
  const second = drain(3, [1]);
  assert.equal(second.warning, 'Marked already: node 1; with node 3 down too a group may lose its majority.');
  assert.deepEqual(words(second.command).slice(1), ['drain', '--node', '3', '--force']);
  assert.match(drain(4, [1, 3]).warning ?? '', /^Marked already: node 1 and 3; with node 4 down /);
});

test('a text that begins as a flag is appended by the tool as well', () => {
  const { given } = parseCommandLine(words(append('b', 's', 'text/plain', '--close').command).slice(1), VERBS);
  assert.deepEqual(Object.fromEntries(given), { stream: 'b/s', data: '--close' });
});

test('what takes something away has to be typed', () => {
  const final = [purge('b'), close('b', 's'), remove('b', 's')];
  for (const action of final) assert.deepEqual([action.isFinal, typeof action.confirm], [true, 'string'], action.title);
  for (const action of [create('b', 's', 'text/plain'), append('b', 's', 'text/plain', 'x')]) {
    assert.equal(action.confirm, undefined);
  }
  assert.equal(remove('b', 'a/b').path, '/__svc/streams/b/a%2Fb');
});
