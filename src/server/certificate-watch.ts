/** When the certificate of the planes ends: for the metrics, and a line a day in the log from 30 days before. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { caughtMessage } from '../base/caught.ts';
import type { Runtime } from '../base/runtime.ts';
import type { Logger } from '../logging/logger.ts';

const DAY_MS = 86_400_000;
/** Renewals come a month before the end at most authorities. The alert MillraceCertificateEnding has the same bounds. */
const WARN_DAYS = 30;
const URGENT_DAYS = 7;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** When the first of the certificates in a PEM chain ends, in ms since 1970. Throws when there is none. */
export function endOfChain(pem: string): number {
  const all = pem.match(CERTIFICATE) ?? [pem];
  return Math.min(...all.map((one) => Date.parse(new X509Certificate(one).validTo)));
}

export class CertificateWatch {
  readonly #runtime: Runtime;
  readonly #log: Logger;
  #endMs: number | undefined;

  constructor(runtime: Runtime, log: Logger) {
    this.#runtime = runtime;
    this.#log = log;
  }

  /** Looks every day from now on. */
  start(tls: { readonly certPath: string } | undefined): void {
    if (tls === undefined) return;
    this.renewed(tls);
    this.#lookDaily();
  }

  /** The planes use what the file holds now. */
  renewed({ certPath }: { readonly certPath: string }): void {
    try {
      this.#endMs = endOfChain(readFileSync(certPath, 'utf8'));
    } catch (error) {
      // The planes have read it, so another file is in its place now.
      this.#endMs = undefined;
      this.#log.warn({ file: certPath, why: caughtMessage(error) }, 'it is not known when the certificate ends');
    }
  }

  metrics(): { readonly certificate_end_unix_ms: number | null } {
    return { certificate_end_unix_ms: this.#endMs ?? null };
  }

  #lookDaily(): void {
    this.#runtime.setTimer(DAY_MS, () => this.#lookDaily());
    if (this.#endMs === undefined) return;
    const days = Math.floor((this.#endMs - this.#runtime.nowMs()) / DAY_MS);
    if (days >= WARN_DAYS) return;
    const level = days >= URGENT_DAYS ? 'warn' : 'error';
    const end = new Date(this.#endMs).toISOString();
    this.#log[level]({ days, end }, 'the certificate of the planes ends soon: renew it, and send SIGHUP');
  }
}
