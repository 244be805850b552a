// A certificate for 127.0.0.1 that is its own authority.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/** Debian's openssl; every image with git or curl has it. */
export function makeCertificate(folder: string): { certPath: string; keyPath: string } {
  const certPath = join(folder, 'cert.pem');
  const keyPath = join(folder, 'key.pem');
  execFileSync(
    'openssl',
    ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'].concat([
      '-keyout',
      keyPath,
      '-out',
      certPath,
      '-subj',
      '/CN=test.invalid',
      '-addext',
      'subjectAltName=IP:127.0.0.1',
    ]),
    { stdio: 'pipe' },
  );
  return { certPath, keyPath };
}
