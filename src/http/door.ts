/** What a request must bring before a plane looks at it: nothing that the gate refuses, and the plane's bearer token. */
import { isAuthorized } from './auth.ts';
import { type Gate, type GateRefusal, PROBES, type Target } from './gate.ts';
import { hasOwnToken } from './routes/control.ts';
import type { WriteHeaders } from './headers.ts';

const UNAUTHORIZED: GateRefusal = { code: 'UNAUTHORIZED', detail: '' };

export class Door {
  readonly #gate: Gate;
  /** Empty: none is asked for. */
  #token: string;

  constructor(gate: Gate, token: string) {
    this.#gate = gate;
    this.#token = token;
  }

  /** A plane does not begin or cease to ask for a token: what else follows from that is decided at the start. */
  changeToken(token: string): void {
    if (this.#token !== '' && token !== '') this.#token = token;
  }

  /** Does the request carry the token, if there is one? */
  knows({ authorization }: Pick<WriteHeaders, 'authorization'>): boolean {
    return isAuthorized(authorization, this.#token);
  }

  refuses(headers: WriteHeaders, target: Target, method: string): GateRefusal | undefined {
    const token = this.#token;
    const authorized = token !== '' && isAuthorized(headers.authorization, token);
    const refusal = this.#gate.refuses(headers, target, method, authorized);
    if (refusal !== undefined) return refusal;
    // Browsers send no token with a preflight.
    if (token === '' || authorized || method === 'options') return undefined;
    const url = target.getUrl();
    const isProbe = (method === 'get' || method === 'head') && PROBES.has(url);
    return hasOwnToken(url) || isProbe ? undefined : UNAUTHORIZED;
  }
}
