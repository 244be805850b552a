// The certificates of node links in the configuration: what is missing or wrong is said before anything starts.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ConfigError } from '../../src/config/error.ts';
import { fromTables } from '../../src/config/load.ts';
import { Authority, type NodeCertificate } from '../support/node-certificates.ts';
import { makeCertificate } from '../support/certificate.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const folder = temporaryFolder('config-tls');
after(() => removeFolder(folder));
const authority = new Authority(folder);
const good = authority.certify(3, { cluster: 'orders' });

function tables({ certPath, keyPath }: NodeCertificate, more: object = {}): Record<string, unknown> {
  const tls = { tls: 'require', tls_cert: certPath, tls_key: keyPath, tls_ca: authority.caPath };
  return { raft: { node_id: 3 }, cluster: { name: 'orders', ...tls, ...more } };
}

test('with all files the texts are at hand; without TLS they are not read', () => {
  const { tls } = fromTables(tables(good)).cluster;
  assert.equal(tls?.mode, 'require');
  assert.equal(tls.cert, readFileSync(good.certPath, 'utf8'));
  assert.equal(tls.key, readFileSync(good.keyPath, 'utf8'));
  assert.equal(tls.ca, readFileSync(authority.caPath, 'utf8'));
  assert.equal(fromTables(tables(good, { tls: 'off', tls_cert: '/nowhere' })).cluster.tls, undefined);
  assert.equal(fromTables({}).cluster.tls, undefined);
});

test('what cannot work is refused, with what to change', () => {
  const other = authority.certify(4, { cluster: 'orders' });
  const servers = authority.certify(5, {
    cluster: 'orders',
    names: 'URI:millrace://orders/node/3',
    usage: 'serverAuth',
  });
  const nameless = makeCertificate(folder);
  const empty = join(folder, 'empty');
  writeFileSync(empty, 'nothing\n');
  const ca = readFileSync(authority.caPath, 'utf8');
  const cut = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const end = '-----END CERTIFICATE-----';
  const cutEnd = cut('cut-end', ca + ca.slice(0, 300));
  const cutStart = cut('cut-start', `# ours\n${ca.slice(300)}${ca}`);
  const cutMiddle = cut('cut-middle', ca.replace(end, '') + ca);
  const cutMark = cut('cut-mark', ca + ca.replace('-----BEGIN', '----BEGIN'));
  const cutBytes = cut('cut-bytes', ca + ca.replace(/\n.{64}\n/, '\n'));
  const cutChain = cut('cut-chain', readFileSync(good.certPath, 'utf8') + ca.slice(0, -10));
  const lines = ca.trimEnd().split('\n').length;
  const cases: readonly [Record<string, unknown>, RegExp][] = [
    [tables(good, { tls: 'on' }), /^cluster\.tls = "on": expected one of "off", "accept", "dial", "require"/],
    [
      tables(good, { tls_cert: undefined }),
      /^cluster\.tls_cert is missing: expected a file, because cluster\.tls = "require"/,
    ],
    [tables(good, { tls_key: undefined }), /^cluster\.tls_key is missing/],
    [tables(good, { tls_ca: undefined }), /^cluster\.tls_ca is missing/],
    [tables(good, { tls_ca: '/nowhere' }), /^cluster\.tls_ca = "\/nowhere": expected a readable file/],
    [tables(good, { tls_ca: empty }), /^cluster\.tls_ca: expected certificates in PEM \(there is none\)/],
    [
      tables(good, { tls_ca: cutEnd }),
      new RegExp(`^cluster\\.tls_ca: .*\\(block 2, at line ${lines + 1}, is cut off\\)`),
    ],
    [tables(good, { tls_ca: cutStart }), /^cluster\.tls_ca: .*\(block 1, at line \d+, is cut off\)/],
    [tables(good, { tls_ca: cutMiddle }), /^cluster\.tls_ca: .*\(block 1, at line 1, is cut off\)/],
    [tables(good, { tls_ca: cutMark }), /^cluster\.tls_ca: .*\(block 2, at line \d+, is cut off\)/],
    [tables(good, { tls_ca: cutBytes }), /^cluster\.tls_ca: expected certificates in PEM/],
    [tables(good, { tls_cert: cutChain }), /^cluster\.tls_cert and cluster\.tls_key: .*\(block 2, .* is cut off\)/],
    [
      tables(good, { tls_key: other.keyPath }),
      /^cluster\.tls_cert and cluster\.tls_key: .*belongs to another certificate/,
    ],
    [tables(good, { tls_cert: empty }), /^cluster\.tls_cert and cluster\.tls_key: expected a PEM certificate/],
    [tables(other), /expected the name URI:millrace:\/\/orders\/node\/3 .*; it has URI:millrace:\/\/orders\/node\/4/],
    [tables(nameless), /expected the name URI:millrace:\/\/orders\/node\/3/],
    [tables(good, { name: 'other' }), /expected the name URI:millrace:\/\/other\/node\/3/],
    [tables(servers), /extended key usage has both serverAuth and clientAuth/],
  ];
  for (const [given, told] of cases)
    assert.throws(
      () => fromTables(given),
      (error) => error instanceof ConfigError && told.test(error.message) && !error.message.includes('PRIVATE'),
      String(told),
    );
});
