// A bootstrap of many megabytes to a reader that stops in the middle: little waits for it here, nothing is lost, others
// go on.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { once } from 'node:events';
import { serverSuite, TEXT } from '../support/suite.ts';
import { until } from '../support/until.ts';

const MESSAGE_BYTES = 1024 * 1024;
const MESSAGES = 40;
/** One piece of a bootstrap is a message here, with what multipart needs around it. */
const WAITING_BYTES_MAX = 2 * MESSAGE_BYTES;

serverSuite('a slow reader of a bootstrap', { cores: 1 }, ({ server, test, expect, freshBucket }) => {
  const unsent = async (): Promise<number> => {
    const { text } = await expect(200, 'GET /__svc/metrics', { base: server.adminUrl });
    return (JSON.parse(text) as { http_unsent_answer_bytes: number }).http_unsent_answer_bytes;
  };

  test('holds about one piece in memory, and gets everything in the end', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT });
    for (let i = 0; i < MESSAGES; i++) {
      await expect(204, `POST ${path}`, {
        headers: TEXT,
        body: String.fromCharCode(97 + (i % 26)).repeat(MESSAGE_BYTES),
      });
    }
    const sockets = Array.from({ length: 3 }, () => connect(server.port, '127.0.0.1'));
    await Promise.all(
      sockets.map(async (socket) => {
        await once(socket, 'connect');
        socket.write(`GET ${path}/bootstrap HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
        await once(socket, 'readable');
      }),
    );
    await until('bytes wait for the readers', async () => (await unsent()) > 0);
    assert((await unsent()) <= 3 * WAITING_BYTES_MAX, 'each holds about one piece');
    // One of them disconnects permanently.
    sockets.pop()?.destroy();
    await Promise.all(
      sockets.map(async (socket) => {
        const chunks: Buffer[] = [];
        for await (const chunk of socket) chunks.push(chunk as Buffer);
        const whole = Buffer.concat(chunks).toString('latin1');
        const boundary = /boundary=([\w-]+)/.exec(whole)?.[1] as string;
        assert.equal(whole.split(`--${boundary}\r\n`).length - 1, MESSAGES + 1);
        assert(whole.includes(`--${boundary}--\r\n`) && whole.endsWith('0\r\n\r\n'));
      }),
    );
    await until('nothing waits any more', async () => (await unsent()) === 0);
  });
});
