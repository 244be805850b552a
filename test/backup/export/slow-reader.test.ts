// A backup goes to stores that stall, so its reader may pause for longer than an HTTP library usually waits.
import assert from 'node:assert/strict';
import { get } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { withServer } from '../../support/server.ts';
import { MIB, writeLargeStream } from '../large-stream.ts';

/** More than the sockets between them hold. */
const MEBIBYTES = 24;
/**
 * uWebSockets.js closes what takes nothing for 10 s, and looks every 4 s. There is no event to wait for: nothing must
 * happen.
 */
const REST_MS = 16_000;

test('an export continues after its reader paused', async () => {
  await withServer({ cores: 1, groups: 1 }, async ({ port, adminPort }) => {
    await writeLargeStream(port, MEBIBYTES);
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      get({ port: adminPort, host: '127.0.0.1', path: '/__svc/backup/group/0', agent: false }, resolve).on(
        'error',
        reject,
      );
    });
    await delay(REST_MS);
    let bytes = 0;
    for await (const piece of answer as AsyncIterable<Uint8Array>) bytes += piece.length;
    assert(answer.complete && bytes > MEBIBYTES * MIB, `${bytes} bytes`);
  });
});
