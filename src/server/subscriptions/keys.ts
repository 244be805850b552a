/**
 * Signatures of webhook requests (Ed25519; the public key is shown as a JWK Set) and tokens of callbacks and claims (HMAC). The
 * secrets are the cluster's: any node signs with the same key, and any node knows a token that another one gave.
 */
import {
  type KeyObject,
  createHash,
  createHmac,
  createPrivateKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  timingSafeEqual,
} from 'node:crypto';
import type { SavedKey } from '../../subscriptions/record.ts';

/** A wake that is heard of for so long is another one's by then, or nobody's. */
const TOKEN_SECONDS = 24 * 3600;
const SECRET_BYTES = 32;

export function newKey(): SavedKey {
  const { x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' });
  if (x === undefined || d === undefined) throw new Error('an Ed25519 key has two halves');
  return { kid: thumbprint(x), x, d, secret: randomBytes(SECRET_BYTES).toString('base64url') };
}

/** RFC 7638, so the name follows from the key. */
function thumbprint(x: string): string {
  const members = JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x });
  return `ds_${createHash('sha256').update(members).digest('base64url')}`;
}

export interface TokenClaims {
  readonly id: string;
  readonly generation: number;
  readonly wakeId: string;
}

export type TokenCheck =
  | { readonly ok: true; readonly claims: TokenClaims }
  | { readonly ok: false; readonly code: 'TOKEN_INVALID' | 'TOKEN_EXPIRED' };

const INVALID: TokenCheck = { ok: false, code: 'TOKEN_INVALID' };

export class Keys {
  readonly kid: string;
  readonly #saved: SavedKey;
  readonly #private: KeyObject;
  readonly #secret: Buffer;

  constructor(saved: SavedKey) {
    this.#saved = saved;
    this.kid = saved.kid;
    const { x, d } = saved;
    this.#private = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', x, d }, format: 'jwk' });
    this.#secret = Buffer.from(saved.secret, 'base64url');
  }

  /** The JWK Set: public halves only. */
  jwks(): { readonly keys: readonly Readonly<Record<string, string>>[] } {
    const { kid, x } = this.#saved;
    return { keys: [{ kty: 'OKP', crv: 'Ed25519', kid, use: 'sig', alg: 'EdDSA', x }] };
  }

  /** Value of Webhook-Signature. */
  signature(body: Uint8Array, nowMs: number): string {
    const seconds = Math.floor(nowMs / 1000);
    const signed = sign(null, Buffer.concat([Buffer.from(`${seconds}.`), body]), this.#private);
    return `t=${seconds},kid=${this.kid},ed25519=${signed.toString('base64url')}`;
  }

  token({ id, generation, wakeId }: TokenClaims, nowMs: number): string {
    const claims = { sub: id, gen: generation, wake: wakeId, exp: Math.floor(nowMs / 1000) + TOKEN_SECONDS };
    const payload = Buffer.from(JSON.stringify(claims)).toString('base64url');
    return `${payload}.${this.#mac(payload).toString('base64url')}`;
  }

  /** Whether the token is ours, for this subscription, and not too old. Compares in constant time. */
  check(token: string, id: string, nowMs: number): TokenCheck {
    const dot = token.indexOf('.');
    if (dot < 0) return INVALID;
    const payload = token.slice(0, dot);
    const sent = Buffer.from(token.slice(dot + 1), 'base64url');
    const right = this.#mac(payload);
    if (sent.length !== right.length || !timingSafeEqual(sent, right)) return INVALID;
    // Nobody else can have made it.
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<'sub' | 'wake', string> &
      Record<'gen' | 'exp', number>;
    if (claims.sub !== id) return INVALID;
    if (nowMs / 1000 > claims.exp) return { ok: false, code: 'TOKEN_EXPIRED' };
    return { ok: true, claims: { id, generation: claims.gen, wakeId: claims.wake } };
  }

  #mac(payload: string): Buffer {
    return createHmac('sha256', this.#secret).update(payload).digest();
  }
}
