// A real browser's EventSource: `onmessage` sees what is appended, and its own reconnects lose and repeat nothing.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { chromiumMissing, startChromium, visit } from '../../support/chromium.ts';
import { TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

const TEXT = { 'Content-Type': 'text/plain' };

test('onmessage of a browser sees each append once, also when the node restarts', async (t) => {
  const missing = chromiumMissing();
  if (missing !== undefined) return t.skip(missing);
  const pages = createServer((_request, response) => response.setHeader('content-type', 'text/html').end('<p>reader'));
  pages.listen(0, '127.0.0.1');
  await once(pages, 'listening');
  const browser = await startChromium();
  const server = new TestServer();
  t.after(async () => {
    await browser.close();
    pages.close();
    await server.dispose();
  });
  await server.start();
  const append = async (text: string): Promise<void> =>
    void (await server.client.expect(204, 'POST', '/b/s', TEXT, text));
  await server.client.expect(201, 'PUT', '/b/s', TEXT);
  await append('one;');
  const { page } = await visit(browser, `http://127.0.0.1:${(pages.address() as AddressInfo).port}/`);
  await page.evaluate(`
    globalThis.seen = '';
    new EventSource('${server.url}/b/s?offset=-1&live=sse&event=message').onmessage = ({ data }) => { seen += data; };
  `);
  const seen = async (text: string): Promise<void> =>
    await until(`the page sees ${text}`, async () => (await page.evaluate('seen')) === text);
  await seen('one;');
  await append('two;');
  await seen('one;two;');
  await server.stop();
  await server.start();
  await append('three;');
  await seen('one;two;three;');
});
