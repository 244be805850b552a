// Runs as a process of its own: `bare-server PORT`. Reads the body to its end and answers 204; nothing else.

import assert from 'node:assert/strict';
import { loadUws } from './uws.ts';

const port = Number(process.argv[2]);
assert(Number.isInteger(port), 'usage: bare-server PORT');

loadUws()
  .App()
  .any('/*', (res) => {
    let sizeBytes = 0;
    res.onAborted(() => {
      sizeBytes = -1;
    });
    res.onData((chunk, isLast) => {
      sizeBytes += chunk.byteLength;
      if (isLast) res.cork(() => res.writeStatus('204 No Content').endWithoutBody());
    });
  })
  .listen('127.0.0.1', port, (socket) => assert(socket, `cannot listen on ${port}`));
