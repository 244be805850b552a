// Writes what V8 compiled of the bundles while a cluster served, so that the many servers of a run need not compile it
// again. V8 itself refuses it under another version or other flags. A whole run begins with this, once after each build,
// which removes it.
import { mkdirSync, readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { withCluster } from './cluster.ts';
import { CODE_CACHE } from './paths.ts';

const SERVED_MS = 3000;
const PATH = '/code/cache';
const TEXT = { 'Content-Type': 'text/plain' };

mkdirSync(CODE_CACHE, { recursive: true });
const serverOf = (): { env: Record<string, string> } => ({ env: { TEST_CODE_CACHE_AFTER_MS: String(SERVED_MS) } });
await withCluster({ process: true, groups: 2, serverOf }, async (cluster) => {
  await cluster.client(1).create(PATH, TEXT, 'first');
  for (const id of cluster.ids) {
    await cluster.client(id).append(PATH, TEXT, 'more');
    await cluster.client(id).request('GET', `${PATH}?offset=0`);
    await cluster.metrics(id);
  }
  for (const deadlineMs = performance.now() + 10 * SERVED_MS; performance.now() < deadlineMs; await delay(100)) {
    const names = readdirSync(CODE_CACHE);
    if (['main', 'shard'].every((name) => names.some((file) => file.startsWith(`${name}-`)))) break;
  }
});
