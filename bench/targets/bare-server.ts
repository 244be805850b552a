// Runs as a separate process: `bare-server PORT`. Reads the body to its end and answers 204; nothing else. A GET with
// `?bytes=N` answers N bytes out of one buffer: the ceiling for replays.

import assert from 'node:assert/strict';
import { loadUws } from '../../src/http/uws.ts';

const port = Number(process.argv[2]);
assert(Number.isInteger(port), 'usage: bare-server PORT');

/** Larger than any replay that is measured. */
const BODY_BYTES_MAX = 1024 * 1024;
const body = Buffer.alloc(BODY_BYTES_MAX, 'b');

loadUws()
  .App()
  .get('/*', (res, req) => {
    const sizeBytes = Number(req.getQuery('bytes') ?? 0);
    assert(sizeBytes <= BODY_BYTES_MAX, `no replay is larger than ${BODY_BYTES_MAX} bytes`);
    res.end(body.subarray(0, sizeBytes));
  })
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
