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

/** When the first certificate in a PEM chain, that of the server, ends, in ms since 1970. Throws when there is none. */
export function endOfCertificate(pem: string): number {
  return Date.parse(new X509Certificate(pem).validTo);
}

export class CertificateWatch {
  readonly #runtime: Runtime;
  readonly #log: Logger;
  #endMs: number | undefined;

  constructor(runtime: Runtime, log: Logger) {
    this.#runtime = runtime;
    this.#log = log;
  }

  /** Looks now and every day. */
  start(tls: { readonly certPath: string } | undefined): void {
    if (tls === undefined) return;
    this.renewed(tls);
    const daily = (): void => {
      this.#runtime.setTimer(DAY_MS, daily);
      this.#look();
    };
    this.#runtime.setTimer(DAY_MS, daily);
  }

  /** The planes use what the file holds now. */
  renewed({ certPath }: { readonly certPath: string }): void {
    try {
      this.#endMs = endOfCertificate(readFileSync(certPath, 'utf8'));
    } catch (error) {
      // The planes have read it, so another file is in its place now.
      this.#endMs = undefined;
      this.#log.warn({ file: certPath, why: caughtMessage(error) }, 'it is not known when the certificate ends');
    }
    this.#look();
  }

  metrics(): { readonly certificate_end_unix_ms: number | null } {
    return { certificate_end_unix_ms: this.#endMs ?? null };
  }

  #look(): void {
    if (this.#endMs === undefined) return;
    const leftMs = this.#endMs - this.#runtime.nowMs();
    if (leftMs >= WARN_DAYS * DAY_MS) return;
    const end = new Date(this.#endMs).toISOString();
    if (leftMs <= 0)
      this.#log.error(
        { end },
        'the certificate of the planes has ended, and clients refuse it: renew it, and send SIGHUP',
      );
    else
      this.#log[leftMs < URGENT_DAYS * DAY_MS ? 'error' : 'warn'](
        { days: Math.floor(leftMs / DAY_MS), end },
        'the certificate of the planes ends soon: renew it, and send SIGHUP',
      );
  }
}
