import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { crop } from '../../src/operator/live-screen.ts';
import { barLine } from '../../src/operator/progress-bar.ts';
import { whyNotReady } from '../../src/operator/ready.ts';
import { parseMetrics } from '../../src/nodes/report.ts';
import { formatAge, formatBytes } from '../../src/nodes/findings.ts';
import { renderStatus, statusJson } from '../../src/operator/status-table.ts';
import { DRAINING, group, node, silent } from './cluster-snapshot.ts';

const NODES = [1, 2, 3].map((id) => ({
  id,
  host: `h${id}`,
  name: `node-${id}`,
  instanceId: '',
  adminUrl: `http://h${id}:4438`,
  httpUrl: undefined,
}));

/** As it is without colours. */
const shown = (...args: Parameters<typeof renderStatus>): string[] =>
  renderStatus(...args).map(stripVTControlCharacters);

test('the table for a tired person', () => {
  const snapshot = [
    node(1, [group(0, 1, { term: 3 }), group(1, 1)], {
      hotBytes: 5 * 1024 * 1024,
      coldBytes: 3.2 * 1024 ** 4,
      backlogBytes: 700,
      backlogAgeMs: 1500,
      mailboxBytes: 64,
      residentBytes: 300 * 1024 * 1024,
    }),
    node(2, [group(0, 1), group(1, 1, { applied: 60, caughtUp: false })], { ...DRAINING, uptimeMs: 200_000_000 }),
    silent(3),
  ];
  assert.equal(
    shown(NODES, snapshot).join('\n'),
    [
      'node  host  state            leads  groups  lag  term      hot     cold     backlog  mailbox   memory     up',
      '1     h1    ok                   2       2    0   3-5  5.0 MiB  3.2 TiB  700 B, 1 s     64 B  300 MiB  1 min',
      '2     h2    drained, behind      0       2   40     5      0 B      0 B         0 B      0 B      0 B    2 d',
      '3     h3    unreachable          -       -    -     -        -        -           -        -        -      -',
      '',
      '2 of 3 nodes answer; 2 groups, leaders={1: 2}',
      'node 2 (h2): marked for maintenance, leads nothing until undrain',
      'node 2 (h2): not caught up in group 1, reads wait',
      'node 3 (h3): metrics unavailable — connection refused',
    ].join('\n'),
  );
  const { nodes } = statusJson(NODES, snapshot) as { nodes: Record<string, unknown>[] };
  assert.deepEqual(nodes[2], {
    id: 3,
    host: 'h3',
    admin_url: 'http://h3:4438',
    reachable: false,
    error: 'connection refused',
  });
  assert.equal(nodes[1]?.['lag'], 40);
});

test('a cold store that is away shows in the table, and below since when, why and how much waits', () => {
  const metrics = (cold_store: Record<string, unknown>): ReturnType<typeof parseMetrics> =>
    parseMetrics({ node_id: 1, raft_groups: [], cold_flush_backlog_bytes: 3 * 1024 * 1024, cold_store });
  const since = '2026-11-22T16:00:00.000Z';
  const away = metrics({ reachable: false, unreachable_since: since, was_reached: true, last_error: 'ECONNREFUSED' });
  const never = metrics({ reachable: false, unreachable_since: since, was_reached: false, last_error: '' });
  assert(away !== undefined && never !== undefined);
  const lines = shown(NODES, [{ nodeId: 1, report: away, error: '' }]);
  assert.match(lines[1] ?? '', /h1 +cold store away /);
  assert(
    lines.includes(
      `node 1 (h1): the cold store fails since ${since}, 3.0 MiB of what it leads wait for it (ECONNREFUSED)`,
    ),
  );
  const sentences = shown(NODES, [{ nodeId: 1, report: never, error: '' }]).join('\n');
  assert.match(sentences, /was not reached since the node started \(2026-.*\), 3\.0 MiB/);
  for (const store of [{ backend: 'none' }, { reachable: true, unreachable_since: null, last_error: null }])
    assert.equal(metrics(store)?.coldAway, undefined);
});

