// The official Durable Streams suite against a real server process, on the flat routes. `exceptions.txt` names the
// tests that may fail; anything else that fails, and anything listed that passes, fails the run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SUITE_TOML, TESTS_EXPECTED, contradictions, exceptions, runSuite } from '../support/official-suite.ts';
import { type ServerOptions, type TestServer, withServer } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

test('no test of the suite may fail', () => {
  assert.deepEqual(exceptions(), []);
});

test('an unlisted failure, a listed pass and a listed stranger are all reported', () => {
  const outcomes = [
    { name: 'a', passed: false, reason: 'x' },
    { name: 'b', passed: true, reason: '' },
    { name: 'c', passed: false, reason: 'y' },
    { name: 'd', passed: true, reason: '' },
  ];
  const found = contradictions(outcomes, ['b', 'c', 'stranger']).join('\n');
  assert.match(found, /fails: a/);
  assert.match(found, /passes \(take it off\): b/);
  assert.match(found, /no such test: stranger/);
  assert.doesNotMatch(found, /: [cd]\b/);
});

/** Nearly every read meets bytes that have left the node, and many of them at their border. */
const FLUSH_AT_ONCE = `
[storage.cold]
backend = "dir"
flush_interval = "50ms"
flush_size = "1 B"
`;

/**
 * A run takes half a minute on an idle machine, so `npm test` has one in which requests cross threads to the shard of
 * their stream and bytes leave it; a fault of one of them alone shows in `npm run check`. The cluster's runs are in
 * test/cluster.
 */
const CASES: readonly (readonly [what: string, options: ServerOptions])[] = IS_THOROUGH
  ? [
      ['--cores 4', { cores: 4 }],
      ['--cores 1, a cold store that gets everything at once', { cores: 1, toml: FLUSH_AT_ONCE }],
    ]
  : [['--cores 2, a cold store that gets everything at once', { cores: 2, toml: FLUSH_AT_ONCE }]];

for (const [what, options] of CASES) {
  test(`the official suite on the flat routes, ${what}`, async () => {
    await withServer(
      { ...options, toml: SUITE_TOML + (options.toml ?? ''), longPollTimeout: '500ms' },
      async (server) => {
        const outcomes = await runSuite(server.url);
        const passed = outcomes.filter((outcome) => outcome.passed).length;
        process.stdout.write(`official suite, ${what}: ${passed} of ${outcomes.length} pass\n`);
        const found = contradictions(outcomes, exceptions());
        assert.equal(
          found.length,
          0,
          `${found.length} contradictions to test/conformance/exceptions.txt:\n${found.join('\n')}`,
        );
        if (options.toml === FLUSH_AT_ONCE) await assertFlushed(server);
        assert.equal(outcomes.length, TESTS_EXPECTED, 'the suite has another number of tests than expected');
      },
    );
  });
}

/** The suite has met the cold store, else this case proves nothing. */
async function assertFlushed(server: TestServer): Promise<void> {
  const metrics = (await server.metrics()) as Record<string, number>;
  process.stdout.write(
    `cold store: ${metrics['cold_flush_publishes']} flushes, ${metrics['cold_read_answers']} reads, ${metrics['cold_flush_write_errors']} errors\n`,
  );
  assert((metrics['cold_flush_publishes'] as number) > 100);
}
