// Only the official suite runs under vitest; everything else here is node:test.
import { fileURLToPath } from 'node:url';

export default {
  root: fileURLToPath(new URL('.', import.meta.url)),
  // Vite keeps a cache next to node_modules by default; nothing may appear in the source tree.
  cacheDir: process.env.CONFORMANCE_CACHE_DIR,
  test: {
    include: ['official.suite.mjs'],
    // A hung request must fail by name instead of ending the whole run by the outer time limit.
    testTimeout: 30_000,
    hookTimeout: 30_000,
    coverage: { enabled: false },
  },
};
