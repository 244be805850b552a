// The official suite, as vitest runs it. Plain JavaScript that tsc leaves alone: the compiled test starts vitest on
// this very file in the source tree.
import { runConformanceTests } from '@durable-streams/server-conformance-tests';

const baseUrl = process.env.CONFORMANCE_TEST_URL;
if (!baseUrl) throw new Error('CONFORMANCE_TEST_URL must name the server under test');

runConformanceTests({ baseUrl, subscriptions: true });
