// Runs as a separate process: `reference-server PORT [DATA_DIR]`.

import assert from 'node:assert/strict';
import { DurableStreamTestServer, FileBackedStreamStore } from '@durable-streams/server';

/**
 * More than the streams of any scenario. With the store's default of 100 an append to one of 500 busy streams is often
 * refused with 404, because its file was closed between the write and the fsync: figures of a server that refuses most
 * appends compare with nothing. The server itself has no option for it, the store has.
 */
const FILE_HANDLES = 2_000;

const [port, dataDir] = process.argv.slice(2);
assert(port !== undefined, 'usage: reference-server PORT [DATA_DIR]');
const server = new DurableStreamTestServer({ port: Number(port), host: '127.0.0.1' });
if (dataDir !== undefined) {
  const store = new FileBackedStreamStore({ dataDir, maxFileHandles: FILE_HANDLES });
  Object.defineProperty(server, 'store', { value: store });
}
await server.start();
// The figures of a killed process are as good; stopping it in order would wait for every open stream file.
process.on('SIGTERM', () => process.exit(0));
