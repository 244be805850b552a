/** What a request must bring before a plane looks at it: nothing that the gate refuses, and the plane's bearer token. */
import { isAuthorized } from './auth.ts';
import { hasOwnToken } from './control.ts';
import type { Gate, GateRefusal } from './gate.ts';
import type { UwsRequest } from './uws.ts';

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

  refuses(req: UwsRequest, method: string): GateRefusal | undefined {
    const token = this.#token;
    const authorized = token !== '' && isAuthorized(req.getHeader('authorization'), token);
    const refusal = this.#gate.refuses(req, method, authorized);
    if (refusal !== undefined) return refusal;
    // Browsers send no token with a preflight.
    if (token === '' || authorized || method === 'options' || hasOwnToken(req.getUrl())) return undefined;
    return UNAUTHORIZED;
  }
}