test('a narrow window goes without the columns that matter least, and says so; sentences are broken', () => {
  const snapshot = [node(1, [group(0, 1)]), node(2, [group(0, 1)], { ...DRAINING }), silent(3)];
  const at = (columns: number): string[] => shown(NODES, snapshot, columns);
  for (let columns = 1; columns <= 130; columns++)
    for (const line of at(columns)) assert(line.length < Math.max(columns, 2), `${columns}: ${line}`);
  assert.deepEqual(at(130), shown(NODES, snapshot));
  assert.deepEqual(at(60), [
    'node  host  state        leads  groups  lag  hot  backlog',
    '1     h1    ok               1       1    0  0 B      0 B',
    '2     h2    drained          0       1    0  0 B      0 B',
    '3     h3    unreachable      -       -    -    -        -',
    'not shown in so few columns: up, memory, term, cold,',
    '  mailbox',
    '',
    '2 of 3 nodes answer; 1 group, leaders={1: 1}',
    'node 2 (h2): marked for maintenance, leads nothing until',
    '  undrain',
    'node 3 (h3): metrics unavailable — connection refused',
  ]);
  assert.deepEqual(
    at(20).slice(0, 4),
    ['node  state        …', '1     ok           …', '2     drained      …', '3     unreachable  …'].map(
      (line) => line.slice(0, 18) + '…',
    ),
  );
  assert.deepEqual(crop(['a', 'b', 'c'], 3), ['a', 'b', 'c']);
  assert.deepEqual(crop(['a', 'b', 'c'], 2), ['a', '… 2 more lines']);
});

test('the bar is one line in every window', () => {
  for (let width = 1; width < 120; width++)
    assert(barLine(3, 16, 'groups written, 12.0 MiB', width).length < Math.max(width, 2));
  assert.equal(barLine(3, 16, 'groups written', 80), '[=====                   ] 3/16 groups written');
  assert.equal(barLine(3, 16, 'groups written', 24), '[=     ] 3/16 groups…');
  assert.equal(barLine(3, 16, 'groups written', 15), '3/16 groups…');
});

test('what stops writes is said in words', () => {
  const snapshot = [node(1, [group(0, undefined)], { diskFull: true, admission: 'refusing' }), silent(2), silent(3)];
  const text = `${shown(NODES, snapshot).join('\n')}\n`;
  assert.match(text, /\n1 +h1 +disk full, refusing writes, no leader /);
  assert.match(text, /\n1 of 3 nodes answer; 1 group, leaders=\{\}\n/);
  assert.match(text, /\nnode 1 \(h1\): its disk is full, writes are answered 507\n/);
  assert.match(text, /\ngroup 0 has no leader: writes wait\ngroup 0: most voters do not answer here\n/);
});

test('every reason not to lead is named', () => {
  const shed = { shedState: 'maintenance-drain+cluster-egress+cold-health', acceptsTransfers: false };
  const text = shown(NODES, [node(1, [group(0, 2)], shed), node(2, [group(0, 2)]), silent(3)]).join('\n');
  assert.match(text, /\n1 +h1 +drained, cut off, no cold store +0 /);
  assert.match(
    text,
    /\nnode 1 \(h1\): it does not reach the cold store, so it gives its leaderships to nodes that do\n/,
  );
});

test('a backup is as old as the group in it that was exported longest ago, and said when it is too old', () => {
  const hours = (count: number): number => count * 3_600_000;
  const at = (id: number, ...ages: readonly (readonly [number, number])[]): ReturnType<typeof node> =>
    node(id, [group(0, 1), group(1, 1)], { exportAgesMs: new Map(ages) });
  const said = (...snapshot: readonly ReturnType<typeof node>[]): string => shown(NODES, snapshot).join('\n');
  assert.doesNotMatch(said(at(1), at(2), at(3)), /backup/, 'none is known');
  const fresh = at(2, [0, hours(36)]);
  assert.doesNotMatch(said(at(1, [0, hours(99)], [1, hours(1)]), fresh, silent(3)), /backup/);
  assert.match(said(at(1, [1, hours(37)]), fresh, silent(3)), /the last whole backup is 37 h old: millracectl backup-/);
  const metrics = { raft_groups: [], unix_ms: 5000, exports_finished: [{ raft_group_id: 3, finished_unix_ms: 2000 }] };
  assert.deepEqual(parseMetrics(metrics)?.exportAgesMs, new Map([[3, 3000]]));
  assert.equal(parseMetrics({ ...metrics, exports_finished: 'x' })?.exportAgesMs.size, 0);
});

