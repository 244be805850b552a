// Keys of a real server: an https receiver that a private authority vouches for, and keys that come and go meanwhile.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeCertificate } from '../../support/certificate.ts';
import { type TestServer, withServer } from '../../support/server.ts';
import { Subscriber } from '../../support/subscriber.ts';
import { until } from '../../support/until.ts';
import { WebhookReceiver, assertSigned } from '../../support/webhook-receiver.ts';

interface Shown {
  readonly kid: string | null;
  readonly keys: readonly { readonly kid: string }[];
}

async function keys(server: TestServer, method: string): Promise<Shown> {
  const response = await fetch(`${server.adminUrl}/__svc/webhook-keys`, { method });
  assert.equal(response.status, 200);
  return (await response.json()) as Shown;
}

test('deliveries to an https receiver, with a key set that changes meanwhile', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-signing-'));
  const { certPath, keyPath } = makeCertificate(folder);
  const tls = { cert: readFileSync(certPath), key: readFileSync(keyPath) };
  const receiver = await WebhookReceiver.start(() => ({ done: true }), tls);
  const toml = '[subscriptions]\nlocal_webhooks = true\n';
  const config = { type: 'webhook', pattern: 'events/**', webhook: { url: receiver.url } };
  try {
    await withServer({ process: true, groups: 4, toml, env: { NODE_EXTRA_CA_CERTS: certPath } }, async (server) => {
      const subs = new Subscriber(() => server.url);
      assert.deepEqual(await keys(server, 'GET'), { kid: null, keys: [] });
      const { webhook } = await subs.subscribe('s', config);
      await subs.create('events/a', { n: 1 });
      const first = await receiver.next();
      assert(first.signature.includes(webhook.signing.kid));
      await assertSigned(first, webhook.signing.jwks_url);
      const both = await keys(server, 'POST');
      assert.deepEqual([both.kid, both.keys.length], [webhook.signing.kid, 2]);
      await subs.append('events/a');
      const second = await receiver.next();
      assert(second.signature.includes(webhook.signing.kid), 'the next key is shown before it signs');
      await assertSigned(second, webhook.signing.jwks_url);
      const alone = await keys(server, 'DELETE');
      assert.equal(alone.keys.length, 1);
      assert(!both.keys.some(({ kid }) => kid === alone.kid));
      await subs.append('events/a');
      const third = await receiver.next();
      assert(third.signature.includes(String(alone.kid)));
      await assertSigned(third, webhook.signing.jwks_url);
      await assert.rejects(assertSigned(second, webhook.signing.jwks_url));
      await server.kill();
      await server.start();
      assert.deepEqual(await keys(server, 'GET'), alone);
    });
    // Without the authority the receiver is untrusted.
    await withServer({ groups: 4, toml }, async (server) => {
      const subs = new Subscriber(() => server.url);
      await subs.subscribe('s', config);
      await subs.create('events/a', { n: 1 });
      await until('the failure shows', async () => (await subs.shown('s')).status === 'failed');
    });
  } finally {
    await receiver.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
