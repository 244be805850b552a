import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Runtime } from '../../src/base/runtime.ts';
import { NodeLog } from '../../src/logging/logger.ts';
import {
  CertificateWatch,
  LINKS_CERTIFICATE,
  PLANES_CERTIFICATE,
  endOfCertificate,
} from '../../src/server/certificate-watch.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { makeCertificate } from '../support/certificate.ts';
import { Authority } from '../support/node-certificates.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const DAY_MS = 86_400_000;

test('the end of a certificate is in the metrics and, near to it, in the log every day', async (t) => {
  const folder = temporaryFolder('certificate');
  t.after(() => removeFolder(folder));
  const tls = makeCertificate(folder);
  const endMs = endOfCertificate(readFileSync(tls.certPath, 'utf8'));
  assert(Math.abs(endMs - Date.now() - 2 * DAY_MS) < DAY_MS, new Date(endMs).toISOString());

  await t.test('by days that are left', () => {
    const lines: { level: string; days?: number; msg: string }[] = [];
    let left = 30.5;
    let later = (): void => undefined;
    const runtime: Runtime = {
      ...PROCESS_RUNTIME,
      nowMs: () => endMs - left * DAY_MS,
      setTimer: (ms, run) => {
        assert.equal(ms, DAY_MS);
        later = run;
        return () => undefined;
      },
    };
    const log = NodeLog.to({ write: (line) => void lines.push(JSON.parse(line) as (typeof lines)[number]) });
    const watch = new CertificateWatch(PLANES_CERTIFICATE, runtime, log.logger('server'));
    watch.start(tls);
    assert.deepEqual(watch.metrics(), { certificate_end_unix_ms: endMs });
    for (left of [29.5, 7.5, 6.5, -0.5]) later();
    assert.match(lines.at(-1)?.msg ?? '', /has ended, and clients refuse it/);
    const said = lines.map(({ level, days }) => [level, days]);
    assert.deepEqual(said, [
      ['warn', 29],
      ['warn', 7],
      ['error', 6],
      ['error', undefined],
    ]);
  });

  await t.test('of the links by its text, without its key', () => {
    const lines: string[] = [];
    const log = NodeLog.to({ write: (line) => void lines.push(line) });
    const watch = new CertificateWatch(LINKS_CERTIFICATE, PROCESS_RUNTIME, log.logger('server'));
    const pems = { cert: readFileSync(tls.certPath, 'utf8'), key: readFileSync(tls.keyPath, 'utf8'), ca: '' };
    watch.start(undefined);
    assert.deepEqual(watch.metrics(), { cluster_certificate_end_unix_ms: null });
    watch.renewed(pems);
    assert.deepEqual(watch.metrics(), { cluster_certificate_end_unix_ms: endMs });
    watch.renewed({ ...pems, cert: 'damaged' });
    assert.deepEqual(watch.metrics(), { cluster_certificate_end_unix_ms: null });
    assert.match(lines[0] ?? '', /the certificate of the node links ends soon: renew it/);
    assert.match(lines[1] ?? '', /it is not known when the certificate of the node links ends/);
    assert.doesNotMatch(lines.join(''), /BEGIN|damaged"/);
  });

  await t.test('the first of own certificate, chain and authorities, by its file and name', () => {
    const authority = new Authority(join(folder, 'authority'));
    const [soon, late] = [1, 40].map((until, i) => readFileSync(authority.certify(i + 1, { until }).certPath, 'utf8'));
    const ends = [soon, late].map((pem = '') => endOfCertificate(pem));
    const said = (cert = '', ca = ''): (number | string | undefined | null)[] => {
      const lines: string[] = [];
      const log = NodeLog.to({ write: (line) => void lines.push((JSON.parse(line) as { msg: string }).msg) });
      const watch = new CertificateWatch(LINKS_CERTIFICATE, PROCESS_RUNTIME, log.logger('server'));
      watch.renewed({ cert, ca });
      return [watch.metrics()['cluster_certificate_end_unix_ms'], ...lines];
    };
    assert.deepEqual(said(late, late), [ends[1]]);
    const tail = 'ends soon: renew it, and send SIGHUP';
    assert.deepEqual(said(`${late}${soon}`, late), [ends[0], `certificate 2 of cluster.tls_cert (CN=1) ${tail}`]);
    assert.deepEqual(said(late, `${late}${soon}`), [ends[0], `authority 2 of cluster.tls_ca (CN=1) ${tail}`]);
    const watch = new CertificateWatch(
      PLANES_CERTIFICATE,
      PROCESS_RUNTIME,
      NodeLog.to({ write: () => undefined }).logger('server'),
    );
    const [certPath, adminCaPath] = [2, 1].map((node) => join(folder, 'authority', `${node}.pem`));
    watch.renewed({ certPath: certPath ?? '', adminCaPath: adminCaPath ?? '' });
    assert.deepEqual(watch.metrics(), { certificate_end_unix_ms: ends[0] });
  });

  await t.test('a file that is no certificate hides the end', () => {
    const other = join(folder, 'other.pem');
    writeFileSync(other, 'no certificate');
    const watch = new CertificateWatch(
      PLANES_CERTIFICATE,
      PROCESS_RUNTIME,
      NodeLog.to({ write: () => undefined }).logger('server'),
    );
    watch.start({ certPath: other });
    assert.deepEqual(watch.metrics(), { certificate_end_unix_ms: null });
    watch.start(undefined);
    assert.deepEqual(watch.metrics(), { certificate_end_unix_ms: null });
  });
});
