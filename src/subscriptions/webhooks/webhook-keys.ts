/**
 * Signatures of webhook requests (Ed25519; the public key is shown as a JWK Set) and tokens of callbacks and claims
 * (HMAC). The secrets belong to the cluster: any node signs with the same key, and any node recognizes another one's
 * tokens.
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
import type { SavedKey } from '../state/record.ts';
import { type SigningKey, publishedKeys, signingKey } from '../state/signing-keys.ts';

/** A wake this old has been replaced, or is over. */
const TOKEN_SECONDS = 24 * 3600;
const SECRET_BYTES = 32;

/** A key pair, named by its public half. */
export interface KeyPair {
  readonly kid: string;
  readonly x: string;
  readonly d: string;
}

export function newKeyPair(pair: KeyObject = generateKeyPairSync('ed25519').privateKey): KeyPair {
  const { x, d } = pair.export({ format: 'jwk' });
  if (x === undefined || d === undefined) throw new Error('an Ed25519 key has two halves');
  return { kid: thumbprint(x), x, d };
}

/** Reads a PEM file with an Ed25519 private key. */
export function keyPairOf(pem: string): KeyPair {
  return newKeyPair(createPrivateKey(pem));
}

/** `own` comes from a file, which keeps the private half. */
export function newKey(own?: KeyPair): SavedKey {
  const pair = own === undefined ? newKeyPair() : { ...own, d: '' };
  return { ...pair, secret: randomBytes(SECRET_BYTES).toString('base64url') };
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

/** Claims, including an id of up to 256 arbitrary bytes, and the code of 32 bytes. */
const TOKEN_SHAPE = /^[A-Za-z0-9_-]{1,4096}\.[A-Za-z0-9_-]{43}$/;

/** Whether it has the format of a token. */
export function hasTokenShape(token: string): boolean {
  return TOKEN_SHAPE.test(token);
}

const INVALID: TokenCheck = { ok: false, code: 'TOKEN_INVALID' };

export class Keys {
  readonly #keys: readonly SigningKey[];
  readonly #own: KeyPair | undefined;
  readonly #private = new Map<string, KeyObject>();
  readonly #secret: Buffer;

  /** `keys` are the signing keys over time; `own` is that of this node's file. */
  constructor(secret: string, keys: readonly SigningKey[], own?: KeyPair) {
    this.#keys = keys;
    this.#own = own;
    this.#secret = Buffer.from(secret, 'base64url');
  }

  /** Name of the current signing key. */
  kid(nowMs: number): string {
    const key = signingKey(this.#keys, nowMs, () => true);
    if (key === undefined) throw new Error('there is a key');
    return key.kid;
  }

  /** The JWK Set: public halves only. */
  jwks(nowMs: number): { readonly keys: readonly Readonly<Record<string, string>>[] } {
    const keys = publishedKeys(this.#keys, nowMs).map(({ kid, x }) => {
      return { kty: 'OKP', crv: 'Ed25519', kid, use: 'sig', alg: 'EdDSA', x };
    });
    return { keys };
  }

  /** Operators see no secrets. */
  show(nowMs: number): {
    readonly keys: readonly { readonly kid: string; readonly signs_from: string }[];
    kid: string;
  } {
    const keys = publishedKeys(this.#keys, nowMs).map(({ kid, from }) => {
      return { kid, signs_from: new Date(from).toISOString() };
    });
    return { kid: this.kid(nowMs), keys };
  }

  /** Value of Webhook-Signature; undefined: this node has no key to sign with. */
  signature(body: Uint8Array, nowMs: number): string | undefined {
    const seconds = Math.floor(nowMs / 1000);
    const key = signingKey(this.#keys, nowMs, (one) => this.#privateOf(one) !== '');
    if (key === undefined) return undefined;
    const signed = sign(null, Buffer.concat([Buffer.from(`${seconds}.`), body]), this.#keyObject(key));
    return `t=${seconds},kid=${key.kid},ed25519=${signed.toString('base64url')}`;
  }

  #privateOf({ kid, d }: SigningKey): string {
    return d === '' && this.#own?.kid === kid ? this.#own.d : d;
  }

  #keyObject(key: SigningKey): KeyObject {
    const known = this.#private.get(key.kid);
    if (known !== undefined) return known;
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: key.x, d: this.#privateOf(key) };
    const made = createPrivateKey({ key: jwk, format: 'jwk' });
    this.#private.set(key.kid, made);
    return made;
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
    // Only a holder of the secret can have made it.
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