test('a certificate that ends soon is said', () => {
  const days = (left: number): string =>
    shown(NODES, [node(1, [group(0, 1)], { certificateLeftMs: left * 86_400_000 }), silent(2), silent(3)]).join('\n');
  assert.doesNotMatch(days(31), /certificate/);
  assert.match(
    days(29),
    /node 1 \(h1\): its certificate or an authority ends in 29 d: renew what its log names, and send SIGHUP/,
  );
  assert.match(days(-1), /its certificate or an authority has ended, and clients refuse it/);
  const shownLinks = shown(NODES, [
    node(1, [group(0, 1)], { linkCertificateLeftMs: 6 * 86_400_000 }),
    silent(2),
    silent(3),
  ]);
  assert.match(
    shownLinks.join('\n'),
    /node 1 \(h1\): its certificate or an authority for links ends in 6 d: renew what its log names, and send SIGHUP/,
  );
  const metrics = { raft_groups: [], unix_ms: 5000, certificate_end_unix_ms: 7000 };
  assert.equal(parseMetrics(metrics)?.certificateLeftMs, 2000);
  const links = { raft_groups: [], unix_ms: 5000, cluster_certificate_end_unix_ms: 8000 };
  assert.equal(parseMetrics(links)?.linkCertificateLeftMs, 3000);
  assert.equal(parseMetrics({ ...metrics, certificate_end_unix_ms: 'x' })?.certificateLeftMs, undefined);
});

test('nodes of several versions are named', () => {
  const at = (id: number, version: string): ReturnType<typeof node> => node(id, [group(0, 1)], { version });
  const text = shown(NODES, [at(1, '2.0.0'), at(2, '1.9.0'), at(3, '2.0.0')]).join('\n');
  assert.match(text, /\nversions differ: 2\.0\.0 on nodes 1 and 3, 1\.9\.0 on node 2$/);
  assert.doesNotMatch(shown(NODES, [at(1, ''), at(2, '2.0.0'), silent(3)]).join('\n'), /versions/);
});

test('the identity of the cluster heads the table, and nodes of another one are named', () => {
  const [ours, theirs] = ['a'.repeat(32), 'b'.repeat(32)];
  const at = (id: number, clusterId?: string): ReturnType<typeof node> => node(id, [group(0, 1)], { clusterId });
  const agreed = [at(1, ours), at(2), silent(3)];
  const lines = shown(NODES, agreed);
  assert.equal(lines[0], `cluster_id ${ours}`);
  assert.match(lines[1] ?? '', /^node +host/);
  assert.doesNotMatch(lines.join('\n'), /several clusters/);
  const json = statusJson(NODES, agreed) as { cluster_id: unknown; nodes: Record<string, unknown>[] };
  assert.deepEqual([json.cluster_id, ...json.nodes.map((one) => one['cluster_id'])], [ours, ours, null, undefined]);
  const mixed = shown(NODES, [at(1, theirs), at(2, ours), at(3, ours)]);
  assert.equal(mixed[0], `cluster_id ${ours}`);
  assert.match(mixed.join('\n'), /several clusters .*: a{32} on nodes 2 and 3, b{32} on node 1$/);
  for (let columns = 1; columns <= 60; columns++)
    for (const line of shown(NODES, agreed, columns)) assert(line.length < Math.max(columns, 2), line);
  assert.equal(statusJson(NODES, [silent(1)])['cluster_id'], null);
});

