// The official suite against one node of three, which leads none of the groups that matter or all of them: the list of
// exceptions is that of a single node.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SUITE_TOML, TESTS_EXPECTED, contradictions, exceptions, runSuite } from '../support/official-suite.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const GROUPS = 4;
/**
 * In the long form alone: hundreds of random appends and reads, whose like others of the suite send, the largest body,
 * which `replication` sends through a follower, and a second way to say when a stream ends.
 */
const LEFT_OUT: readonly string[] = IS_THOROUGH
  ? []
  : [
      'single byte values cover full range (0-255) with concurrent readers during write',
      'offsets are always monotonically increasing',
      'data at offset never changes after additional appends',
      'should reject offsets with invalid characters',
      'lexicographically ordered seq values are accepted',
      'out-of-order seq values are rejected',
      'replay produces identical content hash',
      'deterministic ordering - same data in same order produces same hash',
      'should handle large payload appropriately',
      'should return 404 on HEAD after Expires-At passes',
      'should return 404 on GET after Expires-At passes',
      'should return 404 on POST append after Expires-At passes',
    ];

/**
 * Tests of the suite take the first answer: one that fails while a machine stands still
 * and leaders change says nothing.
 */
async function suiteThrough(cluster: TestCluster, id: number, title: string, runsLeft = 2): Promise<void> {
  const terms = await cluster.terms();
  const outcomes = await runSuite(cluster.node(id).url, LEFT_OUT);
  const led = (await cluster.groups(id)).filter(({ leader }) => leader === id).length;
  const passed = outcomes.filter((outcome) => outcome.passed).length;
  process.stdout.write(
    `official suite, ${title}: ${passed} of ${outcomes.length} pass; the node leads ${led} of ${GROUPS} groups\n`,
  );
  const found = contradictions(outcomes, exceptions());
  if (found.length > 0 && runsLeft > 0 && String(await cluster.terms()) !== String(terms)) {
    process.stdout.write(`leaders changed meanwhile, once more:\n${found.join('\n')}\n`);
    return await suiteThrough(cluster, id, title, runsLeft - 1);
  }
  assert.equal(found.length, 0, `${found.length} contradictions to exceptions.txt:\n${found.join('\n')}`);
  assert.equal(
    outcomes.length,
    TESTS_EXPECTED - LEFT_OUT.length,
    'the suite has another number of tests than expected',
  );
}

test(`the official suite through a follower ${IS_THOROUGH ? 'and through a leader ' : ''}of three nodes`, async () => {
  await withCluster({ groups: GROUPS, toml: SUITE_TOML, longPollTimeout: '500ms' }, async (cluster) => {
    for (const group of cluster.groupIds) await cluster.moveLeader(group, 1, (leader) => leader !== 3);
    await suiteThrough(cluster, 3, 'through a node that follows');
    if (!IS_THOROUGH) return;
    for (const group of cluster.groupIds) await cluster.moveLeader(group, 1);
    await suiteThrough(cluster, 1, 'through a node that leads');
  });
});
