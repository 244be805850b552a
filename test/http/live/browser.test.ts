// A real browser's EventSource: `onmessage` sees what is appended, and its own reconnects lose and repeat nothing.
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { chromiumMissing, servePage, startChromium, visit } from '../../support/chromium.ts';
import { TestServer, removeFolder, temporaryFolder } from '../../support/server.ts';
import { until } from '../../support/until.ts';

const TEXT = { 'Content-Type': 'text/plain' };

test('onmessage of a browser sees each append once, also when the node restarts', async (t) => {
  const missing = chromiumMissing();
  if (missing !== undefined) return t.skip(missing);
  const address = await servePage(t, '<p>reader');
  const browser = await startChromium();
  const server = new TestServer();
  t.after(async () => {
    await browser.close();
    await server.dispose();
  });
  await server.start();
  const append = async (text: string): Promise<void> =>
    void (await server.client.expect(204, 'POST', '/b/s', TEXT, text));
  await server.client.expect(201, 'PUT', '/b/s', TEXT);
  await append('one;');
  const { page } = await visit(browser, address);
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

test('a browser reads by a token in the URL, comes back with it, and stops when it is revoked', async (t) => {
  const missing = chromiumMissing();
  if (missing !== undefined) return t.skip(missing);
  const folder = temporaryFolder('browser-token');
  const [keyFile, tokensFile] = [join(folder, 'key.pem'), join(folder, 'tokens.toml')];
  writeFileSync(tokensFile, '');
  writeFileSync(keyFile, generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));
  const root = { Authorization: 'Bearer root-0123456789abcdef0123456789abcdef' };
  // Each answer ends after a moment, so the browser comes back by itself.
  const files = `signing_key_file = "${keyFile}"\ntokens_file = "${tokensFile}"\n`;
  const http = `client_token = "${root.Authorization.slice(7)}"\n${files}sse_lifetime = "1s"`;
  const server = new TestServer({ http });
  const address = await servePage(t, '<p>reader');
  const browser = await startChromium();
  t.after(async () => {
    await browser.close();
    await server.dispose();
    removeFolder(folder);
  });
  await server.start();
  const append = async (text: string): Promise<void> =>
    void (await server.client.expect(204, 'POST', '/b/s', { ...TEXT, ...root }, text));
  await server.client.expect(201, 'PUT', '/b/s', { ...TEXT, ...root }, 'one;');
  const wish = { scopes: [{ bucket: 'b', stream: 's', operations: ['read'] }], expires_in: 600, use: 'url' };
  const { body } = await server.client.expect(201, 'POST', '/__svc/tokens', root, JSON.stringify(wish));
  const { id, token } = JSON.parse(body.toString()) as { readonly id: string; readonly token: string };
  const { page } = await visit(browser, address);
  await page.evaluate(`
    globalThis.seen = '';
    globalThis.opened = 0;
    globalThis.source = new EventSource('${server.url}/b/s?offset=-1&live=sse&event=message&access_token=${token}');
    source.onmessage = ({ data }) => { seen += data; };
    source.onopen = () => { opened++; };
  `);
  await until('the page comes back', async () => Number(await page.evaluate('opened')) >= 2);
  await append('two;');
  await until('the page sees both', async () => (await page.evaluate('seen')) === 'one;two;');
  writeFileSync(tokensFile, `revoked = ["${id}"]`);
  await server.hangUp();
  await until('the page stops', async () => (await page.evaluate('source.readyState')) === 2);
});
