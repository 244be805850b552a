/**
 * Client certificates of the admin plane. TLS checks the chain of one that is sent, but lets in connections without any,
 * and a connection or a resumed session may outlive its certificate. So each request is asked for it.
 */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { RefusalReason } from '../base/errors.ts';
import { TOKEN_CLOCK } from './token-clock.ts';

/** Operators have a handful; an authority may also make one for each run of a job. */
const REMEMBERED_MAX = 1000;

/** Connections that began with others end. Undefined: the plane asks for no certificate. */
export function readAuthorities(path: string | undefined): string | undefined {
  return path === undefined ? undefined : readFileSync(path, 'latin1');
}

export class ClientCertificates {
  /** By PEM, when it ends, in milliseconds since 1970. */
  readonly #ends = new Map<string, number>();

  /** `response`: of the HTTP library. */
  refuses(response: object | undefined): RefusalReason | undefined {
    const pem = certificateOf(response);
    if (pem === '') return { code: 'CLIENT_CERTIFICATE_REQUIRED', detail: 'none was sent' };
    if (TOKEN_CLOCK.nowMs() < (this.#ends.get(pem) ?? this.#learn(pem))) return undefined;
    return { code: 'CLIENT_CERTIFICATE_REQUIRED', detail: 'it has expired' };
  }

  #learn(pem: string): number {
    const endMs = Date.parse(new X509Certificate(pem).validTo);
    if (this.#ends.size >= REMEMBERED_MAX) this.#ends.clear();
    this.#ends.set(pem, endMs);
    return endMs;
  }
}

/** The library has the method (seen in 20.51), and not in its types. Without it every request is refused. */
function certificateOf(response: object | undefined): string {
  if (response === undefined || !('getX509Certificate' in response)) return '';
  const { getX509Certificate: read } = response;
  const pem: unknown = typeof read === 'function' ? read.call(response) : '';
  return typeof pem === 'string' ? pem : '';
}
