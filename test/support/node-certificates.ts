// An authority for the links of a test cluster, and certificates of nodes by it, good ones and others.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { nodeUri } from '../../src/base/node-uri.ts';
import type { PeerTlsSettings } from '../../src/peer/tls.ts';

const DAY_MS = 86_400_000;
const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
const CONFIG = `
[ca]
default_ca = one
[one]
database = index
new_certs_dir = .
rand_serial = yes
default_md = sha256
unique_subject = no
copy_extensions = copyall
policy = any
[any]
commonName = supplied
`;

export interface NodeCertificate {
  readonly certPath: string;
  readonly keyPath: string;
}

export interface CertificateWish {
  readonly cluster?: string;
  /** Days from now. */
  readonly from?: number;
  readonly until?: number;
  /** Instead of the node's. */
  readonly names?: string;
  readonly usage?: string;
}

export class Authority {
  readonly #folder: string;
  readonly caPath: string;

  /** `until`: when it ends itself, in days from now. */
  constructor(folder: string, until = 3) {
    mkdirSync(folder, { recursive: true });
    this.#folder = folder;
    this.caPath = join(folder, 'ca.pem');
    writeFileSync(join(folder, 'config'), CONFIG);
    writeFileSync(join(folder, 'index'), '');
    writeFileSync(join(folder, 'extensions'), 'basicConstraints=critical,CA:TRUE\n');
    this.#openssl('req', '-new', ...NEW_KEY, '-keyout', 'ca.key', '-out', 'ca.csr', '-subj', '/CN=test');
    const times = ['-startdate', written(-2), '-enddate', written(until)];
    const itself = [
      '-selfsign',
      '-config',
      'config',
      '-extfile',
      'extensions',
      '-batch',
      '-notext',
      '-keyfile',
      'ca.key',
    ];
    this.#openssl('ca', ...itself, ...times, '-in', 'ca.csr', '-out', 'ca.pem');
  }

  get ca(): string {
    return readFileSync(this.caPath, 'utf8');
  }

  /** Takes the place of the one before. */
  certify(node: number, wish: CertificateWish = {}): NodeCertificate {
    const { cluster = 'millrace', from = -1, until = 2, names = `URI:${nodeUri(cluster, node)}`, usage } = wish;
    const [key, request, cert] = [`${node}.key`, `${node}.csr`, `${node}.pem`];
    const extensions = [`subjectAltName=${names}`, ...(usage === undefined ? [] : [`extendedKeyUsage=${usage}`])];
    const added = extensions.flatMap((extension) => ['-addext', extension]);
    this.#openssl('req', '-new', ...NEW_KEY, '-keyout', key, '-out', request, '-subj', `/CN=${node}`, ...added);
    const times = ['-startdate', written(from), '-enddate', written(until)];
    const authority = ['-config', 'config', '-batch', '-notext', '-cert', 'ca.pem', '-keyfile', 'ca.key'];
    this.#openssl('ca', ...authority, ...times, '-in', request, '-out', cert);
    return { certPath: join(this.#folder, cert), keyPath: join(this.#folder, key) };
  }

  settings(mode: PeerTlsSettings['mode'], { certPath, keyPath }: NodeCertificate): PeerTlsSettings {
    return { mode, cert: readFileSync(certPath, 'utf8'), key: readFileSync(keyPath, 'utf8'), ca: this.ca };
  }

  #openssl(...args: readonly string[]): void {
    execFileSync('openssl', args, { cwd: this.#folder, stdio: 'pipe' });
  }
}

/** As OpenSSL takes it: YYYYMMDDHHMMSSZ. */
function written(days: number): string {
  return `${new Date(Date.now() + days * DAY_MS).toISOString().replaceAll(/[-:T]|\..*/g, '')}Z`;
}
