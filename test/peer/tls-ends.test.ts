// The end of an authority of node links: the side that trusted it says so.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import type { PeerTlsSettings } from '../../src/peer/tls.ts';
import { Authority } from '../support/node-certificates.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { pair, reasons } from './fixture.ts';

const folder = temporaryFolder('peer-tls-ends');
process.on('exit', () => removeFolder(folder));
const authority = new Authority(folder);
const CLUSTER = 'test';

test('an authority that has ended is named, by the side that trusted it', async (t) => {
  const good = (node: number): PeerTlsSettings =>
    authority.settings('dial', authority.certify(node, { cluster: CLUSTER }));
  const old = new Authority(join(folder, 'old'), -1);
  const [one, two] = [1, 2].map((node) => old.settings('dial', old.certify(node, { cluster: CLUSTER })));
  assert(one !== undefined && two !== undefined);
  const ends = new X509Certificate(old.ca).validTo;
  const told = (judge: number): RegExp =>
    new RegExp(`\\(CERT_HAS_EXPIRED\\): renew .* \\(in cluster\\.tls_ca of node ${judge}: CN=test ends ${ends}\\)`);
  const shown = await pair(t, { tls: { ...good(1), ca: old.ca } }, { tls: { ...two, ca: authority.ca } });
  await shown.waiter.until('the log line', () => shown.one.warnings().length > 0);
  assert.match(reasons(shown.one.warnings()), told(1));
  const judged = await pair(t, { tls: one }, { tls: { ...good(2), ca: old.ca } });
  await judged.waiter.until('the log line', () => judged.two.warnings().length > 0);
  assert.match(reasons(judged.two.warnings()), told(2));
});
