// The official Durable Streams suite against a real server process, on the flat routes. `exceptions.txt` names the tests
// that may fail; anything else that fails, and anything listed that passes, fails the run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TESTS_EXPECTED, contradictions, exceptions, runSuite } from '../support/official-suite.ts';
import { withServer } from '../support/server.ts';

test('the list of exceptions holds only tests about forks and subscriptions, each once', () => {
  const listed = exceptions();
  assert.equal(new Set(listed).size, listed.length, 'a name is listed twice');
  for (const name of listed) assert.match(name, /^(Fork - |Reserved subscription APIs > )/);
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

for (const cores of [1, 4]) {
  test(`the official suite on the flat routes, --cores ${cores}`, async () => {
    await withServer({ cores, longPollTimeout: '500ms' }, async (server) => {
      const outcomes = await runSuite(server.url);
      const passed = outcomes.filter((outcome) => outcome.passed).length;
      process.stdout.write(`official suite, --cores ${cores}: ${passed} of ${outcomes.length} pass\n`);
      const found = contradictions(outcomes, exceptions());
      assert.equal(
        found.length,
        0,
        `${found.length} contradictions to test/conformance/exceptions.txt:\n${found.join('\n')}`,
      );
      assert.equal(outcomes.length, TESTS_EXPECTED, 'the suite has another number of tests than expected');
    });
  });
}
