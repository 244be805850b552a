// Runs as a process of its own: `reference-server PORT [DATA_DIR]`.

import assert from 'node:assert/strict';
import { DurableStreamTestServer } from '@durable-streams/server';

const [port, dataDir] = process.argv.slice(2);
assert(port !== undefined, 'usage: reference-server PORT [DATA_DIR]');
const server = new DurableStreamTestServer({
  port: Number(port),
  host: '127.0.0.1',
  ...(dataDir === undefined ? {} : { dataDir }),
});
await server.start();
// The figures of a killed process are as good; stopping it in order would wait for every open stream file.
process.on('SIGTERM', () => process.exit(0));
