// Only the official suite runs under vitest; everything else here is node:test.
import { fileURLToPath } from 'node:url';

const quickExpect = {
  name: 'quick-expect',
  enforce: 'pre',
  resolveId: (source, importer = '') =>
    source === 'vitest' && importer.includes('/server-conformance-tests/')
      ? fileURLToPath(new URL('quick-expect.mjs', import.meta.url))
      : undefined,
};

export default {
  plugins: [quickExpect],
  root: fileURLToPath(new URL('.', import.meta.url)),
  // Vite keeps a cache next to node_modules by default; nothing may appear in the source tree.
  cacheDir: process.env.CONFORMANCE_CACHE_DIR,
  test: {
    include: ['official.suite.mjs'],
    // Other packages are loaded by Node, and get its vitest.
    server: { deps: { inline: ['@durable-streams/server-conformance-tests'] } },
    // A hung request must fail by name instead of ending the whole run by the outer time limit.
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // A test that computes for more than ten seconds, as one does on a busy machine, keeps the next one's client from
    // seeing that the server has closed its idle connection. That test got no answer: it asks again, once.
    retry: { count: 1, condition: /^fetch failed$/ },
    coverage: { enabled: false },
  },
};
