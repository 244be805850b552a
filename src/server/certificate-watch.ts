/**
 * When the first of the certificates ends that the planes, or the links, need: their own, its chain, and the authorities
 * of the other side. For the metrics, and a line a day in the log from 30 days before.
 */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { caughtMessage } from '../base/caught.ts';
import { certificatesIn } from '../base/pem.ts';
import type { Runtime } from '../base/runtime.ts';
import type { Logger } from '../logging/logger.ts';

const DAY_MS = 86_400_000;
/** Renewals come a month before the end at most authorities. The alerts Millrace*CertificateEnding have the same bounds. */
const WARN_DAYS = 30;
const URGENT_DAYS = 7;

/** When the first certificate in a PEM chain, that of the server, ends, in ms since 1970. Throws when there is none. */
export function endOfCertificate(pem: string): number {
  return Date.parse(new X509Certificate(pem).validTo);
}

export const PLANES_CERTIFICATE = {
  ...{ name: 'the certificate of the planes', metric: 'certificate_end_unix_ms', refusers: 'clients' },
  ...{ key: 'server.tls_cert', authorities: 'http.admin_client_ca_file' },
} as const;
export const LINKS_CERTIFICATE = {
  ...{ name: 'the certificate of the node links', metric: 'cluster_certificate_end_unix_ms', refusers: 'other nodes' },
  ...{ key: 'cluster.tls_cert', authorities: 'cluster.tls_ca' },
} as const;
type Watched = typeof PLANES_CERTIFICATE | typeof LINKS_CERTIFICATE;

/** PEM, or where it is. `ca`: the authorities of the other side. */
type Source =
  | { readonly cert: string; readonly ca: string }
  | { readonly certPath: string; readonly adminCaPath?: string };

interface Ending {
  readonly endMs: number;
  readonly name: string;
  /** The consequence of its end. */
  readonly refused: string;
}

export class CertificateWatch {
  readonly #watched: Watched;
  readonly #runtime: Runtime;
  readonly #log: Logger;
  #first: Ending | undefined;

  constructor(watched: Watched, runtime: Runtime, log: Logger) {
    this.#watched = watched;
    this.#runtime = runtime;
    this.#log = log;
  }

  /** Looks now and every day. */
  start(tls: Source | undefined): void {
    this.renewed(tls);
    const daily = (): void => {
      this.#runtime.setTimer(DAY_MS, daily);
      this.#look();
    };
    this.#runtime.setTimer(DAY_MS, daily);
  }

  /** These are in use now; undefined: none. */
  renewed(tls: Source | undefined): void {
    this.#first = undefined;
    if (tls === undefined) return;
    try {
      const endings = 'cert' in tls ? this.#endings(tls) : this.#endings(readPems(tls));
      this.#first = endings.reduce((first, other) => (other.endMs < first.endMs ? other : first));
    } catch (error) {
      // The planes have read it, so another file is in its place now.
      const file = 'certPath' in tls ? tls.certPath : undefined;
      this.#log.warn({ file, why: caughtMessage(error) }, `it is not known when ${this.#watched.name} ends`);
    }
    this.#look();
  }

  metrics(): Readonly<Record<string, number | null>> {
    return { [this.#watched.metric]: this.#first?.endMs ?? null };
  }

  #endings({ cert, ca }: { readonly cert: string; readonly ca: string }): Ending[] {
    const { name, refusers, key, authorities } = this.#watched;
    const own = certificatesIn(cert).map((pem, i) => ({
      endMs: endOfCertificate(pem),
      name: i === 0 ? name : `certificate ${i + 1} of ${key} (${subjectOf(pem)})`,
      refused: `${refusers} refuse it`,
    }));
    const trusted = certificatesIn(ca).map((pem, i) => ({
      endMs: endOfCertificate(pem),
      name: `authority ${i + 1} of ${authorities} (${subjectOf(pem)})`,
      refused: 'what it signed is refused',
    }));
    if (own.length === 0) throw new Error('it holds none');
    return [...own, ...trusted];
  }

  #look(): void {
    if (this.#first === undefined) return;
    const { endMs, name, refused } = this.#first;
    const leftMs = endMs - this.#runtime.nowMs();
    if (leftMs >= WARN_DAYS * DAY_MS) return;
    const end = new Date(endMs).toISOString();
    if (leftMs <= 0) this.#log.error({ end }, `${name} has ended, and ${refused}: renew it, and send SIGHUP`);
    else
      this.#log[leftMs < URGENT_DAYS * DAY_MS ? 'error' : 'warn'](
        { days: Math.floor(leftMs / DAY_MS), end },
        `${name} ends soon: renew it, and send SIGHUP`,
      );
  }
}

/** `ca`: empty without authorities. */
export function readPems({ certPath, adminCaPath }: { readonly certPath: string; readonly adminCaPath?: string }): {
  readonly cert: string;
  readonly ca: string;
} {
  const ca = adminCaPath === undefined ? '' : readFileSync(adminCaPath, 'utf8');
  return { cert: readFileSync(certPath, 'utf8'), ca };
}

function subjectOf(pem: string): string {
  return new X509Certificate(pem).subject.replaceAll('\n', ', ').slice(0, 100);
}
