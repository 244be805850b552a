// Shards may learn of two clusters at once: which one counts, and what the operator is told.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { NodeLog } from '../../src/logging/logger.ts';
import { openDataDir } from '../../src/server/data-dir.ts';
import { type IdentityFinding, NodeMembership } from '../../src/server/node-identity.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const [ONE, TWO] = ['1'.repeat(32), '2'.repeat(32)];
const WANTED = { nodeId: 1, groupCount: 2, shardCount: 2, single: false };

interface Rig {
  readonly path: string;
  readonly membership: NodeMembership;
  readonly told: IdentityFinding[];
  readonly failures: string[];
}

function rig(t: TestContext, path = temporaryFolder('membership')): Rig {
  t.after(() => removeFolder(path));
  const failures: string[] = [];
  const membership = new NodeMembership(
    path,
    openDataDir(path, WANTED),
    NodeLog.open(undefined).logger('main'),
    ({ message }) => failures.push(message),
  );
  const told: IdentityFinding[] = [];
  membership.tell = (finding) => told.push(finding);
  return { path, membership, told, failures };
}

test('a loss is noted once every shard has it on disk: a start that finds it noted looks for it no more', (t) => {
  const { path, membership, told } = rig(t);
  const [earlier, lost] = [
    { directory: 'a'.repeat(16), incarnation: 3 },
    { directory: 'b'.repeat(16), incarnation: 7, boot: 70 },
  ];
  const finding = { lost, node: 2, earlier: [earlier] };
  membership.found(finding);
  assert.deepEqual(told, [finding]);
  for (let i = 0; i < 2; i++) membership.stored(1, [earlier, lost]);
  membership.stored(0, [lost]);
  assert.deepEqual(openDataDir(path, WANTED).settled, []);
  membership.stored(0, [earlier, lost]);
  assert.deepEqual(
    openDataDir(path, WANTED).settled.map(({ directory }) => directory),
    [earlier.directory, lost.directory],
  );
});

test('of two clusters reported by shards, the first one counts, and every shard is told so', (t) => {
  const { path, membership, told, failures } = rig(t);
  const [first, second] = [
    { learned: ONE, source: 'heard' },
    { learned: TWO, source: 'heard' },
  ] as const;
  membership.found(first);
  membership.found(second);
  assert.deepEqual([membership.clusterId, told, failures], [ONE, [first, first], []]);
  assert.equal(openDataDir(path, WANTED).clusterId, ONE);
});

test('what a majority has agreed on counts for more than what a peer has said in this run', (t) => {
  const { path, membership, told, failures } = rig(t);
  const decided = { learned: TWO, source: 'decided' } as const;
  membership.found({ learned: ONE, source: 'heard' });
  membership.found(decided);
  membership.found({ learned: ONE, source: 'heard' });
  assert.deepEqual(
    [membership.clusterId, told.slice(1), failures],
    [TWO, [decided, { ...decided, source: 'heard' }], []],
  );
  assert.equal(openDataDir(path, WANTED).clusterId, TWO);
});

test('a directory whose groups belong to another cluster than its file says ends the process with a sentence', (t) => {
  const before = rig(t);
  before.membership.found({ learned: ONE, source: 'heard' });
  const { membership, failures } = rig(t, before.path);
  membership.found({ learned: TWO, source: 'decided' });
  assert.equal(membership.clusterId, ONE);
  assert.equal(failures.length, 1);
  assert.match(failures[0] ?? '', new RegExp(`is of cluster ${ONE}, .* of ${TWO}; restore the right millrace.json`));
});
