// A backup comes from stores that stall, so its sender may pause for longer than an HTTP library usually waits.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { RawClient, requestOnce } from '../../support/raw-client.ts';
import { withServer } from '../../support/server.ts';
import { LARGE_BODY, MIB, writeLargeStream } from '../large-stream.ts';

const IMPORT = '/__svc/backup/group/0/import';
const MEBIBYTES = 4;
/**
 * uWebSockets.js closes what brings less than 160 KiB in 10 s, and looks every 4 s. There is no event to wait for:
 * nothing must happen.
 */
const REST_MS = 16_000;

test('an import continues after its sender paused', async () => {
  await withServer({ cores: 1, groups: 1 }, async (source) => {
    await writeLargeStream(source.port, MEBIBYTES);
    const { body: document } = await requestOnce(source.adminPort, 'GET', '/__svc/backup/group/0');
    await withServer({ cores: 1, groups: 1 }, async (copy) => {
      const client = await RawClient.connect(copy.adminPort);
      const head = `POST ${IMPORT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${document.length}\r\n\r\n`;
      const half = document.length >> 1;
      const answered = client.send(Buffer.concat([Buffer.from(head), document.subarray(0, half)]));
      await Promise.race([answered, delay(REST_MS)]);
      client.socket.write(document.subarray(half));
      const answer = await answered;
      assert.equal(answer.status, 200, answer.body.toString());
      client.destroy();
      const read = await requestOnce(copy.port, 'GET', `/large/stream?offset=${(MEBIBYTES - 1) * MIB}`);
      assert(read.body.equals(LARGE_BODY));
    });
  });
});