test('a node that was taken out of the voters while it was away is told from one that waits for a leader', () => {
  const now = { voters: [1, 2], term: 7 };
  const before = group(0, undefined, { term: 6, caughtUp: false });
  const snapshot = [node(1, [group(0, 1, now)]), node(2, [group(0, 1, now)]), node(3, [before])];
  const text = `${shown(NODES, snapshot).join('\n')}\n`;
  assert.match(text, /\n3 +h3 +not a member, no leader, behind /);
  assert.match(text, /\nnode 3 \(h3\): no member of group 0, takes no writes there and may show old bytes: stop it\n/);
  assert.equal(whyNotReady(snapshot, 3, 16), 'node 3 is not a voter of group 0');
  const empty = group(0, undefined, { term: 0, applied: 0, caughtUp: false });
  const coming = [node(1, [group(0, 1, now)]), node(2, [group(0, 1, now)]), node(3, [empty])];
  const said = shown(NODES, coming).join('\n');
  assert.match(said, /\nnode 3 \(h3\): not yet a member of group 0, where it has nothing: add-member adds it/);
  assert.doesNotMatch(said, /stop it/);
  const learner = { ...now, learners: [3] };
  const joins = [node(1, [group(0, 1, learner)]), node(2, [group(0, 1, learner)]), node(3, [group(0, 1, learner)])];
  assert.match(shown(NODES, joins).join('\n'), /\n3 +h3 +ok /);
});

test('no healthy voter is to be stopped because the first node of the file lags or lost its disk', () => {
  const four = [1, 2, 3, 4].map((id) => ({ ...NODES[0]!, id, host: `h${id}` }));
  const now = group(0, 2, { voters: [1, 2, 3, 4] });
  for (const more of [{ lastLog: 40 }, { logLost: true, applied: 0, lastLog: 0 }]) {
    const first = node(1, [group(0, 2, { voters: [1, 2, 3], caughtUp: false, ...more })]);
    const text = shown(four, [first, ...[2, 3, 4].map((id) => node(id, [now]))]).join('\n');
    assert.match(text, /\n4 +h4 +ok /);
    assert.doesNotMatch(text, /stop it|add-member/);
  }
});

test('in the middle of a change most voters of both sets have to answer', () => {
  const joint = group(0, 1, { voters: [1, 2], outgoing: [2, 3, 4], isPending: true });
  const text = shown(NODES, [node(1, [joint]), node(2, [joint]), silent(3)]).join('\n');
  assert.match(text, /\ngroup 0: most voters do not answer here$/);
});

test('sizes and ages are short', () => {
  assert.deepEqual([0, 1, 1023, 1024, 1536, 104_857_600].map(formatBytes), [
    '0 B',
    '1 B',
    '1023 B',
    '1.0 KiB',
    '1.5 KiB',
    '100 MiB',
  ]);
  assert.deepEqual([0, 59_999, 60_000, 3_600_000, 172_800_000].map(formatAge), ['0 s', '59 s', '1 min', '1 h', '2 d']);
});

test('metrics are read by the names of either manual; what is not a node is noticed', () => {
  const theirs = {
    raft_groups: [{ raft_group_id: 4, node_id: 7, current_leader: 7, last_applied_index: 9, voter_ids: [7] }],
  };
  const report = parseMetrics(theirs);
  assert.equal(report?.nodeId, 7);
  assert.deepEqual(report?.groups[0], {
    ...{ id: 4, leader: 7, term: 0, committed: 0, applied: 9, lastLog: 0 },
    ...{ voters: [7], outgoing: [], learners: [], isPending: false, caughtUp: true, logLost: false, refilled: false },
  });
  const change = { voter_ids: [1, 2], outgoing_voter_ids: [1, 2, 3], membership_pending: true };
  const [changing] = parseMetrics({ raft_groups: [{ raft_group_id: 4, ...change }] })?.groups ?? [];
  assert.deepEqual([changing?.voters, changing?.outgoing, changing?.isPending], [[1, 2], [1, 2, 3], true]);
  const ours = {
    node_id: 1,
    raft_groups: [{ raft_group_id: 0, leader: null, last_applied: 3 }],
    mailbox_depths: [3, 4],
  };
  assert.equal(parseMetrics(ours)?.groups[0]?.applied, 3);
  assert.equal(parseMetrics(ours)?.groups[0]?.leader, undefined);
  assert.equal(parseMetrics(ours)?.mailboxBytes, 7);
  assert.equal(parseMetrics({ raft_groups: [] })?.nodeId, undefined);
  assert.equal(parseMetrics({ raft_groups: [], cluster_id: 'c'.repeat(32) })?.clusterId, 'c'.repeat(32));
  assert.equal(parseMetrics({ raft_groups: [], cluster_id: null })?.clusterId, undefined);
  for (const other of [undefined, null, 1, 'x', [], {}, { raft_groups: 1 }])
    assert.equal(parseMetrics(other), undefined);
});
