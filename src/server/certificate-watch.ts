/** When a certificate of the node ends: for the metrics, and a line a day in the log from 30 days before. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { caughtMessage } from '../base/caught.ts';
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
} as const;
export const LINKS_CERTIFICATE = {
  ...{ name: 'the certificate of the node links', metric: 'cluster_certificate_end_unix_ms', refusers: 'other nodes' },
} as const;
type Watched = typeof PLANES_CERTIFICATE | typeof LINKS_CERTIFICATE;

/** PEM, or where it is. */
type Source = { readonly cert: string } | { readonly certPath: string };

export class CertificateWatch {
  readonly #watched: Watched;
  readonly #runtime: Runtime;
  readonly #log: Logger;
  #endMs: number | undefined;

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

  /** This one is in use now; undefined: none. */
  renewed(tls: Source | undefined): void {
    this.#endMs = undefined;
    if (tls === undefined) return;
    try {
      this.#endMs = endOfCertificate('cert' in tls ? tls.cert : readFileSync(tls.certPath, 'utf8'));
    } catch (error) {
      // The planes have read it, so another file is in its place now.
      const file = 'certPath' in tls ? tls.certPath : undefined;
      this.#log.warn({ file, why: caughtMessage(error) }, `it is not known when ${this.#watched.name} ends`);
    }
    this.#look();
  }

  metrics(): Readonly<Record<string, number | null>> {
    return { [this.#watched.metric]: this.#endMs ?? null };
  }

  #look(): void {
    if (this.#endMs === undefined) return;
    const leftMs = this.#endMs - this.#runtime.nowMs();
    if (leftMs >= WARN_DAYS * DAY_MS) return;
    const end = new Date(this.#endMs).toISOString();
    const { name, refusers } = this.#watched;
    if (leftMs <= 0)
      this.#log.error({ end }, `${name} has ended, and ${refusers} refuse it: renew it, and send SIGHUP`);
    else
      this.#log[leftMs < URGENT_DAYS * DAY_MS ? 'error' : 'warn'](
        { days: Math.floor(leftMs / DAY_MS), end },
        `${name} ends soon: renew it, and send SIGHUP`,
      );
  }
}
